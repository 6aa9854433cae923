//! Prints lists of attempts for people.

use plimsoll_proto::{
    evidence::result_cell,
    figures, measured,
    shown::clean,
    times,
    v1::{ListAttemptsRequest, ListAttemptsResponse, Summary},
};

use super::{
    attempt::end_paint,
    key::name,
    stats,
    table::{Cell, Column, Table},
};
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
    let mut table = Table::new(vec![
        Column::text_column("result", 3, 6),
        Column::number_column("need", 2),
        Column::number_column("of ask", 4),
        Column::number_column("time", 5),
        Column::number_column("ended (UTC)", 6),
        Column::text_column("pool", 7, 4),
        Column::text_column("what", 1, 12),
        // never cut: a part of an id is useless
        Column::text_column("attempt", 0, usize::MAX),
    ]);
    for summary in &page.attempts {
        table.add_row(row(summary));
        if !summary.failure_line.is_empty() {
            let room = look
                .columns
                .map_or(usize::MAX, |columns| columns.saturating_sub(super::table::NOTE_INDENT.len()));
            table.add_note(super::fit_text(&clean(&summary.failure_line), room));
        }
    }
    let mut text = table.render(look);
    if page.attempts.iter().any(|summary| measured::need_note(summary).is_some()) {
        text.push_str(&look.paint(Paint::Faint, &format!("{}\n", measured::MARK_NOTE)));
    }
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

fn row(summary: &Summary) -> Vec<Cell> {
    let share = measured::need_of_ask(summary);
    let over = share.is_some_and(|share| share > 1.0);
    vec![
        Cell::painted(result_cell(summary), end_paint(summary)),
        measured::marked_need_cell(summary).into(),
        Cell::painted(measured::need_of_ask_cell(summary), if over { Paint::Warn } else { Paint::Plain }),
        figures::millis(summary.wall_ms).into(),
        times::date_time(measured::ended_unix_ms(summary)).into(),
        clean(&summary.pool).into(),
        summary.key.as_ref().map(name).unwrap_or_default().into(),
        clean(&summary.attempt).into(),
    ]
}
