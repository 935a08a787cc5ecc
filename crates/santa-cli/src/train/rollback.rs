//! What a run knew at the step that its dynamics can go back to.

use crate::failure::Result;
use crate::run::folder::RunFolder;
use crate::run::record::Best;
use santa::{Checkpoint, OnTrouble};
use std::sync::Arc;

/// Keeps what a run knows beside its dynamics whenever these keep their state, and by the same rule
/// ([`OnTrouble::RollBack`]).
pub struct Rollback {
    every: u64,
    /// The last step that failed: until it is behind, the state before it is kept.
    failed_at: u64,
    kept: Option<Kept>,
}

/// What was known after a step.
struct Kept {
    step: u64,
    memory: Checkpoint,
    best: Option<Best>,
    /// The file with the best parameters.
    file: Option<Arc<[u8]>>,
}

impl Rollback {
    /// For dynamics that may be rolled back.
    pub fn new(policy: OnTrouble) -> Option<Self> {
        let OnTrouble::RollBack { every, .. } = policy else { return None };
        Some(Rollback { every, failed_at: 0, kept: None })
    }

    /// Steps between states that are kept.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Whether the dynamics keep the state after `step`.
    pub fn is_due(&self, step: u64) -> bool {
        self.kept.is_none() || (step.is_multiple_of(self.every) && step >= self.failed_at)
    }

    /// Keeps what is known after a step: the trainer's memory, and the best parameters.
    pub fn keep(
        &mut self,
        step: u64,
        memory: Checkpoint,
        best: Option<Best>,
        folder: &RunFolder,
    ) -> Result<()> {
        let before = self.kept.take().filter(|kept| kept.best == best);
        let file = match before {
            Some(kept) => kept.file,
            None if best.is_none() => None,
            None => folder.best()?.map(Arc::from),
        };
        self.kept = Some(Kept { step, memory, best, file });
        Ok(())
    }

    /// A step failed and the dynamics are where they were after `to`: the memory of then. The best
    /// parameters are put back unless they are still those of then.
    pub fn recall(
        &mut self,
        failed_at: u64,
        to: u64,
        best: Option<Best>,
        folder: &RunFolder,
    ) -> Result<Option<&Checkpoint>> {
        self.failed_at = self.failed_at.max(failed_at);
        let kept = self.kept.as_ref().filter(|kept| kept.step == to);
        if let Some(kept) = kept.filter(|kept| kept.best != best) {
            folder.put_best_back(kept.file.as_deref())?;
        }
        Ok(kept.map(|kept| &kept.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::super::average::Average;
    use super::super::log::Log;
    use super::super::model::{ImageModel, Model};
    use super::super::trainer::Trainer;
    use super::super::{Ended, Silent};
    use super::*;
    use crate::args::Part;
    use crate::experiment::{Draft, Experiment};
    use crate::run::record::{Calibration, Record, Score, Summary};
    use crate::run::stored::StoredRun;
    use santa::average::Pooling;
    use santa::{Batch, Potential, Prior, Stepper, Target};
    use santa_nn::{Architecture, Classifier, Examples};

    /// 10 examples to train on: 2 steps an epoch, 30 steps in all.
    const TEXT: &str = r#"
name = "flawed"
epochs = 15
batch = 5
log_every = 1
evaluation.every = 1
optimizer = { like = "sgd", lr = 0.5 }
data = { set = "mnist-subset", validation = 9990 }
model = { kind = "dense", hidden = [3] }
averaging = { from = 2, every = 3 }
checkpoints = { every = 2, keep = 3 }
on_trouble = { roll_back = { every = 4, at_most = 3 } }
"#;

    /// A model whose loss is no number when it is asked for the n-th time, for some n.
    struct Flawed(ImageModel<f32>, u64, &'static [u64]);

    impl Potential<f32> for Flawed {
        fn target(&self) -> &Target {
            self.0.target()
        }
        fn loss_gradient(
            &mut self,
            theta: &[f32],
            batch: &Batch<'_>,
            gradient: &mut [f32],
        ) -> santa::Result<f64> {
            self.1 += 1;
            let loss = self.0.loss_gradient(theta, batch, gradient)?;
            Ok(if self.2.contains(&self.1) { f64::NAN } else { loss })
        }
    }

    impl Model<f32> for Flawed {
        fn initial(&self, seed: u64, chain: u32) -> Result<Vec<f32>> {
            self.0.initial(seed, chain)
        }
        fn has(&self, part: Part) -> bool {
            self.0.has(part)
        }
        fn score(&mut self, theta: &[f32], part: Part) -> Result<Score> {
            self.0.score(theta, part)
        }
        fn ignorance(&self) -> f64 {
            self.0.ignorance()
        }
        fn average(&self, part: Part) -> Result<Average> {
            self.0.average(part)
        }
        fn add(&mut self, theta: &[f32], part: Part, average: &mut Average) -> Result<()> {
            self.0.add(theta, part, average)
        }
        fn score_average(&self, average: &Average, part: Part, how: Pooling) -> Result<Score> {
            self.0.score_average(average, part, how)
        }
        fn calibration(&self, average: &Average, part: Part, how: Pooling) -> Option<Calibration> {
            self.0.calibration(average, part, how)
        }
    }

    /// Points of two classes that are not quite apart.
    fn examples(count: usize, shift: f32) -> Examples {
        let value =
            |i: usize| (i % 5) as f32 * 0.3 + shift - if i.is_multiple_of(2) { 1.0 } else { 0.0 };
        let values: Vec<f32> = (0..2 * count).map(|i| value(i / 2 + i % 2)).collect();
        let labels: Vec<u8> = (0..count).map(|i| u8::from(i % 2 == 0)).collect();
        Examples::from_f32(values, 2, labels).unwrap()
    }

    fn run(experiment: &Experiment, flaws: &'static [u64], folder: &std::path::Path) -> Summary {
        let architecture = Architecture::dense(&[2, 3, 2]);
        let model = Classifier::new(&architecture, examples(10, 0.0), Prior::Flat).unwrap();
        let rest = (Some(examples(6, 0.2)), examples(8, -0.1));
        let model = Flawed(ImageModel::new(model, rest), 0, flaws);
        let dynamics = |target: &Target, chain| {
            let algorithm = experiment.optimizer.algorithm.clone();
            Ok(Stepper::new(algorithm, target, 1, chain)?.on_trouble(experiment.on_trouble)?)
        };
        let mut trainer = Trainer::new(experiment, model, dynamics).unwrap();
        let mut run = RunFolder::create(folder, experiment).unwrap();
        let mut log = Log { folder: &mut run, events: None };
        let Ended::Done(summary) = trainer.run(&mut log, &mut Silent).unwrap() else {
            panic!("interrupted")
        };
        *summary
    }

    #[test]
    fn a_run_that_was_rolled_back_knows_nothing_of_the_steps_undone() {
        let experiment = Draft::parse("flawed", TEXT).unwrap().resolve().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let whole = run(&experiment, &[], &folder.path().join("whole"));
        assert_eq!((whole.steps, whole.averaged.unwrap().count), (30, 9));
        // In the first step; twice before the first failure is behind; beyond a state kept later.
        let flaws: [&'static [u64]; 4] = [&[1], &[7, 9], &[12, 17, 18], &[8, 20, 30]];
        for (i, flaws) in flaws.into_iter().enumerate() {
            let path = folder.path().join(i.to_string());
            let summary = run(&experiment, flaws, &path);
            assert_eq!((summary.steps, summary.averaged.unwrap().count), (30, 9), "{flaws:?}");
            let stored = StoredRun::read(&path).unwrap();
            let of = |kind: fn(&Record) -> bool| -> Vec<u64> {
                stored.records.iter().filter(|r| kind(r)).map(Record::step).collect()
            };
            let all: Vec<u64> = (1..=30).collect();
            assert_eq!(of(|r| matches!(r, Record::Training(_))), all, "{flaws:?}");
            assert_eq!(of(|r| matches!(r, Record::Evaluation(_))), all, "{flaws:?}");
            assert!(!of(|r| matches!(r, Record::Warning(_))).is_empty());

            // The best is the best of the records that are left, and so are its parameters.
            let best = summary.best.unwrap();
            let nll = |scores: &crate::run::record::Scores| scores.validation.unwrap().nll;
            let evaluations = stored.records.iter().filter_map(|record| match record {
                Record::Evaluation(evaluation) => Some(evaluation),
                _ => None,
            });
            let least = evaluations.min_by(|a, b| nll(&a.last).total_cmp(&nll(&b.last))).unwrap();
            assert_eq!((best.step, nll(&best.scores)), (least.step, nll(&least.last)));
            let file = path.join("checkpoints/best.safetensors");
            let file = Checkpoint::read(file).unwrap();
            assert_eq!(file.meta::<u64>("step").unwrap(), best.step);
        }
    }

    #[test]
    fn checkpoints_of_steps_undone_are_removed() {
        let experiment = Draft::parse("flawed", TEXT).unwrap().resolve().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunFolder::create(folder.path(), &experiment).unwrap();
        let empty = Checkpoint::new();
        for step in [2, 4, 6, 7] {
            run.save(&empty, step, 3).unwrap();
        }
        run.roll_back(&empty, 4).unwrap();
        let steps: Vec<u64> = run.checkpoints().unwrap().iter().map(|c| c.0).collect();
        assert_eq!(steps, [4]);
    }
}
