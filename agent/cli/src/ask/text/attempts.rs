//! Prints lists of attempts for people.

use plimsoll_proto::{
    shown::clean,
    tables, times,
    v1::{ListAttemptsRequest, ListAttemptsResponse},
};

use super::stats;
use crate::ask::terminal_style::{Paint, TerminalStyle};

/// A row for each attempt; below a failed attempt, the log line that identifies its failure.
pub(in crate::ask) fn render_attempts(
    asked: &ListAttemptsRequest,
    page: &ListAttemptsResponse,
    look: TerminalStyle,
) -> String {
    if page.attempts.is_empty() {
        return stats::nothing_found(&asked.filter.clone().unwrap_or_default());
    }
    let mut text = look.table(&tables::attempts(&page.attempts), usize::MAX);
    if !page.next_page_token.is_empty() {
        // repeat the times as absolute ones: relative times would mean another period in the next call
        let filter = asked.filter.clone().unwrap_or_default();
        let times = [("since", filter.from_unix_ms), ("until", filter.to_unix_ms)];
        let times = times.into_iter().filter_map(|(name, time)| Some((name, times::rfc3339(time?))));
        let times = times.map(|(name, time)| format!(" --{name} {time}")).collect::<Vec<_>>().concat();
        let token = clean(&page.next_page_token);
        let more = format!(
            "more are not shown: take a larger --limit, or go on with the same filter and order and{times} --page-token {token}\n"
        );
        text.push_str(&look.paint(Paint::Faint, &more));
    }
    text
}
