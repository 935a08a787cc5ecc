//! `santa compare`

use crate::args::{Compare, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Compare, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
