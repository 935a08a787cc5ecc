//! Figures as SVG.

use super::{Colour, Figure, Series, ticks};
use std::fmt::Write;

/// Text as it may stand in XML, inside a tag or between tags. What XML 1.0 cannot hold is replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Where colours come from.
struct Paint {
    /// Of words.
    ink: &'static str,
    /// Of marks and their numbers.
    faint: &'static str,
    grid: &'static str,
    series: fn(Colour) -> String,
}

/// Of a file, which stands on white.
const FILE: Paint = Paint {
    ink: "#24292f",
    faint: "#5f6771",
    grid: "#e4e7eb",
    series: |colour| colour.light.into(),
};
/// Of a page, which has them as variables.
const PAGE: Paint = Paint {
    ink: "var(--ink)",
    faint: "var(--faint)",
    grid: "var(--grid)",
    series: Colour::variable,
};
/// Pixels.
const FONT: f64 = 11.0;
/// Mean width of a letter, in units of the size of the font. There is no font to measure.
const LETTER: f64 = 0.56;
/// Marks an axis has about, for so many pixels.
const PIXELS_PER_TICK: (f64, f64) = (70.0, 45.0);
/// Share of the data's range that is left free above and below.
const ROOM: f64 = 0.04;
/// Pixels about the axes: above them, for a title, for the names of shades; at their right; at their
/// left beside the marks; below them; without labels.
const ABOVE: f64 = 12.0;
const TITLE: f64 = 18.0;
const SHADE_NAMES: f64 = 8.0;
const RIGHT: f64 = 12.0;
const LEFT: f64 = 13.0;
const BELOW: f64 = 25.0;
/// Pixels between a mark and its number.
const GAP: f64 = 6.0;
/// Pixels from the x axis down to its numbers and to its label; the label of the y axis takes as
/// much more as that of the x axis.
const TICK_LABELS: f64 = 16.0;
const AXIS_LABEL: f64 = 33.0;
const TICK: f64 = 4.0;
const DOT_RADIUS: f64 = 2.4;
/// Of points in a cloud: pixels, and so that clouds show through each other.
const CLOUD_DOT: f64 = 2.2;
const CLOUD_OPACITY: f64 = 0.6;
/// What text is moved down to be centred, in units of the font: digits are 0.7 of it high.
const HALF_DIGIT: f64 = 0.35;
/// Pixels of a line in the legend, with the gap behind it; between two entries; behind the last.
const LEGEND_STROKE: f64 = 26.0;
const LEGEND_ROW: f64 = 17.0;
const LEGEND_END: f64 = 14.0;

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * LETTER
}

/// Several figures as one SVG file, in rows of `columns`.
pub fn sheet(figures: &[Figure], columns: usize) -> String {
    let columns = columns.clamp(1, figures.len().max(1));
    let cell_width = figures.iter().map(full_width).fold(0.0, f64::max);
    let cell_height = figures.iter().map(|f| f.height).fold(0.0, f64::max);
    let (width, height) =
        (cell_width * columns as f64, cell_height * figures.len().div_ceil(columns) as f64);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="Helvetica, Arial, sans-serif" font-size="{FONT}">"#
    );
    let _ = writeln!(out, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    for (i, figure) in figures.iter().enumerate() {
        let x = cell_width * (i % columns) as f64;
        let y = cell_height * (i / columns) as f64;
        let _ = writeln!(out, r#"<g transform="translate({x:.1} {y:.1})">"#);
        Canvas::new(figure, i, &FILE).draw(&mut out);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// A figure as an element of a page.
pub fn inline(figure: &Figure, number: usize, name: &str) -> String {
    let (width, height) = (full_width(figure), figure.height);
    let mut out = format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" font-size=\"{FONT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(name)
    );
    Canvas::new(figure, number, &PAGE).draw(&mut out);
    out.push_str("</svg>\n");
    out
}

/// Width of a figure and its legend.
fn full_width(figure: &Figure) -> f64 {
    figure.width + legend_width(figure)
}

fn legend_width(figure: &Figure) -> f64 {
    let labels = figure.series.iter().filter(|s| !s.label.is_empty());
    let widest = labels.map(|s| text_width(&s.label)).fold(0.0, f64::max);
    if widest == 0.0 { 0.0 } else { widest + LEGEND_STROKE + LEGEND_END }
}

/// A figure with the places of its axes.
struct Canvas<'a> {
    figure: &'a Figure,
    /// Its number on the sheet or page, for names.
    index: usize,
    paint: &'static Paint,
    x: (f64, f64),
    y: (f64, f64),
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl<'a> Canvas<'a> {
    fn new(figure: &'a Figure, index: usize, paint: &'static Paint) -> Self {
        let lines = figure.series.iter().flat_map(|s| &s.points);
        let bands = figure.series.iter().flat_map(|s| &s.band);
        let x = figure.x.ends(lines.clone().map(|p| p.0).chain(bands.clone().map(|b| b.0)), 0.0);
        // Only what is seen counts for the height.
        let seen = |v: &f64| figure.x.shows(*v) && *v >= x.0 && *v <= x.1;
        let y = figure.y.ends(
            lines
                .filter(|p| seen(&p.0))
                .map(|p| p.1)
                .chain(bands.filter(|b| seen(&b.0)).flat_map(|b| [b.1, b.2])),
            ROOM,
        );
        let title = if figure.title.is_empty() { 0.0 } else { TITLE };
        // Names of shades stand above the axes, where no line crosses them.
        let shades = if figure.shades.is_empty() { 0.0 } else { SHADE_NAMES };
        let top = ABOVE + title + shades;
        // Where there are no words there is no room for them.
        let words = |label: &str| if label.is_empty() { 0.0 } else { AXIS_LABEL - TICK_LABELS };
        let bottom = figure.height - BELOW - words(&figure.x.label);
        let labels = figure.y.ticks(y, marks(bottom - top, PIXELS_PER_TICK.1));
        let labels = labels.into_iter().map(|v| text_width(&ticks::label(v)));
        let left = labels.fold(0.0, f64::max) + LEFT + words(&figure.y.label);
        Canvas { figure, index, paint, x, y, left, right: figure.width - RIGHT, top, bottom }
    }

    fn place_x(&self, value: f64) -> f64 {
        self.left + self.figure.x.place(value, self.x) * (self.right - self.left)
    }
    fn place_y(&self, value: f64) -> f64 {
        self.bottom - self.figure.y.place(value, self.y) * (self.bottom - self.top)
    }

    fn draw(&self, out: &mut String) {
        let (width, height) = (self.right - self.left, self.bottom - self.top);
        let _ = writeln!(
            out,
            r#"<clipPath id="inside-{}"><rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}"/></clipPath>"#,
            self.index, self.left, self.top
        );
        self.draw_shades(out);
        self.draw_axes(out);
        let _ = writeln!(out, r#"<g clip-path="url(#inside-{})">"#, self.index);
        for series in &self.figure.series {
            self.draw_band(series, out);
        }
        for series in &self.figure.series {
            if series.joined { self.draw_line(series, out) } else { self.draw_cloud(series, out) }
        }
        out.push_str("</g>\n");
        self.draw_words(out);
        self.draw_legend(out);
    }

    fn draw_shades(&self, out: &mut String) {
        for shade in &self.figure.shades {
            let visible = |v: f64| self.figure.x.shows(v);
            if !(visible(shade.from) && visible(shade.to)) {
                continue;
            }
            let from = self.place_x(shade.from).clamp(self.left, self.right);
            let to = self.place_x(shade.to).clamp(self.left, self.right);
            if to <= from {
                continue;
            }
            let _ = writeln!(
                out,
                r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{}"/>"#,
                self.top,
                to - from,
                self.bottom - self.top,
                escape(shade.fill)
            );
            if text_width(&shade.label) + GAP < to - from {
                let middle = (from + to) / 2.0;
                text(out, middle, self.top - GAP, "middle", self.paint.faint, &shade.label);
            }
        }
    }

    fn draw_axes(&self, out: &mut String) {
        let faint = self.paint.faint;
        for value in self.figure.y.ticks(self.y, marks(self.bottom - self.top, PIXELS_PER_TICK.1)) {
            let y = self.place_y(value);
            line(out, (self.left, y), (self.right, y), self.paint.grid);
            let words = ticks::label(value);
            text(out, self.left - GAP, y + HALF_DIGIT * FONT, "end", faint, &words);
        }
        for value in self.x_ticks() {
            let x = self.place_x(value);
            line(out, (x, self.bottom), (x, self.bottom + TICK), faint);
            let words = ticks::label(value);
            // At the end of the axis there is less room at the right than half of a long number.
            let x = x.min(self.figure.width - text_width(&words) / 2.0);
            text(out, x, self.bottom + TICK_LABELS, "middle", faint, &words);
        }
        line(out, (self.left, self.bottom), (self.right, self.bottom), faint);
    }

    /// Marks of the x axis, as many as have room for their numbers.
    fn x_ticks(&self) -> Vec<f64> {
        let pixels = self.right - self.left;
        let most = marks(pixels, PIXELS_PER_TICK.0);
        let fit = |ticks: &Vec<f64>| {
            let widths = ticks.iter().map(|&v| text_width(&ticks::label(v)) + 2.0 * GAP);
            widths.sum::<f64>() <= pixels
        };
        let choices = (2..=most).rev().map(|count| self.figure.x.ticks(self.x, count));
        choices.into_iter().find(fit).unwrap_or_else(|| self.figure.x.ticks(self.x, 2))
    }

    fn draw_words(&self, out: &mut String) {
        let ink = self.paint.ink;
        let middle = (self.left + self.right) / 2.0;
        text(out, middle, self.bottom + AXIS_LABEL, "middle", ink, &self.figure.x.label);
        let height = (self.top + self.bottom) / 2.0;
        let _ = writeln!(
            out,
            r#"<text transform="translate({FONT} {height:.1}) rotate(-90)" text-anchor="middle" fill="{ink}">{}</text>"#,
            escape(&self.figure.y.label)
        );
        if !self.figure.title.is_empty() {
            let _ = writeln!(
                out,
                r#"<text x="{:.1}" y="{TITLE}" fill="{ink}" font-size="{}" font-weight="bold">{}</text>"#,
                self.left,
                FONT + 1.0,
                escape(&self.figure.title)
            );
        }
        if self.figure.is_empty() {
            text(out, middle, height, "middle", self.paint.faint, "no data");
        }
    }

    fn draw_band(&self, series: &Series, out: &mut String) {
        let shown = |&(x, low, high): &(f64, f64, f64)| {
            self.figure.x.shows(x) && self.figure.y.shows(low) && self.figure.y.shows(high)
        };
        for run in series.band.split(|b| !shown(b)).filter(|run| run.len() > 1) {
            let upper = run.iter().map(|b| (b.0, b.2));
            let lower = run.iter().rev().map(|b| (b.0, b.1));
            let _ = writeln!(
                out,
                r#"<path d="{}Z" fill="{}" fill-opacity="{}"/>"#,
                self.path(upper.chain(lower)),
                (self.paint.series)(series.style.colour),
                series.band_opacity
            );
        }
    }

    fn draw_line(&self, series: &Series, out: &mut String) {
        let shown = |&(x, y): &(f64, f64)| self.figure.x.shows(x) && self.figure.y.shows(y);
        let style = series.style;
        for run in series.points.split(|p| !shown(p)).filter(|run| !run.is_empty()) {
            if run.len() > 1 {
                let _ = writeln!(
                    out,
                    r#"<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round"{}/>"#,
                    self.path(run.iter().copied()),
                    (self.paint.series)(style.colour),
                    style.width,
                    dashes(style.dash)
                );
            }
            // A point without neighbours is seen as a dot.
            if series.dots || run.len() == 1 {
                for &(x, y) in run {
                    let _ = writeln!(
                        out,
                        r#"<circle cx="{:.2}" cy="{:.2}" r="{DOT_RADIUS}" fill="{}"/>"#,
                        self.place_x(x),
                        self.place_y(y),
                        (self.paint.series)(style.colour)
                    );
                }
            }
        }
    }

    /// Points as strokes of no length with round ends: a tenth of what circles would take.
    fn draw_cloud(&self, series: &Series, out: &mut String) {
        let mut path = String::new();
        for &(x, y) in &series.points {
            if self.figure.x.shows(x) && self.figure.y.shows(y) {
                let _ = write!(path, "M{:.1} {:.1}h0", self.place_x(x), self.place_y(y));
            }
        }
        if !path.is_empty() {
            let colour = (self.paint.series)(series.style.colour);
            let _ = writeln!(
                out,
                r#"<path d="{path}" stroke="{colour}" stroke-width="{CLOUD_DOT}" stroke-linecap="round" stroke-opacity="{CLOUD_OPACITY}"/>"#
            );
        }
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (i, (x, y)) in points.enumerate() {
            let (x, y) = (self.place_x(x), self.place_y(y));
            let _ = write!(path, "{}{x:.2} {y:.2}", if i == 0 { 'M' } else { 'L' });
        }
        path
    }

    fn draw_legend(&self, out: &mut String) {
        let named = self.figure.series.iter().filter(|s| !s.label.is_empty());
        for (i, series) in named.enumerate() {
            let x = self.figure.width + 2.0;
            let y = self.top + LEGEND_ROW * (i as f64 + 0.5);
            let _ = writeln!(
                out,
                r#"<path d="M{x:.1} {y:.1}h{:.1}" stroke="{}" stroke-width="{}"{}/>"#,
                LEGEND_STROKE - GAP,
                (self.paint.series)(series.style.colour),
                series.style.width,
                dashes(series.style.dash)
            );
            text(
                out,
                x + LEGEND_STROKE,
                y + HALF_DIGIT * FONT,
                "start",
                self.paint.ink,
                &series.label,
            );
        }
    }
}

/// Marks that an axis of this length has about. Their distance is rounded up, to 2.5 times what was
/// wished at most: with fewer than five there might be a single one between the ends.
fn marks(pixels: f64, each: f64) -> usize {
    const FEWEST: f64 = 5.0;
    (pixels / each).max(FEWEST) as usize
}

fn dashes(dash: &str) -> String {
    if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        r#"<path d="M{:.1} {:.1}L{:.1} {:.1}" stroke="{colour}" stroke-width="1"/>"#,
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, colour: &str, words: &str) {
    let _ = writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}">{}</text>"#,
        escape(words)
    );
}
