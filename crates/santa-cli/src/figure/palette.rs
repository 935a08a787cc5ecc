//! Colours and dashes that tell series apart, also for people who see few colours and on grey paper.

use std::fmt::Write;

/// A colour on light and on dark ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// On white.
    pub light: &'static str,
    /// On nearly black.
    pub dark: &'static str,
}

/// After Okabe and Ito (2008), darkened on white and lightened on black until each has a contrast of
/// at least 3 to 1, as WCAG 2.2 asks of lines in figures.
pub const COLOURS: [Colour; 8] = [
    Colour { light: "#0072b2", dark: "#56b4e9" },
    Colour { light: "#d55e00", dark: "#ff8f45" },
    Colour { light: "#00805f", dark: "#2cc79b" },
    Colour { light: "#b0508c", dark: "#e39bc6" },
    Colour { light: "#8a6d00", dark: "#e3cc4f" },
    Colour { light: "#30343a", dark: "#dfe3e8" },
    Colour { light: "#5a5fc7", dark: "#a3a8ff" },
    Colour { light: "#a3293d", dark: "#ff8896" },
];

/// Lengths of strokes and gaps. Their number has no divisor in common with that of the colours, so
/// that colour and dash together tell 56 series apart.
pub const DASHES: [&str; 7] = ["", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 2 2 2 2", "4 4"];

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// Colour of the line.
    pub colour: Colour,
    /// Dashes as SVG's `stroke-dasharray`; empty for a whole line.
    pub dash: &'static str,
    /// Width of the line, in pixels.
    pub width: f64,
}

impl Style {
    /// The style of the series with this number.
    pub fn numbered(index: usize) -> Self {
        Style {
            colour: COLOURS[index % COLOURS.len()],
            dash: DASHES[index % DASHES.len()],
            width: 1.6,
        }
    }

    /// A thin dotted grey line, for comparison.
    pub fn reference() -> Self {
        let colour = Colour { light: "#767b83", dark: "#9aa1ab" };
        Style { colour, dash: "2 3", width: 1.0 }
    }
}

impl Colour {
    /// The colour in a page that has [`variables`]; for one that is not of the palette, the page's
    /// grey.
    pub fn variable(self) -> String {
        let at = COLOURS.iter().position(|&colour| colour == self);
        at.map_or("var(--faint)".into(), |at| format!("var(--series-{at})"))
    }
}

/// The colours as variables of a stylesheet: `--series-0` and so on, light or dark as the page is.
pub fn variables() -> String {
    let list = |of: fn(&Colour) -> &'static str| {
        COLOURS.iter().enumerate().fold(String::new(), |mut out, (i, colour)| {
            let _ = write!(out, "--series-{i}:{};", of(colour));
            out
        })
    };
    let (light, dark) = (list(|c| c.light), list(|c| c.dark));
    format!(
        ":root{{{light}}}\n\
         @media screen and (prefers-color-scheme: dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
         @media screen{{:root[data-theme=dark]{{{dark}}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_variable_for_every_colour() {
        let variables = variables();
        for (i, colour) in COLOURS.into_iter().enumerate() {
            assert_eq!(colour.variable(), format!("var(--series-{i})"));
            assert!(variables.contains(&format!("--series-{i}:{};", colour.light)));
            assert_eq!(variables.matches(colour.dark).count(), 2, "by the system, and by choice");
        }
        assert_eq!(Style::reference().colour.variable(), "var(--faint)");
    }

    /// Relative luminance of an sRGB colour (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_stands_out_on_its_ground() {
        for colour in COLOURS {
            assert!(contrast(colour.light, "#ffffff") > 3.0, "{colour:?}");
            assert!(contrast(colour.dark, "#1b1f26") > 3.0, "{colour:?}");
        }
    }

    #[test]
    fn fifty_six_series_look_different() {
        let count = COLOURS.len() * DASHES.len();
        let mut seen = std::collections::HashSet::new();
        for index in 0..count {
            let style = Style::numbered(index);
            assert!(seen.insert((style.colour.light, style.dash)), "number {index} repeats");
        }
    }
}
