//! `santa completions` and `santa man`: made of the definitions of the command line.

use crate::args::{Completions, Man};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn completions(_: &Completions) -> Result<()> {
    Err(Failure::system("not built yet"))
}

pub fn man(_: &Man, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
