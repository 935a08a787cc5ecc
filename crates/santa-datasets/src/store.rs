//! Where the files are.

use crate::catalog::{Content, Resource};
use crate::checksum;
use crate::error::{Error, Result};
use crate::progress::Progress;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The environment variable that names the data folder.
pub const ENVIRONMENT: &str = "SANTA_DATA";

/// A data folder: finds known files in it, and fetches those that are missing.
///
/// The folder is the one given, else the one that `SANTA_DATA` names, else `santa` in the user's
/// cache folder. Its tree is described in [`catalog`](crate::catalog). It is written to only when a
/// file is fetched.
///
/// ```no_run
/// use santa_datasets::{Mnist, Store};
///
/// let mnist = Mnist::load(&Store::new(None)?)?;
/// assert_eq!(mnist.train.len(), 60_000);
/// # Ok::<(), santa_datasets::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    origin: Origin,
    offline: bool,
}

/// What named the data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The caller.
    Argument,
    /// The environment variable `SANTA_DATA`.
    Environment,
    /// Nothing: it is in the user's cache folder.
    Cache,
}

/// What there is of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Nothing.
    Missing,
    /// The beginning: a fetch was interrupted, and the next one goes on.
    Partial {
        /// Bytes so far.
        bytes: u64,
    },
    /// The file; [`Store::verify`] tells whether it is the right one.
    Present {
        /// Where.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
}

impl Store {
    /// The store in `data_dir`, else in the folder that `SANTA_DATA` names, else in the user's cache.
    pub fn new(data_dir: Option<PathBuf>) -> Result<Self> {
        let environment = std::env::var_os(ENVIRONMENT).filter(|value| !value.is_empty());
        Store::choose(data_dir, environment.map(PathBuf::from), user_cache())
    }

    fn choose(
        argument: Option<PathBuf>,
        environment: Option<PathBuf>,
        cache: Option<PathBuf>,
    ) -> Result<Self> {
        let cache = cache.map(|folder| folder.join("santa"));
        let (root, origin) = argument
            .map(|root| (root, Origin::Argument))
            .or(environment.map(|root| (root, Origin::Environment)))
            .or(cache.map(|root| (root, Origin::Cache)))
            .ok_or_else(|| {
                let allowed = format!("there is no home folder; give one, or set {ENVIRONMENT}");
                Error::argument("the data folder", "not known", allowed)
            })?;
        Ok(Store { root, origin, offline: false })
    }

    /// Never fetches: a missing file is an error that says what to put where.
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// The data folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What named it.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Where a file belongs.
    pub fn path(&self, resource: &Resource) -> PathBuf {
        self.root.join(resource.path)
    }

    /// Where a file is. One that is known compressed may be there plain, without `.gz` in its name.
    pub fn find(&self, resource: &Resource) -> Option<PathBuf> {
        [Some(self.path(resource)), self.plain_path(resource)]
            .into_iter()
            .flatten()
            .find(|path| path.is_file())
    }

    fn plain_path(&self, resource: &Resource) -> Option<PathBuf> {
        matches!(resource.content, Content::Gzip(_)).then(|| self.path(resource).with_extension(""))
    }

    /// What there is of a file. Nothing is read.
    pub fn status(&self, resource: &Resource) -> Status {
        let length = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        if let Some(path) = self.find(resource) {
            let bytes = length(&path);
            return Status::Present { path, bytes };
        }
        let part = part_path(&self.path(resource));
        if part.is_file() { Status::Partial { bytes: length(&part) } } else { Status::Missing }
    }

    /// Compares the content of a file with what is known of it.
    pub fn verify(&self, resource: &Resource) -> Result<()> {
        match self.find(resource) {
            Some(path) => {
                let plain = Some(&path) == self.plain_path(resource).as_ref();
                let file = File::open(&path).map_err(Error::io("reading", &path))?;
                checksum::check(resource, &file, &path, plain)
            }
            None => Err(self.missing(resource, "there is no such file".to_owned())),
        }
    }

    /// The path of a file, which is fetched if it is missing: with a bar on the terminal, if the
    /// feature `progress` is on.
    ///
    /// What is fetched is checked. What is there is not: see [`Store::verify`].
    pub fn fetch(&self, resource: &Resource) -> Result<PathBuf> {
        #[cfg(feature = "progress")]
        let mut progress = crate::progress::Bar::new();
        #[cfg(not(feature = "progress"))]
        let mut progress = |_: crate::progress::Event<'_>| {};
        self.fetch_with(resource, &mut progress)
    }

    /// As [`Store::fetch`], reporting to `progress`.
    pub fn fetch_with(&self, resource: &Resource, progress: &mut dyn Progress) -> Result<PathBuf> {
        if let Some(path) = self.find(resource) {
            return Ok(path);
        }
        if self.offline {
            return Err(self.missing(resource, "nothing is fetched offline".to_owned()));
        }
        if resource.mirrors.is_empty() {
            return Err(self.missing(resource, "no public mirror is known".to_owned()));
        }
        #[cfg(feature = "download")]
        {
            let path = self.path(resource);
            match crate::download::download(resource, &path, progress) {
                Ok(()) => Ok(path),
                Err(crate::download::Failure::Mirrors(reasons)) => {
                    Err(self.missing(resource, format!("no mirror gave it:\n{reasons}")))
                }
                // The folder may be read-only, or the disk full.
                Err(crate::download::Failure::Local(error)) => {
                    Err(self.missing(resource, format!("it cannot be fetched: {error}")))
                }
            }
        }
        #[cfg(not(feature = "download"))]
        {
            let _ = progress;
            Err(self.missing(resource, "built without the feature `download`".to_owned()))
        }
    }

    fn missing(&self, resource: &Resource, reason: String) -> Error {
        let path = self.path(resource);
        let what = match resource.content {
            Content::Exact(bytes) => format!("{bytes} bytes, SHA-256"),
            Content::Gzip(bytes) => format!("gzip'd; inflated {bytes} bytes, SHA-256"),
        };
        let mut remedy = format!(
            "Put {} ({what} {}) there, or name another data folder that has {} by the data \
             directory option or by {ENVIRONMENT}.",
            resource.name(),
            resource.sha256,
            resource.path
        );
        if !resource.mirrors.is_empty() {
            remedy.push_str(" Copies are at:");
            resource.mirrors.iter().for_each(|url| {
                remedy.push_str("\n  ");
                remedy.push_str(url);
            });
        }
        Error::Missing { path, reason, remedy }
    }
}

/// Where a file grows while it is fetched.
pub(crate) fn part_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// The folder for files that can be had again.
fn user_cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| home().map(|home| home.join(".cache")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_argument_comes_before_the_environment_and_the_cache() {
        let path = |name: &str| Some(PathBuf::from(name));
        let root =
            |a, e, c| Store::choose(a, e, c).map(|store| (store.root, store.origin)).unwrap();
        assert_eq!(root(path("a"), path("e"), path("c")), ("a".into(), Origin::Argument));
        assert_eq!(root(None, path("e"), path("c")), ("e".into(), Origin::Environment));
        assert_eq!(root(None, None, path("c")), (Path::new("c").join("santa"), Origin::Cache));
        assert!(Store::choose(None, None, None).is_err());
    }

    #[test]
    fn a_missing_file_is_an_error_that_says_what_to_put_where() {
        let store = Store::new(Some("nowhere".into())).unwrap().offline();
        let resource = catalog::MNIST_TEST_LABELS;
        assert_eq!(store.status(&resource), Status::Missing);
        for error in [store.fetch(&resource).unwrap_err(), store.verify(&resource).unwrap_err()] {
            let text = error.to_string();
            for part in [
                "t10k-labels-idx1-ubyte.gz is missing",
                "nowhere",
                resource.sha256,
                "SANTA_DATA",
                resource.mirrors[0],
            ] {
                assert!(text.contains(part), "{part} is not in: {text}");
            }
        }
    }
    #[test]
    fn a_compressed_file_may_be_there_plain() {
        let root = format!("santa-datasets-store-{}", std::process::id());
        let root = std::env::temp_dir().join(root);
        std::fs::create_dir_all(&root).unwrap();
        let sum: String = Sha256::digest(b"plain").iter().map(|b| format!("{b:02x}")).collect();
        let resource = Resource {
            path: "digits.gz",
            sha256: Box::leak(sum.into_boxed_str()),
            content: Content::Gzip(5),
            mirrors: &[],
        };
        let store = Store::new(Some(root.clone())).unwrap();
        assert_eq!(store.find(&resource), None);
        std::fs::write(root.join("digits"), b"plain").unwrap();
        assert_eq!(store.fetch(&resource).unwrap(), root.join("digits"));
        store.verify(&resource).unwrap();
        std::fs::write(root.join("digits"), b"plane").unwrap();
        let text = store.verify(&resource).unwrap_err().to_string();
        assert!(text.contains("digits: SHA-256 of the file is"), "{text}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
