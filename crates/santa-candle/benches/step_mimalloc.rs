//! The same as `step`, with mimalloc.

mod common;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> candle_core::Result<()> {
    common::table("mimalloc")
}
