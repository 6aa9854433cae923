//! Pins the JSON output byte for byte: messages with every field set, with zeros and unknown enum values, and empty ones. A field added to
//! the wire adds lines; existing lines must not change.

use std::fmt::Write as _;

use plimsoll_proto::{
    fixtures::{Fill, message},
    v1::Prediction,
};

use super::*;

const PINNED_ANSWERS: &str = include_str!("golden/answers.txt");

#[test]
fn programs_read_the_same_bytes_as_ever() {
    let mut all = String::new();
    for fill in [Fill::Rich, Fill::Zero, Fill::Empty] {
        let explained = message("ExplainResponse", fill);
        let answers = [
            ("prediction", render_prediction(&message::<Prediction>("Prediction", fill))),
            ("explanation", render_explanation(&explained)),
            ("jobs", render_jobs(&explained)),
            ("verdict", render_verdict(&message("Verdict", fill))),
            ("stats", render_stats(&message("GetStatsResponse", fill))),
            ("attempts", render_attempts(&message("ListAttemptsResponse", fill))),
            ("attempt", render_attempt(&message("GetAttemptResponse", fill))),
            ("watch", render_watch(&message("WatchResponse", fill))),
            ("recommendations", render_recommendations(&message("RecommendResponse", fill))),
        ];
        for (name, json) in answers {
            let _written = writeln!(all, "## {name} {fill:?}");
            all += &json;
        }
    }
    plimsoll_proto::fixtures::assert_pinned(&all, PINNED_ANSWERS, "agent_answers");
}
