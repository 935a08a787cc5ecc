//! Gradients against finite differences, in double precision.

mod common;

use common::{gradient_matches_differences, model, normals};
use santa::potential::from_fn;
use santa::{Batch, Potential};
use santa_nn::{Architecture, Initialiser, KlWeight, ScaleMixture, Variational};

fn network(toml: &str) -> Architecture {
    let network: Architecture = toml::from_str(toml).unwrap();
    network.with_initialiser(Initialiser::GlorotNormal)
}

fn check(what: &str, architecture: &Architecture) {
    let mut model = model::<f64>(architecture, 50);
    let mut theta = model.initial(3, 0).to_vec();
    // Biases away from zero, where a ReLU would have its kink.
    theta.iter_mut().zip(normals::<f64>(1 << 20, 9)).for_each(|(t, n)| *t += 0.1 * n);
    // One example, one shard, several shards.
    let batch: Vec<u32> = (0..40).map(|i| i * 7 % 50).collect();
    let batches = [Batch::of(&batch[..1]), Batch::of(&batch[..5]), Batch::of(&batch)];
    for batch in batches.map(|batch| batch.seeded(5, 0).at_step(11)) {
        gradient_matches_differences(what, &mut model, &theta, &batch);
    }
}

#[test]
fn fully_connected_networks_have_the_right_gradient() {
    for activation in ["relu", "tanh", "sigmoid"] {
        let toml = format!(
            "input = [7]\nlayers = [{{ dense = 9 }}, \"{activation}\", {{ dense = 5 }}, \
             \"{activation}\", {{ dense = 4 }}]"
        );
        check(activation, &network(&toml));
    }
    check("a layer", &network("input = [3]\nlayers = [{ dense = 2 }]"));
    check("no weights before", &network("input = [3]\nlayers = [\"tanh\", { dense = 2 }]"));
    check("none after", &network("input = [3]\nlayers = [{ dense = 20 }, \"sigmoid\"]"));
}

#[test]
fn dropout_has_the_gradient_of_its_mask() {
    check(
        "dropout",
        &Architecture::dense(&[6, 20, 20, 3])
            .with_dropout(0.2, 0.5)
            .with_initialiser(Initialiser::HeNormal),
    );
}

#[test]
fn dropout_changes_with_the_step_and_not_with_anything_else() {
    let architecture = Architecture::dense(&[6, 20, 3]).with_dropout(0.2, 0.5);
    let mut model = model::<f64>(&architecture, 50);
    let theta = model.initial(1, 0);
    let mut loss = |batch: Batch<'_>| model.loss(&theta, &batch).unwrap();
    let first = loss(Batch::full().seeded(1, 0).at_step(1));
    assert_eq!(first, loss(Batch::full().seeded(1, 0).at_step(1)));
    for other in [
        Batch::full().seeded(1, 0).at_step(2),
        Batch::full().seeded(1, 1).at_step(1),
        Batch::full().seeded(2, 0).at_step(1),
    ] {
        assert_ne!(first, loss(other));
    }
}

#[test]
fn variational_weights_have_the_right_gradient() {
    let prior = ScaleMixture { pi: 0.25, sigma1: 1.0, sigma2: 0.2 };
    for weight in [KlWeight::Uniform, KlWeight::Geometric { batches: 4 }, KlWeight::Constant(0.3)] {
        let inner = model::<f64>(&Architecture::dense(&[4, 6, 3]), 30);
        let mu = inner.initial(1, 0);
        let mut model = Variational::new(inner, prior, weight).unwrap();
        let mut theta = model.initial(&mu, -1.0).unwrap();
        theta.iter_mut().zip(normals::<f64>(1 << 16, 9)).for_each(|(t, n)| *t += 0.3 * n);
        let batch = Batch::of(&[1, 2, 3, 28]).seeded(3, 0).at_step(6);
        gradient_matches_differences("variational", &mut model, &theta, &batch);
    }
}

#[test]
fn the_shares_of_the_divergence_sum_to_that_of_uniform_ones() {
    let share = |weight, step| {
        let inner = from_fn(1, |_: &[f64], g: &mut [f64]| {
            g[0] = 0.0;
            0.0
        });
        let mut model = Variational::new(inner.unwrap(), ScaleMixture::default(), weight).unwrap();
        let theta = model.initial(&[0.3], -1.0).unwrap();
        let batch = Batch::full().seeded(1, 0).at_step(step);
        // The draw differs from step to step: compare what it is multiplied by.
        let unit = Variational::new(
            from_fn(1, |_: &[f64], g: &mut [f64]| {
                g[0] = 0.0;
                0.0
            })
            .unwrap(),
            ScaleMixture::default(),
            KlWeight::Uniform,
        )
        .unwrap()
        .loss(&theta, &batch)
        .unwrap();
        model.loss(&theta, &batch).unwrap() / unit
    };
    let weight = KlWeight::Geometric { batches: 5 };
    let shares: Vec<f64> = (1..=5).map(|step| share(weight, step)).collect();
    assert!((shares.iter().sum::<f64>() - 5.0).abs() < 1e-12, "{shares:?}");
    for pair in shares.windows(2) {
        assert!((pair[0] / pair[1] - 2.0).abs() < 1e-12, "each bears half of the one before");
    }
    assert!((share(weight, 6) / shares[0] - 1.0).abs() < 1e-12, "a new epoch begins");
}

#[test]
fn variational_draws_have_the_spread_of_rho() {
    let inner = from_fn(20_000, |_: &[f64], _: &mut [f64]| 0.0).unwrap();
    let mut model = Variational::new(inner, ScaleMixture::default(), KlWeight::Uniform).unwrap();
    let rho = -0.5f64;
    let theta = model.initial(&vec![2.0; 20_000], rho).unwrap();
    let draw = model.draw(&theta, 1, 0, 7).unwrap().to_vec();
    let n = draw.len() as f64;
    let mean = draw.iter().sum::<f64>() / n;
    let deviation = (draw.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let expected = rho.exp().ln_1p();
    // Six standard errors.
    assert!((mean - 2.0).abs() < 6.0 * expected / n.sqrt());
    assert!((deviation / expected - 1.0).abs() < 6.0 / (2.0 * n).sqrt());
    assert_eq!(draw, model.draw(&theta, 1, 0, 7).unwrap());
    assert_ne!(draw, model.draw(&theta, 1, 0, 8).unwrap());
}

#[test]
fn convolutional_networks_have_the_right_gradient() {
    check(
        "the paper's, in small",
        &network(
            r#"
            input = [8, 8, 1]
            layers = [
                { conv = { channels = 16, kernel = [5, 5], padding = [2, 2] } },
                { max_pool = { window = [2, 2] } }, "relu",
                { conv = { channels = 16, kernel = [5, 5], padding = [2, 2] } },
                { max_pool = { window = [2, 2] } }, "relu",
                { dense = 7 }, "relu", { dropout = 0.5 }, { dense = 3 },
            ]"#,
        ),
    );
    check(
        "strides, and pooling apart from the convolution",
        &network(
            r#"
            input = [9, 8, 2]
            layers = [
                { conv = { channels = 3, kernel = [3, 2], stride = [2, 1], padding = [1, 1] } },
                "tanh",
                { max_pool = { window = [3, 2], stride = [1, 2] } },
                { conv = { channels = 4, kernel = [2, 2] } },
                "flatten",
                { dense = 3 },
            ]"#,
        ),
    );
    check(
        "stochastic pooling",
        &network(
            r#"
            input = [6, 6, 1]
            layers = [
                { conv = { channels = 3, kernel = [3, 3] } },
                "sigmoid",
                { stochastic_pool = { window = [2, 2] } },
                { dense = 3 },
            ]"#,
        ),
    );
}

#[test]
fn a_weight_that_is_not_a_number_shows_in_the_loss_of_every_network() {
    for toml in [
        "input = [4]\nlayers = [{ dense = 3 }, \"relu\", { dense = 2 }]",
        "input = [4]\nlayers = [{ dense = 3 }, \"tanh\", { dropout = 0.1 }, { dense = 2 }]",
        "input = [4]\nlayers = [{ dense = 3 }, \"sigmoid\", { dense = 2 }]",
        "input = [4, 4, 1]\nlayers = [{ conv = { channels = 2, kernel = [3, 3] } }, \
         { max_pool = { window = [2, 2] } }, { dense = 2 }]",
        "input = [4, 4, 1]\nlayers = [{ conv = { channels = 2, kernel = [3, 3] } }, \
         { stochastic_pool = { window = [2, 2] } }, { dense = 2 }]",
    ] {
        let mut model = model::<f64>(&network(toml), 8);
        let mut theta = model.initial(1, 0);
        theta[0] = f64::NAN;
        let mut gradient = vec![0.0; theta.len()];
        let loss = model.loss_gradient(&theta, &Batch::full(), &mut gradient).unwrap();
        assert!(loss.is_nan() && gradient.iter().any(|g| g.is_nan()), "{toml}: {loss}");
        let examples = model.examples().clone();
        assert!(model.evaluate(&theta, &examples).unwrap().nll.is_nan(), "{toml}");
    }
}

#[test]
fn orthogonal_filters_are_orthogonal() {
    let network = network(
        "input = [8, 8, 3]\nlayers = [{ conv = { channels = 6, kernel = [3, 3] } }, { dense = 2 }]",
    )
    .with_initialiser(Initialiser::Orthogonal(1.0));
    let theta = model::<f64>(&network, 2).initial(1, 0);
    for a in 0..6 {
        for b in 0..6 {
            let product: f64 = (0..27).map(|i| theta[i * 6 + a] * theta[i * 6 + b]).sum();
            assert!((product - f64::from(u8::from(a == b))).abs() < 1e-12);
        }
    }
}
