//! `santa bench`

use crate::args::{Bench, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Bench, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
