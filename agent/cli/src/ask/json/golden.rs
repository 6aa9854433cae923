//! Pins the JSON output byte for byte: messages with every field set, with zeros and unknown enum values, and empty ones. A field added to
//! the wire adds lines; existing lines must not change.

use std::fmt::Write as _;

use plimsoll_proto::{
    fixtures::{Fill, message},
    v1::{GetStatsResponse, ListAttemptsResponse, Prediction, RecommendResponse, Verdict},
};

use super::*;

const PINNED_ANSWERS: &str = include_str!("golden/answers.txt");

#[test]
fn programs_read_the_same_bytes_as_ever() {
    let mut all = String::new();
    for fill in [Fill::Rich, Fill::Zero, Fill::Empty] {
        let explained = message("ExplainResponse", fill);
        let answers = [
            ("prediction", render_message(&message::<Prediction>("Prediction", fill))),
            ("explanation", render_message(&explained)),
            ("jobs", render_jobs(&explained)),
            ("verdict", render_message(&message::<Verdict>("Verdict", fill))),
            ("stats", render_message(&message::<GetStatsResponse>("GetStatsResponse", fill))),
            ("attempts", render_message(&message::<ListAttemptsResponse>("ListAttemptsResponse", fill))),
            ("attempt", render_message(&message::<GetAttemptResponse>("GetAttemptResponse", fill))),
            ("watch", render_watch(&message("WatchResponse", fill))),
            ("recommendations", render_message(&message::<RecommendResponse>("RecommendResponse", fill))),
        ];
        for (name, json) in answers {
            let _written = writeln!(all, "## {name} {fill:?}");
            all += &json;
        }
    }
    plimsoll_proto::fixtures::assert_pinned(&all, PINNED_ANSWERS, "agent_answers");
}
