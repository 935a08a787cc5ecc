//! The prior of weights that are alike at neighbouring places, against its equation.

mod common;

use common::{gradient_matches_differences, model, normals};
use santa::{Batch, Group, Potential, Prior};
use santa_nn::{Architecture, Classifier, Smoothness};

/// A convolution with a kernel of 3 x 2 places, and an image of 4 x 5 places before the dense layer.
fn network() -> Architecture {
    let toml = r#"
        input = [6, 6, 2]
        layers = [
            { conv = { channels = 3, kernel = [3, 2] } }, "tanh",
            { dense = 7 }, "tanh",
            { dense = 4 },
        ]"#;
    toml::from_str(toml).unwrap()
}

/// Name, places down, places across, weights of a place.
type Grid = (&'static str, usize, usize, usize);

/// The grids of that network.
const CONVOLUTION: Grid = ("conv1.weight", 3, 2, 2 * 3);
const DENSE: Grid = ("dense1.weight", 4, 5, 3 * 7);

fn smooth(smoothness: &[Smoothness]) -> Classifier<f64> {
    model::<f64>(&network(), 20).with_smoothness(smoothness).unwrap()
}

fn parameters(model: &Classifier<f64>) -> Vec<f64> {
    normals(model.target().dim(), 4)
}

/// What smoothness adds to loss and gradient, times N.
fn added(smoothness: &[Smoothness], theta: &[f64], batch: &Batch<'_>) -> (f64, Vec<f64>) {
    let of = |mut model: Classifier<f64>| {
        let mut gradient = vec![f64::NAN; theta.len()];
        (model.loss_gradient(theta, batch, &mut gradient).unwrap(), gradient)
    };
    let ((without, plain), (with, gradient)) = (of(smooth(&[])), of(smooth(smoothness)));
    let n = 20.0;
    (n * (with - without), gradient.iter().zip(&plain).map(|(a, b)| n * (a - b)).collect())
}

/// The equation: kappa / 2 times the sum over pairs of neighbours, and its gradient.
fn reference(w: &[f64], kappa: f64, down: usize, across: usize, len: usize) -> (f64, Vec<f64>) {
    let at = |row: usize, column: usize, i: usize| (row * across + column) * len + i;
    let (mut energy, mut gradient) = (0.0, vec![0.0; w.len()]);
    let mut pair = |p: usize, q: usize| {
        energy += 0.5 * kappa * (w[p] - w[q]).powi(2);
        gradient[p] += kappa * (w[p] - w[q]);
        gradient[q] += kappa * (w[q] - w[p]);
    };
    for row in 0..down {
        for column in 0..across {
            for i in 0..len {
                if row + 1 < down {
                    pair(at(row, column, i), at(row + 1, column, i));
                }
                if column + 1 < across {
                    pair(at(row, column, i), at(row, column + 1, i));
                }
            }
        }
    }
    (energy, gradient)
}

/// Whether what is added to the potential is the equation on these grids, and nothing elsewhere.
fn is_the_equation(smoothness: &[Smoothness], grids: &[(f64, Grid)]) -> bool {
    let model = smooth(&[]);
    let theta = parameters(&model);
    let (mut energy, mut gradient) = (0.0, vec![0.0; theta.len()]);
    for (kappa, (name, down, across, len)) in grids {
        let weights = model.target().layout().segment(name).unwrap().range();
        let of_one = reference(&theta[weights.clone()], *kappa, *down, *across, *len);
        energy += of_one.0;
        gradient[weights].copy_from_slice(&of_one.1);
    }
    let found = added(smoothness, &theta, &Batch::of(&[3, 1, 4]));
    let close = |a: f64, b: f64| (a - b).abs() < 1e-10 * (1.0 + b.abs());
    close(found.0, energy) && found.1.iter().zip(&gradient).all(|(a, b)| close(*a, *b))
}

#[test]
fn what_is_added_is_the_equation() {
    let dense = Smoothness::new("dense1.weight", 2.5);
    assert!(is_the_equation(std::slice::from_ref(&dense), &[(2.5, DENSE)]));
    // Biases match as well, and are on no grid; the later of two wins.
    let all = Smoothness::new("*", 0.5);
    assert!(is_the_equation(&[all.clone(), dense.clone()], &[(0.5, CONVOLUTION), (2.5, DENSE)]));
    assert!(is_the_equation(&[dense, all], &[(0.5, CONVOLUTION), (0.5, DENSE)]));
    assert!(is_the_equation(&[], &[]));
}

#[test]
fn another_equation_is_not_what_is_added() {
    let dense = [Smoothness::new("dense1.weight", 2.5)];
    let (name, down, across, len) = DENSE;
    for (what, grid) in [
        ("another precision", (5.0, DENSE)),
        ("rows and columns exchanged", (2.5, (name, across, down, len))),
        ("one row", (2.5, (name, 1, down * across, len))),
        ("channels before places", (2.5, (name, len, down, across))),
    ] {
        assert!(!is_the_equation(&dense, &[grid]), "{what}");
    }
}

#[test]
fn the_gradient_is_that_of_the_loss() {
    let mut model =
        smooth(&[Smoothness::new("conv1.weight", 3.0), Smoothness::new("dense1.*", 20.0)]);
    let theta = parameters(&model);
    for batch in [Batch::of(&[7]), Batch::full()] {
        gradient_matches_differences("smoothness", &mut model, &theta, &batch);
    }
}

#[test]
fn the_potential_has_it_once_beside_the_prior_of_the_target() {
    let smoothness = [Smoothness::new("dense1.weight", 2.5)];
    let mut model = smooth(&smoothness);
    let target = model.target().clone();
    let target = target.with_group(Group::new("*").prior(Prior::gaussian(1.0))).unwrap();
    let theta = parameters(&model);
    let (field, _) = added(&smoothness, &theta, &Batch::full());
    let alone = smooth(&[]).energy(&theta).unwrap();
    assert!((model.energy(&theta).unwrap() - alone - field).abs() < 1e-9);
    let mut model = model.with_target(target).unwrap();
    let prior = 0.5 * theta.iter().map(|x| x * x).sum::<f64>();
    assert!((model.energy(&theta).unwrap() - alone - field - prior).abs() < 1e-9);
}

#[test]
fn weights_that_are_the_same_everywhere_cost_nothing() {
    let model = smooth(&[]);
    let layout = model.target().layout().clone();
    let mut theta = vec![0.3; model.target().dim()];
    // Each weight of a place has a value of its own.
    let (name, _, _, len) = DENSE;
    let weights = layout.segment(name).unwrap().range();
    theta[weights].iter_mut().enumerate().for_each(|(i, w)| *w = (i % len) as f64);
    let (energy, gradient) = added(&[Smoothness::new("*", 1e3)], &theta, &Batch::full());
    assert_eq!(energy, 0.0);
    assert!(gradient.iter().all(|g| *g == 0.0));
}

#[test]
fn pieces_are_parts_of_the_whole() {
    // Larger than a piece is at least.
    let mut model = model::<f64>(&Architecture::paper_cnn(), 5);
    model = model.with_smoothness(&[Smoothness::new("*", 10.0)]).unwrap();
    let theta = model.initial(1, 0);
    let (mut whole, mut pieces) = (vec![0.0; theta.len()], vec![f64::NAN; theta.len()]);
    let batch = Batch::of(&[0, 3]);
    let loss = model.loss_gradient(&theta, &batch, &mut whole).unwrap();
    let mut counted = 0;
    let in_pieces = model
        .loss_gradient_pieces(&theta, &batch, &mut pieces, &mut |first, piece| {
            assert!(piece == &whole[first..first + piece.len()], "the piece from {first}");
            counted += 1;
        })
        .unwrap();
    assert!(counted > 1);
    assert_eq!(loss, in_pieces);
}

#[test]
fn what_cannot_be_smooth_is_refused_by_name() {
    let refusal = |architecture: &Architecture, smoothness: Smoothness| {
        let model = model::<f64>(architecture, 5);
        model.with_smoothness(&[smoothness]).unwrap_err().to_string()
    };
    for precision in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let message = refusal(&network(), Smoothness::new("dense1.weight", precision));
        assert!(message.contains("dense1.weight") && message.contains("positive"), "{message}");
    }
    // A bias, a layer that sees a vector, a misspelt name.
    for pattern in ["dense1.bias", "dense2.weight", "dens1.weight"] {
        let message = refusal(&network(), Smoothness::new(pattern, 1.0));
        assert!(message.contains(pattern), "{message}");
        assert!(message.contains("there are conv1.weight, dense1.weight"), "{message}");
    }
    let message = refusal(&Architecture::dense(&[4, 3, 2]), Smoothness::new("*", 1.0));
    assert!(message.contains("see an image"), "{message}");
}
