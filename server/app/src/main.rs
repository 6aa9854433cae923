//! The program `plimsoll-server`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll_server::main()
}
