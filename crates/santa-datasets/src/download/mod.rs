//! Fetching a file from its mirrors.
//!
//! The file grows as `.part` beside its place. An attempt goes on where the last one stopped, if the
//! server knows ranges. When all has come and the checksum is right, the file is renamed into its
//! place, so that it is there whole or not at all. One process fetches a file at a time; others wait
//! for it.

#[cfg(test)]
mod tests;

use crate::catalog::{Content, Resource};
use crate::checksum;
use crate::error::{Error, Result};
use crate::progress::{Event, Progress};
use crate::store::part_path;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

const CONNECT: Duration = Duration::from_secs(15);
/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// Attempts at one mirror. Each but the first follows one that was interrupted but brought something.
const ATTEMPTS: usize = 20;
const BUFFER: usize = 1 << 16;

/// Why a file was not fetched.
pub(crate) enum Failure {
    /// Each mirror with its reason, a line each.
    Mirrors(String),
    /// Trouble here.
    Local(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Local(error)
    }
}

/// Fetches a file to `path`.
pub(crate) fn download(
    resource: &Resource,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("santa-datasets/", env!("CARGO_PKG_VERSION")));
    download_by(&config.build().into(), resource, resource.mirrors, path, progress)
}

fn download_by(
    agent: &Agent,
    resource: &Resource,
    mirrors: &[&str],
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let mut part = Part::open(path, progress)?;
    if path.is_file() {
        part.discard_if_empty();
        return Ok(()); // another process was faster
    }
    let mut reasons = Vec::new();
    for url in mirrors {
        match from_mirror(agent, url, resource, &mut part, progress)? {
            Ok(()) => {
                part.finish(path)?;
                progress.report(Event::Finished);
                return Ok(());
            }
            Err(reason) => {
                progress.report(Event::Failed { url, reason: &reason });
                reasons.push(format!("  {url}: {reason}"));
            }
        }
    }
    part.discard_if_empty();
    Err(Failure::Mirrors(reasons.join("\n")))
}

/// All attempts at one mirror: trouble here, or what came of it.
fn from_mirror(
    agent: &Agent,
    url: &str,
    resource: &Resource,
    part: &mut Part,
    progress: &mut dyn Progress,
) -> Result<Result<(), String>> {
    let mut furthest = part.len;
    for _ in 0..ATTEMPTS {
        let resumed = part.len > 0;
        match attempt(agent, url, resource, part, progress)? {
            Outcome::Whole => match part.check(resource) {
                Ok(()) => return Ok(Ok(())),
                Err(Error::Checksum { what, expected, found, .. }) => {
                    part.truncate()?;
                    furthest = 0;
                    // The beginning may have come from another mirror's copy, or an older one.
                    if !resumed {
                        let reason = format!("SHA-256 of {what} is {found}, expected {expected}");
                        return Ok(Err(reason));
                    }
                }
                Err(error) => return Err(error),
            },
            Outcome::Interrupted(reason) if part.len <= furthest => return Ok(Err(reason)),
            Outcome::Interrupted(_) => furthest = part.len,
            Outcome::Refused(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Err(format!("interrupted {ATTEMPTS} times")))
}

/// How an attempt ended.
enum Outcome {
    Whole,
    Interrupted(String),
    /// Another attempt would not help.
    Refused(String),
}

fn attempt(
    agent: &Agent,
    url: &str,
    resource: &Resource,
    part: &mut Part,
    progress: &mut dyn Progress,
) -> Result<Outcome> {
    if resource.content == Content::Exact(part.len) {
        return Ok(Outcome::Whole); // all but the check was done before
    }
    // The files are compressed already, and ranges are of the bytes that are sent.
    let mut request = agent.get(url).header(header::ACCEPT_ENCODING, "identity");
    if part.len > 0 {
        request = request.header(header::RANGE, format!("bytes={}-", part.len));
    }
    let response = match request.call() {
        Ok(response) => response,
        Err(error) => return Ok(Outcome::Interrupted(error.to_string())),
    };
    match response.status() {
        StatusCode::OK => part.truncate()?, // the whole file, asked for or not
        StatusCode::PARTIAL_CONTENT if range_start(&response) == Some(part.len) => {}
        StatusCode::PARTIAL_CONTENT => {
            return Ok(Outcome::Refused("it sends another range than it was asked for".to_owned()));
        }
        // There is nothing behind what is here: that may be all of it.
        StatusCode::RANGE_NOT_SATISFIABLE if part.len > 0 => return Ok(Outcome::Whole),
        status => return Ok(Outcome::Refused(format!("it answers {status}"))),
    }
    let total = response.body().content_length().map(|rest| part.len.saturating_add(rest));
    let max = resource.max_len();
    let too_long = || Outcome::Refused(format!("it sends more than the {max} bytes expected"));
    if total.is_some_and(|total| total > max) {
        return Ok(too_long());
    }
    progress.report(Event::Started { url, done: part.len, total });
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; BUFFER];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) if part.len + count as u64 > max => {
                part.truncate()?;
                return Ok(too_long());
            }
            Ok(count) => part.append(&buffer[..count])?,
            Err(error) => return Ok(Outcome::Interrupted(error.to_string())),
        }
        progress.report(Event::Received { done: part.len });
    }
    Ok(match total {
        Some(total) if part.len < total => {
            Outcome::Interrupted(format!("it stopped after {} of {total} bytes", part.len))
        }
        _ => Outcome::Whole,
    })
}

/// Where the range of an answer starts: `bytes 100-199/200`.
fn range_start(response: &Response<Body>) -> Option<u64> {
    let range = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// The file that grows.
struct Part {
    path: std::path::PathBuf,
    file: File,
    len: u64,
}

impl Part {
    /// Opens and locks what there is for a file, and makes its folder if need be. While another
    /// thread or process has the lock, waits.
    fn open(whole: &Path, progress: &mut dyn Progress) -> Result<Self> {
        if let Some(folder) = whole.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
        }
        let path = part_path(whole);
        let mut waited = false;
        let file = loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
            let file = file.map_err(Error::io("writing", &path))?;
            match file.try_lock() {
                Ok(()) => break file,
                Err(TryLockError::WouldBlock) => {
                    if !waited {
                        progress.report(Event::Waiting);
                        waited = true;
                    }
                    file.lock().map_err(Error::io("locking", &path))?;
                    // What was waited for is renamed or removed by now, so it is opened again.
                }
                // File systems without locks: whoever comes second fails the checksum, and starts
                // anew.
                Err(TryLockError::Error(_)) => break file,
            }
        };
        let len = file.metadata().map_err(Error::io("reading", &path))?.len();
        Ok(Part { path, file, len })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io("writing", &self.path))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn truncate(&mut self) -> Result<()> {
        self.len = 0;
        self.file.set_len(0).map_err(Error::io("writing", &self.path))
    }

    fn check(&mut self, resource: &Resource) -> Result<()> {
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("reading", &self.path))?;
        checksum::check(resource, &self.file, &self.path, false)
    }

    fn finish(&self, whole: &Path) -> Result<()> {
        self.file.sync_all().map_err(Error::io("writing", &self.path))?;
        std::fs::rename(&self.path, whole).map_err(Error::io("renaming to", whole))
    }

    /// Leaves nothing behind where nothing has come.
    fn discard_if_empty(self) {
        if self.len == 0 {
            // If that fails, an empty file stays, which the next attempt takes up.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
