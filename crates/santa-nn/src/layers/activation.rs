//! Elementwise activations. Their derivatives are functions of their outputs.

use super::{Layer, Pass, Sizes};
use crate::kernels::{Scalar, sigmoid, tanh};
use pulp::{Arch, Simd, WithSimd};
use serde::{Deserialize, Serialize};

/// An activation.
///
/// | | y | dy/dx |
/// | --- | --- | --- |
/// | ReLU | $\max(x, 0)$ | 1 where y > 0, else 0 |
/// | tanh | $\tanh x$ | $1 - y^2$ |
/// | sigmoid | $1 / (1 + e^{-x})$ | $y (1 - y)$ |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Relu,
    Tanh,
    Sigmoid,
}

/// An activation of a given width.
#[derive(Debug)]
pub(crate) struct Activation {
    kind: Kind,
    width: usize,
}

impl Activation {
    pub fn new(kind: Kind, width: usize) -> Self {
        Activation { kind, width }
    }
}

impl<F: Scalar> Layer<F> for Activation {
    fn sizes(&self, _examples: usize) -> Sizes {
        Sizes { input: self.width, output: self.width, ..Sizes::default() }
    }

    fn forward(
        &self,
        _pass: &Pass,
        _parameters: &[F],
        _shared: &[F],
        input: &[F],
        output: &mut [F],
        _kept: &mut [F],
        _scratch: &mut [F],
    ) {
        Arch::new().dispatch(Forward { kind: self.kind, x: input, y: output });
    }

    fn backward(
        &self,
        _pass: &Pass,
        _parameters: &[F],
        _shared: &[F],
        _input: &[F],
        output: &[F],
        _kept: &[F],
        d_output: &mut [F],
        d_input: Option<&mut [F]>,
        _partial: &mut [F],
        _scratch: &mut [F],
    ) {
        if let Some(d_input) = d_input {
            Arch::new().dispatch(Backward {
                kind: self.kind,
                y: output,
                dy: d_output,
                dx: d_input,
            });
        }
    }
}

struct Forward<'a, F> {
    kind: Kind,
    x: &'a [F],
    y: &'a mut [F],
}

impl<F: Scalar> WithSimd for Forward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let pairs = self.y.iter_mut().zip(self.x);
        match self.kind {
            Kind::Relu => pairs.for_each(|(y, x)| *y = if *x < F::ZERO { F::ZERO } else { *x }),
            Kind::Tanh => pairs.for_each(|(y, x)| *y = tanh(*x)),
            Kind::Sigmoid => pairs.for_each(|(y, x)| *y = sigmoid(*x)),
        }
    }
}

struct Backward<'a, F> {
    kind: Kind,
    y: &'a [F],
    dy: &'a [F],
    dx: &'a mut [F],
}

impl<F: Scalar> WithSimd for Backward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let triples = self.dx.iter_mut().zip(self.dy.iter().zip(self.y));
        match self.kind {
            Kind::Relu => {
                triples.for_each(|(dx, (dy, y))| *dx = if *y > F::ZERO { *dy } else { F::ZERO })
            }
            Kind::Tanh => triples.for_each(|(dx, (dy, y))| *dx = *dy * (F::ONE - *y * *y)),
            Kind::Sigmoid => triples.for_each(|(dx, (dy, y))| *dx = *dy * *y * (F::ONE - *y)),
        }
    }
}
