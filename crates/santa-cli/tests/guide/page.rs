//! Pages of Markdown: their blocks, links and headings.

use std::path::{Path, PathBuf};

/// How far a number may be from the one that the page shows: other processors round differently, and
/// training amplifies it.
pub const ABOUT: f64 = 0.25;

/// Where the repository is on the web.
const WEB: [&str; 3] = [
    "https://github.com/santa-rs/santa/blob/main/",
    "https://github.com/santa-rs/santa/tree/main/",
    "https://raw.githubusercontent.com/santa-rs/santa/main/",
];

/// A page.
pub struct Page {
    pub path: PathBuf,
    text: String,
}

/// A fenced block.
pub struct Block {
    /// The comment before it; empty if there is none.
    pub mark: String,
    /// The first word after the fence.
    pub language: String,
    pub text: String,
    /// File and line, for messages.
    pub place: String,
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// The chapters' folder; none in a package, which has no guide.
pub fn docs() -> Option<PathBuf> {
    let docs = root().join("docs/src");
    if !docs.is_dir() {
        eprintln!("SKIPPED: there is no guide in {}", docs.display());
        return None;
    }
    Some(docs)
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Page { path: path.to_path_buf(), text }
    }

    /// The chapters, and the READMEs that show commands.
    pub fn all() -> Vec<Page> {
        let Some(docs) = docs() else { return Vec::new() };
        let entries = std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
        paths.sort();
        paths.extend(["README.md", "crates/santa-cli/README.md"].map(|path| root().join(path)));
        paths.iter().map(|path| Page::read(path)).collect()
    }

    fn place(&self, line: usize) -> String {
        let path = self.path.strip_prefix(root()).unwrap_or(&self.path);
        format!("{}, line {}", path.display(), line + 1)
    }

    /// All fenced blocks, in order.
    pub fn all_blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        let mut mark = String::new();
        for (i, line) in self.text.lines().enumerate() {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                open = !open;
                if open {
                    let language = info.split([',', ' ']).next().unwrap_or_default().into();
                    let (mark, text) = (std::mem::take(&mut mark), String::new());
                    blocks.push(Block { mark, language, text, place: self.place(i) });
                }
            } else if open {
                let block = blocks.last_mut().unwrap();
                block.text += line;
                block.text.push('\n');
            } else if !line.trim().is_empty() {
                let comment = line.trim().strip_prefix("<!--").and_then(|l| l.strip_suffix("-->"));
                mark = comment.unwrap_or_default().trim().into();
            }
        }
        assert!(!open, "{}: a block is not closed", self.path.display());
        blocks
    }

    /// Those of one language.
    pub fn blocks(&self, language: &str) -> impl Iterator<Item = Block> {
        self.all_blocks().into_iter().filter(move |block| block.language == language)
    }

    /// Lines outside of blocks, with their numbers.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut open = false;
        self.text.lines().enumerate().filter(move |(_, line)| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            !open && !fence
        })
    }

    /// Targets of links and pictures that are in the repository, with their places.
    pub fn links(&self) -> Vec<(String, String)> {
        let mut links = Vec::new();
        for (i, line) in self.prose() {
            for (at, _) in line.match_indices("](") {
                let target = &line[at + 2..];
                let Some(end) = target.find(')') else { continue };
                let target = &target[..end];
                let ours = WEB.iter().any(|web| target.starts_with(web));
                if ours || !target.contains("://") {
                    links.push((target.to_string(), self.place(i)));
                }
            }
        }
        links
    }

    /// The file that a link of this page leads to.
    pub fn resolve(&self, target: &str) -> PathBuf {
        match WEB.iter().find_map(|web| target.strip_prefix(web)) {
            Some(path) => root().join(path),
            None => self.path.parent().unwrap().join(target),
        }
    }

    /// Names of the headings, as GitHub and mdBook make them.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len()).then(|| title.strip_prefix(' '))?
        });
        headings
            .map(|title| {
                let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
                let name: String = title.to_lowercase().chars().filter(kept).collect();
                name.trim().replace(' ', "-")
            })
            .collect()
    }
}

/// Whether a command printed what a page shows.
pub fn same(shown: &str, printed: &str, about: bool) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let text = text.trim_end();
        let timed = about && text.lines().any(|line| line.ends_with(" seconds"));
        // Columns are two spaces apart, words of a cell one.
        let cut = |line: &str| match line.trim_end().rsplit_once("  ") {
            Some((rest, _)) if timed => rest.trim_end().to_string(),
            _ => line.trim_end().to_string(),
        };
        text.lines().map(cut).collect()
    };
    let (shown, printed) = (lines(shown), lines(printed));
    shown.len() == printed.len()
        && shown.iter().zip(&printed).all(|(shown, printed)| match about {
            true => about_the_same(shown, printed),
            false => fits(shown, printed),
        })
}

/// `...` stands for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((first, rest)) = pattern.split_once("...") else { return pattern == line };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut pieces = rest.split("...").peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return line.ends_with(piece);
        }
        let Some(at) = line.find(piece) else { return false };
        line = &line[at + piece.len()..];
    }
    true
}

/// Word by word; numbers may differ a little, and a spread (`± 0.3`) by anything.
fn about_the_same(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<_>, Vec<_>) =
        (shown.split_whitespace().collect(), printed.split_whitespace().collect());
    let same = |i: usize| match (shown[i].parse::<f64>(), printed[i].parse::<f64>()) {
        (Ok(_), Ok(_)) if i > 0 && shown[i - 1] == "±" => true,
        (Ok(a), Ok(b)) => (a - b).abs() <= ABOUT * a.abs().max(b.abs()),
        _ => shown[i] == printed[i],
    };
    shown.len() == printed.len() && (0..shown.len()).all(same)
}

#[test]
fn what_is_printed_is_compared_word_by_word_with_room_where_it_is_said() {
    assert!(same("a ... d\n", "a b c d", false));
    assert!(same("error: line ..., field ...\n", "error: line 3, field `x`\n", false));
    assert!(!same("a ... d\n", "a b c", false));
    assert!(!same("a 1.00\n", "a 1.01\n", false));
    let timed = "error  seconds\n3.10 ± 0.2 %  7.0 ± 1.0\n";
    assert!(same(timed, "error  seconds\n3.00 ± 0.5 %    99.0\n", true));
    assert!(!same("error\n3.10 %\n", "error\n6.10 %\n", true));
    assert!(!same("a\n", "a\nb\n", false));
}
