//! What a network is made of: a value that can be written in TOML.

use crate::initialise::Initialiser;
use santa::{Error, Result};
use serde::{Deserialize, Serialize};

/// A feed-forward network, from the shape of an example to the logits of its classes.
///
/// ```
/// use santa_nn::Architecture;
///
/// let network: Architecture = toml::from_str(
///     r#"
///     input = [28, 28, 1]
///     layers = [
///         { conv = { channels = 32, kernel = [5, 5], padding = [2, 2] } },
///         { max_pool = { window = [2, 2] } },
///         "relu",
///         { dropout = 0.5 },
///         { dense = 10 },
///     ]
///     "#,
/// )?;
/// assert_eq!(network.classes()?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Shape of an example: `[n]`, or `[height, width, channels]`.
    pub input: Vec<usize>,
    /// The layers in order. The last one gives the logits.
    pub layers: Vec<Layer>,
    /// How the weights begin.
    #[serde(default)]
    pub initialiser: Initialiser,
}

/// A layer of an [`Architecture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// Fully connected, with so many outputs. An image is taken row by row, channels innermost.
    Dense(usize),
    /// 2-D convolution.
    Conv(Convolution),
    /// The maximum over windows.
    MaxPool(Pooling),
    /// An element of each window drawn in proportion to its value (Zeiler and Fergus, 2013); the
    /// weighted mean when predicting. Wants non-negative inputs: put it after a `relu`.
    StochasticPool(Pooling),
    /// $\max(x, 0)$
    Relu,
    /// $\tanh x$
    Tanh,
    /// $1 / (1 + e^{-x})$
    Sigmoid,
    /// Elements are dropped with this probability while training, the others scaled up.
    Dropout(f64),
    /// An image becomes a vector: what `dense` does by itself.
    Flatten,
}

/// A 2-D convolution (a cross-correlation, as everywhere in machine learning).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// Output channels.
    pub channels: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Steps of the kernel, down and across.
    #[serde(default = "ones")]
    pub stride: [usize; 2],
    /// Zeros around the image, above and below, left and right.
    #[serde(default)]
    pub padding: [usize; 2],
}

/// Windows that are pooled. What does not fill a window is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooling {
    /// Height and width of a window.
    pub window: [usize; 2],
    /// From one window to the next; by default, the window's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<[usize; 2]>,
}

fn ones() -> [usize; 2] {
    [1, 1]
}

/// Largest height, width, channels or units that a layer may have.
const LARGEST: usize = 1 << 24;

/// Most weights of a layer, and most elements of the patches of an image under all places of a kernel.
const LARGEST_LAYER: usize = 1 << 31;

/// The shape of an example between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Vector(usize),
    /// Height, width, channels.
    Image([usize; 3]),
}

impl Shape {
    pub fn len(self) -> usize {
        match self {
            Shape::Vector(n) => n,
            Shape::Image([height, width, channels]) => height * width * channels,
        }
    }
}

impl Architecture {
    /// Fully connected layers of these sizes, the data's first and the number of classes last, with
    /// ReLU between them. The paper's networks are `[784, 400, 400, 10]` and `[784, 800, 800, 10]`.
    pub fn dense(sizes: &[usize]) -> Self {
        let mut layers = Vec::new();
        for (i, size) in sizes.iter().skip(1).enumerate() {
            if i > 0 {
                layers.push(Layer::Relu);
            }
            layers.push(Layer::Dense(*size));
        }
        let input = sizes.first().copied().into_iter().collect();
        Architecture { input, layers, initialiser: Initialiser::Paper }
    }

    /// The convolutional network of the paper's text: 5x5x32, 2x2 pooling, 5x5x64, 2x2 pooling,
    /// 200-200, for 28x28 images of ten classes. The padding of 2 keeps the size of the images.
    pub fn paper_cnn() -> Self {
        Self::mnist_cnn(2, &[200, 200])
    }

    /// The convolutional network of the authors' code: padding 4, one hidden layer of 500.
    pub fn authors_cnn() -> Self {
        Self::mnist_cnn(4, &[500])
    }

    fn mnist_cnn(padding: usize, hidden: &[usize]) -> Self {
        let mut layers = Vec::new();
        for channels in [32, 64] {
            layers.push(Layer::Conv(Convolution {
                channels,
                kernel: [5, 5],
                stride: ones(),
                padding: [padding; 2],
            }));
            layers.push(Layer::MaxPool(Pooling { window: [2, 2], stride: None }));
            layers.push(Layer::Relu);
        }
        for units in hidden {
            layers.extend([Layer::Dense(*units), Layer::Relu]);
        }
        layers.push(Layer::Dense(10));
        Architecture { input: vec![28, 28, 1], layers, initialiser: Initialiser::Paper }
    }

    /// The same network with dropout: `input` before the first layer (0 for none), `hidden` before
    /// every later fully connected one.
    pub fn with_dropout(mut self, input: f64, hidden: f64) -> Self {
        let mut layers = Vec::with_capacity(2 * self.layers.len());
        // What is no share of elements is refused as a layer, not left out.
        if input != 0.0 {
            layers.push(Layer::Dropout(input));
        }
        for (i, layer) in self.layers.into_iter().enumerate() {
            if i > 0 && hidden != 0.0 && matches!(layer, Layer::Dense(_)) {
                layers.push(Layer::Dropout(hidden));
            }
            layers.push(layer);
        }
        self.layers = layers;
        self
    }

    /// The same network with other initial weights.
    pub fn with_initialiser(mut self, initialiser: Initialiser) -> Self {
        self.initialiser = initialiser;
        self
    }

    /// Number of classes: the outputs of the last layer.
    pub fn classes(&self) -> Result<usize> {
        Ok(self.shapes()?.last().map_or(0, |shape| shape.len()))
    }

    /// Shapes of the input and of every layer's output. Refuses what cannot be built.
    pub(crate) fn shapes(&self) -> Result<Vec<Shape>> {
        let mut shape = match self.input[..] {
            [n] if (1..=LARGEST).contains(&n) => Shape::Vector(n),
            [height, width, channels]
                if [height, width, channels].iter().all(|n| (1..=LARGEST).contains(n)) =>
            {
                checked(Shape::Image([height, width, channels]), "input")?
            }
            _ => {
                return Err(refuse(
                    "input".into(),
                    format!("{:?}", self.input),
                    "it must be [n] or [height, width, channels], with positive numbers",
                ));
            }
        };
        self.initialiser.check()?;
        let mut shapes = vec![shape];
        for (i, layer) in self.layers.iter().enumerate() {
            let field = format!("layers[{i}]");
            shape = checked(layer.output(shape, &field)?, &field)?;
            shapes.push(shape);
        }
        if self.layers.is_empty() {
            return Err(refuse("layers".into(), "empty".into(), "a network needs a layer"));
        }
        Ok(shapes)
    }
}

impl Layer {
    fn output(&self, input: Shape, field: &str) -> Result<Shape> {
        let refuse = |value: String, allowed: &str| refuse(field.into(), value, allowed);
        let image = |what: &str| match input {
            Shape::Image(shape) => Ok(shape),
            Shape::Vector(n) => Err(refuse(
                format!("{what} of a vector of {n}"),
                "it needs an image: let `input` be [height, width, channels], and no `dense` or \
                 `flatten` come before",
            )),
        };
        match self {
            Layer::Dense(units) => {
                if !(1..=LARGEST).contains(units) {
                    return Err(refuse(format!("dense = {units}"), "it needs 1 to 2^24 units"));
                }
                if too_large(&[input.len(), *units], LARGEST_LAYER) {
                    let value = format!("dense = {units} after {} inputs", input.len());
                    return Err(refuse(value, "a layer may have at most 2^31 weights"));
                }
                Ok(Shape::Vector(*units))
            }
            Layer::Conv(convolution) => {
                let [height, width, depth] = image("a convolution")?;
                let Convolution { channels, kernel, stride, padding } = *convolution;
                let out = |size: usize, axis: usize| {
                    let padded = padding[axis].checked_mul(2)?.checked_add(size)?;
                    let steps = padded.checked_sub(kernel[axis])?.checked_div(stride[axis])?;
                    // Beyond the kernel, padding would only repeat the bias.
                    (kernel[axis] > 0 && padding[axis] < kernel[axis]).then_some(steps + 1)
                };
                match (out(height, 0), out(width, 1)) {
                    (Some(height), Some(width)) if (1..=LARGEST).contains(&channels) => {
                        let [rows, columns] = kernel;
                        if too_large(&[rows, columns, depth, channels], LARGEST_LAYER)
                            || too_large(&[rows, columns, depth, height, width], LARGEST_LAYER)
                        {
                            return Err(refuse(
                                format!("{convolution:?} of {depth} channels"),
                                "a layer may have at most 2^31 weights, and as many elements \
                                 under all places of its kernel",
                            ));
                        }
                        Ok(Shape::Image([height, width, channels]))
                    }
                    _ => Err(refuse(
                        format!("{convolution:?} of a {height}x{width} image"),
                        "channels, kernel and stride must be positive, the padding below the \
                         kernel's size, and the kernel within the padded image",
                    )),
                }
            }
            Layer::MaxPool(pooling) | Layer::StochasticPool(pooling) => {
                let [height, width, channels] = image("pooling")?;
                let Pooling { window, stride } = *pooling;
                let stride = stride.unwrap_or(window);
                let out = |size: usize, axis: usize| {
                    let steps = size.checked_sub(window[axis])?.checked_div(stride[axis])?;
                    (window[axis] > 0).then_some(steps + 1)
                };
                match (out(height, 0), out(width, 1)) {
                    (Some(height), Some(width)) => Ok(Shape::Image([height, width, channels])),
                    _ => Err(refuse(
                        format!("{pooling:?} of a {height}x{width} image"),
                        "window and stride must be positive and the window within the image",
                    )),
                }
            }
            Layer::Dropout(rate) if !(0.0..1.0).contains(rate) => {
                Err(refuse(format!("dropout = {rate}"), "it must be at least 0 and below 1"))
            }
            Layer::Relu | Layer::Tanh | Layer::Sigmoid | Layer::Dropout(_) => Ok(input),
            Layer::Flatten => Ok(Shape::Vector(input.len())),
        }
    }
}

/// Refuses shapes whose size no memory has.
fn checked(shape: Shape, field: &str) -> Result<Shape> {
    let sides = match shape {
        Shape::Vector(n) => [n, 1, 1],
        Shape::Image(sides) => sides,
    };
    if too_large(&sides, LARGEST) {
        let allowed = "an example may have at most 2^24 elements between two layers";
        return Err(refuse(field.into(), format!("{shape:?}"), allowed));
    }
    Ok(shape)
}

/// Whether a product is above a limit, or above all numbers.
fn too_large(factors: &[usize], limit: usize) -> bool {
    let product = factors.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    product.is_none_or(|product| product > limit)
}

fn refuse(field: String, value: String, allowed: &str) -> Error {
    Error::Setting { field, value, allowed: allowed.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_networks_have_their_sizes() {
        let shapes = Architecture::paper_cnn().shapes().unwrap();
        let images: Vec<_> = shapes.iter().copied().map(Shape::len).collect();
        assert_eq!(
            images,
            [784, 25_088, 6_272, 6_272, 12_544, 3_136, 3_136, 200, 200, 200, 200, 10]
        );
        let shapes = Architecture::authors_cnn().shapes().unwrap();
        assert_eq!(shapes[5], Shape::Image([10, 10, 64]));
        assert_eq!(Architecture::dense(&[784, 400, 400, 10]).classes().unwrap(), 10);
    }

    #[test]
    fn dropout_stands_before_the_dense_layers_behind_the_first_layer_of_all() {
        let dropped = |network: Architecture| {
            let layers = network.with_dropout(0.0, 0.5).layers;
            let before = layers.windows(2).filter(|pair| pair[0] == Layer::Dropout(0.5));
            before.map(|pair| pair[1].clone()).collect::<Vec<_>>()
        };
        let dense = |units: &[usize]| units.iter().copied().map(Layer::Dense).collect::<Vec<_>>();
        assert_eq!(dropped(Architecture::dense(&[784, 400, 300, 10])), dense(&[300, 10]));
        assert_eq!(dropped(Architecture::paper_cnn()), dense(&[200, 200, 10]));
    }

    #[test]
    fn a_description_survives_toml() {
        let network = Architecture::paper_cnn()
            .with_dropout(0.2, 0.5)
            .with_initialiser(Initialiser::Orthogonal(1.5));
        let text = toml::to_string(&network).unwrap();
        assert_eq!(toml::from_str::<Architecture>(&text).unwrap(), network, "{text}");
    }

    #[test]
    fn impossible_networks_are_refused_by_name() {
        for (text, words) in [
            ("input = []\nlayers = []", "`input`"),
            ("input = [3, 4]\nlayers = []", "`input`"),
            ("input = [0]\nlayers = [{ dense = 1 }]", "`input`"),
            ("input = [16777216, 16777216, 16777216]\nlayers = [{ dense = 1 }]", "`input`"),
            ("input = [3]\nlayers = []", "`layers`"),
            ("input = [3]\nlayers = [\"relu\", { dense = 0 }]", "`layers[1]`"),
            ("input = [3]\nlayers = [{ max_pool = { window = [1, 1] } }]", "image"),
            ("input = [3, 3, 1]\nlayers = [{ max_pool = { window = [4, 1] } }]", "window"),
            (
                "input = [3, 3, 1]\nlayers = [{ max_pool = { window = [1, 1], stride = [0, 1] } }]",
                "positive",
            ),
            (
                "input = [3, 3, 1]\nlayers = [{ conv = { channels = 1, kernel = [5, 5] } }]",
                "kernel",
            ),
            (
                "input = [3, 3, 1]\nlayers = [{ conv = { channels = 1, kernel = [2, 2], padding = [2, 0] } }]",
                "padding",
            ),
            ("input = [65536]\nlayers = [{ dense = 65536 }]", "2^31 weights"),
            (
                "input = [4096, 4096, 1]\nlayers = [{ conv = { channels = 1, kernel = [2048, 2048] } }]",
                "2^31",
            ),
            (
                "input = [3, 3, 1]\nlayers = [{ conv = { channels = 1, kernel = [1099511627776, 1099511627776], padding = [1099511627775, 1099511627775] } }]",
                "2^31",
            ),
            ("input = [3]\nlayers = [{ dropout = 1.0 }]", "`layers[0]`"),
            ("input = [3]\nlayers = [\"relu\"]\ninitialiser = { normal = 0.0 }", "initialiser"),
        ] {
            let network: Architecture = toml::from_str(text).unwrap();
            let message = network.shapes().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
        for (input, hidden) in
            [(f64::NAN, 0.0), (-0.1, 0.0), (0.0, f64::NAN), (0.0, -0.1), (0.0, 1.0)]
        {
            let network = Architecture::dense(&[3, 4, 2]).with_dropout(input, hidden);
            assert!(network.shapes().unwrap_err().to_string().contains("dropout"));
        }
        assert!(toml::from_str::<Architecture>("input = [3]\nlayers = [\"gelu\"]").is_err());
        assert!(toml::from_str::<Architecture>("input = [3]\nlayers = []\nwidth = 3").is_err());
    }
}
