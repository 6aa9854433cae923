//! Formats times for people. All times are in UTC, and the pages say so.

use maud::{Markup, html};
use plimsoll_proto::times::{self, LAST_UNIX_MS};

/// A time as `2026-11-21T21:35:05Z`.
pub(super) fn rfc3339(unix_ms: u64) -> String {
    times::rfc3339(unix_ms.min(LAST_UNIX_MS))
}

/// A time as `2026-11-21 21:35`.
pub(super) fn minute(unix_ms: u64) -> String {
    times::date_time(unix_ms.min(LAST_UNIX_MS))
}

/// A date as `21 Nov`.
pub(super) fn day(unix_ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = rfc3339(unix_ms);
    let number = |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<usize>().ok());
    let month = number(5, 7).and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {}", number(8, 10).unwrap_or_default(), month.copied().unwrap_or("?"))
}

pub(super) fn time_of_day(unix_ms: u64) -> String {
    rfc3339(unix_ms).get(11..16).unwrap_or_default().to_owned()
}

/// A time as an HTML element, which has the exact time for programs too.
pub(super) fn time(unix_ms: u64) -> Markup {
    html! { time datetime=(rfc3339(unix_ms)) { (minute(unix_ms)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_and_never_overflow() {
        let at = 1_795_296_905_000;
        assert_eq!([rfc3339(at), minute(at)], ["2026-11-21T21:35:05Z", "2026-11-21 21:35"]);
        assert_eq!([day(at), time_of_day(at)], ["21 Nov", "21:35"]);
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
