//! TFRecord's frames: the length, its checksum, the bytes, their checksum; numbers in little-endian.

/// The frame of some bytes.
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut frame = Vec::with_capacity(bytes.len() + OVERHEAD);
    frame.extend(length);
    frame.extend(masked_crc32c(&length).to_le_bytes());
    frame.extend(bytes);
    frame.extend(masked_crc32c(bytes).to_le_bytes());
    frame
}

/// Bytes of a frame besides its content.
const OVERHEAD: usize = 8 + 4 + 4;

/// The checksum as it is stored, so that the checksum of bytes that contain theirs is not degenerate.
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    /// TFRecord's, after LevelDB's.
    const MASK: u32 = 0xa282_ead8;
    crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// The cyclic redundancy check of Castagnoli. A few hundred bytes at a time, a few times a second: a
/// table of 256 numbers is fast enough, and shorter than what a dependency brings.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

/// The remainders of all bytes.
static TABLE: [u32; 256] = {
    /// Castagnoli's polynomial, the lowest power in the highest bit.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < u8::BITS {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
