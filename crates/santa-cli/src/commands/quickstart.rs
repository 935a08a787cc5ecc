//! `santa quickstart`

use crate::args::{Global, Quickstart};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Quickstart, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
