//! What runs will cost, before they begin.

use super::ledger::{Ledgers, Role};
use super::schema::{Place, Study};
use crate::experiment::Experiment;
use santa::stats::Moments;

/// Seconds that a run takes on one thread: by the finished runs of its kind, else by what the file says.
pub fn seconds(
    study: &Study,
    ledgers: &Ledgers,
    place: &Place,
    role: Role,
    experiment: &Experiment,
) -> f64 {
    let alike = ledgers.all().filter(|(there, entry)| {
        there.column == place.column
            && there.protocol == place.protocol
            && entry.role == role
            && entry.epochs > 0.0
    });
    let measured: Moments = alike.map(|(_, entry)| entry.seconds / entry.epochs).collect();
    let per_epoch = match measured.count() {
        0 => {
            let column = study.column(place);
            // The file speaks of all data.
            let share = experiment.data.training_size() as f64 / column.examples as f64;
            column.seconds_per_epoch * share.min(1.0)
        }
        _ => measured.mean(),
    };
    experiment.epochs as f64 * per_epoch
}

/// A span of time for people.
pub fn duration(seconds: f64) -> String {
    const HOUR: f64 = 3_600.0;
    const MINUTE: f64 = 60.0;
    if seconds >= HOUR {
        format!("{:.1} hours", seconds / HOUR)
    } else if seconds >= MINUTE {
        format!("{:.2} hours ({:.0} minutes)", seconds / HOUR, seconds / MINUTE)
    } else {
        format!("{:.3} hours ({} seconds)", seconds / HOUR, seconds.ceil())
    }
}
