//! One optimizer step on the paper's networks: Candle's AdamW and ours, with the system's allocator.
//!
//! ```text
//! cargo bench -p santa-candle
//! ```

mod common;

fn main() -> candle_core::Result<()> {
    common::table("system's malloc")
}
