//! `santa sweep`

use crate::args::{Global, Sweep};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Sweep, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
