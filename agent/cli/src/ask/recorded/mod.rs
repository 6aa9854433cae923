//! What people read, recorded: `golden/answers.txt` has every answer below the sentence that it keeps true. A line that changes there changed
//! for people, so read it. The golden transcripts of the whole program show the usual answers; here are the others.

mod attempts;
mod judged;
mod statistics;
mod week;

use std::fmt::Write as _;

use plimsoll_proto::fixtures::assert_pinned;

use super::TerminalStyle;

const NARROW: TerminalStyle = TerminalStyle { columns: Some(40), colour: false };
const MIDDLING: TerminalStyle = TerminalStyle { columns: Some(70), colour: false };
const PLAIN: TerminalStyle = TerminalStyle { columns: None, colour: false };
const COLOURED: TerminalStyle = TerminalStyle { columns: None, colour: true };
/// 2025-11-21 09:05 UTC.
const NOON: u64 = 1_763_715_907_000;

/// Sentences, each with the answer that keeps it true.
type Answers = Vec<(&'static str, String)>;

#[test]
fn people_read_the_same_lines_as_ever() {
    let mut all = String::new();
    for (promise, answer) in [attempts::answers(), judged::answers(), statistics::answers()].concat() {
        let _written = writeln!(all, "## {promise}\n{answer}");
    }
    assert!(!all.contains('\u{9b}') && !all.contains("\u{1b}[2J"), "no name moves the cursor");
    // a colour is written as people do not see it
    assert_pinned(&all.replace('\u{1b}', "ESC"), include_str!("golden/answers.txt"), "agent_recorded");
}
