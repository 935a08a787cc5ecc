//! The messages in the frames, in the encoding of Protocol Buffers. Of TensorFlow's `event.proto` and
//! `summary.proto` these fields are written:
//!
//! ```text
//! Event      { double wall_time = 1; int64 step = 2; string file_version = 3;
//!              Summary summary = 5; SessionLog session_log = 7; }
//! Summary    { repeated Value value = 1; }
//! Value      { string tag = 1; float simple_value = 2; }
//! SessionLog { SessionStatus status = 1; }                  (START = 1)
//! ```

/// What TensorBoard expects at the start of a file. From version 2 on, it heeds [`What::Start`].
const VERSION: &str = "brain.Event:2";

/// An event.
pub struct Event<'a> {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Steps made.
    pub step: u64,
    /// What happened.
    pub what: &'a What<'a>,
}

/// What an event tells.
pub enum What<'a> {
    /// The version of the format.
    Version,
    /// A run starts at the step of the event: what is known of that step and later ones is void.
    Start,
    /// A number.
    Scalar { tag: &'a str, value: f32 },
}

impl Event<'_> {
    /// Its bytes. As the format has it, a step of 0 is left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut event = Vec::new();
        double(&mut event, 1, self.wall_time);
        if self.step > 0 {
            key(&mut event, 2, Wire::Varint);
            varint(&mut event, self.step);
        }
        match self.what {
            What::Version => bytes(&mut event, 3, VERSION.as_bytes()),
            What::Start => {
                let mut log = Vec::new();
                key(&mut log, 1, Wire::Varint);
                varint(&mut log, 1);
                bytes(&mut event, 7, &log);
            }
            What::Scalar { tag, value } => {
                let mut scalar = Vec::new();
                bytes(&mut scalar, 1, tag.as_bytes());
                float(&mut scalar, 2, *value);
                let mut summary = Vec::new();
                bytes(&mut summary, 1, &scalar);
                bytes(&mut event, 5, &summary);
            }
        }
        event
    }
}

/// How a field is stored, by the numbers of Protocol Buffers.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Eight = 1,
    Bytes = 2,
    Four = 5,
}

fn key(out: &mut Vec<u8>, field: u64, wire: Wire) {
    varint(out, field << 3 | wire as u64);
}

/// Seven bits a byte, the lowest first; all but the last byte have the highest bit set.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    const MORE: u8 = 0x80;
    while number >= u64::from(MORE) {
        out.push(number as u8 | MORE);
        number >>= 7;
    }
    out.push(number as u8);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    key(out, field, Wire::Eight);
    out.extend(value.to_le_bytes());
}

fn float(out: &mut Vec<u8>, field: u64, value: f32) {
    key(out, field, Wire::Four);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(out, field, Wire::Bytes);
    varint(out, value.len() as u64);
    out.extend(value);
}
