//! Networks whose minibatches are divided have the gradients of the whole, dropout included.

use santa::noise::{Purpose, Stream};
use santa::{Batch, Chain, Potential, Prior, Sampling, Santa};
use santa_distributed::{Shared, Summing, Threads};
use santa_nn::{
    Architecture, Classifier, Examples, GruArchitecture, Normalisation, PianoRolls, SequenceModel,
};

const CLASSES: usize = 4;
const WIDTH: usize = 30;
const BATCH: [u32; 23] =
    [3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 97, 93, 23, 84, 62, 64, 33, 83, 27, 95, 0, 28, 84];
/// The order of additions of single precision, beside the largest element.
const ROUNDING: f32 = 1e-5;

fn examples() -> Examples {
    let stream = Stream::new(1, 0, Purpose::Data);
    let mut values = vec![0.0f32; 100 * WIDTH];
    stream.normals(0, 0, 0, &mut values);
    let labels: Vec<u8> = (0..100).map(|i| (i % CLASSES) as u8).collect();
    Examples::from_f32(values, WIDTH, labels).unwrap()
}

fn classifier() -> Classifier<f32> {
    // Long enough for several pieces.
    let network = Architecture::dense(&[WIDTH, 600, 100, CLASSES]).with_dropout(0.2, 0.5);
    Classifier::new(&network, examples(), Prior::gaussian(1.0)).unwrap()
}

fn music(normalisation: Normalisation) -> SequenceModel<f32> {
    let stream = Stream::new(2, 0, Purpose::Data);
    // Of one step to twenty.
    let mut offsets = vec![0];
    offsets.extend((1..=100).scan(0, |end, i| {
        *end += i * i % 20 + 1;
        Some(*end)
    }));
    let cells = 5 * offsets[100];
    let values: Vec<u8> =
        (0..cells).map(|i| u8::from(stream.uniform(0, 0, i as u32) < 0.2)).collect();
    let rolls = PianoRolls::new(5, values, offsets).unwrap();
    let architecture = GruArchitecture { keys: 5, hidden: 7 };
    SequenceModel::new(architecture, rolls, normalisation, Prior::gaussian(1.0)).unwrap()
}

fn batch() -> Batch<'static> {
    Batch::of(&BATCH).seeded(7, 0).at_step(3)
}

fn gradient(model: &mut impl Potential<f32>, theta: &[f32]) -> (f64, Vec<f32>) {
    let mut gradient = vec![f32::NAN; theta.len()];
    let loss = model.loss_gradient(theta, &batch(), &mut gradient).unwrap();
    (loss, gradient)
}

/// The largest difference, in units of the largest element.
fn worst(a: &[f32], b: &[f32]) -> f32 {
    let largest = b.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

fn agrees<P: Potential<f32>>(model: impl Fn() -> P + Sync, theta: &[f32]) {
    let (loss, whole) = gradient(&mut model(), theta);
    for summing in [Summing::Once, Summing::Overlapped, Summing::Ordered { parts: 5 }] {
        for size in 1..=5 {
            let all = Threads::run(size, |team| {
                let mut shared = Shared::new(model(), team, summing).unwrap();
                gradient(&mut shared, theta)
            });
            for (rank, (l, g)) in all.iter().enumerate() {
                let off = worst(g, &whole);
                assert!(off < ROUNDING, "{summing:?}, {rank} of {size}: {off}");
                assert!((l - loss).abs() < 1e-5 * loss, "{summing:?}: {l} {loss}");
                assert_eq!(*g, all[0].1);
            }
        }
    }
}

#[test]
fn a_classifier_with_dropout_has_the_gradient_of_the_whole_batch() {
    let theta = classifier().initial(1, 0).to_vec();
    agrees(classifier, &theta);
}

#[test]
fn music_has_it_under_every_normalisation() {
    let normalisations =
        [Normalisation::SequenceMean, Normalisation::StepMean, Normalisation::SequenceSum];
    for normalisation in normalisations {
        let theta = music(normalisation).initial(1, 0).to_vec();
        agrees(|| music(normalisation), &theta);
    }
}

/// Negative control: parts that take themselves for the whole draw other dropout masks.
#[test]
fn parts_must_know_where_they_begin() {
    let mut model = classifier();
    let theta = model.initial(1, 0).to_vec();
    let (_, whole) = gradient(&mut model, &theta);
    let (first, second) = BATCH.split_at(11);
    let mut sum = |begin: usize| {
        let mut sum = vec![0.0f32; theta.len()];
        let mut part = vec![0.0; theta.len()];
        for (indices, begin) in [(first, 0), (second, begin)] {
            let batch = batch().with_indices(indices).beginning_at(begin);
            model.loss_gradient(&theta, &batch, &mut part).unwrap();
            let share = indices.len() as f32 / BATCH.len() as f32;
            sum.iter_mut().zip(&part).for_each(|(sum, g)| *sum += share * g);
        }
        worst(&sum, &whole)
    };
    assert!(sum(11) < ROUNDING);
    assert!(sum(0) > 1e3 * ROUNDING);
}

#[test]
fn pieces_are_the_gradient_bit_for_bit() {
    let mut model = classifier();
    let theta = model.initial(1, 0).to_vec();
    let (loss, whole) = gradient(&mut model, &theta);
    let mut pieces = vec![f32::NAN; theta.len()];
    let mut firsts = Vec::new();
    let mut last = theta.len();
    let again = model.loss_gradient_pieces(&theta, &batch(), &mut pieces, &mut |first, piece| {
        assert_eq!(first + piece.len(), last);
        last = first;
        firsts.push(first);
    });
    assert_eq!((again.unwrap(), pieces), (loss, whole));
    assert!(firsts.len() > 1 && firsts.last() == Some(&0), "{firsts:?}");
}

/// One member has more than a network computes at once, the other has not.
#[test]
fn pieces_are_the_same_for_parts_of_any_size() {
    let indices: Vec<u32> = (0..2_049).map(|i| i * 7 % 100).collect();
    let theta = classifier().initial(1, 0).to_vec();
    let of = |model: &mut dyn Potential<f32>| {
        let mut gradient = vec![0.0; theta.len()];
        model.loss_gradient(&theta, &Batch::of(&indices).seeded(1, 0), &mut gradient).unwrap();
        gradient
    };
    let whole = of(&mut classifier());
    let both = Threads::run(2, |team| {
        of(&mut Shared::new(classifier(), team, Summing::Overlapped).unwrap())
    });
    assert!(worst(&both[0], &whole) < ROUNDING && both[0] == both[1]);
}

/// A whole run: the same bits for any number of members with sums in a fixed order, and only then.
#[test]
fn a_trajectory_does_not_depend_on_the_number_of_members() {
    let run = |size: usize, summing: Summing| {
        let mut all = Threads::run(size, |team| {
            let shared = Shared::new(classifier(), team, summing).unwrap();
            let theta = shared.potential().initial(1, 0).to_vec();
            let stepper = Santa::new(1e-3, 40).init::<f32>(shared.target(), 5).unwrap();
            let sampling = Sampling::ShuffledEpochs;
            let mut chain = Chain::new(shared, stepper, theta, sampling, 20).unwrap();
            chain.advance(20).unwrap();
            chain.theta().to_vec()
        });
        let first = all.swap_remove(0);
        assert!(all.iter().all(|other| *other == first));
        first
    };
    let ordered = Summing::Ordered { parts: 4 };
    let alone = run(1, ordered);
    for size in 2..=4 {
        assert!(run(size, ordered) == alone, "{size} members");
    }
    let plain = run(2, Summing::Once);
    assert!(plain != alone);
    assert!(worst(&plain, &alone) < 1e-3);
}

#[test]
fn a_nan_of_one_member_stops_all_at_the_same_step() {
    let errors = Threads::run(3, |team| {
        let mut values = vec![0.5f32; 12];
        if santa_distributed::Team::rank(&team) == 1 {
            values[5] = f32::NAN;
        }
        let data = Examples::from_f32(values, 2, vec![0u8, 1, 0, 1, 0, 1]).unwrap();
        let network = Architecture::dense(&[2, 3, 2]);
        let model = Classifier::<f32>::new(&network, data, Prior::Flat).unwrap();
        let theta = model.initial(1, 0).to_vec();
        let shared = Shared::new(model, team, Summing::Once).unwrap();
        let stepper = Santa::new(1e-3, 10).init::<f32>(shared.target(), 5).unwrap();
        let mut chain = Chain::new(shared, stepper, theta, Sampling::Full, 6).unwrap();
        chain.advance(10).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("at step 1") && *error == errors[0]));
}
