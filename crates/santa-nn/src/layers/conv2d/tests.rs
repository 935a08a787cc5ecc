use super::super::{Layer, Pass};
use super::testing::{Run, derivatives_match, distance, normals, run, training};
use super::{Conv2d, Image, Path, Window};
use crate::kernels::Scalar;

/// A convolution and its input.
#[derive(Clone, Copy, Debug)]
struct Case {
    image: [usize; 3],
    filters: usize,
    window: Window,
    pool: Option<Window>,
}

const EXAMPLES: usize = 3;

impl Case {
    fn new(image: [usize; 3], filters: usize, size: [usize; 2], padding: [usize; 2]) -> Self {
        Case { image, filters, window: Window { size, stride: [1, 1], padding }, pool: None }
    }
    fn stride(mut self, stride: [usize; 2]) -> Self {
        self.window.stride = stride;
        self
    }
    fn pool(mut self, size: [usize; 2], stride: [usize; 2]) -> Self {
        self.pool = Some(Window { size, stride, padding: [0, 0] });
        self
    }
    fn input(&self) -> Image {
        let [height, width, channels] = self.image;
        Image { height, width, channels }
    }
    fn layer(&self) -> Conv2d {
        Conv2d::new(self.input(), self.filters, self.window, self.pool).unwrap()
    }
    fn data<F: Scalar>(&self) -> [Vec<F>; 3] {
        let layer = self.layer();
        [
            normals(Layer::<F>::sizes(&layer, 1).parameters, 0),
            normals(EXAMPLES * self.input().len(), 1),
            normals(EXAMPLES * layer.output().len(), 2),
        ]
    }
    fn run<F: Scalar>(&self, in_shard: usize) -> Run<F> {
        let [parameters, input, w] = self.data::<F>();
        run(&self.layer(), training(), in_shard, &parameters, &input, &w)
    }
    /// Output and derivatives, element by element from the definition.
    fn reference<F: Scalar>(&self) -> Run<F> {
        let [parameters, input, w] = self.data::<F>();
        let Window { size: [rows, columns], stride, padding } = self.window;
        let (image, filters) = (self.input(), self.filters);
        let map = self.window.output(image, filters).unwrap();
        let output = self.layer().output();
        let mut result =
            Run { output: vec![], d_input: vec![F::ZERO; input.len()], gradient: vec![] };
        result.gradient = vec![F::ZERO; parameters.len()];
        let bias = parameters.len() - filters;
        for example in 0..EXAMPLES {
            let element = |i: usize, y: usize, x: usize, j: usize, c: usize| {
                let y =
                    (y * stride[0] + i).checked_sub(padding[0]).filter(|y| *y < image.height)?;
                let x = (x * stride[1] + j).checked_sub(padding[1]).filter(|x| *x < image.width)?;
                Some(example * image.len() + (y * image.width + x) * image.channels + c)
            };
            let taps = || {
                (0..rows * columns * image.channels).map(|t| {
                    let (i, j) = (t / image.channels / columns, t / image.channels % columns);
                    (t, i, j, t % image.channels)
                })
            };
            let value = |y: usize, x: usize, o: usize| {
                let mut sum = parameters[bias + o];
                for (t, i, j, c) in taps() {
                    if let Some(at) = element(i, y, x, j, c) {
                        sum = input[at].fma(parameters[t * filters + o], sum);
                    }
                }
                sum
            };
            for at in 0..output.len() {
                let (pixel, o) = (at / filters, at % filters);
                let (mut y, mut x) = (pixel / output.width, pixel % output.width);
                let mut best = value(y, x, o);
                if let Some(pool) = self.pool {
                    let (top, left) = (y * pool.stride[0], x * pool.stride[1]);
                    (y, x, best) = (top, left, value(top, left, o));
                    for (i, j) in (0..pool.size[0])
                        .flat_map(|i| (0..pool.size[1]).map(move |j| (top + i, left + j)))
                    {
                        assert!(i < map.height && j < map.width);
                        if value(i, j, o) > best {
                            (y, x, best) = (i, j, value(i, j, o));
                        }
                    }
                }
                result.output.push(best);
                let d = w[example * output.len() + at];
                result.gradient[bias + o] += d;
                for (t, i, j, c) in taps() {
                    if let Some(at) = element(i, y, x, j, c) {
                        result.gradient[t * filters + o] += d * input[at];
                        result.d_input[at] += d * parameters[t * filters + o];
                    }
                }
            }
        }
        result
    }
}

fn general() -> Vec<Case> {
    vec![
        Case::new([5, 4, 1], 1, [1, 1], [0, 0]),
        Case::new([7, 6, 3], 5, [3, 3], [1, 1]),
        Case::new([7, 6, 3], 5, [3, 2], [0, 1]).stride([2, 1]),
        Case::new([9, 8, 2], 4, [2, 5], [3, 4]).stride([2, 3]),
        Case::new([6, 7, 2], 17, [3, 3], [1, 1]).pool([2, 2], [2, 2]),
        Case::new([9, 9, 2], 3, [2, 2], [0, 0]).pool([3, 2], [1, 2]),
        Case::new([9, 11, 2], 3, [2, 2], [1, 1]).pool([2, 2], [3, 4]),
        Case::new([2, 2, 1], 2, [5, 5], [4, 4]),
    ]
}

/// Convolutions of one channel, in tiles of various widths.
fn single() -> Vec<Case> {
    let case = |height, width, filters| Case::new([height, width, 1], filters, [5, 5], [2, 2]);
    vec![
        case(6, 28, 32).pool([2, 2], [2, 2]),
        case(7, 9, 16).pool([2, 2], [2, 2]),
        case(5, 13, 48),
        case(6, 7, 80).pool([3, 2], [1, 1]),
        case(7, 6, 16).stride([2, 1]).pool([1, 2], [2, 2]),
        Case::new([6, 9, 1], 32, [2, 7], [0, 1]),
        Case::new([4, 5, 1], 32, [3, 8], [1, 4]),
        Case::new([4, 3, 1], 16, [1, 3], [0, 0]),
    ]
}

/// Convolutions in the transformed domain: tiles that fit, and tiles cut at the edges.
fn transformed() -> Vec<Case> {
    let case = |height, width, padding| Case::new([height, width, 16], 32, [5, 5], padding);
    vec![
        case(6, 8, [2, 2]),
        case(7, 6, [2, 1]),
        case(5, 5, [0, 0]),
        case(6, 8, [2, 2]).pool([2, 2], [2, 2]),
        case(7, 9, [2, 2]).pool([2, 2], [2, 2]),
        case(5, 6, [4, 4]).pool([3, 3], [2, 2]),
        case(6, 6, [4, 3]).pool([2, 2], [1, 2]),
    ]
}

fn matches_the_reference<F: Scalar>(case: Case, bound: f64) {
    let exact = case.reference::<F>();
    for in_shard in [1, 2, EXAMPLES] {
        let run = case.run::<F>(in_shard);
        for (what, x, exact) in [
            ("output", &run.output, &exact.output),
            ("input's derivative", &run.d_input, &exact.d_input),
            ("gradient", &run.gradient, &exact.gradient),
        ] {
            let distance = distance(x, exact);
            assert!(distance <= bound, "{case:?}, {in_shard} a shard: {what} off by {distance:e}");
        }
    }
}

#[test]
fn every_window_matches_the_definition() {
    for case in general() {
        matches_the_reference::<f64>(case, 1e-13);
        matches_the_reference::<f32>(case, 1e-5);
    }
}

#[test]
fn the_direct_path_matches_the_definition() {
    for case in single() {
        assert!(matches!(case.layer().path, Path::Direct(..)));
        matches_the_reference::<f64>(case, 1e-13);
        matches_the_reference::<f32>(case, 1e-5);
    }
}

#[test]
fn the_transformed_domain_matches_the_definition() {
    for case in transformed() {
        assert!(matches!(case.layer().path, Path::Winograd(_)));
        matches_the_reference::<f64>(case, 1e-13);
        matches_the_reference::<f32>(case, 1e-4);
    }
}

#[test]
fn derivatives_of_every_window_match_finite_differences() {
    for case in general() {
        let [parameters, input, _] = case.data::<f64>();
        derivatives_match(&case.layer(), training(), &parameters, &input);
    }
}

#[test]
fn prediction_and_training_agree() {
    let case = Case::new([8, 8, 2], 4, [3, 3], [1, 1]).pool([2, 2], [2, 2]);
    let [parameters, input, w] = case.data::<f64>();
    let predicted = run(&case.layer(), Pass::prediction(), 2, &parameters, &input, &w);
    assert_eq!(predicted, case.run(2));
}
