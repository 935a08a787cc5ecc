//! Figures for papers and guides: axes, lines, bands, clouds of points and a legend, drawn as SVG with
//! nothing but plain shapes, concrete colours and text, which browsers, Inkscape and LaTeX read alike.
//! In a page they take the page's colours instead: [`Figure::inline`].
//!
//! ```
//! use santa_cli::figure::{Axis, Figure, Series, Style};
//!
//! let points = (1..=50).map(|t| (f64::from(t), 1.0 / f64::from(t))).collect();
//! let figure = Figure::new(Axis::new("epoch"), Axis::new("temperature").log())
//!     .titled("Annealing")
//!     .with(Series::line("Santa", Style::numbered(0), points));
//! assert!(figure.svg().starts_with("<svg"));
//! ```

mod palette;
mod svg;
pub mod ticks;

pub use palette::{COLOURS, Colour, DASHES, Style, variables};
pub use svg::{escape, sheet};

/// How values become places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    #[default]
    Linear,
    /// By their logarithm. What is not positive has no place and is left out.
    Log,
}

/// One direction of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// The ends; as far as the data go by default.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis as long as the data.
    pub fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Linear, range: None }
    }
    /// The same, logarithmic.
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }
    /// The same with these ends.
    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Whether a value has a place. The largest numbers have none: their differences would be
    /// infinite.
    fn shows(&self, value: f64) -> bool {
        const LARGEST: f64 = 1e300;
        value.abs() <= LARGEST && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Ends that hold all values that can be shown, `pad` being the share of room left at each. Ends
    /// of an axis without data are 0 and 1, or 0.1 and 1 if it is logarithmic.
    fn ends(&self, values: impl Iterator<Item = f64>, pad: f64) -> (f64, f64) {
        let usable = |&(low, high): &(f64, f64)| self.shows(low) && self.shows(high) && low < high;
        if let Some(ends) = self.range.filter(usable) {
            return ends;
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&v| self.shows(v)) {
            low = low.min(value);
            high = high.max(value);
        }
        let ends = match self.scale {
            Scale::Linear if low > high => (0.0, 1.0),
            Scale::Log if low > high => (0.1, 1.0),
            Scale::Linear if low == high => {
                let room = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
                (low - room, high + room)
            }
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            Scale::Linear => {
                let room = pad * (high - low);
                // Values that are never negative do not suggest that they could be.
                let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
                ((low - room).max(floor), high + room)
            }
            Scale::Log => {
                let room = (pad * (high.ln() - low.ln())).exp();
                (low / room, high * room)
            }
        };
        // Beyond the largest and below the smallest numbers there is no room.
        [ends, (low, high)].into_iter().find(usable).unwrap_or((0.1, 1.0))
    }

    /// Where a value lies between the ends, from 0 to 1.
    fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        match self.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log => (value.ln() - low.ln()) / (high.ln() - low.ln()),
        }
    }

    fn ticks(&self, (low, high): (f64, f64), count: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => ticks::linear(low, high, count),
            Scale::Log => ticks::logarithmic(low, high, count),
        }
    }
}

/// A line or points, with a band about them or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; without one it has no entry there.
    pub label: String,
    /// How it looks.
    pub style: Style,
    /// The line. Where a point cannot be shown, it has a gap.
    pub points: Vec<(f64, f64)>,
    /// The band: x, lower and upper end.
    pub band: Vec<(f64, f64, f64)>,
    /// Opacity of the band.
    pub band_opacity: f64,
    /// Whether a line joins the points; without it they are a cloud of small dots.
    pub joined: bool,
    /// Whether each point of the line has a dot.
    pub dots: bool,
}

impl Series {
    /// Opacity of a band, so that several overlap legibly.
    const BAND_OPACITY: f64 = 0.16;

    /// A line.
    pub fn line(label: impl Into<String>, style: Style, points: Vec<(f64, f64)>) -> Self {
        let (band, band_opacity) = (Vec::new(), Series::BAND_OPACITY);
        Series { label: label.into(), style, points, band, band_opacity, joined: true, dots: false }
    }
    /// A cloud of points.
    pub fn scatter(label: impl Into<String>, style: Style, points: Vec<(f64, f64)>) -> Self {
        Series { joined: false, ..Series::line(label, style, points) }
    }
    /// A band without a line.
    pub fn band(style: Style, band: Vec<(f64, f64, f64)>) -> Self {
        Series { band, ..Series::line("", style, Vec::new()) }
    }
    /// The same with a band.
    pub fn with_band(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        self.band = band;
        self
    }
    /// The same with dots.
    pub fn with_dots(mut self) -> Self {
        self.dots = true;
        self
    }
}

/// A stretch of the x axis, shaded and named.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Its name, written above it where there is room.
    pub label: String,
    /// Its colour.
    pub fill: &'static str,
}

/// One pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Written above; none by default.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Lines and bands, the first at the bottom.
    pub series: Vec<Series>,
    /// Shaded stretches, behind everything.
    pub shades: Vec<Shade>,
    /// Width of the axes, labels and title, in pixels. A legend is put to the right of it.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
}

impl Figure {
    /// An empty figure of 420 by 280 pixels: at 96 an inch about a column of a paper.
    pub fn new(x: Axis, y: Axis) -> Self {
        let (title, series, shades) = (String::new(), Vec::new(), Vec::new());
        Figure { title, x, y, series, shades, width: 420.0, height: 280.0 }
    }
    /// The same with a title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }
    /// The same with one more series.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
    /// The same in another size.
    pub fn sized(mut self, width: f64, height: f64) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        let point = |&(x, y): &(f64, f64)| self.x.shows(x) && self.y.shows(y);
        let band = |&(x, low, high): &(f64, f64, f64)| point(&(x, low)) && point(&(x, high));
        !self.series.iter().any(|s| s.points.iter().any(point) || s.band.iter().any(band))
    }

    /// The figure as an SVG file.
    pub fn svg(&self) -> String {
        sheet(std::slice::from_ref(self), 1)
    }

    /// The figure as an element of a page in the report's style, light or dark as the page is. No
    /// other figure of the page may have the same `number`; `name` is for those who hear the page.
    pub fn inline(&self, number: usize, name: &str) -> String {
        svg::inline(self, number, name)
    }
}

#[cfg(test)]
mod tests;
