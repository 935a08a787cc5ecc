//! Against a small server on this machine.

use super::*;
use crate::store::{Status, Store};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// How the server answers its next request.
#[derive(Clone)]
enum Answer {
    /// With the file, or the range of it that was asked for.
    File(Vec<u8>),
    /// With the file, whatever was asked for.
    Whole(Vec<u8>),
    /// As `File`, but the connection breaks after so many bytes.
    Broken(Vec<u8>, usize),
    Status(&'static str),
    /// Bytes without an end, and without saying how many.
    Endless,
}

struct Server {
    url: &'static str,
    /// The range that each request asked for.
    ranges: Arc<Mutex<Vec<Option<String>>>>,
}

/// Answers as many requests as there are answers.
fn serve(answers: Vec<Answer>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/data/it.bin", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((stream, _)) = listener.accept() else { return };
            // A client that has gone away is no trouble of the server.
            let _ = respond(stream, answer, &seen);
        }
    });
    Server { url: Box::leak(url.into_boxed_str()), ranges }
}

fn respond(
    mut stream: TcpStream,
    answer: Answer,
    seen: &Mutex<Vec<Option<String>>>,
) -> std::io::Result<()> {
    let mut range = None;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: ") {
            range = Some(value.to_owned());
        }
    }
    let start = |range: &Option<String>| -> usize {
        let text = range.as_deref().and_then(|range| range.strip_prefix("bytes="));
        text.map_or(0, |text| text.trim_end_matches('-').parse().unwrap())
    };
    let from = start(&range);
    let asked = range.is_some();
    seen.lock().unwrap().push(range);
    let (bytes, from, until) = match answer {
        Answer::File(bytes) => (bytes, from, usize::MAX),
        Answer::Broken(bytes, until) => (bytes, from, until),
        Answer::Whole(bytes) => (bytes, 0, usize::MAX),
        Answer::Status(line) => {
            return write!(stream, "HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n");
        }
        Answer::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[0; BUFFER])?;
            }
        }
    };
    let total = bytes.len();
    if asked && from >= total {
        return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
    }
    let rest = &bytes[from..];
    match from {
        0 => write!(stream, "HTTP/1.1 200 OK\r\n")?,
        _ => write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{total}\r\n",
            total - 1
        )?,
    }
    write!(stream, "Connection: close\r\nContent-Length: {}\r\n\r\n", rest.len())?;
    stream.write_all(&rest[..until.min(rest.len())])
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("santa-datasets-download-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
    fn path(&self) -> PathBuf {
        self.0.join("data/it.bin")
    }
    fn part(&self) -> PathBuf {
        part_path(&self.path())
    }
    fn write_part(&self, bytes: &[u8]) {
        std::fs::create_dir_all(self.part().parent().unwrap()).unwrap();
        std::fs::write(self.part(), bytes).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes that do not repeat.
fn content() -> Vec<u8> {
    (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn sha256(bytes: &[u8]) -> &'static str {
    leak(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn resource(content: &[u8]) -> Resource {
    Resource {
        path: "data/it.bin",
        sha256: sha256(content),
        content: Content::Exact(content.len() as u64),
        mirrors: &[],
    }
}

/// Fetches without a proxy, whatever the environment says; the lines tell what happened.
fn fetch(resource: &Resource, mirrors: &[&str], folder: &Folder) -> Result<Vec<String>, String> {
    let agent: Agent =
        Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let mut log = Vec::new();
    let mut progress = |event: Event<'_>| match event {
        Event::Waiting => log.push("waiting".to_owned()),
        Event::Started { done, total, .. } => log.push(format!("from {done} of {total:?}")),
        Event::Failed { .. } => log.push("failed".to_owned()),
        Event::Finished => log.push("finished".to_owned()),
        Event::Received { .. } => {}
    };
    match download_by(&agent, resource, mirrors, &folder.path(), &mut progress) {
        Ok(()) => Ok(log),
        Err(Failure::Mirrors(reasons)) => Err(reasons),
        Err(Failure::Local(error)) => Err(error.to_string()),
    }
}

#[test]
fn a_file_is_fetched_and_put_into_its_place() {
    let (folder, content) = (Folder::new("whole"), content());
    let server = serve(vec![Answer::File(content.clone())]);
    let log = fetch(&resource(&content), &[server.url], &folder).unwrap();
    assert_eq!(log, ["from 0 of Some(200000)", "finished"]);
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
    assert!(!folder.part().exists());
}

#[test]
fn an_interrupted_download_goes_on_where_it_stopped() {
    let (folder, content) = (Folder::new("resume"), content());
    let server =
        serve(vec![Answer::Broken(content.clone(), 120_000), Answer::File(content.clone())]);
    let log = fetch(&resource(&content), &[server.url], &folder).unwrap();
    assert_eq!(log.len(), 3, "{log:?}");
    let ranges = server.ranges.lock().unwrap().clone();
    assert_eq!(ranges, [None, Some("bytes=120000-".to_owned())]);
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
}

#[test]
fn the_part_of_an_earlier_run_is_taken_up() {
    let (folder, content) = (Folder::new("earlier"), content());
    folder.write_part(&content[..1000]);
    let store = Store::new(Some(folder.0.clone())).unwrap();
    assert_eq!(store.status(&resource(&content)), Status::Partial { bytes: 1000 });
    let server = serve(vec![Answer::File(content.clone())]);
    let log = fetch(&resource(&content), &[server.url], &folder).unwrap();
    assert_eq!(log, ["from 1000 of Some(200000)", "finished"]);
    assert_eq!(store.verify(&resource(&content)).map_err(|e| e.to_string()), Ok(()));
}

#[test]
fn a_server_that_knows_no_ranges_sends_all_of_it_again() {
    let (folder, content) = (Folder::new("no-range"), content());
    folder.write_part(&content[..1000]);
    let server = serve(vec![Answer::Whole(content.clone())]);
    let log = fetch(&resource(&content), &[server.url], &folder).unwrap();
    assert_eq!(log, ["from 0 of Some(200000)", "finished"]);
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
}

#[test]
fn a_part_that_is_whole_needs_no_server() {
    let (folder, content) = (Folder::new("all-there"), content());
    folder.write_part(&content);
    fetch(&resource(&content), &["http://127.0.0.1:9/"], &folder).unwrap();
    assert!(folder.path().is_file());
}

#[test]
fn a_part_of_another_copy_is_thrown_away() {
    let (folder, content) = (Folder::new("other-part"), content());
    folder.write_part(&[7; 1000]);
    let server = serve(vec![Answer::File(content.clone()), Answer::File(content.clone())]);
    let log = fetch(&resource(&content), &[server.url], &folder).unwrap();
    assert_eq!(log, ["from 1000 of Some(200000)", "from 0 of Some(200000)", "finished"]);
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
}

#[test]
fn a_wrong_checksum_is_refused_and_nothing_is_left() {
    let (folder, content) = (Folder::new("checksum"), content());
    let mut wrong = content.clone();
    wrong[77] ^= 1;
    let server = serve(vec![Answer::File(wrong)]);
    let reasons = fetch(&resource(&content), &[server.url], &folder).unwrap_err();
    assert!(reasons.contains("SHA-256 of the file is"), "{reasons}");
    assert!(!folder.path().exists() && !folder.part().exists());
}

#[test]
fn after_a_404_the_next_mirror_is_asked() {
    let (folder, content) = (Folder::new("mirrors"), content());
    let first = serve(vec![Answer::Status("404 Not Found")]);
    let second = serve(vec![Answer::File(content.clone())]);
    let log = fetch(&resource(&content), &[first.url, second.url], &folder).unwrap();
    assert_eq!(log, ["failed", "from 0 of Some(200000)", "finished"]);
}

#[test]
fn more_bytes_than_expected_are_refused() {
    let (folder, content) = (Folder::new("endless"), content());
    let mut longer = content.clone();
    longer.push(0);
    let server = serve(vec![Answer::Endless, Answer::Whole(longer)]);
    for _ in 0..2 {
        let reasons = fetch(&resource(&content), &[server.url], &folder).unwrap_err();
        assert!(reasons.contains("more than the 200000 bytes"), "{reasons}");
        assert!(!folder.part().exists());
    }
}

#[test]
fn compressed_files_are_checked_by_what_they_inflate_to() {
    let (folder, content) = (Folder::new("gzip"), content());
    let resource = Resource { content: Content::Gzip(content.len() as u64), ..resource(&content) };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&content).unwrap();
    let file = encoder.finish().unwrap();
    // All of it is there, which only the server knows.
    folder.write_part(&file);
    let server = serve(vec![Answer::File(file.clone())]);
    fetch(&resource, &[server.url], &folder).unwrap();
    assert_eq!(std::fs::read(folder.path()).unwrap(), file);

    let folder = Folder::new("gzip-wrong");
    let server = serve(vec![Answer::File(content.clone())]);
    let reasons = fetch(&resource, &[server.url], &folder).unwrap_err();
    assert!(reasons.contains("what it inflates to is none (invalid gzip header)"), "{reasons}");
}

#[test]
fn without_a_network_the_message_says_what_to_put_where() {
    let (folder, content) = (Folder::new("refused"), content());
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = leak(format!("http://{}/it.bin", listener.local_addr().unwrap()));
    drop(listener);
    let resource = Resource { mirrors: Box::leak(Box::new([url])), ..resource(&content) };
    let store = Store::new(Some(folder.0.clone())).unwrap();
    let text = store.fetch_with(&resource, &mut |_: Event<'_>| {}).unwrap_err().to_string();
    for part in [url, resource.sha256, "200000 bytes", "Put it.bin", "SANTA_DATA"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    assert!(!folder.part().exists());
}

#[test]
fn trouble_with_writing_names_the_path() {
    let (folder, content) = (Folder::new("no-folder"), content());
    // A file where the folder should be.
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("data"), b"").unwrap();
    let text = fetch(&resource(&content), &["http://127.0.0.1:9/"], &folder).unwrap_err();
    let parent = folder.0.join("data");
    assert!(text.starts_with(&format!("creating {}", parent.display())), "{text}");
}

#[test]
fn what_another_process_has_fetched_is_not_fetched_again() {
    let (folder, content) = (Folder::new("faster"), content());
    drop(open(&folder));
    std::fs::write(folder.path(), &content).unwrap();
    let log = fetch(&resource(&content), &["http://127.0.0.1:9/"], &folder).unwrap();
    assert!(log.is_empty() && !folder.part().exists());
}

/// What a download holds while it goes on.
fn open(folder: &Folder) -> Part {
    Part::open(&folder.path(), &mut |_: Event<'_>| {}).unwrap()
}

/// Fetches while `held` is held, until it is waited for; then `release` is called with it.
fn fetch_meanwhile(
    held: Part,
    release: impl FnOnce(Part) + Send,
    resource: &Resource,
    mirrors: &[&str],
    folder: &Folder,
) -> Vec<String> {
    let (waits, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            waiting.recv().unwrap();
            release(held);
        });
        let agent: Agent = Agent::config_builder().proxy(None).build().into();
        let mut log = Vec::new();
        let mut progress = |event: Event<'_>| match event {
            Event::Waiting => waits.send(()).unwrap(),
            Event::Received { .. } => {}
            other => log.push(format!("{other:?}")),
        };
        let result = download_by(&agent, resource, mirrors, &folder.path(), &mut progress);
        assert!(result.is_ok());
        log
    })
}

#[test]
fn what_another_thread_is_fetching_is_waited_for() {
    let (folder, content) = (Folder::new("lock"), content());
    let finish = |mut held: Part| {
        held.append(&content).unwrap();
        held.finish(&folder.path()).unwrap();
    };
    let log = fetch_meanwhile(open(&folder), finish, &resource(&content), &[], &folder);
    assert_eq!(log, [""; 0]);
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
    assert!(!folder.part().exists());
}

#[test]
fn what_another_thread_could_not_fetch_is_fetched() {
    let (folder, content) = (Folder::new("lock-failed"), content());
    let server = serve(vec![Answer::File(content.clone())]);
    let resource = resource(&content);
    let log =
        fetch_meanwhile(open(&folder), Part::discard_if_empty, &resource, &[server.url], &folder);
    assert_eq!(log.last().map(String::as_str), Some("Finished"));
    assert_eq!(std::fs::read(folder.path()).unwrap(), content);
}

#[test]
fn a_folder_that_cannot_be_written_to_says_what_to_put_where() {
    let (folder, content) = (Folder::new("read-only"), content());
    // A file where the folder should be: that stops the superuser, too.
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("data"), b"").unwrap();
    let resource = Resource { mirrors: &["http://127.0.0.1:9/"], ..resource(&content) };
    let store = Store::new(Some(folder.0.clone())).unwrap();
    let text = store.fetch_with(&resource, &mut |_: Event<'_>| {}).unwrap_err().to_string();
    for part in ["it.bin is missing", "creating", resource.sha256, "Put it.bin", "SANTA_DATA"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}
