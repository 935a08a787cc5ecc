//! From a description to layers and names of parameters.

use super::workspace::SHARD;
use crate::architecture::{self, Architecture, Shape};
use crate::initialise::Role;
use crate::kernels::Scalar;
use crate::layers::conv2d::{Conv2d, Image, Window};
use crate::layers::pool::{Pool2d, Pooling};
use crate::layers::{Activation, ActivationKind, Dense, Dropout, Layer, Sizes};
use santa::Result;
use std::ops::Range;

/// What there is to say about a tensor of the parameters.
#[derive(Debug)]
pub(crate) struct Tensor {
    /// For its initial values.
    pub role: Role,
    /// For its initial values.
    pub fans: [usize; 2],
    /// Height and width of the grid of places that its weights lie on, place by place.
    pub grid: Option<[usize; 2]>,
}

/// A layer and its place.
#[derive(Debug)]
pub(crate) struct Planned<F: Scalar> {
    pub layer: Box<dyn Layer<F>>,
    /// Its place in the parameters.
    pub parameters: Range<usize>,
    pub sizes: Sizes,
}

/// A network's layers, and what there is to say about its parameters.
pub(crate) struct Plan<F: Scalar> {
    pub layers: Vec<Planned<F>>,
    /// Names and shapes.
    pub segments: Vec<(String, Vec<usize>)>,
    /// One for each segment.
    pub tensors: Vec<Tensor>,
}

impl<F: Scalar> Plan<F> {
    /// Plans a network, or says why there can be none. Called through the element type, so that the
    /// layers are compiled in this crate.
    pub fn of(architecture: &Architecture) -> Result<Self> {
        let shapes = architecture.shapes()?;
        let mut builder = Builder::default();
        let mut i = 0;
        while i < architecture.layers.len() {
            i += builder.push(&architecture.layers[i..], shapes[i]);
        }
        let mut end = 0;
        let place = |layer: Box<dyn Layer<F>>| {
            let sizes = layer.sizes(SHARD);
            let parameters = end..end + sizes.parameters;
            end = parameters.end;
            Planned { layer, parameters, sizes }
        };
        let layers = builder.layers.into_iter().map(place).collect();
        Ok(Plan { layers, segments: builder.segments, tensors: builder.tensors })
    }
}

/// Collects layers and the names of their parameters.
struct Builder<F: Scalar> {
    layers: Vec<Box<dyn Layer<F>>>,
    segments: Vec<(String, Vec<usize>)>,
    tensors: Vec<Tensor>,
    dense: usize,
    convolutions: usize,
}

impl<F: Scalar> Default for Builder<F> {
    fn default() -> Self {
        let (layers, segments, tensors) = (Vec::new(), Vec::new(), Vec::new());
        Builder { layers, segments, tensors, dense: 0, convolutions: 0 }
    }
}

impl<F: Scalar> Builder<F> {
    /// Adds the first of the layers, and what can be computed with it; returns how many that were.
    fn push(&mut self, layers: &[architecture::Layer], from: Shape) -> usize {
        use architecture::Layer as L;
        // With no parameters before it, behind dropout for instance.
        let (first, segment) = (self.tensors.is_empty(), self.layers.len() as u32);
        let mut taken = 1;
        let layer: Box<dyn Layer<F>> = match &layers[0] {
            L::Dense(units) => {
                self.dense += 1;
                let name = format!("dense{}", self.dense);
                let grid = match from {
                    Shape::Image([height, width, _]) => [height, width],
                    Shape::Vector(_) => [1, 1],
                };
                self.tensors(&name, vec![from.len(), *units], [from.len(), *units], grid);
                Box::new(Dense::new(from.len(), *units, first))
            }
            L::Conv(architecture::Convolution { channels, kernel, stride, padding }) => {
                let pool = match layers.get(1) {
                    Some(L::MaxPool(pooling)) => Some(window_of(pooling)),
                    _ => None,
                };
                taken += usize::from(pool.is_some());
                self.convolutions += 1;
                let name = format!("conv{}", self.convolutions);
                let [height, width] = *kernel;
                let image = image_of(from);
                let shape = vec![height, width, image.channels, *channels];
                let taps = height * width;
                self.tensors(&name, shape, [taps * image.channels, taps * channels], *kernel);
                let window = Window { size: *kernel, stride: *stride, padding: *padding };
                Box::new(Conv2d::new(image, *channels, window, pool).expect(CHECKED))
            }
            L::MaxPool(pooling) => {
                let window = window_of(pooling);
                Box::new(Pool2d::new(image_of(from), window, Pooling::Max).expect(CHECKED))
            }
            L::StochasticPool(pooling) => {
                let (window, pooling) = (window_of(pooling), Pooling::Stochastic { segment });
                Box::new(Pool2d::new(image_of(from), window, pooling).expect(CHECKED))
            }
            L::Relu => Box::new(Activation::new(ActivationKind::Relu, from.len())),
            L::Tanh => Box::new(Activation::new(ActivationKind::Tanh, from.len())),
            L::Sigmoid => Box::new(Activation::new(ActivationKind::Sigmoid, from.len())),
            L::Dropout(rate) => Box::new(Dropout::new(*rate, from.len(), segment)),
            L::Flatten => return taken,
        };
        self.layers.push(layer);
        taken
    }

    /// Names a weight, which lies on a grid of places, and its bias, whose length is the weight's last
    /// axis.
    fn tensors(&mut self, name: &str, shape: Vec<usize>, fans: [usize; 2], grid: [usize; 2]) {
        let outputs = shape[shape.len() - 1];
        self.segments.push((format!("{name}.weight"), shape));
        self.segments.push((format!("{name}.bias"), vec![outputs]));
        let grid = (grid != [1, 1]).then_some(grid);
        let weight = Tensor { role: Role::Weight, fans, grid };
        self.tensors.extend([weight, Tensor { role: Role::Bias, fans, grid: None }]);
    }
}

/// `Architecture::shapes` has been through all sizes.
const CHECKED: &str = "the shapes have been checked";

fn image_of(shape: Shape) -> Image {
    match shape {
        Shape::Image([height, width, channels]) => Image { height, width, channels },
        Shape::Vector(_) => unreachable!("{CHECKED}"),
    }
}

fn window_of(pooling: &architecture::Pooling) -> Window {
    let stride = pooling.stride.unwrap_or(pooling.window);
    Window { size: pooling.window, stride, padding: [0, 0] }
}
