//! Numbers from a CSV file.

use crate::error::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// Bytes of a file at most.
const MOST_BYTES: u64 = 1 << 30;
/// Numbers of a table at most: 1 GiB of them.
const MOST_NUMBERS: usize = 1 << 27;
/// Columns of a file at most.
const MOST_COLUMNS: usize = 1 << 16;
/// Levels of a categorical column at most.
const MOST_LEVELS: usize = 32;
/// What people write where a value is missing, besides nothing.
const MISSING: [&str; 6] = ["NA", "N/A", "NaN", "nan", "null", "?"];

/// Named columns of numbers.
///
/// A column that holds words only, and few different ones, is categorical: it gives an indicator
/// (1 where the word stands, else 0) for each word but the first in sorted order, which is the one
/// that the others are compared with.
///
/// ```
/// use santa_posterior::regression::Table;
///
/// let table = Table::from_csv("size,colour\n1.5,red\n2,blue\n", None)?;
/// assert_eq!(table.names(), ["size", "colour=red"]); // against blue
/// assert_eq!(table.column(1), [1.0, 0.0]);
/// # Ok::<(), santa_posterior::Error>(())
/// ```
///
/// The format is that of RFC 4180 with a header: commas, quotes where a field holds a comma, a
/// quote (written twice) or the end of a line. Lines may end in either way, a byte order mark is
/// skipped, and so are empty lines and spaces around a field without quotes.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    names: Vec<String>,
    columns: Vec<Vec<f64>>,
    /// The header that each column comes from.
    sources: Vec<String>,
    rows: usize,
}

impl Table {
    /// Reads a file; of all columns, or of those that `select` names: the others may hold anything.
    pub fn read(path: impl AsRef<Path>, select: Option<&[&str]>) -> Result<Self> {
        let path = path.as_ref();
        let file = std::fs::File::open(path).map_err(Error::io("opening", path))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Error::io("reading", path))?;
        let here = |reason: String| Error::data(format!("{}: {reason}", path.display()));
        if bytes.len() as u64 > MOST_BYTES {
            return Err(here(format!("more than {} GiB; take a part of it", MOST_BYTES >> 30)));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            here(format!("byte {} is not UTF-8; save it as UTF-8", e.utf8_error().valid_up_to()))
        })?;
        Table::from_csv(&text, select).map_err(|e| here(e.to_string()))
    }

    /// The same from text.
    pub fn from_csv(text: &str, select: Option<&[&str]>) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut records = Records::new(text);
        let mut header = Vec::new();
        if records.next(&mut header)?.is_none() {
            return Err(Error::data("the file is empty; its first line must name the columns"));
        }
        check_header(&header)?;
        let chosen = choose(&header, select)?;
        let start = records.clone();

        let mut kinds = vec![Kind::default(); chosen.len()];
        let (mut fields, mut rows) = (Vec::with_capacity(header.len()), 0);
        while let Some(line) = records.next(&mut fields)? {
            if fields.len() != header.len() {
                return Err(Error::data(format!(
                    "line {line} has {} fields, the header has {}",
                    fields.len(),
                    header.len()
                )));
            }
            for (kind, i) in kinds.iter_mut().zip(&chosen) {
                kind.observe(&fields[*i], line, &header[*i])?;
            }
            rows += 1;
        }
        if rows == 0 {
            return Err(Error::data("there are no rows below the header"));
        }
        let mut table = Table { names: vec![], columns: vec![], sources: vec![], rows };
        let mut places = Vec::with_capacity(chosen.len());
        for (kind, i) in kinds.iter().zip(&chosen) {
            places.push(table.names.len());
            table.announce(kind, &header[*i])?;
        }
        if table.names.len().saturating_mul(rows) > MOST_NUMBERS {
            return Err(Error::data(format!(
                "{rows} rows of {} columns are more than {MOST_NUMBERS} numbers; \
                 select fewer columns or rows",
                table.names.len()
            )));
        }
        table.columns = table.names.iter().map(|_| Vec::with_capacity(rows)).collect();
        let mut records = start;
        while records.next(&mut fields)?.is_some() {
            for ((kind, i), place) in kinds.iter().zip(&chosen).zip(&places) {
                let field = fields[*i].as_ref();
                match kind.levels() {
                    None => table.columns[*place].extend(number(field)),
                    Some(levels) => {
                        for (k, level) in levels.enumerate() {
                            table.columns[place + k].push(f64::from(u8::from(level == field)));
                        }
                    }
                }
            }
        }
        Ok(table)
    }

    /// Names the columns that a column of the file gives.
    fn announce(&mut self, kind: &Kind, header: &str) -> Result<()> {
        let mut add = |name: String| {
            if self.names.contains(&name) {
                return Err(Error::data(format!("two columns have the name `{name}`")));
            }
            self.names.push(name);
            self.sources.push(header.to_string());
            Ok(())
        };
        let Some(levels) = kind.levels() else { return add(header.to_string()) };
        if kind.words.len() < 2 {
            return Err(Error::data(format!("column `{header}` has one word only; leave it out")));
        }
        for level in levels {
            add(format!("{header}={level}"))?;
        }
        Ok(())
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// A column.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn column(&self, column: usize) -> &[f64] {
        &self.columns[column]
    }
    /// The one column of this name: a number, or a word that is one of two.
    pub fn response(&self, name: &str) -> Result<&[f64]> {
        match self.indicators(name)[..] {
            [] => Err(unknown_name("column", name, self.sources())),
            [column] => Ok(&self.columns[column]),
            _ => Err(Error::data(format!(
                "column `{name}` has more than two words; a response is a number or one of two"
            ))),
        }
    }
    /// The places of the columns that come from the file's column `name`; none if there is none.
    pub fn indicators(&self, name: &str) -> Vec<usize> {
        let both = self.sources.iter().zip(&self.names).enumerate();
        both.filter(|(_, (source, own))| *source == name || *own == name).map(|(i, _)| i).collect()
    }
    /// Of each column, the name in the file that it comes from: several indicators have one source.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(String::as_str)
    }
}

fn check_header(header: &[Cow<'_, str>]) -> Result<()> {
    if let [only] = header
        && let Some(separator) = [';', '\t'].into_iter().find(|c| only.contains(*c))
    {
        return Err(Error::data(format!(
            "the header has {separator:?} and no comma; separate the columns by commas"
        )));
    }
    if header.len() > MOST_COLUMNS {
        return Err(Error::data(format!("more than {MOST_COLUMNS} columns")));
    }
    let mut seen = BTreeSet::new();
    for (i, name) in header.iter().enumerate() {
        if name.is_empty() {
            return Err(Error::data(format!("column {} has no name in the header", i + 1)));
        }
        if !seen.insert(name) {
            return Err(Error::data(format!("the header names `{name}` twice; rename one")));
        }
    }
    Ok(())
}

fn choose(header: &[Cow<'_, str>], select: Option<&[&str]>) -> Result<Vec<usize>> {
    let Some(select) = select else { return Ok((0..header.len()).collect()) };
    let find = |name: &&str| {
        let place = header.iter().position(|h| h == name);
        place.ok_or_else(|| unknown_name("column", name, header.iter().map(|h| &**h)))
    };
    select.iter().map(find).collect()
}

/// There is no such name; the nearest one may be what was meant.
pub(super) fn unknown_name<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    let nearest = known.min_by_key(|known| distance(name, known));
    let hint = nearest.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    Error::data(format!("there is no {what} `{name}`{hint}"))
}

/// Letters to insert, delete or replace to make one word of the other, upper case or not.
fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|word| word.to_lowercase().chars().collect::<Vec<_>>());
    let mut costs: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut costs[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = costs[j + 1];
            costs[j + 1] = change.min(diagonal + 1).min(costs[j] + 1);
        }
    }
    costs[b.len()]
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|x: &f64| x.is_finite())
}

/// What a column holds.
#[derive(Clone, Debug, Default)]
struct Kind {
    /// The first line with a number.
    number: Option<usize>,
    /// Different words, and the line of the first one.
    words: BTreeSet<String>,
    word: usize,
}

impl Kind {
    fn observe(&mut self, field: &str, line: usize, column: &str) -> Result<()> {
        let refuse =
            |why: String| Err(Error::data(format!("line {line}, column `{column}`: {why}")));
        if field.is_empty() || MISSING.contains(&field) {
            return refuse("the value is missing; leave the row out or fill it in".into());
        }
        if number(field).is_some() {
            self.number.get_or_insert(line);
        } else if !self.words.contains(field) {
            if self.words.is_empty() {
                self.word = line;
            }
            self.words.insert(field.to_string());
        }
        match self.number {
            Some(_) if self.word == line => {
                refuse(format!("`{}` is not a finite number", shorten(field)))
            }
            Some(_) if self.word > 0 => refuse(format!(
                "the number {} in a column of words (line {} has one); write words or numbers",
                shorten(field),
                self.word
            )),
            _ if self.words.len() > MOST_LEVELS => refuse(format!(
                "more than {MOST_LEVELS} different words; leave the column out or merge some"
            )),
            _ => Ok(()),
        }
    }

    /// Of a categorical column: all words but the first.
    fn levels(&self) -> Option<impl Iterator<Item = &str>> {
        (self.word > 0).then(|| self.words.iter().skip(1).map(String::as_str))
    }
}

/// So much of a field as fits into a message.
fn shorten(field: &str) -> Cow<'_, str> {
    const SHOWN: usize = 40;
    match field.char_indices().nth(SHOWN) {
        None => field.into(),
        Some((end, _)) => format!("{}...", &field[..end]).into(),
    }
}

/// The records of a text, one after the other.
#[derive(Clone)]
struct Records<'a> {
    rest: &'a str,
    /// The line that `rest` begins with.
    line: usize,
}

impl<'a> Records<'a> {
    fn new(text: &'a str) -> Self {
        Records { rest: text, line: 1 }
    }

    /// The next record that is not an empty line, and the line on which it begins.
    fn next(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<Option<usize>> {
        while !self.rest.is_empty() {
            let line = self.line;
            fields.clear();
            while self.field(fields)? {
                if fields.len() > MOST_COLUMNS {
                    return Err(Error::data(format!("line {line}: over {MOST_COLUMNS} fields")));
                }
            }
            let empty = matches!(&fields[..], [Cow::Borrowed("")]);
            if !empty {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Takes a field; true if another one follows in the record.
    fn field(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<bool> {
        let trimmed = self.rest.trim_start_matches(' ');
        if let Some(quoted) = trimmed.strip_prefix('"') {
            let (value, after) = self.quoted(quoted, fields.len() + 1)?;
            fields.push(value);
            self.rest = after.trim_start_matches(' ');
        } else {
            let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
            let (field, after) = self.rest.split_at(end);
            if field.contains('"') {
                return Err(Error::data(format!(
                    "line {}, field {}: a quote inside a field; quote the whole field and write \
                     the inner quote twice",
                    self.line,
                    fields.len() + 1
                )));
            }
            fields.push(field.trim().into());
            self.rest = after;
        }
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return Ok(true);
        }
        self.rest = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        match self.rest.strip_prefix('\n') {
            Some(rest) => {
                self.rest = rest;
                self.line += 1;
            }
            None if self.rest.is_empty() => {}
            None => {
                return Err(Error::data(format!(
                    "line {}, field {}: text after the closing quote",
                    self.line,
                    fields.len()
                )));
            }
        }
        Ok(false)
    }

    /// The value of a quoted field and what follows the closing quote.
    fn quoted(&mut self, text: &'a str, field: usize) -> Result<(Cow<'a, str>, &'a str)> {
        let start = self.line;
        let mut from = 0;
        loop {
            let Some(quote) = text[from..].find('"').map(|i| from + i) else {
                return Err(Error::data(format!(
                    "line {start}, field {field}: the quote is never closed"
                )));
            };
            self.line += text[from..quote].matches('\n').count();
            if text[quote + 1..].starts_with('"') {
                from = quote + 2;
                continue;
            }
            let raw = &text[..quote];
            let value =
                if raw.contains('"') { raw.replace("\"\"", "\"").into() } else { raw.into() };
            return Ok((value, &text[quote + 1..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Table::from_csv(text, None).unwrap_err().to_string()
    }

    #[test]
    fn numbers_quotes_line_ends_and_a_byte_order_mark_are_read() {
        let text = "\u{feff}a, \"b, \"\"c\"\"\" ,d\r\n1, 2.5 ,\"-3e2\"\r\n\r\n4,5,6";
        let table = Table::from_csv(text, None).unwrap();
        assert_eq!(table.names(), ["a", "b, \"c\"", "d"]);
        assert_eq!((table.rows(), table.column(2)), (2, &[-300.0, 6.0][..]));
        assert_eq!(table.response("a").unwrap(), [1.0, 4.0]);
    }

    #[test]
    fn words_become_indicators_against_the_first() {
        let text = "y,colour\n1,red\n2,blue\n3,\"green\n tea\"\n4,red\n";
        let table = Table::from_csv(text, None).unwrap();
        assert_eq!(table.names(), ["y", "colour=green\n tea", "colour=red"]);
        assert_eq!(table.column(2), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(table.indicators("colour"), [1, 2]);
        assert_eq!(table.indicators("colour=red"), [2]);
        assert!(table.response("colour").unwrap_err().to_string().contains("two words"));
        let table = Table::from_csv("ill\nyes\nno\n", None).unwrap();
        assert_eq!(table.response("ill").unwrap(), [1.0, 0.0]);
    }

    #[test]
    fn only_the_selected_columns_must_make_sense() {
        let text = "id,note,x\na7,,1\na8,NA,2\n";
        let table = Table::from_csv(text, Some(&["x"])).unwrap();
        assert_eq!((table.names(), table.column(0)), (&["x".to_string()][..], &[1.0, 2.0][..]));
        let error = Table::from_csv(text, Some(&["nots"])).unwrap_err().to_string();
        assert_eq!(error, "there is no column `nots`; did you mean `note`?");
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        for (text, expected) in [
            ("", "empty"),
            ("\n\n", "empty"),
            ("a,b\n", "no rows"),
            ("a,b\n1,2\n1\n", "line 3 has 1 fields, the header has 2"),
            ("a,b\n1,2\n1,\n", "line 3, column `b`: the value is missing"),
            ("a\n1\nNA\n", "line 3, column `a`: the value is missing"),
            ("a\n1\n1.2x\n", "line 3, column `a`: `1.2x` is not a finite number"),
            ("a\n1\ninf\n", "line 3, column `a`: `inf` is not a finite number"),
            ("a\nx\n1\n", "line 3, column `a`: the number 1 in a column of words (line 2"),
            ("a,a\n1,2\n", "names `a` twice"),
            ("a,\n1,2\n", "column 2 has no name"),
            ("a;b\n1;2\n", "separate the columns by commas"),
            ("a\n\"1\n", "line 2, field 1: the quote is never closed"),
            ("a\n\"1\"2\n", "line 2, field 1: text after the closing quote"),
            ("a\n1\"2\n", "line 2, field 1: a quote inside a field"),
            ("a\nx\nx\n", "column `a` has one word only"),
        ] {
            assert!(refusal(text).contains(expected), "{text:?}: {}", refusal(text));
        }
        let many: String = (0..=MOST_LEVELS).map(|i| format!("w{i}\n")).collect();
        assert!(refusal(&format!("a\n{many}")).contains("different words"));
    }

    #[test]
    fn a_line_is_counted_through_quoted_line_ends() {
        assert!(refusal("a,b\n\"x\ny\",1\nz,?\n").contains("line 4, column `b`"));
    }

    #[test]
    fn files_are_read_and_their_names_are_in_the_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.csv");
        std::fs::write(&path, "x\n1\n").unwrap();
        assert_eq!(Table::read(&path, None).unwrap().rows(), 1);
        std::fs::write(&path, b"x\n\xff\n").unwrap();
        assert!(Table::read(&path, None).unwrap_err().to_string().contains("byte 2 is not UTF-8"));
        std::fs::write(&path, "x\n?\n").unwrap();
        let error = Table::read(&path, None).unwrap_err().to_string();
        assert!(error.contains("data.csv: line 2"), "{error}");
        assert!(Table::read(folder.path().join("none.csv"), None).is_err());
    }
}
