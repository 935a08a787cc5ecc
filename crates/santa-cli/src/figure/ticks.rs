//! Where an axis has its marks, and what is written there.

/// Round numbers between two ends, about `count` of them: multiples of 1, 2 or 5 times a power of
/// ten. No numbers if the ends are not finite or not in order.
pub fn linear(low: f64, high: f64, count: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && low < high && (high - low).is_finite()) {
        return Vec::new();
    }
    let step = round_step((high - low) / count.max(1) as f64);
    // A hair of room: the ends themselves count in spite of rounding.
    let slack = 1e-9;
    let first = (low / step - slack).ceil();
    let last = (high / step + slack).floor();
    let number = (last - first).max(0.0) as usize + 1;
    // `+ 0.0` turns the negative zero into zero.
    (0..number).map(|i| (first + i as f64) * step + 0.0).collect()
}

/// The nearest of 1, 2, 5 or 10 times a power of ten that is not less.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let digit = rough / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|&d| digit <= d * (1.0 + 1e-9)).unwrap_or(10.0);
    round * power
}

/// Marks of a logarithmic axis: powers of ten, at most about `count`; where there are fewer than
/// three, also 2 and 5 times them; on less than a decade, as on a linear axis.
pub fn logarithmic(low: f64, high: f64, count: usize) -> Vec<f64> {
    if !(low > 0.0 && low < high && high.is_finite()) {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |v: &f64| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9);
    let decades: Vec<f64> = (first..=last).map(power_of_ten).filter(within).collect();
    if decades.len() >= 3 {
        let stride = decades.len().div_ceil(count.max(1));
        return decades.into_iter().step_by(stride).collect();
    }
    let finer: Vec<f64> = (first..=last)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|d| d * power_of_ten(e)))
        .filter(within)
        .collect();
    if finer.len() >= 3 {
        return finer;
    }
    linear(low, high, count).into_iter().filter(|&v| v > 0.0).collect()
}

/// $10^e$, correctly rounded: `powi` would not be.
fn power_of_ten(e: i32) -> f64 {
    format!("1e{e}").parse().expect("a number in scientific notation")
}

/// What is written at a mark: as few digits as tell it from its neighbours.
pub fn label(value: f64) -> String {
    const PLAIN: std::ops::Range<f64> = 1e-3..1e5;
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return String::new();
    }
    // Ten digits hide the rounding of 3 x 0.1.
    let rounded: f64 = format!("{value:.9e}").parse().expect("a number in scientific notation");
    let text =
        if PLAIN.contains(&rounded.abs()) { format!("{rounded}") } else { format!("{rounded:e}") };
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_marks_are_round_and_inside() {
        assert_eq!(linear(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear(-1.0, 1.0, 4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        let labels: Vec<_> = linear(0.0, 0.61, 6).into_iter().map(label).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6"]);
        for (low, high) in [(1e-300, 3e-300), (-7e200, 9e200), (0.1, 0.1000001), (3.0, 1234.5)] {
            let marks = linear(low, high, 5);
            assert!((2..=12).contains(&marks.len()), "{low}..{high}: {marks:?}");
        }
    }

    #[test]
    fn ends_that_make_no_axis_have_no_marks() {
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(linear(low, high, 5).is_empty());
            assert!(logarithmic(low, high, 5).is_empty());
        }
        assert!(logarithmic(0.0, 1.0, 5).is_empty());
        assert!(linear(f64::MIN, f64::MAX, 5).is_empty());
    }

    #[test]
    fn logarithmic_marks_are_powers_of_ten() {
        assert_eq!(logarithmic(0.001, 10.0, 6), [0.001, 0.01, 0.1, 1.0, 10.0]);
        assert_eq!(logarithmic(1e-12, 1.0, 5).len(), 5);
    }

    #[test]
    fn few_decades_have_finer_marks() {
        assert_eq!(logarithmic(0.1, 3.0, 6), [0.1, 0.2, 0.5, 1.0, 2.0]);
        let labels: Vec<_> = logarithmic(2.1, 2.9, 4).into_iter().map(label).collect();
        assert_eq!(labels, ["2.2", "2.4", "2.6", "2.8"]);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(label(3.0 * 0.1), "0.3");
        assert_eq!(label(-2.5), "\u{2212}2.5");
        assert_eq!(label(1e-7), "1e\u{2212}7");
        assert_eq!(label(200_000.0), "2e5");
        assert_eq!(label(f64::NAN), "");
    }
}
