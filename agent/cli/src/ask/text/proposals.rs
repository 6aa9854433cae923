//! Prints proposals of what jobs should request, for people.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures,
    recommendations::{scope, summary, table, window},
    shown::clean,
    v1::RecommendResponse,
};

use crate::ask::TerminalStyle;

/// What is saved, a row for each package, and notes on what the numbers do not show.
pub(in crate::ask) fn render_proposals(answer: &RecommendResponse, look: TerminalStyle) -> String {
    let mut text = String::new();
    if answer.recommendations.is_empty() {
        text.push_str("no attempts match: nothing to propose\n");
    } else {
        let scope = scope(answer).map(|scope| scope + "\n").unwrap_or_default();
        let rows = look.table(&table(answer), usize::MAX);
        let _written = write!(text, "{}\n{}\n{scope}\n{rows}", clean(&summary(answer)), window(answer));
    }
    if answer.left_out > 0 {
        let rest = figures::counted(answer.left_out, "package");
        let _written = writeln!(text, "{rest} more that save less or request less (--limit, --package)");
    }
    for note in &answer.notes {
        let _written = writeln!(text, "note: {}", clean(note));
    }
    text
}
