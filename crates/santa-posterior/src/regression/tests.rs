//! The models as a whole.

use super::*;
use santa::noise::{Purpose, Stream};
use santa::potential::ControlVariate;
use santa::potential::analytic::LogisticRegression;
use santa::{Batch, Chain, Group, Potential, Prior, Rate, Real, Sampling, dynamics::Sgld};

const FAMILIES: [fn() -> Family; 3] = [Family::linear, Family::logistic, Family::robust];

fn normals(step: u64, len: usize) -> Vec<f64> {
    let mut numbers = vec![0.0; len];
    Stream::new(3, 0, Purpose::Custom(1)).normals(step, 0, 0, &mut numbers);
    numbers
}

/// Features and a response that depends on them.
fn data(n: usize, d: usize, family: &Family) -> (Vec<f64>, Vec<f64>) {
    let (features, truth, noise) = (normals(0, n * d), normals(1, d), normals(2, n));
    let response = features.chunks(d).zip(&noise).map(|(x, e)| {
        let z = 0.3 + x.iter().zip(&truth).map(|(x, b)| x * b).sum::<f64>();
        if *family == Family::Bernoulli { f64::from(u8::from(z + 2.0 * e > 0.0)) } else { z + e }
    });
    let response = response.collect();
    (features, response)
}

fn model<X: Arithmetic>(n: usize, d: usize, family: Family) -> Regression<X> {
    let (features, response) = data(n, d, &family);
    let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
    let design = Design::new(names, &features, true, Scaling::Standardised).unwrap();
    Regression::new(design, &response, family, Prior::gaussian(1.0)).unwrap()
}

fn gradient<F: Real, P: Potential<F>>(potential: &mut P, theta: &[F], batch: &Batch) -> Vec<F> {
    let mut gradient = vec![F::from_f64(f64::NAN); theta.len()];
    potential.loss_gradient(theta, batch, &mut gradient).unwrap();
    gradient
}

/// A theta near the middle of the posterior's scale.
fn somewhere(dim: usize, step: u64) -> Vec<f64> {
    normals(step, dim).iter().map(|x| 0.5 * x).collect()
}

#[test]
fn the_gradient_is_that_of_the_mean_loss() {
    const STEP: f64 = 1e-5;
    const TOLERANCE: f64 = 1e-8;
    for family in FAMILIES {
        let mut model = model::<f64>(150, 11, family());
        let dim = model.target().dim();
        for batch in [Batch::full(), Batch::of(&[3, 141, 59]), Batch::of(&[7; 70])] {
            let theta = somewhere(dim, 9);
            let exact = gradient(&mut model, &theta, &batch);
            for i in 0..dim {
                let mut at = |x: f64| {
                    let mut moved = theta.clone();
                    moved[i] += x;
                    Potential::<f64>::loss(&mut model, &moved, &batch).unwrap()
                };
                let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                assert!((slope - exact[i]).abs() < TOLERANCE * (1.0 + slope.abs()), "{i}");
            }
        }
    }
}

#[test]
fn logistic_regression_is_that_of_the_scalar_reference() {
    const D: usize = 21;
    for n in [5, 300, 5_000] {
        let stream = Stream::new(1, 0, Purpose::Data);
        let (mut reference, _) = LogisticRegression::synthetic(n, D, 1.0, &stream).unwrap();
        let features: Vec<f64> = (0..n).flat_map(|i| reference.features(i).to_vec()).collect();
        let labels: Vec<f64> = reference.labels().iter().map(|y| f64::from(u8::from(*y))).collect();
        let names: Vec<String> = (0..D).map(|j| j.to_string()).collect();
        let design = Design::new(names, &features, false, Scaling::Original).unwrap();
        let mut fast = Regression::<f64>::logistic(design, &labels).unwrap();
        let theta = somewhere(D, 4);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-13 * (1.0 + b.abs()), "{a} {b}");
        for batch in [Batch::full(), Batch::of(&[0, 4, 4, 2]), Batch::of(&[1; 129])] {
            let expected = gradient(&mut reference, &theta, &batch);
            for (a, b) in gradient(&mut fast, &theta, &batch).iter().zip(expected) {
                close(*a, b);
            }
            let loss = Potential::<f64>::loss(&mut fast, &theta, &batch).unwrap();
            close(loss, reference.loss(&theta, &batch).unwrap());
        }
        close(fast.energy(&theta).unwrap(), reference.energy(&theta).unwrap());
    }
}

#[test]
fn every_precision_gives_the_same_up_to_rounding() {
    const TOLERANCE: f64 = 2e-5;
    for family in FAMILIES {
        let (mut wide, mut narrow) =
            (model::<f64>(3_000, 30, family()), model::<f32>(3_000, 30, family()));
        let single: Vec<f32> =
            somewhere(wide.target().dim(), 4).iter().map(|x| *x as f32).collect();
        let double: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
        for batch in [Batch::full(), Batch::of(&[3, 141, 59])] {
            let exact = gradient(&mut wide, &double, &batch);
            let mut others = vec![gradient(&mut narrow, &double, &batch)];
            for single in
                [gradient(&mut wide, &single, &batch), gradient(&mut narrow, &single, &batch)]
            {
                others.push(single.iter().map(|x| f64::from(*x)).collect());
            }
            for other in others {
                for (a, b) in other.iter().zip(&exact) {
                    assert!((a - b).abs() < TOLERANCE * (1.0 + b.abs()), "{a} {b}");
                }
            }
        }
    }
}

#[test]
fn a_full_pass_has_the_same_bits_on_any_number_of_threads() {
    let results: Vec<_> = [1, 3]
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut model = model::<f64>(9_000, 40, Family::robust());
                let theta = somewhere(model.target().dim(), 4);
                let energy = model.energy(&theta).unwrap();
                (gradient(&mut model, &theta, &Batch::full()), energy)
            })
        })
        .into();
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_batch_of_all_rows_is_the_full_batch() {
    let mut model = model::<f64>(3_000, 5, Family::linear());
    let theta = somewhere(model.target().dim(), 4);
    let all: Vec<u32> = (0..3_000).collect();
    let full = gradient(&mut model, &theta, &Batch::full());
    assert_eq!(gradient(&mut model, &theta, &Batch::of(&all)), full);
}

/// The energy of a linear regression, written straight from its definition.
#[test]
fn the_prior_of_sigma_and_the_change_of_variables_count_once() {
    let (features, response) = data(50, 2, &Family::linear());
    let design = Design::new(["a", "b"], &features, false, Scaling::Original).unwrap();
    let tau = 0.8;
    for sigma in [Sigma::HalfNormal { scale: tau }, Sigma::HalfCauchy { scale: tau }] {
        let prior = |x: f64| match sigma {
            Sigma::HalfNormal { .. } => 0.5 * x * x,
            _ => (x * x).ln_1p(),
        };
        let family = Family::Gaussian { sigma };
        let mut model =
            Regression::<f64>::new(design.clone(), &response, family, Prior::gaussian(2.0))
                .unwrap();
        let theta: [f64; 3] = [0.3, -0.4, 0.7];
        let s = theta[2].exp();
        let mut expected = prior(s / tau) - theta[2] + 0.3f64.powi(2) + 0.4f64.powi(2);
        for (x, y) in features.chunks(2).zip(&response) {
            let r = x[0] * theta[0] + x[1] * theta[1] - y;
            expected += theta[2] + 0.5 * (r / s).powi(2);
        }
        assert!((model.energy(&theta).unwrap() - expected).abs() < 1e-10 * expected);
    }
}

#[test]
fn the_anchor_makes_the_estimate_of_a_control_variate() {
    const N: usize = 400;
    for family in FAMILIES {
        let plain = model::<f64>(N, 6, family());
        let dim = plain.target().dim();
        let anchor: Vec<f64> = somewhere(dim, 4).iter().map(|x| f64::from(*x as f32)).collect();
        let near: Vec<f64> = anchor.iter().map(|x| x + 0.01).collect();
        let mut wrapped = ControlVariate::<_, f64>::new(plain.clone(), 1_000).unwrap();
        wrapped.refresh(&anchor, &Batch::full()).unwrap();
        let mut fused = plain.clone().with_anchor(&anchor).unwrap();
        let mut plain = plain;
        let full = gradient(&mut plain, &near, &Batch::full());
        let (mut mean, mut noise, mut plain_noise) = (vec![0.0; dim], 0.0, 0.0);
        let all: Vec<u32> = (0..N as u32).collect();
        for batch in all.chunks(20) {
            let batch = Batch::of(batch);
            let expected = gradient(&mut wrapped, &near, &batch);
            let found = gradient(&mut fused, &near, &batch);
            let alone = gradient(&mut plain, &near, &batch);
            for i in 0..dim {
                assert!((found[i] - expected[i]).abs() < 1e-13 * (1.0 + expected[i].abs()));
                mean[i] += found[i] / (N / 20) as f64;
                noise += (found[i] - full[i]).powi(2);
                plain_noise += (alone[i] - full[i]).powi(2);
            }
        }
        assert!(noise < 3e-3 * plain_noise, "{noise} {plain_noise}");
        for (a, b) in mean.iter().zip(&full) {
            assert!((a - b).abs() < 1e-13, "the estimate is biased: {a} {b}");
        }
        let at = gradient(&mut fused, &anchor, &Batch::of(&[1, 2, 3]));
        assert_eq!(at, gradient(&mut fused, &anchor, &Batch::full()));
    }
}

#[test]
fn a_checkpoint_of_either_precision_keeps_the_anchor() {
    fn keeps<F: Real>() {
        let plain = model::<f64>(60, 3, Family::linear());
        let theta = somewhere(plain.target().dim(), 4);
        let narrow: Vec<F> = theta.iter().map(|x| F::from_f64(x + 0.1)).collect();
        let mut anchored = plain.clone().with_anchor(&theta).unwrap();
        let mut restored = plain;
        let state: Vec<(String, Vec<F>)> = Potential::<F>::state(&anchored)
            .into_iter()
            .map(|(name, vector)| (name.to_string(), vector))
            .collect();
        restored.restore(&state).unwrap();
        let batch = Batch::of(&[4, 5]);
        assert_eq!(
            gradient(&mut anchored, &narrow, &batch),
            gradient(&mut restored, &narrow, &batch)
        );
        assert!(restored.restore(&[("other".to_string(), narrow.clone())]).is_err());
        let short = [(state[0].0.clone(), narrow[1..].to_vec())];
        assert!(restored.restore(&short).is_err());
        Potential::<F>::restore(&mut restored, &[]).unwrap();
        assert!(restored.anchor().is_none());
    }
    keeps::<f32>();
    keeps::<f64>();
}

#[test]
fn wrong_lengths_and_batches_are_refused() {
    let mut model = model::<f64>(20, 3, Family::linear());
    let (theta, mut g) = (vec![0.0; 5], vec![0.0; 5]);
    assert!(model.loss_gradient(&theta[1..], &Batch::full(), &mut g).is_err());
    assert!(model.loss_gradient(&theta, &Batch::full(), &mut g[1..]).is_err());
    assert!(model.loss_gradient(&theta, &Batch::of(&[20]), &mut g).is_err());
    assert!(model.loss_gradient(&theta, &Batch::of(&[]), &mut g).is_err());
    assert!(model.energy(&theta[1..]).is_err() && model.original(&theta[1..]).is_err());
    assert!(model.set_anchor(&theta[1..]).is_err());
    assert!(model.set_anchor(&[0.0, 0.0, f64::NAN, 0.0, 0.0]).is_err());
    assert!(model.predictor(&theta, &[1.0]).is_err());
    let nan = [f64::NAN; 5];
    assert!(model.loss_gradient(&nan, &Batch::full(), &mut g).unwrap().is_nan());
}

#[test]
fn a_parameter_that_is_not_finite_has_no_finite_loss() {
    for family in FAMILIES {
        let mut model = model::<f64>(20, 3, family());
        let mut theta = vec![0.0; model.target().dim()];
        theta[2] = f64::NAN;
        assert!(model.energy(&theta).unwrap().is_nan());
    }
}

#[test]
fn responses_that_do_not_fit_are_refused_by_row() {
    let design = || Design::new(["a"], &[1.0, 2.0], true, Scaling::default()).unwrap();
    let refusal = |response: &[f64], family: Family| {
        Regression::<f64>::new(design(), response, family, Prior::Flat).unwrap_err().to_string()
    };
    assert!(refusal(&[1.0, 2.0], Family::logistic()).contains("2 in row 2; it must be 0 or 1"));
    assert!(refusal(&[f64::NAN, 2.0], Family::linear()).contains("NaN in row 1"));
    assert!(refusal(&[2.0, 2.0], Family::linear()).contains("constant"));
    assert!(refusal(&[2.0], Family::linear()).contains("1 responses for 2 rows"));
}

#[test]
fn groups_change_priors_by_name_and_leave_sigma_to_its_own() {
    let model = model::<f64>(20, 3, Family::linear());
    let flat = |model: &Regression, name: &str| {
        let segments = model.target().layout().segments();
        let place = segments.iter().position(|s| s.name() == name).unwrap();
        model.target().settings(place).prior == Prior::Flat
    };
    assert!(flat(&model, LOG_SIGMA) && !flat(&model, INTERCEPT));
    let model = model.with_group(Group::new(INTERCEPT).prior(Prior::Flat)).unwrap();
    assert!(flat(&model, INTERCEPT) && !flat(&model, COEFFICIENTS));
    let model = model.with_group(Group::new("*").prior(Prior::laplace(1.0))).unwrap();
    assert!(flat(&model, LOG_SIGMA) && !flat(&model, INTERCEPT));
    let model = model.with_named_segments().unwrap();
    let model = model.with_group(Group::new("x1").prior(Prior::Flat)).unwrap();
    assert!(flat(&model, "x1") && !flat(&model, "x2") && flat(&model, LOG_SIGMA));
}

#[test]
fn a_draw_on_the_original_scale_predicts_the_same() {
    let table =
        Table::from_csv("y,size,colour\n1,3,red\n4,1,blue\n7,9,green\n2,5,blue\n", None).unwrap();
    let design =
        Design::from_table(&table, &["size", "colour"], true, Scaling::Standardised).unwrap();
    let model = Regression::<f64>::linear(design, table.response("y").unwrap()).unwrap();
    assert_eq!(model.names(), ["intercept", "size", "colour=green", "colour=red", "sigma"]);
    let theta = [0.1, 0.2, -0.3, 0.4, -0.5];
    let draw = model.original(&theta).unwrap();
    let features = [6.0, 1.0, 0.0];
    let plain = draw[0] + features.iter().zip(&draw[1..]).map(|(x, b)| x * b).sum::<f64>();
    assert!((model.predictor(&theta, &features).unwrap() - plain).abs() < 1e-13);
    for (back, there) in model.fitted(&draw).unwrap().iter().zip(theta) {
        assert!((back - there).abs() < 1e-13, "{back} {there}");
    }
    assert!(model.fitted(&draw[1..]).is_err());
    let sd = (21.0f64 / 4.0).sqrt(); // of 1, 4, 7, 2
    assert!((draw[4] - sd * (-0.5f64).exp()).abs() < 1e-14);
    let error = Design::from_table(&table, &["sise"], true, Scaling::Standardised).unwrap_err();
    assert!(error.to_string().contains("did you mean `size`?"));
}

#[test]
fn the_mode_has_no_slope_and_the_hessian_is_that_of_the_energy() {
    const STEP: f64 = 1e-5;
    for family in FAMILIES {
        let mut model = model::<f64>(500, 9, family());
        let found = model.laplace().unwrap();
        let dim = found.mode.len();
        assert!((found.energy - model.energy(&found.mode).unwrap()).abs() < 1e-8);
        let mut slope = |theta: &[f64]| {
            let mut g = gradient(&mut model, theta, &Batch::full());
            model.target().full_gradient(theta, &mut g);
            g
        };
        assert!(slope(&found.mode).iter().all(|g| g.abs() < 1e-6), "{:?}", slope(&found.mode));
        for i in 0..dim {
            let mut at = |x: f64| {
                let mut moved = found.mode.clone();
                moved[i] += x;
                slope(&moved)
            };
            let (up, down) = (at(STEP), at(-STEP));
            for j in 0..dim {
                let expected = (up[j] - down[j]) / (2.0 * STEP);
                let rows = |r: usize| &found.factor[r * dim..(r + 1) * dim];
                let hessian: f64 = rows(i).iter().zip(rows(j)).map(|(a, b)| a * b).sum();
                assert!((hessian - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{i} {j}");
            }
        }
        let narrow = self::model::<f32>(500, 9, family()).laplace().unwrap();
        for i in 0..dim {
            let error = (narrow.mode[i] - found.mode[i]) / found.variances[i].sqrt();
            assert!(error.abs() < 1e-2 && found.variances[i] > 0.0);
        }
    }
}

#[test]
fn a_draw_of_the_gaussian_at_the_mode_has_the_hessian_as_precision() {
    let found = model::<f64>(100, 4, Family::linear()).laplace().unwrap();
    let (dim, xi) = (found.mode.len(), normals(5, found.mode.len()));
    let draw = found.draw(&xi);
    // L^T (draw - mode) = xi
    for j in 0..dim {
        let back: f64 =
            (j..dim).map(|i| found.factor[i * dim + j] * (draw[i] - found.mode[i])).sum();
        assert!((back - xi[j]).abs() < 1e-12);
    }
}

#[test]
fn posteriors_without_a_mode_are_refused() {
    let design = |rows: &[f64], names: &[&str]| {
        Design::new(names.to_vec(), rows, true, Scaling::default()).unwrap()
    };
    let rows = [-2.0, -1.0, 1.0, 2.0];
    let separate = [0.0, 0.0, 1.0, 1.0];
    let fit = |design: Design, y: &[f64], family: Family, prior: Prior| {
        Regression::<f64>::new(design, y, family, prior).unwrap().laplace()
    };
    let family = Family::logistic();
    let error = fit(design(&rows, &["a"]), &separate, family, Prior::Flat).unwrap_err();
    assert!(error.to_string().contains("Gaussian prior"));
    assert!(fit(design(&rows, &["a"]), &separate, family, Prior::gaussian(1.0)).is_ok());
    let twice: Vec<f64> = rows.iter().flat_map(|x| [*x, 2.0 * x]).collect();
    let fixed = Family::Gaussian { sigma: Sigma::Fixed { value: 1.0 } };
    let copies = || design(&twice, &["a", "b"]);
    assert!(fit(copies(), &[1.0, 0.0, 2.0, 1.0], fixed, Prior::Flat).is_err());
    assert!(fit(copies(), &[1.0, 0.0, 2.0, 1.0], fixed, Prior::gaussian(1.0)).is_ok());
}

#[test]
fn robust_regression_shrugs_at_outliers() {
    let (features, mut response) = data(200, 1, &Family::linear());
    let slope = |response: &[f64], family: Family| {
        let design = Design::new(["a"], &features, true, Scaling::Standardised).unwrap();
        let model = Regression::<f64>::new(design, response, family, Prior::gaussian(1e-4));
        let model = model.unwrap();
        model.original(&model.laplace().unwrap().mode).unwrap()[1]
    };
    let clean = slope(&response, Family::linear());
    for i in 0..10 {
        response[i] = 50.0 * features[i].signum() * -clean.signum();
    }
    let moved = |family| (slope(&response, family) - clean).abs();
    assert!(moved(Family::robust()) < 0.2);
    // Negative control.
    assert!(moved(Family::linear()) > 0.5);
}

/// Langevin steps on a conjugate posterior, whose mean and variance the Gaussian at the mode has.
#[test]
fn a_chain_with_an_anchor_samples_the_posterior() {
    let fixed = Family::Gaussian { sigma: Sigma::Fixed { value: 1.0 } };
    let model = model::<f64>(400, 2, fixed);
    let exact = model.laplace().unwrap();
    let model = model.with_anchor(&exact.mode).unwrap();
    let stepper = Sgld::new(Rate::eta(4e-4)).init::<f64>(model.target(), 7).unwrap();
    let mut chain =
        Chain::new(model, stepper, exact.mode.clone(), Sampling::WithReplacement, 20).unwrap();
    let (mut n, mut mean, mut square) = (0.0, [0.0; 3], [0.0; 3]);
    for _ in 0..8_000 {
        chain.advance(1).unwrap();
        n += 1.0;
        for i in 0..3 {
            let z = (chain.theta()[i] - exact.mode[i]) / exact.variances[i].sqrt();
            mean[i] += z;
            square[i] += z * z;
        }
    }
    for i in 0..3 {
        let (mean, square) = (mean[i] / n, square[i] / n);
        assert!(mean.abs() < 0.3 && (square - 1.0).abs() < 0.3, "{mean} {square}");
    }
}
