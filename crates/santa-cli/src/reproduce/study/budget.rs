//! What runs will cost, before they begin.

use super::ledger::Ledgers;
use super::schema::{Place, Study};
use santa::stats::Moments;

/// Seconds that a pass over a column's data takes on one thread: as measured in finished runs, else as
/// the file says.
pub fn seconds_per_epoch(study: &Study, ledgers: &Ledgers, place: &Place) -> f64 {
    let measured = ledgers.all().filter(|(there, entry)| {
        there.column == place.column && there.protocol == place.protocol && entry.epochs > 0.0
    });
    let measured: Moments = measured.map(|(_, entry)| entry.seconds / entry.epochs).collect();
    match measured.count() {
        0 => study.column(place).seconds_per_epoch,
        _ => measured.mean(),
    }
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
        format!("{:.3} hours ({seconds:.0} seconds)", seconds / HOUR)
    }
}
