//! The same with mimalloc: temporaries keep their pages.

mod measure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    measure::run("mimalloc");
}
