//! `santa train`

use crate::args::{Global, Train};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Train, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
