//! What the terminal of this process can show.

use std::{env, ffi::OsString, io};

use rustix::termios::isatty;

use crate::{
    ask::{TerminalStyle, fleet::Presentation},
    terminal_width,
};

/// The style for standard output. Colours are only for terminals, and off if `NO_COLOR` is set
/// (<https://no-color.org>) or `TERM` is `dumb`.
pub(super) fn style() -> TerminalStyle {
    match terminal_width::terminal_columns(io::stdout()) {
        None => TerminalStyle::default(),
        columns => TerminalStyle { columns, colour: wants_colour(&|name| env::var_os(name)) },
    }
}

/// How an answer in this format is written to standard output.
pub(super) fn shown<F>(format: F) -> Presentation<F> {
    Presentation { format, style: style() }
}

/// Whether standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    isatty(io::stdout())
}

fn wants_colour(lookup: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let unwanted = lookup("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && lookup("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_environment() {
        let with = |name: &'static str, value: &'static str| {
            wants_colour(&move |asked| (asked == name).then(|| OsString::from(value)))
        };
        assert!(with("TERM", "xterm") && with("NO_COLOR", "") && with("X", "1"));
        assert!(!with("NO_COLOR", "1") && !with("NO_COLOR", "0") && !with("TERM", "dumb"));
    }
}
