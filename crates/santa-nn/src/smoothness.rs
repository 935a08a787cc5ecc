//! A prior under which the weights of neighbouring places are alike.
//!
//! Some weights lie on a grid: those of a convolution on the places of its kernel, those of a fully
//! connected layer that sees an image on the places of the image. Priors that are independent for each
//! parameter know nothing of that. A Gaussian Markov random field does: with $W_p$ for all the weights at
//! place $p$, and a sum over the pairs of places one beside or above the other,
//!
//! $$ -\log p(W) = \frac{\kappa}{2} \sum_{p \sim q} \Vert W_p - W_q \Vert^2, \qquad
//! -\nabla_{W_p} \log p(W) = \kappa \sum_{q \sim p} (W_p - W_q). $$
//!
//! It says that what has moved by a place should be seen much as before, and nothing of what all places
//! have in common. So it comes beside the target's own prior, as a term of the potential: N times the
//! loss over all data of a model with such a field is
//! $-\sum_n \log p(x_n \mid \theta) - \log p(W)$.

use crate::kernels::{Scalar, vectorised};
use crate::network::Network;
use crate::parallel;
use santa::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How alike the weights of neighbouring places are believed to be; see
/// [`Classifier::with_smoothness`](crate::Classifier::with_smoothness).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smoothness {
    /// The weights: a name with `*` for any run of characters.
    pub pattern: String,
    /// $\kappa$, what a squared difference counts; larger is smoother.
    pub precision: f64,
}

impl Smoothness {
    /// Smoothness of the weights that match.
    pub fn new(pattern: impl Into<String>, precision: f64) -> Self {
        Smoothness { pattern: pattern.into(), precision }
    }

    fn check(&self) -> Result<()> {
        if self.precision > 0.0 && self.precision.is_finite() {
            return Ok(());
        }
        let value = format!("a precision of {} for `{}`", self.precision, self.pattern);
        Err(refuse(value, "it must be a positive number".into()))
    }
}

/// The fields on the weights of a network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<Field>);

/// The field on one tensor, whose weights lie place by place, row by row.
#[derive(Clone, Debug)]
struct Field {
    weights: Range<usize>,
    height: usize,
    width: usize,
    precision: f64,
}

/// Independent sums of one place.
const LANES: usize = 16;

impl Fields {
    /// Those of a network. Where patterns overlap, the later one wins.
    pub fn new<F: Scalar>(network: &Network<F>, smoothness: &[Smoothness]) -> Result<Self> {
        let mut fields: Vec<Option<Field>> = vec![None; network.layout().segments().len()];
        for wish in smoothness {
            wish.check()?;
            let mut matched = false;
            for (i, segment) in network.layout().segments().iter().enumerate() {
                let Some([height, width]) = network.grid(i) else { continue };
                if segment.matches(&wish.pattern) {
                    let (weights, precision) = (segment.range(), wish.precision);
                    fields[i] = Some(Field { weights, height, width, precision });
                    matched = true;
                }
            }
            if !matched {
                return Err(nothing_to_smooth(network, &wish.pattern));
            }
        }
        Ok(Fields(fields.into_iter().flatten().collect()))
    }

    /// -log p, up to a constant.
    pub fn energy<F: Scalar>(&self, theta: &[F]) -> f64 {
        self.0.iter().map(|field| field.energy(&theta[field.weights.clone()])).sum()
    }

    /// Adds the gradient of -log p / n to a piece of the gradient that begins with element `first` and
    /// cuts no tensor.
    pub fn add_gradient<F: Scalar>(&self, theta: &[F], n: f64, first: usize, gradient: &mut [F]) {
        let piece = first..first + gradient.len();
        for field in &self.0 {
            if piece.start <= field.weights.start && field.weights.end <= piece.end {
                let own = field.weights.start - first..field.weights.end - first;
                field.add_gradient(&theta[field.weights.clone()], n, &mut gradient[own]);
            }
        }
    }
}

impl Field {
    /// Weights of one place.
    fn len(&self) -> usize {
        self.weights.len() / (self.height * self.width)
    }

    /// The places below and to the right; a place itself, where there is none.
    fn after(&self, place: usize) -> [usize; 2] {
        let (row, column) = (place / self.width, place % self.width);
        [
            if row + 1 < self.height { place + self.width } else { place },
            if column + 1 < self.width { place + 1 } else { place },
        ]
    }

    /// The places above and to the left; a place itself, where there is none.
    fn before(&self, place: usize) -> [usize; 2] {
        let (row, column) = (place / self.width, place % self.width);
        [
            if row > 0 { place - self.width } else { place },
            if column > 0 { place - 1 } else { place },
        ]
    }

    fn energy<F: Scalar>(&self, weights: &[F]) -> f64 {
        let len = self.len();
        let at = |place: usize| &weights[place * len..][..len];
        let mut places: Vec<(usize, f64)> =
            (0..self.height * self.width).map(|place| (place, 0.0)).collect();
        parallel::for_each(&mut places, |(place, sum)| {
            let [below, right] = self.after(*place);
            *sum = vectorised(
                #[inline(always)]
                || squares(at(*place), at(below)) + squares(at(*place), at(right)),
            );
        });
        0.5 * self.precision * places.iter().map(|(_, sum)| sum).sum::<f64>()
    }

    fn add_gradient<F: Scalar>(&self, weights: &[F], n: f64, gradient: &mut [F]) {
        let len = self.len();
        let at = |place: usize| &weights[place * len..][..len];
        let scale = F::from_f64(self.precision / n);
        parallel::spread(gradient.chunks_exact_mut(len).enumerate().collect(), |(place, g)| {
            let ([above, left], [below, right]) = (self.before(place), self.after(place));
            let own = at(place);
            let (above, left, below, right) = (at(above), at(left), at(below), at(right));
            vectorised(
                #[inline(always)]
                || {
                    for i in 0..len {
                        let w = own[i];
                        let differences =
                            (w - above[i]) + (w - left[i]) + (w - below[i]) + (w - right[i]);
                        g[i] = scale.fma(differences, g[i]);
                    }
                },
            );
        });
    }
}

/// The sum of squared differences, in an order that only the length decides.
#[inline(always)]
fn squares<F: Scalar>(a: &[F], b: &[F]) -> f64 {
    let mut lanes = [F::ZERO; LANES];
    let (a, b) = (a.chunks(LANES), b.chunks(LANES));
    for (a, b) in a.zip(b) {
        for i in 0..a.len() {
            let difference = a[i] - b[i];
            lanes[i] = difference.fma(difference, lanes[i]);
        }
    }
    lanes.iter().map(|sum| sum.to_f64()).sum()
}

fn nothing_to_smooth<F: Scalar>(network: &Network<F>, pattern: &str) -> Error {
    let segments = network.layout().segments().iter().enumerate();
    let on_grids: Vec<&str> =
        segments.filter_map(|(i, s)| network.grid(i).map(|_| s.name())).collect();
    let there = match on_grids.is_empty() {
        true => {
            "none of this network's do: they are those of convolutions with a kernel larger than \
                 1x1, and of fully connected layers that see an image"
                .into()
        }
        false => format!("there are {}", on_grids.join(", ")),
    };
    refuse(format!("for `{pattern}`"), format!("no weights on a grid match that; {there}"))
}

fn refuse(value: String, allowed: String) -> Error {
    Error::Setting { field: "smoothness".into(), value, allowed }
}
