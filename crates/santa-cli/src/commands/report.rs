//! `santa report`

use crate::args::Report;
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Report, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
