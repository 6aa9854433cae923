//! What the page of an attempt says of its verdicts.

use plimsoll_proto::v1::{Action, Cause, Verdict};

use super::earlier;

#[test]
fn an_earlier_verdict_without_a_cause_has_the_words_of_the_verdict_in_force() {
    let verdict = Verdict {
        action: Action::AsIs.into(),
        cause: Cause::Unknown.into(),
        confidence: 0.2,
        reason: "its log was not read: the retry policy allows another attempt with the same size".to_owned(),
        ..Verdict::default()
    };
    let page = earlier(&[verdict]).into_string();
    let words = "<td>Cause not known: its log was not read; the retry policy allows another attempt with the same size</td>";
    assert!(page.contains(words), "{page}");
    assert!(!page.contains("Retry with") && !page.contains("20 %"), "{page}");
}
