//! Cell arrays of matrices of bytes from MATLAB 5 files: what the polyphonic sets are.
//!
//! A file is a header of 128 bytes and a list of elements. An element is a tag (type, length) and
//! its bytes; one of type `miMATRIX` is a variable, made of elements itself: flags, dimensions,
//! name, and values or, for a cell array, one `miMATRIX` for each cell. One of type `miCOMPRESSED`
//! is another element, deflated.
//!
//! Read are cell arrays of two-dimensional real matrices whose values are stored as bytes,
//! compressed or not. That is not only the class `uint8`: MATLAB stores any matrix in the smallest
//! type that holds its values, so a `double` matrix of zeros and ones is bytes in a file. Cells in
//! cells, other contents of cells, big-endian files and other versions are refused. Variables that
//! are no cell arrays are passed over.

mod elements;
#[cfg(test)]
mod tests;

use crate::bounded::{MAX_INFLATED, read_file};
use crate::error::{Error, Result};
use elements::{Element, Elements, inflate, mi};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes before the first element.
const HEADER: usize = 128;
/// Where the version and the order of bytes are in the header.
const VERSION: usize = 124;
const LITTLE_ENDIAN_5: &[u8] = b"\x00\x01IM";

/// The most cells of a file, in all its arrays together.
const MAX_CELLS: usize = 1 << 20;

/// Classes of arrays.
mod mx {
    pub const CELL: u8 = 1;
    /// From `double` to `uint64`.
    pub const NUMBERS: std::ops::RangeInclusive<u8> = 6..=15;
}

/// A matrix of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<u8>,
    offset: u64,
}

impl Matrix {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Its values as they are in the file: column after column.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// Where it was in the file, or in the variable if that is compressed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends its values, row after row, to those of `out`.
    pub fn append_rows(&self, out: &mut Vec<u8>) {
        // A matrix of no columns may have any number of rows.
        let rows = if self.values.is_empty() { 0 } else { self.rows };
        for row in 0..rows {
            out.extend(self.values.iter().skip(row).step_by(self.rows));
        }
    }
}

/// The cell arrays of a file, by name.
pub type Cells = BTreeMap<String, Vec<Matrix>>;

/// Reads the cell arrays of a file of at most [`MAX_INFLATED`] bytes: see [`from_bytes`].
pub fn read(path: impl AsRef<Path>) -> Result<Cells> {
    read_within(path, MAX_INFLATED)
}

/// Reads the cell arrays of a file of at most `limit` bytes: see [`from_bytes`].
pub fn read_within(path: impl AsRef<Path>, limit: u64) -> Result<Cells> {
    let path = path.as_ref();
    from_bytes(&path.display().to_string(), &read_file(path, limit)?, limit)
}

/// Reads the content of a file; `file` is its name in errors.
///
/// `limit` is for the bytes that all its compressed elements inflate to and those that its cells take
/// here, together: an empty cell is 8 bytes in a file, and a [`Matrix`] here.
pub fn from_bytes(file: &str, bytes: &[u8], limit: u64) -> Result<Cells> {
    if bytes.get(VERSION..HEADER) != Some(LITTLE_ENDIAN_5) {
        let reason = "this is not a little-endian MATLAB 5 file; save it with -v6 or -v7";
        return Err(Error::format(file, VERSION.min(bytes.len()), reason));
    }
    let mut elements = Elements::new(file, bytes, HEADER);
    let mut budget = Budget { bytes: limit, cells: MAX_CELLS };
    let mut cells = Cells::new();
    while let Some(element) = elements.next()? {
        let variable = if element.kind == mi::COMPRESSED {
            let file = format!("{file}, element at byte {} inflated", element.start);
            let inflated = inflate(&file, element.bytes(), budget.bytes)?;
            budget.bytes -= inflated.len() as u64;
            let inner = Elements::new(&file, &inflated, 0).expect(mi::MATRIX, "the element")?;
            variable(&file, &inner, &mut budget)?
        } else {
            variable(file, &element, &mut budget)?
        };
        if let Some((name, list)) = variable
            && cells.insert(name.clone(), list).is_some()
        {
            let reason = format!("this is the second variable with the name {name}");
            return Err(Error::format(file, element.start, reason));
        }
    }
    Ok(cells)
}

/// What the rest of a file may still take.
struct Budget {
    bytes: u64,
    cells: usize,
}

impl Budget {
    /// Takes bytes off, unless they are too many.
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes as u64);
        self.bytes = left.ok_or_else(|| {
            format!("{bytes} bytes of memory are needed, the limit leaves {}", self.bytes)
        })?;
        Ok(())
    }

    /// Takes the cells of an array off, without their values.
    fn spend_cells(&mut self, count: usize) -> Result<(), String> {
        let left = self.cells.checked_sub(count);
        self.cells = left.ok_or_else(|| format!("more than {MAX_CELLS} cells in a file"))?;
        self.spend(count * size_of::<Matrix>())
    }
}

/// Name and cells, if this is a cell array; nothing for other variables.
fn variable(
    file: &str,
    element: &Element<'_>,
    budget: &mut Budget,
) -> Result<Option<(String, Vec<Matrix>)>> {
    let error = |reason: String| Error::format(file, element.start, reason);
    if element.kind != mi::MATRIX {
        return Err(error(format!(
            "an element of type {}, where a variable should be",
            element.kind
        )));
    }
    let mut parts = element.parts(file);
    let head = Head::read(&mut parts)?;
    if head.class != mx::CELL {
        return Ok(None);
    }
    // Counted first, so that no more is allocated for the cells than they take.
    let mut count = 0;
    let mut rest = parts.clone();
    while rest.next()?.is_some() {
        count += 1;
    }
    let (_, _, expected) = head.size(file)?;
    if count != expected {
        return Err(error(format!("{count} cells, where the dimensions say {expected}")));
    }
    budget.spend(size_of::<(String, Vec<Matrix>)>() + head.name.len()).map_err(error)?;
    budget.spend_cells(count).map_err(error)?;
    let mut cells = Vec::with_capacity(count);
    while let Some(cell) = parts.next()? {
        cells.push(matrix(file, &cell, budget)?);
    }
    Ok(Some((head.name, cells)))
}

fn matrix(file: &str, element: &Element<'_>, budget: &mut Budget) -> Result<Matrix> {
    let error = |reason: String| Error::format(file, element.start, reason);
    if element.kind != mi::MATRIX {
        return Err(error(format!("a cell of type {}, not a matrix", element.kind)));
    }
    let offset = element.start as u64;
    // MATLAB writes a cell that was never filled as a matrix of no bytes at all.
    if element.bytes().is_empty() {
        return Ok(Matrix { rows: 0, columns: 0, values: Vec::new(), offset });
    }
    let mut parts = element.parts(file);
    let head = Head::read(&mut parts)?;
    if head.class == mx::CELL {
        return Err(error("a cell array in a cell; only matrices are read".to_owned()));
    }
    if !mx::NUMBERS.contains(&head.class) || head.complex {
        let complex = if head.complex { ", complex" } else { "" };
        let reason = "only real numbers are read (classes 6 to 15)";
        return Err(error(format!("a cell of class {}{complex}; {reason}", head.class)));
    }
    let values = parts.expect(mi::UINT8, "the values of a matrix")?.bytes();
    let (rows, columns, expected) = head.size(file)?;
    if values.len() != expected {
        return Err(error(format!("{} values, the dimensions say {expected}", values.len())));
    }
    if parts.next()?.is_some() {
        return Err(error("there is more in this matrix than its values".to_owned()));
    }
    budget.spend(values.len()).map_err(error)?;
    Ok(Matrix { rows, columns, values: values.to_vec(), offset })
}

/// What every array begins with.
struct Head {
    class: u8,
    complex: bool,
    /// Rows and columns as they are in the file, and where.
    size: [i32; 2],
    size_at: usize,
    name: String,
}

impl Head {
    fn read(parts: &mut Elements<'_>) -> Result<Head> {
        const COMPLEX: u8 = 0x08;
        /// The longest name that MATLAB allows.
        const LONGEST_NAME: usize = 63;
        let flags = parts.expect(mi::UINT32, "the flags of an array")?;
        let &[class, flag_bits, ..] = flags.bytes() else {
            return Err(parts.error(flags.start, "the flags of an array are cut off"));
        };
        let dimensions = parts.expect(mi::INT32, "the dimensions of an array")?;
        let size = match dimensions.bytes().as_chunks::<4>() {
            (&[rows, columns], []) => [rows, columns].map(i32::from_le_bytes),
            // Only arrays that are passed over may have other numbers of dimensions.
            _ => [-1, -1],
        };
        let name = parts.expect(mi::INT8, "the name of an array")?;
        let text = str::from_utf8(name.bytes()).ok().filter(|text| text.len() <= LONGEST_NAME);
        let Some(text) = text else {
            return Err(parts.error(name.start, "the name of an array is no text, or too long"));
        };
        let complex = flag_bits & COMPLEX != 0;
        let size_at = dimensions.start;
        Ok(Head { class, complex, size, size_at, name: text.to_owned() })
    }

    /// Rows, columns, and their product.
    fn size(&self, file: &str) -> Result<(usize, usize, usize)> {
        let [rows, columns] = self.size.map(|size| usize::try_from(size).ok());
        let size = rows.zip(columns).and_then(|(rows, columns)| {
            rows.checked_mul(columns).map(|product| (rows, columns, product))
        });
        size.ok_or_else(|| {
            let reason = "an array whose dimensions are not two numbers, zero or more";
            Error::format(file, self.size_at, reason)
        })
    }
}
