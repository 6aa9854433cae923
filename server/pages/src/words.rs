//! Words for the wire's enumerations, for people.

use maud::{Markup, html};
pub(super) use plimsoll_proto::evidence::{cause_words as cause, outcome_words as outcome};

/// A reason as a sentence: starts with a capital letter, ends with a full stop.
pub(super) fn sentence(reason: &str) -> String {
    let mut letters = reason.trim().chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if reason.trim_end().ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

/// Turns text into HTML; text between backquotes becomes code.
pub(super) fn marked_up(text: &str) -> Markup {
    html! {
        @for (nth, piece) in text.split('`').enumerate() {
            @if nth % 2 == 0 { (piece) } @else { code { (piece) } }
        }
    }
}

/// The name of a number as the heading of a row: with a capital letter, and `CPU` in capitals.
pub(super) fn title(name: &str) -> String {
    let name = name.replace("cpu ", "CPU ");
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_becomes_a_sentence() {
        assert_eq!(["memory fits", "It does. ", ""].map(sentence), ["Memory fits.", "It does.", ""]);
    }

    #[test]
    fn names_between_backticks_are_marked_and_escaped() {
        assert_eq!(marked_up("see `a<b>` too").into_string(), "see <code>a&lt;b&gt;</code> too");
    }
}
