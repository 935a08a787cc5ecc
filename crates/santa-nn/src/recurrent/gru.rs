//! The GRU at work: loss, gradient and predictions of a batch of sequences.

use super::architecture::{Gradient, GruArchitecture, Parameters};
use super::gradient::{HalfRows, Rows};
use super::halves::{self, HalfWorkspace, cut, grow};
use super::output::{Outputs, STRETCH};
use super::plan::Plan;
use super::rolls::PianoRolls;
use super::weights::HalfWeights;
use crate::compiled::Pass;
use crate::kernels::{Buffer, Scalar, zeros};
use crate::parallel::spread;
use santa::{Batch, DataSize, Error, Layout, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What the loss of a batch is the mean of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// The authors': the mean over the steps of each sequence, averaged over the sequences. Long
    /// sequences count as much as short ones.
    #[default]
    SequenceMean,
    /// The sum over all steps of the batch, divided by their number.
    StepMean,
    /// The sum over the steps of each sequence, averaged over the sequences: minus the logarithm of
    /// the likelihood of a sequence. With N = number of sequences this gives the posterior.
    SequenceSum,
}

/// A negative log-likelihood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nll {
    /// Summed over all steps of all sequences.
    pub sum: f64,
    /// Number of steps.
    pub steps: usize,
}

impl Nll {
    /// Per step, as the paper reports it.
    pub fn per_step(&self) -> f64 {
        self.sum / self.steps as f64
    }
}

/// A gated recurrent unit with buffers for its passes, which grow to the longest batch seen.
///
/// The equations are those of [the module](super).
#[derive(Debug)]
pub struct Gru<F: Scalar> {
    architecture: GruArchitecture,
    layout: Layout,
    weights: [HalfWeights<F>; 2],
    plan: Plan,
    workspace: Workspace<F>,
    phases: Phases,
}

/// How long the phases of the last call took, for the benchmark.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    pub prepare: Duration,
    pub forward: Duration,
    pub outputs: Duration,
    pub backward: Duration,
    pub gradient: Duration,
}

/// A pass over some sequences.
pub(crate) struct Task<'a, 'b, F> {
    theta: &'a [F],
    rolls: &'a PianoRolls,
    batch: &'a Batch<'b>,
    normalisation: Normalisation,
    wanted: Wanted<'a, F>,
}

/// What a pass is for, besides the loss.
enum Wanted<'a, F> {
    Loss,
    Gradient(&'a mut [F]),
    /// Of all keys at all steps, in the order of the rolls.
    Probabilities(&'a mut [F]),
}

#[derive(Debug)]
struct Workspace<F: Scalar> {
    halves: [HalfWorkspace<F>; 2],
    /// Logits, then the derivatives by them, or probabilities.
    logits: Buffer<F>,
    /// The loss of each row.
    losses: Vec<f64>,
    /// The loss of each sequence of the batch.
    sums: Vec<f64>,
    /// Each sequence's weight in the gradient.
    weights: Vec<F>,
    /// Biases of the outputs, in whole lines.
    output_bias: Buffer<F>,
    /// The gradient of the recurrent matrix, by the halves that its columns belong to, and of the
    /// output matrix.
    blocks: [Buffer<F>; 3],
}

impl<F: Scalar> Gru<F> {
    /// A network of these sizes.
    pub fn new(architecture: GruArchitecture) -> Result<Self> {
        let layout = architecture.layout()?;
        let workspace = Workspace {
            halves: [HalfWorkspace::new(), HalfWorkspace::new()],
            logits: zeros(0),
            losses: Vec::new(),
            sums: Vec::new(),
            weights: Vec::new(),
            output_bias: zeros(Outputs::<F>::width(architecture.keys)),
            blocks: [zeros(0), zeros(0), zeros(0)],
        };
        let weights = HalfWeights::new(architecture);
        Ok(Gru {
            architecture,
            layout,
            weights,
            plan: Plan::default(),
            workspace,
            phases: Phases::default(),
        })
    }

    /// Its sizes.
    pub fn architecture(&self) -> GruArchitecture {
        self.architecture
    }
    /// Bytes of the buffers that it holds now.
    pub fn memory(&self) -> usize {
        let Workspace { halves, logits, output_bias, blocks, .. } = &self.workspace;
        let elements = halves.iter().map(HalfWorkspace::len).sum::<usize>()
            + blocks.iter().map(|block| block.len()).sum::<usize>()
            + self.weights.iter().map(HalfWeights::len).sum::<usize>()
            + logits.len()
            + output_bias.len();
        elements * F::BYTES
    }
    /// Names and shapes of its parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    #[doc(hidden)]
    pub fn phases(&self) -> Phases {
        self.phases
    }

    /// The loss of some sequences, without the gradient.
    pub fn loss(
        &mut self,
        theta: &[F],
        rolls: &PianoRolls,
        batch: &Batch<'_>,
        normalisation: Normalisation,
    ) -> Result<f64> {
        self.run(theta, rolls, batch, normalisation, Wanted::Loss)
    }

    /// The loss of some sequences, and its gradient.
    pub fn loss_gradient(
        &mut self,
        theta: &[F],
        rolls: &PianoRolls,
        batch: &Batch<'_>,
        normalisation: Normalisation,
        gradient: &mut [F],
    ) -> Result<f64> {
        self.layout.check_len("the gradient", gradient.len())?;
        self.run(theta, rolls, batch, normalisation, Wanted::Gradient(gradient))
    }

    /// The negative log-likelihood of all sequences.
    pub fn nll(&mut self, theta: &[F], rolls: &PianoRolls) -> Result<Nll> {
        self.run(theta, rolls, &Batch::full(), Normalisation::StepMean, Wanted::Loss)?;
        Ok(Nll { sum: self.workspace.sums.iter().sum(), steps: rolls.steps() })
    }

    /// The probability of each key to be down at each step of all sequences, given the steps before:
    /// total steps x keys, in the order of the rolls.
    ///
    /// [`PianoRolls::nll_of_probabilities`] scores them, or their average over several parameters.
    pub fn probabilities(&mut self, theta: &[F], rolls: &PianoRolls) -> Result<Vec<F>> {
        let mut probabilities = vec![F::ZERO; rolls.steps() * rolls.keys()];
        let wanted = Wanted::Probabilities(&mut probabilities);
        self.run(theta, rolls, &Batch::full(), Normalisation::StepMean, wanted)?;
        Ok(probabilities)
    }

    /// Refuses music on another number of keys.
    pub(super) fn check_rolls(&self, rolls: &PianoRolls) -> Result<()> {
        let (found, keys) = (rolls.keys(), self.architecture.keys);
        if found == keys {
            return Ok(());
        }
        Err(Error::Structure(format!("the piano rolls have {found} keys, the network {keys}")))
    }

    fn run(
        &mut self,
        theta: &[F],
        rolls: &PianoRolls,
        batch: &Batch<'_>,
        normalisation: Normalisation,
        wanted: Wanted<'_, F>,
    ) -> Result<f64> {
        self.layout.check_len("theta", theta.len())?;
        self.check_rolls(rolls)?;
        batch.check(DataSize::new(rolls.len() as u64)?)?;
        let task = Pass(Task { theta, rolls, batch, normalisation, wanted });
        #[cfg(feature = "parallel")]
        {
            // In the pool from the beginning to the end, instead of once for each phase.
            Ok(rayon::scope(|_| F::recur(self, task)))
        }
        #[cfg(not(feature = "parallel"))]
        Ok(F::recur(self, task))
    }

    /// Called through the element type, so that it is compiled in this crate.
    pub(crate) fn step(&mut self, task: Task<'_, '_, F>) -> f64 {
        let Task { theta, rolls, batch, normalisation, mut wanted } = task;
        let parameters = Parameters::new(self.architecture, theta);
        let begin = Instant::now();
        self.prepare(&parameters, matches!(wanted, Wanted::Gradient(_)));
        self.phases = Phases { prepare: begin.elapsed(), ..Phases::default() };
        let sequences = batch.len(rolls.len());
        let total: usize = batch.iter(rolls.len()).map(|i| rolls.steps_of(i)).sum();
        let weight = |sequence: usize| {
            1.0 / match normalisation {
                Normalisation::SequenceMean => (sequences * rolls.steps_of(sequence)) as f64,
                Normalisation::StepMean => total as f64,
                Normalisation::SequenceSum => sequences as f64,
            }
        };
        let workspace = &mut self.workspace;
        workspace.weights.clear();
        let weights = batch.iter(rolls.len()).map(|sequence| F::from_f64(weight(sequence)));
        workspace.weights.extend(weights);
        workspace.sums.clear();
        workspace.sums.resize(sequences, 0.0);
        self.plan.start(rolls, batch.iter(rolls.len()));
        let mut first = true;
        while self.plan.next_wave(rolls) {
            self.wave(&parameters, rolls, &mut wanted, first);
            first = false;
        }
        let losses = batch.iter(rolls.len()).zip(&self.workspace.sums);
        losses.map(|(sequence, sum)| weight(sequence) * sum).sum()
    }

    fn prepare(&mut self, parameters: &Parameters<'_, F>, backward: bool) {
        let [a, b] = &mut self.weights;
        let ranges = [a.units.range.clone(), b.units.range.clone()];
        let [first, second] = &ranges;
        spread(vec![(a, second), (b, first)], |(half, other)| {
            half.prepare(other, parameters);
            if backward {
                half.prepare_backward(other, parameters);
            }
        });
    }

    /// The loss of a wave, and what else is wanted of it; its gradient is added, or overwrites what was
    /// there if it is the first.
    fn wave(
        &mut self,
        parameters: &Parameters<'_, F>,
        rolls: &PianoRolls,
        wanted: &mut Wanted<'_, F>,
        first: bool,
    ) {
        let Gru { architecture, weights, plan, workspace, phases, .. } = self;
        let (keys, rows) = (architecture.keys, plan.rows.len());
        let width = Outputs::<F>::width(keys);
        let backward = matches!(wanted, Wanted::Gradient(_));
        for (half, weights) in workspace.halves.iter_mut().zip(&*weights) {
            half.grow(weights, plan, backward);
        }
        grow(&mut workspace.logits, rows * width);
        workspace.losses.resize(workspace.losses.len().max(rows), 0.0);
        let weights = &*weights;

        let begin = Instant::now();
        halves::forward(weights, plan, rolls, &mut workspace.halves, backward);
        phases.forward += begin.elapsed();

        let begin = Instant::now();

        Outputs::fill_up(parameters.output_bias, &mut workspace.output_bias);
        let outputs = Outputs { keys, halves: weights, rolls, bias: &workspace.output_bias };
        let [a, b] = &mut workspace.halves;
        let stretches: Vec<_> = plan
            .rows
            .chunks(STRETCH)
            .zip(workspace.logits.chunks_mut(STRETCH * width))
            .zip(workspace.losses.chunks_mut(STRETCH))
            .enumerate()
            .collect();
        let states = [&a.states[..], &b.states[..]];
        if backward {
            // A half without units has no elements, but a part in every stretch.
            let mut rest = [&mut a.d_states[..], &mut b.d_states[..]];
            let stretches = stretches.into_iter().map(|stretch| {
                let rows = stretch.1.0.0.len();
                let d_states =
                    [0, 1].map(|half| cut(&mut rest[half], rows * weights[half].units.stride));
                (stretch, d_states)
            });
            spread(stretches.collect(), |((i, ((rows, logits), losses)), d_states)| {
                let logits = &mut logits[..rows.len() * width];
                let states = states_of(states, weights, i * STRETCH);
                outputs.losses(rows, states, logits, losses);
                outputs.derivatives(rows, &workspace.weights, logits, d_states);
            });
        } else {
            let predict = matches!(wanted, Wanted::Probabilities(_));
            spread(stretches, |(i, ((rows, logits), losses))| {
                let logits = &mut logits[..rows.len() * width];
                outputs.losses(rows, states_of(states, weights, i * STRETCH), logits, losses);
                if predict {
                    outputs.probabilities(rows, logits);
                }
            });
        }
        if let Wanted::Probabilities(probabilities) = wanted {
            for (row, logits) in plan.rows.iter().zip(workspace.logits.chunks_exact(width)) {
                probabilities[row.step * keys..][..keys].copy_from_slice(&logits[..keys]);
            }
        }
        for (row, loss) in plan.rows.iter().zip(&workspace.losses) {
            workspace.sums[row.place] += loss;
        }
        phases.outputs += begin.elapsed();

        let Wanted::Gradient(gradient) = wanted else { return };
        let begin = Instant::now();
        halves::backward(weights, plan, &mut workspace.halves);
        phases.backward += begin.elapsed();

        let begin = Instant::now();

        plan.sort_keys(rolls);
        let mut halves = workspace.halves.iter().zip(weights).map(|(half, weights)| HalfRows {
            weights,
            states: &half.states,
            kept: &half.kept,
            gates: &half.gates,
            d_states: &half.d_states,
            bias: &half.bias,
        });
        let halves = [halves.next(), halves.next()].map(|half| half.expect("there are two"));
        let logits = &workspace.logits[..rows * width];
        let rows = Rows { architecture: *architecture, plan, halves, logits, first };
        for (block, width) in workspace.blocks.iter_mut().zip(rows.widths()) {
            grow(block, architecture.hidden * width);
        }
        rows.gradient(Gradient::new(*architecture, gradient), &mut workspace.blocks);
        phases.gradient += begin.elapsed();
    }
}

/// Both halves of the states from a row on.
fn states_of<'a, F: Scalar>(
    states: [&'a [F]; 2],
    weights: &[HalfWeights<F>; 2],
    row: usize,
) -> [&'a [F]; 2] {
    [0, 1].map(|half| &states[half][row * weights[half].units.stride..])
}
