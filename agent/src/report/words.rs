//! Numbers and ends in the words of a report.

use std::{fmt, time::Duration};

use plimsoll_proto::{
    figures,
    v1::{Exit, OomOrigin},
};

use super::End;

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |signal| nix::sys::signal::Signal::try_from(signal).map(nix::sys::signal::Signal::as_str);
        match self {
            Self::Exited(Exit { code: Some(code), .. }) => write!(f, "ended with exit code {code}"),
            Self::Exited(Exit { signal: Some(signal), .. }) => match known(*signal) {
                Ok(name) => write!(f, "was ended by {name}"),
                Err(_realtime) => write!(f, "was ended by signal {signal}"),
            },
            Self::Exited(_unseen) => write!(f, "ended unseen"),
            Self::Followed(until) => write!(f, "was followed until {until}"),
        }
    }
}

/// A number of processes.
pub(super) struct Processes(pub(super) u64);

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::counted_as(self.0, "process", "processes"))
    }
}

/// Bytes, as everywhere.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&figures::bytes(self.0))
    }
}

/// A time, as everywhere.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&figures::micros(u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Whose limit the kernel enforced.
pub(super) fn origin(origin: OomOrigin) -> &'static str {
    match origin {
        OomOrigin::OwnLimit => "at the build's own limit, or at one that the build set itself",
        OomOrigin::LimitAbove => "at a limit above the build's own, which others may share",
        OomOrigin::Host => "because the whole machine had no memory left",
        OomOrigin::Unspecified => "for memory",
    }
}

/// Words of others, for one line. Names come from anybody: what could move the cursor, turn the direction of writing, or take
/// no room is never shown.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// Controls of the terminal, marks that turn the direction of writing, and marks without width that join or hide.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_hides_or_turns_text_is_shown() {
        assert_eq!(clean("a\u{1b}[2Jb\r\nc\u{9b}d"), "a [2Jb  c d");
        assert_eq!(clean("gpj\u{202e}.exe\u{2066}\u{200b}\u{feff}"), "gpj .exe   ");
        assert_eq!(clean("ünïcödé 包 👩\u{200d}💻"), "ünïcödé 包 👩 💻");
    }
}
