//! What made a run.

use super::record::{Machine, Provenance};
use std::time::{SystemTime, UNIX_EPOCH};

/// This process, now.
pub fn provenance() -> Provenance {
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        // By its name alone: where it is installed is of no interest.
        command: std::iter::once("santa".into()).chain(std::env::args().skip(1)).collect(),
        started: utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())),
        machine: machine(),
    }
}

/// This computer.
pub fn machine() -> Machine {
    Machine {
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        cpu: cpu().unwrap_or_else(|| "unknown".into()),
        threads: rayon::current_num_threads(),
    }
}

/// The processor's name, where the system tells it in a file.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Seconds since 1970 as `YYYY-MM-DDTHH:MM:SSZ`.
fn utc(seconds: u64) -> String {
    const DAY: u64 = 86_400;
    let (days, time) = (seconds / DAY, seconds % DAY);
    // Days are counted from 1 March of the year 0, so that leap days come last; eras of 400 years.
    const TO_1970: u64 = 719_468;
    const ERA: u64 = 146_097;
    let (era, day) = ((days + TO_1970) / ERA, (days + TO_1970) % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + carry;
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
