//! Numbers and ends in the words of a report.

use std::{fmt, time::Duration};

use plimsoll_proto::v1::{Exit, OomOrigin};

use super::End;

/// Rounded; `of` is above zero.
pub(super) fn percent(part: u64, of: u64) -> u128 {
    (u128::from(part) * 100 + u128::from(of / 2)) / u128::from(of.max(1))
}

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
        write!(f, "{} process{}", self.0, if self.0 == 1 { "" } else { "es" })
    }
}

/// Bytes in the largest unit that leaves a number of at least one, with three digits.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "for people: three digits are shown")]
        let mut number = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            // 1023.6 would be shown as 1024
            if number < 1023.5 {
                break;
            }
            number /= 1024.0;
            unit = larger;
        }
        let digits = match number {
            _bytes if unit == "B" => 0,
            n if n < 9.995 => 2,
            n if n < 99.95 => 1,
            _large => 0,
        };
        f.pad(&format!("{number:.digits$} {unit}"))
    }
}

/// Seconds with one digit after the point, below a minute; minutes and seconds above.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let text = match seconds {
            0..60 => format!("{:.1} s", self.0.as_secs_f64()),
            60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
            _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        };
        f.pad(&text)
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
    fn bytes_have_three_digits() {
        let shown = |bytes| Bytes(bytes).to_string();
        assert_eq!(shown(999), "999 B");
        assert_eq!(shown(1024), "1.00 KiB");
        assert_eq!(shown((1 << 30) - 1), "1.00 GiB");
        assert_eq!(shown(15 << 30), "15.0 GiB");
        assert_eq!(shown(281 << 20), "281 MiB");
    }

    #[test]
    fn nothing_that_moves_hides_or_turns_text_is_shown() {
        assert_eq!(clean("a\u{1b}[2Jb\r\nc\u{9b}d"), "a [2Jb  c d");
        assert_eq!(clean("gpj\u{202e}.exe\u{2066}\u{200b}\u{feff}"), "gpj .exe   ");
        assert_eq!(clean("ünïcödé 包 👩\u{200d}💻"), "ünïcödé 包 👩 💻");
    }

    #[test]
    fn times_are_as_short_as_they_can_be() {
        let shown = |ms| Time(Duration::from_millis(ms)).to_string();
        assert_eq!([950, 61_000, 3_661_000].map(shown), ["0.9 s", "1 min 01 s", "1 h 01 min"]);
    }
}
