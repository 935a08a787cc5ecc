use super::*;
use crate::run::record::{Averaged, Layers, Score, Training, Warning};
use santa::Stage;

/// An event as a reader sees it: time, step, and the fields of the rest by number.
#[derive(Debug, PartialEq)]
struct Seen {
    wall_time: f64,
    step: u64,
    version: Option<String>,
    starts: bool,
    scalar: Option<(String, f32)>,
}

/// The fields of a message: number and content; numbers of any kind as their bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(from: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = from.split_first().unwrap();
            *from = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                fields.push((key >> 3, varint(&mut message).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            wire => panic!("wire type {wire}"),
        };
        let (content, rest) = message.split_at(length);
        fields.push((key >> 3, content.to_vec()));
        message = rest;
    }
    fields
}

fn see(event: &[u8]) -> Seen {
    let mut seen =
        Seen { wall_time: f64::NAN, step: 0, version: None, starts: false, scalar: None };
    for (number, content) in fields(event) {
        let eight = || <[u8; 8]>::try_from(&content[..]).unwrap();
        match number {
            1 => seen.wall_time = f64::from_le_bytes(eight()),
            2 => seen.step = u64::from_le_bytes(eight()),
            3 => seen.version = Some(String::from_utf8(content).unwrap()),
            5 => {
                let [(1, value)] = &fields(&content)[..] else { panic!("one value") };
                let [(1, tag), (2, number)] = &fields(value)[..] else { panic!("tag, number") };
                let number = f32::from_le_bytes(number[..].try_into().unwrap());
                seen.scalar = Some((String::from_utf8(tag.clone()).unwrap(), number));
            }
            7 => seen.starts = fields(&content) == [(1, 1u64.to_le_bytes().to_vec())],
            other => panic!("field {other}"),
        }
    }
    seen
}

/// The events of a file, all checksums tried.
fn read(path: &Path) -> Vec<Seen> {
    let file = fs::read(path).unwrap();
    let mut rest = &file[..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_at(8);
        let (sum, after) = after.split_at(4);
        assert_eq!(sum, frame::masked_crc32c(length).to_le_bytes());
        let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let (event, after) = after.split_at(length);
        let (sum, after) = after.split_at(4);
        assert_eq!(sum, frame::masked_crc32c(event).to_le_bytes());
        events.push(see(event));
        rest = after;
    }
    events
}

#[test]
fn the_checksum_is_castagnolis() {
    // The check value of CRC-32C in the catalogue of parametrised CRC algorithms, and RFC 3720, B.4.
    assert_eq!(frame::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(frame::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(frame::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(frame::crc32c(b""), 0);
}

#[test]
fn an_event_is_known_byte_for_byte() {
    let what = What::Scalar { tag: "loss", value: 0.5 };
    let event = Event { wall_time: 1.0, step: 300, what: &what }.encode();
    let expected = [
        &[0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f][..], // wall_time 1.0
        &[0x10, 0xac, 0x02],                       // step 300
        &[0x2a, 13, 0x0a, 11],                     // summary, value
        &[0x0a, 4, b'l', b'o', b's', b's'],        // tag
        &[0x15, 0, 0, 0, 0x3f],                    // simple_value 0.5
    ];
    assert_eq!(event, expected.concat());
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(&folder.path().join("deep/inside")).unwrap();
    writer.scalar("train/loss", 1, 1e9 + 0.25, 2.5).unwrap();
    writer.scalar("größe", u64::MAX, 0.0, f64::INFINITY).unwrap();
    writer.flush().unwrap();
    let events = read(writer.path());
    assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
    let scalar = |i: usize| (events[i].wall_time, events[i].step, events[i].scalar.clone());
    assert_eq!(scalar(1), (1e9 + 0.25, 1, Some(("train/loss".into(), 2.5))));
    assert_eq!(scalar(2), (0.0, u64::MAX, Some(("größe".into(), f32::INFINITY))));
    assert_eq!(events.len(), 3);
}

#[test]
fn a_run_that_goes_on_writes_a_later_file_that_voids_later_steps() {
    let folder = tempfile::tempdir().unwrap();
    let first = EventWriter::create(folder.path()).unwrap();
    let mut second = EventWriter::resume(folder.path(), 100).unwrap();
    second.flush().unwrap();
    assert!(second.path() > first.path());
    let events = read(second.path());
    assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
    assert!(events[1].starts);
    assert_eq!(events[1].step, 101);
}

#[test]
fn records_become_scalars_by_tags() {
    let score = |nll, error| Some(Score { nll, error });
    let evaluation = Record::Evaluation(Evaluation {
        step: 10,
        epoch: 1.0,
        last: Scores { validation: score(0.5, Some(0.1)), test: score(0.6, Some(0.2)) },
        averaged: Some(Averaged {
            count: 3,
            scores: Scores { validation: None, test: score(0.4, None) },
        }),
        seconds: 1.0,
    });
    let expected = [
        ("validation/error", 0.1),
        ("validation/nll", 0.5),
        ("test/error", 0.2),
        ("test/nll", 0.6),
        ("test/nll_averaged", 0.4),
    ];
    assert_eq!(scalars(&evaluation), expected.map(|(tag, value)| (tag.to_string(), value)));

    let layers = Record::Layers(Layers {
        step: 10,
        epoch: 1.0,
        layers: vec![Layer {
            name: "dense1.weight".into(),
            theta_rms: 1.0,
            gradient_rms: 2.0,
            kinetic_temperature: Some(3.0),
            momentum: Some([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        }],
    });
    let tags: Vec<String> = scalars(&layers).into_iter().map(|(tag, _)| tag).collect();
    let momentum = ["minimum", "q05", "q25", "median", "q75", "q95", "maximum"];
    let momentum = momentum.map(|name| format!("momentum/dense1.weight/{name}"));
    let others = ["theta_rms", "gradient_rms", "kinetic_temperature"];
    let others = others.map(|name| format!("{name}/dense1.weight"));
    assert_eq!(tags, [&others[..], &momentum].concat());

    let warning = Record::Warning(Warning { step: 1, message: "hot".into() });
    assert!(scalars(&warning).is_empty());
}

#[test]
fn a_record_is_written_at_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(folder.path()).unwrap();
    let record = Record::Training(Training {
        step: 7,
        epoch: 0.5,
        loss: 0.25,
        temperature: 0.125,
        stage: Stage::Exploring,
        seconds: 1.0,
    });
    writer.record(&record, 3.0).unwrap();
    writer.flush().unwrap();
    let events = read(writer.path());
    assert_eq!(events.len(), 4);
    assert!(events[1..].iter().all(|event| (event.step, event.wall_time) == (7, 3.0)));
    assert_eq!(events[1].scalar, Some(("train/loss".into(), 0.25)));
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure_of_the_system() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let failure = EventWriter::create(&file.path().join("events")).unwrap_err();
    assert_eq!(failure.kind.code(), 1);
    assert!(failure.message.contains("events"), "{failure}");
}
