//! Numbers and names as they are written in the page.

/// Decimals beyond which a number is written with its power of ten, and as large numbers.
const MOST_DECIMALS: i32 = 7;
const LARGEST: f64 = 1e7;
/// Digits behind the point where there is a power of ten.
const MANTISSA: usize = 3;

/// A number with as many decimals as show `digits` digits of `scale`, so that numbers of one scale
/// have their points below each other.
pub fn number(value: f64, scale: f64, digits: i32) -> String {
    if value.is_nan() {
        return "–".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.into();
    }
    let usable = |scale: f64| scale.is_finite() && scale != 0.0;
    let scale = [scale, value].into_iter().find(|&s| usable(s)).unwrap_or(1.0).abs();
    let decimals = digits - 1 - scale.log10().floor() as i32;
    let text = if decimals > MOST_DECIMALS || value.abs() >= LARGEST {
        format!("{value:.MANTISSA$e}")
    } else {
        format!("{value:.*}", decimals.max(0) as usize)
    };
    // No zero is negative.
    let zero = !text.contains(|c: char| c.is_ascii_digit() && c != '0');
    if zero { text.replace('-', "") } else { text.replace('-', "−") }
}

/// `1 chain`, `2 chains`.
pub fn count(number: usize, noun: &str) -> String {
    let ending = match (number, noun.strip_suffix('y')) {
        (1, _) => return format!("1 {noun}"),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) => format!("{noun}s"),
    };
    format!("{number} {ending}")
}

/// A name that fits beside an axis; the end is what tells long names apart, so it is kept.
pub fn short(name: &str) -> String {
    /// Letters.
    const LONGEST: usize = 24;
    let letters = name.chars().count();
    if letters <= LONGEST {
        return name.into();
    }
    std::iter::once('…').chain(name.chars().skip(letters + 1 - LONGEST)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_their_scale_deserves() {
        assert_eq!(number(1.23456, 0.0567, 3), "1.2346");
        assert_eq!(number(-1.23456, 12.0, 3), "−1.2");
        assert_eq!(number(123_456.7, 1_000.0, 3), "123457");
        assert_eq!(number(-0.000_01, 1.0, 3), "0.00");
        assert_eq!(number(3.0, 0.0, 3), "3.00");
        assert_eq!(number(0.0, 0.0, 3), "0.00");
        assert_eq!(number(1.5e-9, 1e-9, 3), "1.500e−9");
        assert_eq!(number(2.5e12, 1.0, 3), "2.500e12");
        assert_eq!(number(f64::NAN, 1.0, 3), "–");
        assert_eq!(number(f64::NEG_INFINITY, 1.0, 3), "−∞");
        assert_eq!(number(1.0, f64::NAN, 2), "1.0");
    }

    #[test]
    fn nouns_have_their_plural() {
        assert_eq!(count(1, "quantity"), "1 quantity");
        assert_eq!(count(2, "quantity"), "2 quantities");
        assert_eq!(count(0, "chain"), "0 chains");
    }

    #[test]
    fn long_names_lose_their_beginning() {
        assert_eq!(short("slope"), "slope");
        assert_eq!(short("ä".repeat(24).as_str()).chars().count(), 24);
        let name = format!("{}[17]", "weights.of.the.first.layer");
        let short = short(&name);
        assert!(short.ends_with("[17]") && short.starts_with('…'));
        assert_eq!(short.chars().count(), 24);
    }
}
