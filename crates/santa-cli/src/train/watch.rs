//! Showing how a run is going: a bar on a terminal, lines elsewhere.

use crate::console::{Console, Volume};
use crate::experiment::Experiment;
use crate::run::record::{Evaluation, Score, Summary};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use santa::Stage;
use std::time::{Duration, Instant};

/// Somebody who watches a run.
pub trait Watch: Send {
    /// A run begins, or goes on after `step`.
    fn begin(&mut self, experiment: &Experiment, step: u64);
    /// A step was made, with this mean loss lately.
    fn step(&mut self, step: u64, loss: f64, stage: Stage, temperature: f64);
    /// Predictions were tried.
    fn evaluated(&mut self, evaluation: &Evaluation);
    /// Something to know.
    fn warn(&mut self, text: &str);
    /// The run is over; the summary if it is done.
    fn end(&mut self, summary: Option<&Summary>);
}

/// Nobody.
#[derive(Debug)]
pub struct Silent;

impl Watch for Silent {
    fn begin(&mut self, _: &Experiment, _: u64) {}
    fn step(&mut self, _: u64, _: f64, _: Stage, _: f64) {}
    fn evaluated(&mut self, _: &Evaluation) {}
    fn warn(&mut self, _: &str) {}
    fn end(&mut self, _: Option<&Summary>) {}
}

/// Time between two drawings of a bar.
const REDRAW: Duration = Duration::from_millis(100);
/// Time between two lines.
const NEXT_LINE: Duration = Duration::from_secs(2);

/// A bar on a terminal, lines elsewhere.
pub struct Display {
    console: Console,
    bars: MultiProgress,
    bar: Option<ProgressBar>,
    label: String,
    total: u64,
    steps_per_epoch: u64,
    first: (u64, Instant),
    drawn: Option<Instant>,
    said: Option<Instant>,
    last: String,
}

impl Display {
    /// A display of one run; `bars` holds those of runs that go on at the same time.
    pub fn new(console: Console, bars: &MultiProgress) -> Self {
        Display {
            console,
            bars: bars.clone(),
            bar: None,
            label: String::new(),
            total: 0,
            steps_per_epoch: 1,
            first: (0, Instant::now()),
            drawn: None,
            said: None,
            last: String::new(),
        }
    }

    /// Room for bars, where there is a terminal.
    pub fn bars(console: &Console) -> MultiProgress {
        MultiProgress::with_draw_target(match console.draws() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        })
    }

    /// Says something without disturbing the bars.
    fn say(&self, text: impl std::fmt::Display) {
        self.bars.suspend(|| self.console.note(text));
    }
}

/// A score in few characters.
pub fn short(score: &Score) -> String {
    match score.error {
        Some(error) => format!("{:.2} %", 100.0 * error),
        None => format!("{:.3}", score.nll),
    }
}

impl Watch for Display {
    fn begin(&mut self, experiment: &Experiment, step: u64) {
        self.label = format!("{} seed {}", experiment.optimizer.name, experiment.seed);
        self.total = experiment.steps();
        self.steps_per_epoch = experiment.steps_per_epoch();
        self.first = (step, Instant::now());
        if self.console.draws() {
            let bar = self.bars.add(ProgressBar::new(self.total).with_position(step));
            let template = "{prefix:.bold} {bar:20.cyan/dim} {msg} {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar.set_prefix(self.label.clone());
            bar.reset_eta();
            self.bar = Some(bar);
        } else if step > 0 {
            self.say(format_args!("{}: going on after step {step}", self.label));
        }
    }

    fn step(&mut self, step: u64, loss: f64, stage: Stage, temperature: f64) {
        let Some(bar) = &self.bar else { return };
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let rate = (step - self.first.0.min(step)) as f64 / self.first.1.elapsed().as_secs_f64();
        let stage = match stage {
            Stage::Exploring => format!("exploring T={temperature:.2e}"),
            Stage::Refining => "refining".into(),
        };
        let (epoch, epochs) = (step / self.steps_per_epoch, self.total / self.steps_per_epoch);
        bar.set_position(step);
        let last = &self.last;
        bar.set_message(format!("epoch {epoch}/{epochs} {rate:.0}/s loss {loss:.4} {last}{stage}"));
    }

    fn evaluated(&mut self, evaluation: &Evaluation) {
        let mut text = String::new();
        let scores = &evaluation.last;
        for (name, score) in [("valid", &scores.validation), ("test", &scores.test)] {
            let averaged = evaluation.averaged.as_ref().map(|averaged| &averaged.scores);
            let averaged = averaged.and_then(|scores| match name {
                "valid" => scores.validation,
                _ => scores.test,
            });
            let Some(score) = score else { continue };
            text += &format!("{name} {}", short(score));
            text += &averaged.map_or(String::new(), |a| format!(" (averaged {})", short(&a)));
            text += " ";
        }
        self.last = text;
        if self.bar.is_some() || self.console.volume() < Volume::Normal {
            return;
        }
        let over = evaluation.step >= self.total;
        if over || self.said.is_none_or(|said| said.elapsed() >= NEXT_LINE) {
            self.said = Some(Instant::now());
            let Evaluation { epoch, seconds, .. } = evaluation;
            let text = format!("{}: epoch {epoch:.1}, {}{seconds:.1} s", self.label, self.last);
            self.say(text);
        }
    }

    fn warn(&mut self, text: &str) {
        self.bars.suspend(|| match self.label.as_str() {
            // Before the beginning.
            "" => self.console.warning(text),
            label => self.console.warning(format_args!("{label}: {text}")),
        });
    }

    fn end(&mut self, summary: Option<&Summary>) {
        let Some(bar) = self.bar.take() else { return };
        bar.finish_and_clear();
        if let Some(summary) = summary {
            let seconds = summary.seconds;
            self.say(format_args!("{} done: {}{seconds:.1} s", self.label, self.last));
        }
    }
}
