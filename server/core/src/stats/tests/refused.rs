//! Verdicts that say no, and which of them keep an attempt from being made.

use super::*;
use crate::domain::{Action, test_verdict};

/// A verdict that says no while another attempt would be allowed.
pub(super) fn no(attempt: &AttemptId) -> Verdict {
    Verdict { action: Action::No, ..test_verdict(attempt.as_str(), None) }
}

#[test]
fn a_no_for_exhausted_attempts_avoids_no_retry() {
    let avoids = |attempts_left| Verdict { attempts_left, ..no(&id(7)) }.avoids_retry();
    assert!(avoids(1) && !avoids(0));
}
