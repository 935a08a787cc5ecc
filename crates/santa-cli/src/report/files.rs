//! Writing files whole or not at all.

use crate::failure::{Failure, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes a file: first beside its place, then moved there. Who reads it meanwhile sees the old one
/// or the new one, and a full disk leaves the old one as it was.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Failure::system(format!("{}: no folder {}", path.display(), folder.display()))
            .hint("create it, or choose another place with --out"));
    }
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(Failure::usage(format!("{}: not the name of a file", path.display()))
            .hint("name a file, such as report.html"));
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.part", std::process::id()));
    let beside = folder.join(beside);
    let written = File::create(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
        Failure::system(format!("{}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_and_a_folder_in_place_of_a_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let failure = write(&folder.path().join("absent/report.html"), "").unwrap_err();
        assert_eq!(failure.kind, Kind::System);
        assert!(failure.message.contains("absent/report.html"), "{failure}");
        let failure = write(folder.path(), "").unwrap_err();
        assert_eq!(failure.kind, Kind::Usage);
    }

    #[test]
    fn a_name_that_the_system_refuses_is_named_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        // Longer than any file system allows.
        let name = format!("{}.html", "x".repeat(300));
        let failure = write(&folder.path().join(&name), "").unwrap_err();
        assert!(failure.message.contains(&name), "{failure}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
