//! The `santa` command.

fn main() -> std::process::ExitCode {
    santa_cli::main()
}
