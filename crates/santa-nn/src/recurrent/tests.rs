//! Losses and gradients against the reference, differences, and themselves.

use super::architecture::Parameters;
use super::reference::step_losses;
use super::*;
use crate::kernels::Scalar;
use santa::noise::{Purpose, Stream};
use santa::{Batch, Layout};

const NORMALISATIONS: [Normalisation; 3] =
    [Normalisation::SequenceMean, Normalisation::StepMean, Normalisation::SequenceSum];

/// Random music of sequences of given lengths, a third of the keys down.
fn music(keys: usize, lengths: &[usize]) -> PianoRolls {
    let stream = Stream::new(5, 0, Purpose::Data);
    let offsets: Vec<usize> = std::iter::once(0)
        .chain(lengths.iter().scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        }))
        .collect();
    let count = (offsets[lengths.len()] * keys) as u32;
    let values: Vec<u8> = (0..count).map(|i| u8::from(stream.below(0, 0, i, 3) == 0)).collect();
    PianoRolls::new(keys, values, offsets).unwrap()
}

/// Parameters with no structure, biases included.
fn parameters<F: Scalar>(layout: &Layout) -> Vec<F> {
    const SCALE: f64 = 0.4;
    let mut theta = vec![0.0; layout.dim()];
    Stream::new(6, 0, Purpose::Custom(1)).normals(0, 0, 0, &mut theta);
    theta.iter().map(|x: &f64| F::from_f64(SCALE * x)).collect()
}

fn reference_loss(
    architecture: GruArchitecture,
    theta: &[f64],
    rolls: &PianoRolls,
    batch: &[u32],
    normalisation: Normalisation,
) -> f64 {
    let losses: Vec<Vec<f64>> = batch
        .iter()
        .map(|i| step_losses(architecture, theta, rolls.sequence(*i as usize), |_| ()))
        .collect();
    let sums = losses.iter().map(|steps| steps.iter().sum::<f64>());
    let count = batch.len() as f64;
    match normalisation {
        Normalisation::SequenceMean => {
            sums.zip(&losses).map(|(sum, steps)| sum / steps.len() as f64).sum::<f64>() / count
        }
        Normalisation::StepMean => {
            sums.sum::<f64>() / losses.iter().map(Vec::len).sum::<usize>() as f64
        }
        Normalisation::SequenceSum => sums.sum::<f64>() / count,
    }
}

/// Sizes with halves of one, no, odd, even numbers of units, of less and more than a register.
const SIZES: [(usize, usize); 6] = [(1, 1), (3, 2), (2, 5), (7, 16), (9, 33), (88, 70)];

#[test]
fn losses_are_those_of_the_equations() {
    for (keys, hidden) in SIZES {
        let architecture = GruArchitecture { keys, hidden };
        let mut gru = Gru::<f64>::new(architecture).unwrap();
        let theta = parameters::<f64>(gru.layout());
        let rolls = music(keys, &[4, 1, 7, 2, 7, 3]);
        for batch in [&[0][..], &[1], &[3, 1], &[5, 4, 3, 2, 1, 0], &[2, 2, 2, 1, 2, 2]] {
            for normalisation in NORMALISATIONS {
                let expected = reference_loss(architecture, &theta, &rolls, batch, normalisation);
                let batch = Batch::of(batch);
                let loss = gru.loss(&theta, &rolls, &batch, normalisation).unwrap();
                assert!((loss - expected).abs() < 1e-12 * expected, "{loss} {expected}");
                let mut gradient = vec![f64::NAN; theta.len()];
                let again = gru
                    .loss_gradient(&theta, &rolls, &batch, normalisation, &mut gradient)
                    .unwrap();
                assert_eq!(loss, again);
                assert!(gradient.iter().all(|x| x.is_finite()));
            }
        }
        let nll = gru.nll(&theta, &rolls).unwrap();
        let all = [0, 1, 2, 3, 4, 5];
        let mean = reference_loss(architecture, &theta, &rolls, &all, Normalisation::StepMean);
        assert!((nll.per_step() - mean).abs() < 1e-12 * mean && nll.steps == 24);
    }
}

#[test]
fn gradients_match_differences_of_the_reference_for_every_parameter() {
    const STEP: f64 = 1e-5;
    const TOLERANCE: f64 = 1e-8;
    let rolls = music(3, &[1, 9, 4, 6, 2, 5]);
    for hidden in [1, 2, 5, 18] {
        let architecture = GruArchitecture { keys: 3, hidden };
        let mut gru = Gru::<f64>::new(architecture).unwrap();
        let mut theta = parameters::<f64>(gru.layout());
        let mut gradient = vec![f64::NAN; theta.len()];
        for batch in [&[0][..], &[1], &[2, 0], &[5, 4, 3, 2, 1, 0]] {
            for normalisation in NORMALISATIONS {
                gru.loss_gradient(&theta, &rolls, &Batch::of(batch), normalisation, &mut gradient)
                    .unwrap();
                for i in 0..theta.len() {
                    let center = theta[i];
                    let [above, below] = [center + STEP, center - STEP].map(|x| {
                        theta[i] = x;
                        reference_loss(architecture, &theta, &rolls, batch, normalisation)
                    });
                    theta[i] = center;
                    let slope = (above - below) / (2.0 * STEP);
                    assert!(
                        (slope - gradient[i]).abs() < TOLERANCE * (1.0 + slope.abs()),
                        "hidden {hidden}, batch {batch:?}, parameter {i}: {slope} {}",
                        gradient[i]
                    );
                }
            }
        }
    }
}

/// The probabilities of all keys at all steps, straight from the equations.
fn reference_probabilities(
    architecture: GruArchitecture,
    theta: &[f64],
    rolls: &PianoRolls,
) -> Vec<f64> {
    let GruArchitecture { keys, hidden } = architecture;
    let Parameters { output, output_bias, .. } = Parameters::new(architecture, theta);
    let mut probabilities = Vec::new();
    for sequence in 0..rolls.len() {
        step_losses(architecture, theta, rolls.sequence(sequence), |h| {
            probabilities.extend((0..keys).map(|k| {
                let logit = (0..hidden).map(|j| h[j] * output[j * keys + k]).sum::<f64>();
                1.0 / (1.0 + (-logit - output_bias[k]).exp())
            }));
        });
    }
    probabilities
}

#[test]
fn probabilities_are_those_of_the_equations_in_the_order_of_the_rolls() {
    for (keys, hidden) in SIZES {
        let architecture = GruArchitecture { keys, hidden };
        let mut gru = Gru::<f64>::new(architecture).unwrap();
        let theta = parameters::<f64>(gru.layout());
        // The last has more than a stretch of rows, and more than a group.
        for lengths in [&[1][..], &[2, 3], &[4, 1, 7, 2, 7, 3, 90, 5, 33]] {
            let rolls = music(keys, lengths);
            let probabilities = gru.probabilities(&theta, &rolls).unwrap();
            let expected = reference_probabilities(architecture, &theta, &rolls);
            assert_eq!(probabilities.len(), expected.len());
            for (i, (p, expected)) in probabilities.iter().zip(&expected).enumerate() {
                assert!((p - expected).abs() < 1e-13, "step {}: {p} {expected}", i / keys);
            }
        }
    }
}

/// How far the likelihood of the probabilities is from that of the network, as a share of it.
fn disagreement<F: Scalar>(architecture: GruArchitecture, rolls: &PianoRolls) -> f64 {
    let mut gru = Gru::<F>::new(architecture).unwrap();
    let theta = parameters::<F>(gru.layout());
    let probabilities = gru.probabilities(&theta, rolls).unwrap();
    let wide: Vec<f64> = probabilities.iter().map(|p| p.to_f64()).collect();
    let scored = rolls.nll_of_probabilities(&wide).unwrap();
    let nll = gru.nll(&theta, rolls).unwrap();
    assert_eq!(scored.steps, nll.steps);
    (scored.sum / nll.sum - 1.0).abs()
}

#[test]
fn the_likelihood_of_probabilities_is_that_of_the_network() {
    // The second one comes in several waves.
    for (keys, hidden, lengths) in [(88, 70, &[40, 7, 60, 1][..]), (4, 20, &[700; 14])] {
        let (architecture, rolls) = (GruArchitecture { keys, hidden }, music(keys, lengths));
        let (narrow, wide) =
            (disagreement::<f32>(architecture, &rolls), disagreement::<f64>(architecture, &rolls));
        assert!(wide < 1e-13 && narrow < 1e-6, "{wide:e} {narrow:e}");
    }
}

/// Enough sequences for several waves.
#[test]
fn a_batch_in_several_waves_has_the_mean_gradient_of_its_sequences() {
    let architecture = GruArchitecture { keys: 4, hidden: 20 };
    let rolls = music(4, &[700; 14]);
    let mut gru = Gru::<f64>::new(architecture).unwrap();
    let theta = parameters::<f64>(gru.layout());
    let mut whole = vec![f64::NAN; theta.len()];
    let sum = Normalisation::SequenceSum;
    let loss = gru.loss_gradient(&theta, &rolls, &Batch::full(), sum, &mut whole).unwrap();
    let (mut mean, mut mean_loss) = (vec![0.0; theta.len()], 0.0);
    for i in 0..rolls.len() as u32 {
        let mut one = vec![f64::NAN; theta.len()];
        mean_loss += gru.loss_gradient(&theta, &rolls, &Batch::of(&[i]), sum, &mut one).unwrap()
            / rolls.len() as f64;
        mean.iter_mut().zip(&one).for_each(|(to, x)| *to += x / rolls.len() as f64);
    }
    assert!((loss / mean_loss - 1.0).abs() < 1e-13);
    for (a, b) in whole.iter().zip(&mean) {
        assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn single_precision_gives_what_double_precision_gives() {
    const TOLERANCE: f64 = 2e-5;
    for (keys, hidden) in [(88, 200), (5, 33)] {
        let architecture = GruArchitecture { keys, hidden };
        let rolls = music(keys, &[40, 7, 60]);
        let (mut narrow, mut wide) =
            (Gru::<f32>::new(architecture).unwrap(), Gru::<f64>::new(architecture).unwrap());
        let theta = architecture.initial::<f32>(GruInitialisation::default(), 1, 0).unwrap();
        let theta_wide: Vec<f64> = theta.iter().map(|x| f64::from(*x)).collect();
        let (mut g, mut g_wide) = (vec![0.0f32; theta.len()], vec![0.0f64; theta.len()]);
        let (batch, step) = (Batch::full(), Normalisation::SequenceMean);
        let loss = narrow.loss_gradient(&theta, &rolls, &batch, step, &mut g).unwrap();
        let exact = wide.loss_gradient(&theta_wide, &rolls, &batch, step, &mut g_wide).unwrap();
        assert!((loss - exact).abs() < 1e-6 * exact);
        for segment in wide.layout().segments() {
            let largest = g_wide[segment.range()].iter().fold(0.0, |a: f64, x| a.max(x.abs()));
            for i in segment.range() {
                let error = (f64::from(g[i]) - g_wide[i]).abs();
                assert!(error <= TOLERANCE * largest, "{} {i}: {error}", segment.name());
            }
        }
    }
}

fn same_bits<F: Scalar>() {
    let architecture = GruArchitecture { keys: 11, hidden: 130 };
    let rolls = music(11, &[90, 3, 40, 60, 61, 1, 300]);
    let theta = architecture.initial::<F>(GruInitialisation::default(), 1, 0).unwrap();
    for batch in [&[6][..], &[0, 3], &[0, 1, 2, 3, 4, 5, 6]] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut gru = Gru::<F>::new(architecture).unwrap();
            let mut gradient = vec![F::ZERO; theta.len()];
            // More than once: helpers come and go.
            (0..20)
                .map(|_| {
                    let loss = pool.install(|| {
                        gru.loss_gradient(
                            &theta,
                            &rolls,
                            &Batch::of(batch),
                            Normalisation::SequenceMean,
                            &mut gradient,
                        )
                    });
                    (loss.unwrap(), gradient.clone())
                })
                .collect::<Vec<_>>()
        };
        let alone = run(1);
        for threads in [1, 2, 4] {
            assert!(run(threads).iter().all(|result| *result == alone[0]), "{threads} threads");
        }
    }
}

#[test]
fn gradients_have_the_same_bits_for_any_number_of_threads() {
    same_bits::<f32>();
    same_bits::<f64>();
}

fn same_probabilities<F: Scalar>() {
    let architecture = GruArchitecture { keys: 11, hidden: 130 };
    let rolls = music(11, &[90, 3, 40, 60, 61, 1, 300]);
    let theta = architecture.initial::<F>(GruInitialisation::default(), 1, 0).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Gru::<F>::new(architecture).unwrap().probabilities(&theta, &rolls).unwrap())
    };
    let alone = run(1);
    for threads in [2, 3, 4] {
        assert!(run(threads) == alone, "{threads} threads");
    }
}

#[test]
fn probabilities_have_the_same_bits_for_any_number_of_threads() {
    same_probabilities::<f32>();
    same_probabilities::<f64>();
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let mut gru = Gru::<f64>::new(GruArchitecture { keys: 3, hidden: 2 }).unwrap();
    let rolls = music(3, &[2, 2]);
    let dim = gru.layout().dim();
    let (theta, mut gradient) = (vec![0.0; dim], vec![0.0; dim]);
    let mean = Normalisation::SequenceMean;
    let full = Batch::full();
    let long = vec![0.0; dim + 1];
    let errors = [
        (gru.loss(&long, &rolls, &full, mean), "theta has"),
        (gru.loss_gradient(&theta, &rolls, &full, mean, &mut long.clone()), "the gradient"),
        (gru.loss(&theta, &music(4, &[2]), &full, mean), "4 keys, the network 3"),
        (gru.loss(&theta, &rolls, &Batch::of(&[2]), mean), "datum 2"),
        (gru.loss_gradient(&theta, &rolls, &Batch::of(&[]), mean, &mut gradient), "batch is empty"),
        (gru.probabilities(&long, &rolls).map(|p| p[0]), "theta has"),
        (gru.probabilities(&theta, &music(4, &[2])).map(|p| p[0]), "4 keys, the network 3"),
    ];
    for (result, reason) in errors {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
