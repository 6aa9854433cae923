//! What the page of an attempt says of its verdicts.

use plimsoll_proto::v1::{Action, Cause, GetAttemptResponse, Outcome, Verdict};

use super::AttemptPage;
use crate::view::ReaderChoice;

#[test]
fn a_failed_attempt_links_to_its_retry() {
    let shown = GetAttemptResponse {
        retried_by: "job/2".to_owned(),
        retry_outcome: Outcome::Succeeded.into(),
        ..GetAttemptResponse::default()
    };
    let view = ReaderChoice::default();
    let page = AttemptPage { view: &view, shown: &shown, may_correct: false }.draw().into_string();
    assert!(page.contains("href=\"/attempts/job%2F2\">job/2</a>, which passed"), "{page}");
}

#[test]
fn earlier_verdicts_are_worded_like_the_current_one() {
    let verdict = Verdict {
        action: Action::AsIs.into(),
        cause: Cause::Unknown.into(),
        confidence: 0.2,
        reason: "its log was not read: the retry policy allows another attempt with the same size".to_owned(),
        ..Verdict::default()
    };
    let shown = GetAttemptResponse { earlier_verdicts: vec![verdict], ..GetAttemptResponse::default() };
    let view = ReaderChoice::default();
    let page = AttemptPage { view: &view, shown: &shown, may_correct: false }.draw().into_string();
    let words = "<td data-name=\"Verdict\">Cause not known: its log was not read; the retry policy allows another attempt with the same size</td>";
    assert!(page.contains(words), "{page}");
    assert!(!page.contains("Retry with") && !page.contains("20 %"), "{page}");
}
