//! What the terminal of this process can show.

use std::{env, ffi::OsString, io};

use rustix::termios::{isatty, tcgetwinsize};

use crate::ask::Look;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// Where standard output is shown. Colours are for terminals only, and not where `NO_COLOR` is set (<https://no-color.org>) or `TERM`
/// is `dumb`.
pub(super) fn look() -> Look {
    if !is_terminal() {
        return Look::default();
    }
    let told = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    let columns = Some(if told == 0 { COLUMNS } else { told });
    Look { columns, colour: colour(&|name| env::var_os(name)) }
}

/// Whether somebody looks at standard output.
pub(super) fn is_terminal() -> bool {
    isatty(io::stdout())
}

fn colour(lookup: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let unwanted = lookup("NO_COLOR").is_some_and(|value| !value.is_empty());
    !unwanted && lookup("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_left_out_where_somebody_says_so() {
        let with = |name: &'static str, value: &'static str| {
            colour(&move |asked| (asked == name).then(|| OsString::from(value)))
        };
        assert!(with("TERM", "xterm") && with("NO_COLOR", "") && with("X", "1"));
        assert!(!with("NO_COLOR", "1") && !with("NO_COLOR", "0") && !with("TERM", "dumb"));
    }
}
