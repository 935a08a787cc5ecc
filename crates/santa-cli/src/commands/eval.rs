//! `santa eval`

use crate::args::{Eval, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};

pub fn run(_: &Eval, _: &Global, _: &Console) -> Result<()> {
    Err(Failure::system("not built yet"))
}
