//! `santa presets`

use crate::args::Presets;
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Presets, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
