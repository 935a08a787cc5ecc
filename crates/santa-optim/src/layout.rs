//! Names and shapes of the parameters in one flat buffer.

use crate::error::{Error, Result};
use crate::noise::{MAX_SEGMENT_LEN, MAX_SEGMENTS};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A named tensor inside the flat parameter vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    name: String,
    shape: Vec<usize>,
    offset: usize,
    len: usize,
}

impl Segment {
    /// Its name, unique in the layout: `layer1.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its shape; the product is its length.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// Where it lies in the flat vector.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
    /// Whether its name matches a pattern, in which `*` stands for any run of characters.
    pub fn matches(&self, pattern: &str) -> bool {
        matches_pattern(pattern.as_bytes(), self.name.as_bytes())
    }
}

/// `*` stands for any run of characters, everything else for itself.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, n));
            p += 1;
        } else if p < pattern.len() && pattern[p] == name[n] {
            p += 1;
            n += 1;
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            p = after;
            n = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// The segments of a flat parameter vector, in order and without gaps.
///
/// ```
/// use santa::Layout;
///
/// let layout = Layout::new([("layer.weight", vec![400, 784]), ("layer.bias", vec![400])])?;
/// assert_eq!(layout.dim(), 400 * 784 + 400);
/// assert_eq!(layout.segment("layer.bias").unwrap().range(), 313_600..314_000);
/// # Ok::<(), santa::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(String, Vec<usize>)>", into = "Vec<(String, Vec<usize>)>")]
pub struct Layout {
    segments: Vec<Segment>,
    dim: usize,
}

impl Layout {
    /// A layout from names and shapes, in the order of the flat vector.
    pub fn new<N: Into<String>>(
        segments: impl IntoIterator<Item = (N, Vec<usize>)>,
    ) -> Result<Self> {
        let mut dim = 0usize;
        let mut list: Vec<Segment> = Vec::new();
        let mut names = std::collections::HashSet::new();
        for (name, shape) in segments {
            let name = name.into();
            let refuse = |why: &str| Err(Error::Structure(format!("segment `{name}`: {why}")));
            let Some(len) = shape.iter().try_fold(1usize, |a, b| a.checked_mul(*b)) else {
                return refuse("its shape overflows");
            };
            if len == 0 {
                return refuse("it has no elements");
            }
            if len > MAX_SEGMENT_LEN {
                return refuse("more than 2^33 elements; split it");
            }
            if !names.insert(name.clone()) {
                return refuse("the name occurs twice");
            }
            let Some(end) = dim.checked_add(len) else {
                return refuse("the layout overflows");
            };
            list.push(Segment { name, shape, offset: dim, len });
            dim = end;
        }
        if list.is_empty() {
            return Err(Error::Structure("a layout needs at least one segment".into()));
        }
        if list.len() > MAX_SEGMENTS {
            return Err(Error::Structure(format!("more than {MAX_SEGMENTS} segments")));
        }
        Ok(Layout { segments: list, dim })
    }

    /// One segment called `theta`.
    pub fn flat(dim: usize) -> Result<Self> {
        Self::new([("theta", vec![dim])])
    }

    /// Number of parameters.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// A segment by its name.
    pub fn segment(&self, name: &str) -> Option<&Segment> {
        self.segments.iter().find(|s| s.name == name)
    }

    /// Refuses a buffer of another length; `what` names it in the error.
    pub fn check_len(&self, what: &'static str, found: usize) -> Result<()> {
        if found == self.dim {
            Ok(())
        } else {
            Err(Error::Length { what, expected: self.dim, found })
        }
    }
}

impl TryFrom<Vec<(String, Vec<usize>)>> for Layout {
    type Error = Error;
    fn try_from(segments: Vec<(String, Vec<usize>)>) -> Result<Self> {
        Layout::new(segments)
    }
}

impl From<Layout> for Vec<(String, Vec<usize>)> {
    fn from(layout: Layout) -> Self {
        layout.segments.into_iter().map(|s| (s.name, s.shape)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_expect() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("*.bias", "l1.bias", true),
            ("*.bias", "l1.bias2", false),
            ("l*.w*t", "l10.weight", true),
            ("l1.*", "l10.weight", false),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(matches_pattern(pattern.as_bytes(), name.as_bytes()), expected, "{pattern}");
        }
    }

    #[test]
    fn impossible_layouts_are_refused_by_name() {
        let none: [(&str, Vec<usize>); 0] = [];
        assert!(Layout::new(none).is_err());
        for (segments, word) in [
            (vec![("a", vec![2]), ("a", vec![3])], "twice"),
            (vec![("a", vec![0])], "no elements"),
            (vec![("a", vec![usize::MAX, 2])], "overflows"),
            (vec![("a", vec![1 << 40])], "split"),
        ] {
            let message = Layout::new(segments).unwrap_err().to_string();
            assert!(message.contains("`a`") && message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_layout_survives_serialisation() {
        let layout = Layout::new([("w", vec![3, 4]), ("scalar", vec![])]).unwrap();
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(text, r#"[["w",[3,4]],["scalar",[]]]"#);
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), layout);
        assert_eq!(layout.dim(), 13);
    }
}
