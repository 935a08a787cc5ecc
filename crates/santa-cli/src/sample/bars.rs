//! How far the chains are: a bar for each on a terminal, lines elsewhere.

use crate::console::Console;
use crate::interrupt;
use crate::train::Display;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use santa_posterior::sampler::{Stage, Watch};
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two lines where there are no bars.
const NEXT_LINE: Duration = Duration::from_secs(10);
/// Time between two drawings of a bar.
const REDRAW: Duration = Duration::from_millis(100);

/// Watches the chains of a run.
pub struct Bars {
    console: Console,
    bars: MultiProgress,
    /// The number of the first chain that is watched.
    first: u32,
    chains: Vec<Mutex<Bar>>,
    said: Mutex<Instant>,
}

struct Bar {
    bar: Option<ProgressBar>,
    stage: Option<Stage>,
    drawn: Instant,
    share: f64,
}

impl Bars {
    /// For chains of these numbers.
    pub fn new(console: Console, chains: Range<u32>) -> Self {
        let bars = Display::bars(&console);
        let now = Instant::now();
        let first = chains.start;
        let chains = chains
            .map(|chain| {
                let bar = console.draws().then(|| {
                    let bar = bars.add(ProgressBar::new(1));
                    let template = "{prefix} {bar:30.cyan/blue} {pos:>7}/{len:<7} {msg}";
                    if let Ok(style) = ProgressStyle::with_template(template) {
                        bar.set_style(style.progress_chars("━╸─"));
                    }
                    bar.set_prefix(format!("chain {chain}"));
                    bar
                });
                Mutex::new(Bar { bar, stage: None, drawn: now, share: 0.0 })
            })
            .collect();
        Bars { console, bars, first, chains, said: Mutex::new(now) }
    }

    /// Leaves the terminal as it was.
    pub fn finish(&self) {
        let _ = self.bars.clear();
    }

    /// A line about all chains, now and then.
    fn line(&self, stage: Stage) {
        let Ok(mut said) = self.said.try_lock() else { return };
        if said.elapsed() < NEXT_LINE {
            return;
        }
        *said = Instant::now();
        let shares: Vec<String> = (self.chains.iter())
            .filter_map(|chain| chain.try_lock().ok())
            .map(|chain| format!("{:.0} %", 100.0 * chain.share))
            .collect();
        self.console.note(format_args!("{}: {}", name(stage), shares.join(", ")));
    }
}

fn name(stage: Stage) -> String {
    match stage {
        Stage::Descending => "descending".into(),
        Stage::WarmingUp(window) => format!("warming up, window {window}"),
        Stage::Drawing => "drawing".into(),
    }
}

impl Watch for Bars {
    fn progress(&self, chain: u32, stage: Stage, done: u64, total: u64) {
        let place = chain.checked_sub(self.first).map(|place| place as usize);
        let Some(lock) = place.and_then(|place| self.chains.get(place)) else { return };
        {
            // Each chain has its own: nobody waits.
            let Ok(mut one) = lock.lock() else { return };
            one.share = done as f64 / total.max(1) as f64;
            let changed = one.stage != Some(stage);
            if let Some(bar) = &one.bar {
                if !changed && done < total && one.drawn.elapsed() < REDRAW {
                    return;
                }
                if changed {
                    bar.set_message(name(stage));
                    bar.set_length(total);
                }
                bar.set_position(done);
                one.drawn = Instant::now();
                one.stage = Some(stage);
                return;
            }
            one.stage = Some(stage);
        }
        self.line(stage);
    }
    fn stop(&self) -> bool {
        interrupt::requested()
    }
}
