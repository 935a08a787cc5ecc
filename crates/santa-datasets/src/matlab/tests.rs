//! The reader on files made here.

use super::*;

const DOUBLE: u8 = 6;
const UINT8: u8 = 9;
use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;

/// An element with its tag, padded as those in a matrix are.
fn element(kind: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = [kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// An element of at most four bytes in the space of a tag.
fn small(kind: u16, bytes: &[u8]) -> Vec<u8> {
    let mut out = [kind.to_le_bytes(), (bytes.len() as u16).to_le_bytes()].concat();
    out.extend_from_slice(bytes);
    out.resize(8, 0);
    out
}

/// An array of a class: flags, dimensions, name, and the rest.
fn array(class: u8, size: &[i32], name: &str, rest: &[u8]) -> Vec<u8> {
    let dimensions: Vec<u8> = size.iter().flat_map(|n| n.to_le_bytes()).collect();
    let name = match name.len() {
        1..=4 => small(mi::INT8 as u16, name.as_bytes()),
        _ => element(mi::INT8, name.as_bytes()),
    };
    let flags = element(mi::UINT32, &[class, 0, 0, 0, 0, 0, 0, 0]);
    element(mi::MATRIX, &[flags, element(mi::INT32, &dimensions), name, rest.to_vec()].concat())
}

fn bytes(rows: i32, columns: i32, values: &[u8]) -> Vec<u8> {
    let values = match values.len() {
        1..=4 => small(mi::UINT8 as u16, values),
        _ => element(mi::UINT8, values),
    };
    array(UINT8, &[rows, columns], "", &values)
}

fn cells(name: &str, list: &[Vec<u8>]) -> Vec<u8> {
    array(mx::CELL, &[1, list.len() as i32], name, &list.concat())
}

fn compressed(element: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(element).unwrap();
    let bytes = encoder.finish().unwrap();
    // Not padded: the next element follows at once.
    [&mi::COMPRESSED.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), &bytes].concat()
}

fn file(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![b' '; VERSION];
    out.extend_from_slice(LITTLE_ENDIAN_5);
    out.extend(elements.concat());
    out
}

fn parse(bytes: &[u8]) -> Result<Cells> {
    from_bytes("it.mat", bytes, MAX_INFLATED)
}

fn refusal(elements: &[Vec<u8>]) -> String {
    parse(&file(elements)).unwrap_err().to_string()
}

fn example() -> Vec<Vec<u8>> {
    let two = [bytes(2, 3, &[1, 2, 3, 4, 5, 6]), bytes(1, 3, &[7, 8, 9])];
    vec![cells("traindata", &two), cells("abc", &[bytes(0, 3, &[]), element(mi::MATRIX, &[])])]
}

#[test]
fn cells_are_read_compressed_or_not() {
    let plain = parse(&file(&example())).unwrap();
    let train = &plain["traindata"];
    assert_eq!((train[0].rows(), train[0].columns(), train[1].rows()), (2, 3, 1));
    let mut rows = Vec::new();
    train.iter().for_each(|matrix| matrix.append_rows(&mut rows));
    assert_eq!(rows, [1, 3, 5, 2, 4, 6, 7, 8, 9]);
    assert_eq!((plain["abc"][0].columns(), plain["abc"][1].columns()), (3, 0));

    let packed: Vec<_> = example().iter().map(|element| compressed(element)).collect();
    let values = |cells: &Cells| -> Vec<Vec<u8>> {
        cells.values().flatten().map(|matrix| matrix.values().to_vec()).collect()
    };
    assert_eq!(values(&parse(&file(&packed)).unwrap()), values(&plain));
}

#[test]
fn doubles_that_are_stored_as_bytes_are_read() {
    let matrix = |kind, values: &[u8]| {
        let size = [1, values.len() as i32];
        file(&[cells("x", &[array(DOUBLE, &size, "", &element(kind, values))])])
    };
    assert_eq!(
        parse(&matrix(mi::UINT8, &[0, 1, 1, 0, 1])).unwrap()["x"][0].values(),
        [0, 1, 1, 0, 1]
    );
    const STORED_AS_DOUBLE: u32 = 9;
    let error = parse(&matrix(STORED_AS_DOUBLE, &[0; 8])).unwrap_err().to_string();
    assert!(error.contains("the values of a matrix should be of type 2, not 9"), "{error}");
}

#[test]
fn variables_that_are_no_cells_are_passed_over() {
    let volume = array(DOUBLE, &[2, 2, 2], "volume", &[]);
    let mut elements = example();
    elements.insert(0, volume);
    elements.push(bytes(1, 1, &[1]));
    assert_eq!(parse(&file(&elements)).unwrap().len(), 2);
}

#[test]
fn every_truncation_is_refused_at_a_place_in_the_file() {
    for elements in [example(), example().iter().map(|element| compressed(element)).collect()] {
        let whole = file(&elements);
        // Between two elements a shorter file is a file, too.
        let ends = [HEADER, HEADER + elements[0].len()];
        for end in (0..whole.len()).filter(|end| !ends.contains(end)) {
            match parse(&whole[..end]) {
                Err(Error::Format { file, offset, .. }) => {
                    assert!(file.starts_with("it.mat") && offset <= end as u64);
                }
                other => panic!("{end}: {other:?}"),
            }
        }
    }
}

#[test]
fn other_kinds_of_files_are_refused_by_name() {
    let mut bytes = file(&example());
    bytes[VERSION..HEADER].copy_from_slice(b"\x01\x00MI");
    let text = parse(&bytes).unwrap_err().to_string();
    assert!(text.starts_with("it.mat: at byte 124: this is not a little-endian"), "{text}");
    assert!(parse(b"").is_err());
}

#[test]
fn cells_in_cells_and_other_classes_are_refused() {
    let nested = cells("deep", &[cells("", &[cells("", &[])])]);
    assert!(refusal(&[nested]).contains("a cell array in a cell"));
    const CHAR: u8 = 4;
    let text = array(CHAR, &[1, 8], "", &element(mi::UINT8, &[0; 8]));
    assert!(refusal(&[cells("x", &[text])]).contains("a cell of class 4"));
    let other = array(UINT8, &[1, 8], "", &element(mi::INT8, &[0; 8]));
    assert!(refusal(&[cells("x", &[other])]).contains("should be of type 2, not 1"));
    assert!(refusal(&[element(mi::UINT8, &[0; 8])]).contains("where a variable should be"));
}

#[test]
fn compressed_elements_in_compressed_elements_are_refused() {
    let inner = compressed(&cells("x", &[]));
    assert!(refusal(&[compressed(&inner)]).contains("should be of type 14, not 15"));
}

#[test]
fn dimensions_that_do_not_fit_the_values_are_refused() {
    let matrix = |rows, columns| cells("x", &[bytes(rows, columns, &[0; 6])]);
    assert!(parse(&file(&[matrix(2, 3)])).is_ok());
    assert!(refusal(&[matrix(2, 4)]).contains("6 values, the dimensions say 8"));
    assert!(refusal(&[matrix(-2, -3)]).contains("zero or more"));
    assert!(refusal(&[matrix(i32::MAX, i32::MAX)]).contains("6 values"));
    let many = array(mx::CELL, &[1, i32::MAX], "x", &[]);
    assert!(refusal(&[many]).contains("0 cells, where the dimensions say 2147483647"));
    let cube = array(mx::CELL, &[1, 1, 1], "x", &bytes(1, 1, &[0]));
    assert!(refusal(&[cube]).contains("not two numbers"));
}

#[test]
fn two_variables_of_one_name_are_refused() {
    let element = cells("same", &[]);
    assert!(refusal(&[element.clone(), element]).contains("second variable with the name same"));
}

#[test]
fn what_is_inflated_stays_below_the_limit_over_all_elements() {
    let element = compressed(&cells("x", &[bytes(100, 100, &[0; 10_000])]));
    let whole = file(&[element.clone(), element]);
    let error = from_bytes("it.mat", &whole, 25_000).unwrap_err().to_string();
    assert!(error.contains("element at byte") && error.contains("room for"), "{error}");
}

#[test]
fn empty_cells_count_as_much_as_they_take_here() {
    const COUNT: usize = 1000;
    let variable = cells("x", &vec![element(mi::MATRIX, &[]); COUNT]);
    for element in [variable.clone(), compressed(&variable)] {
        let whole = file(&[element]);
        let error = from_bytes("it.mat", &whole, 20_000).unwrap_err().to_string();
        assert!(error.contains("bytes of memory are needed, the limit leaves"), "{error}");
        assert_eq!(from_bytes("it.mat", &whole, 100_000).unwrap()["x"].len(), COUNT);
    }
    // The values are copied, so they count as well.
    let whole = file(&[cells("x", &[bytes(100, 100, &[0; 10_000])])]);
    assert!(from_bytes("it.mat", &whole, 10_000).is_err());
    assert!(from_bytes("it.mat", &whole, 11_000).is_ok());
}

#[test]
fn the_cells_of_all_variables_are_counted_together() {
    let half = vec![element(mi::MATRIX, &[]); MAX_CELLS / 2];
    let variable = |name| compressed(&cells(name, &half));
    assert!(parse(&file(&[variable("a"), variable("b")])).is_ok());
    let text = refusal(&[variable("a"), variable("b"), cells("c", &half[..1])]);
    assert!(text.contains("more than 1048576 cells in a file"), "{text}");
}
