//! `santa data`

use crate::args::{Data, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Data, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
