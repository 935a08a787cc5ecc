//! The file itself: what goes in comes out, and nothing else is taken for a checkpoint.

use santa::{Checkpoint, Error};
use std::path::PathBuf;

fn example() -> Checkpoint {
    let mut checkpoint = Checkpoint::new();
    checkpoint.insert_tensor("w", &[2, 3], &[1.0f32, -2.0, 3.5, 0.0, -0.0, 1e-40]).unwrap();
    checkpoint.insert_tensor("b", &[], &[std::f64::consts::PI]).unwrap();
    checkpoint.insert_tensor("none", &[0, 4], &[0.0f32; 0]).unwrap();
    checkpoint.insert_meta("epoch", &12).unwrap();
    checkpoint.insert_meta("names", &["a \"quoted\" one", "ö"]).unwrap();
    checkpoint
}

/// A safetensors file with a header of our choice.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn reason(bytes: &[u8]) -> String {
    Checkpoint::from_bytes(bytes).unwrap_err().to_string()
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("santa-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_goes_in_comes_out() {
    let checkpoint = example();
    let bytes = checkpoint.to_bytes().unwrap();
    let again = Checkpoint::from_bytes(&bytes).unwrap();
    assert_eq!(again, checkpoint);
    assert_eq!(again.to_bytes().unwrap(), bytes);
    assert_eq!(again.tensor_names().collect::<Vec<_>>(), ["b", "none", "w"]);
    assert_eq!(again.meta_keys().collect::<Vec<_>>(), ["epoch", "names"]);
    assert_eq!(again.shape("w").unwrap(), [2, 3]);
    let w: Vec<f32> = again.tensor_of_shape("w", &[2, 3]).unwrap();
    assert_eq!(w[4].to_bits(), (-0.0f32).to_bits());
    assert_eq!(w[5], 1e-40);
    assert_eq!(again.tensor::<f64>("b").unwrap(), [std::f64::consts::PI]);
    assert_eq!(again.meta::<u32>("epoch").unwrap(), 12);
    assert_eq!(again.meta::<Vec<String>>("names").unwrap(), ["a \"quoted\" one", "ö"]);
}

#[test]
fn the_file_is_a_safetensors_file() {
    let bytes = example().to_bytes().unwrap();
    let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(read.len(), 3);
    let w = read.tensor("w").unwrap();
    assert_eq!((w.dtype(), w.shape()), (safetensors::Dtype::F32, &[2usize, 3][..]));
    assert_eq!(w.data()[4..8], (-2.0f32).to_le_bytes());
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "1");
}

#[test]
fn a_wrong_type_shape_or_name_is_refused_by_name() {
    let mut checkpoint = example();
    for (message, words) in [
        (checkpoint.tensor::<f64>("w").unwrap_err().to_string(), ["`w`", "F32"]),
        (
            checkpoint.tensor_of_shape::<f32>("w", &[3, 2]).unwrap_err().to_string(),
            ["`w`", "[2, 3]"],
        ),
        (checkpoint.tensor::<f32>("x").unwrap_err().to_string(), ["`x`", "no tensor"]),
        (checkpoint.meta::<u32>("x").unwrap_err().to_string(), ["`x`", "no metadata"]),
        (checkpoint.meta::<u32>("names").unwrap_err().to_string(), ["`names`", "invalid type"]),
        (checkpoint.insert_tensor("y", &[2], &[1.0f32]).unwrap_err().to_string(), ["`y`", "[2]"]),
        (
            checkpoint.insert_tensor("y", &[usize::MAX, 2], &[1.0f32]).unwrap_err().to_string(),
            ["`y`", "shape"],
        ),
        (
            checkpoint.insert_tensor("__metadata__", &[1], &[1.0f32]).unwrap_err().to_string(),
            ["`__metadata__`", "tensor"],
        ),
        (checkpoint.insert_meta("format", &1).unwrap_err().to_string(), ["`format`", "own"]),
    ] {
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    assert_eq!(checkpoint, example());
}

#[test]
fn what_is_no_checkpoint_of_ours_is_refused_with_the_reason() {
    let ours = r#""__metadata__":{"format":"1"}"#;
    assert!(Checkpoint::from_bytes(&file(&format!("{{{ours}}}"), &[])).is_ok());
    for (bytes, word) in [
        (vec![], "ends within its header"),
        (vec![0xff; 64], "ends within its header"),
        (file("{}", &[]), "`format`"),
        (file(r#"{"__metadata__":{"format":"pt"}}"#, &[]), "`pt`"),
        (file(r#"{"__metadata__":{"format":"2"}}"#, &[]), "newer"),
        (file(&format!("{{{ours}}}"), &[0]), "promises 0 bytes"),
        (file(&format!("{{{ours}"), &[]), "its header"),
        (
            file(
                &format!(r#"{{{ours},"x":{{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}}}"#),
                &[0; 2],
            ),
            "`x` has elements of type BF16",
        ),
        (
            file(
                &format!(r#"{{{ours},"x":{{"dtype":"F99","shape":[1],"data_offsets":[0,2]}}}}"#),
                &[0; 2],
            ),
            "F99",
        ),
        (
            file(
                &format!(
                    r#"{{{ours},"x":{{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}}}"#
                ),
                &[],
            ),
            "promises 4294967296 bytes",
        ),
        (
            file(
                &format!(r#"{{{ours},"x":{{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}}}"#),
                &[0; 4],
            ),
            "its header",
        ),
    ] {
        let reason = reason(&bytes);
        assert!(reason.contains(word), "{word}: {reason}");
    }
}

/// Sums of lengths near 2^64 overflow in readers that add before they compare.
#[test]
fn lengths_that_overflow_when_added_are_refused() {
    let mut header = r#"{"__metadata__":{"format":"1"}"#.to_string();
    let mut end = 0u64;
    for i in 0..9 {
        let bytes = ((1u64 << 61) - 8).min(u64::MAX - 7 - end);
        let count = bytes / 8;
        let next = end + count * 8;
        header += &format!(
            r#","t{i}":{{"dtype":"F64","shape":[{count}],"data_offsets":[{end},{next}]}}"#
        );
        end = next;
    }
    header += "}";
    assert!(u64::MAX - end < 256);
    assert!(reason(&file(&header, &[])).contains("promises"));
}

#[test]
fn every_truncation_is_refused() {
    let bytes = example().to_bytes().unwrap();
    for end in 0..bytes.len() {
        assert!(Checkpoint::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_file_replaces_the_earlier_one_and_leaves_nothing_beside_it() {
    let folder = Folder::new("replace");
    let path = folder.0.join("run.safetensors");
    Checkpoint::new().write(&path).unwrap();
    example().write(&path).unwrap();
    assert_eq!(Checkpoint::read(&path).unwrap(), example());
    assert_eq!(folder.files(), ["run.safetensors"]);
}

#[test]
fn a_failed_write_leaves_the_earlier_file_and_names_the_path() {
    let folder = Folder::new("failure");
    let path = folder.0.join("taken");
    // A folder with something inside cannot be replaced by a file: the renaming fails.
    std::fs::create_dir(&path).unwrap();
    example().write(path.join("inside")).unwrap();
    let error = example().write(&path).unwrap_err();
    assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
    assert_eq!(folder.files(), ["taken"]);
    assert_eq!(Checkpoint::read(path.join("inside")).unwrap(), example());

    let missing = folder.0.join("no").join("such.safetensors");
    let message = example().write(&missing).unwrap_err().to_string();
    assert!(message.contains("such.safetensors"), "{message}");
    assert!(example().write("/").is_err());
}

#[test]
fn reading_names_the_file() {
    let folder = Folder::new("reading");
    let path = folder.0.join("bad.safetensors");
    assert!(matches!(Checkpoint::read(&path), Err(Error::Io { action: "reading", .. })));
    std::fs::write(&path, b"not a checkpoint").unwrap();
    let message = Checkpoint::read(&path).unwrap_err().to_string();
    assert!(message.contains("bad.safetensors"), "{message}");
}
