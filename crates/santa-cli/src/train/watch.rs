//! Showing how a run is going: a bar on a terminal, lines elsewhere.

use crate::console::Console;
use crate::experiment::{Checkpoints, Experiment};
use crate::run::record::{Evaluation, Score, Status, Summary};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use santa::Stage;
use std::path::{Path, PathBuf};
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
    /// Something that was asked for.
    fn note(&mut self, _: &str) {}
    /// Something for those who want to know all.
    fn detail(&mut self, _: &str) {}
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
/// Least time between two lines.
const NEXT_LINE: Duration = Duration::from_secs(2);
/// Most time without a line, however rare evaluations are.
const NO_LINE: Duration = Duration::from_secs(20);
/// Characters of a run's name before its bar, which leave room for numbers on 80 columns.
const NAME: usize = 28;

/// A bar on a terminal, lines elsewhere.
pub struct Display {
    console: Console,
    bars: MultiProgress,
    bar: Option<ProgressBar>,
    folder: Option<PathBuf>,
    label: String,
    total: u64,
    steps_per_epoch: u64,
    first: (u64, Instant),
    drawn: Instant,
    said: Instant,
    now: Now,
    scores: String,
}

/// What was heard last.
#[derive(Clone, Copy, Debug)]
struct Now {
    step: u64,
    loss: f64,
    stage: Stage,
    temperature: f64,
}

impl Display {
    /// A display of one run; `bars` holds those of runs that go on at the same time.
    pub fn new(console: Console, bars: &MultiProgress) -> Self {
        let now = Instant::now();
        Display {
            console,
            bars: bars.clone(),
            bar: None,
            folder: None,
            label: String::new(),
            total: 0,
            steps_per_epoch: 1,
            first: (0, now),
            drawn: now,
            said: now,
            now: Now { step: 0, loss: f64::NAN, stage: Stage::Exploring, temperature: f64::NAN },
            scores: String::new(),
        }
    }

    /// The same that names the folder of the run when it begins.
    pub fn naming(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
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

    /// Steps a second of this process, once it has made one.
    fn rate(&self) -> Option<f64> {
        let made = self.now.step.saturating_sub(self.first.0);
        let rate = made as f64 / self.first.1.elapsed().as_secs_f64();
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// What stands beside a bar, the most telling first: the end of it is cut where the terminal is
    /// narrow.
    fn beside_bar(&self) -> String {
        let Now { step, loss, .. } = self.now;
        let (epoch, epochs) = (step / self.steps_per_epoch, self.total / self.steps_per_epoch);
        let rate = self.rate().map_or(String::new(), |rate| format!(" {rate:.0}/s"));
        format!("epoch {epoch}/{epochs} loss {loss:.4} {}{}{rate}", self.scores, self.stage())
    }

    /// A line for where there is no bar.
    fn line(&self) -> String {
        let Now { step, loss, .. } = self.now;
        let epoch = step as f64 / self.steps_per_epoch as f64;
        let epochs = self.total / self.steps_per_epoch;
        let (label, stage) = (&self.label, self.stage());
        let scores = match self.scores.trim_end() {
            "" => String::new(),
            scores => format!(", {scores}"),
        };
        let speed = self.rate().map_or(String::new(), |rate| {
            let left = self.total.saturating_sub(step) as f64 / rate;
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
            format!(", {rate:.0} steps/s, {} left", short_time(left))
        });
        format!("{label}: epoch {epoch:.1} of {epochs}, loss {loss:.4}{scores}, {stage}{speed}")
    }

    fn stage(&self) -> String {
        match self.now.stage {
            Stage::Exploring => format!("exploring T={:.1e}", self.now.temperature),
            Stage::Refining => "refining".into(),
        }
    }
}

/// A score in few characters.
pub fn short(score: &Score) -> String {
    match score.error {
        Some(error) => format!("{:.2} %", 100.0 * error),
        None => format!("{:.3}", score.nll),
    }
}

/// A time in few characters.
fn short_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {} min", minutes % 60),
    }
}

/// A name that is not longer than a bar allows.
fn cut(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['\u{2026}']).collect(),
        false => name.into(),
    }
}

impl Watch for Display {
    fn begin(&mut self, experiment: &Experiment, step: u64) {
        if let Some(folder) = &self.folder {
            self.say(format_args!("run in {}", folder.display()));
        }
        self.label = format!("{} seed {}", experiment.optimizer.name, experiment.seed);
        self.total = experiment.steps();
        self.steps_per_epoch = experiment.steps_per_epoch();
        self.first = (step, Instant::now());
        self.said = Instant::now();
        self.now.step = step;
        let Checkpoints { every, keep } = &experiment.checkpoints;
        self.detail(&format!(
            "{} steps, {} an epoch; a checkpoint every {every}, the newest {keep} kept",
            self.total, self.steps_per_epoch
        ));
        if self.console.draws() {
            let bar = self.bars.add(ProgressBar::new(self.total).with_position(step));
            let template = "{prefix:.bold} {bar:12.cyan/dim} {wide_msg} {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            // As much of it as is sure to leave room for the rest.
            bar.set_prefix(cut(&self.label));
            bar.reset_eta();
            self.bar = Some(bar);
        } else if step > 0 {
            self.say(format_args!("{}: going on after step {step}", self.label));
        }
    }

    fn step(&mut self, step: u64, loss: f64, stage: Stage, temperature: f64) {
        self.now = Now { step, loss, stage, temperature };
        match &self.bar {
            Some(bar) if self.drawn.elapsed() >= REDRAW => {
                self.drawn = Instant::now();
                bar.set_position(step);
                bar.set_message(self.beside_bar());
            }
            None if self.said.elapsed() >= NO_LINE => {
                self.said = Instant::now();
                self.say(self.line());
            }
            _ => (),
        }
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
        self.scores = text;
        // The last one is part of what is said at the end.
        let over = evaluation.step >= self.total;
        if self.bar.is_none() && !over && self.said.elapsed() >= NEXT_LINE {
            self.said = Instant::now();
            self.say(self.line());
        }
    }

    fn warn(&mut self, text: &str) {
        self.bars.suspend(|| match self.label.as_str() {
            // Before the beginning.
            "" => self.console.warning(text),
            label => self.console.warning(format_args!("{label}: {text}")),
        });
    }

    fn note(&mut self, text: &str) {
        self.say(text);
    }

    fn detail(&mut self, text: &str) {
        self.bars.suspend(|| match self.label.as_str() {
            "" => self.console.detail(text),
            label => self.console.detail(format_args!("{label}: {text}")),
        });
    }

    fn end(&mut self, summary: Option<&Summary>) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let Some(Summary { status, epochs, seconds, .. }) = summary else { return };
        let how = match status {
            Status::Finished => "done",
            Status::StoppedEarly => "stopped early",
        };
        let (label, scores) = (&self.label, &self.scores);
        self.say(format_args!("{label} {how} after epoch {epochs:.1}: {scores}{seconds:.1} s"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Volume;

    fn display() -> Display {
        let console = Console::new(Volume::Quiet, false);
        let mut display = Display::new(console, &Display::bars(&console));
        display.label = "santa seed 42".into();
        (display.total, display.steps_per_epoch) = (2000, 100);
        display.first.1 = Instant::now() - Duration::from_secs(4);
        display
    }

    #[test]
    fn a_line_says_how_far_how_good_how_fast_and_how_long() {
        let mut display = display();
        display.step(150, 0.123_45, Stage::Exploring, 0.0021);
        display.scores = "test 5.43 % (averaged 5.00 %) ".into();
        let line = display.line();
        let start = "santa seed 42: epoch 1.5 of 20, loss 0.1235, test 5.43 % (averaged 5.00 %), \
                     exploring T=2.1e-3, ";
        assert!(line.starts_with(start), "{line}");
        assert!(line.contains(" steps/s, ") && line.ends_with(" s left"), "{line}");
        display.step(1500, 0.1, Stage::Refining, 0.0);
        assert!(display.line().contains(", refining, "), "{}", display.line());
    }

    #[test]
    fn nothing_is_said_of_a_speed_before_the_first_step() {
        let mut display = display();
        display.step(0, 1.0, Stage::Refining, 0.0);
        assert_eq!(display.line(), "santa seed 42: epoch 0.0 of 20, loss 1.0000, refining");
        assert_eq!(display.beside_bar(), "epoch 0/20 loss 1.0000 refining");
    }

    #[test]
    fn long_names_are_cut_and_times_are_short() {
        assert_eq!(cut("santa seed 42"), "santa seed 42");
        let long = cut("santa batch=1000 hidden=[400,400] seed 42");
        assert_eq!(long.chars().count(), NAME);
        assert!(long.ends_with('\u{2026}'), "{long}");
        let times = [59, 61, 7384].map(|seconds| short_time(Duration::from_secs(seconds)));
        assert_eq!(times, ["59 s", "1 min 1 s", "2 h 3 min"]);
    }
}
