//! The survey of a log, and what follows from it for single messages.

use super::{
    super::{message::LogMessage, replay::Replay},
    *,
};

#[test]
fn an_unreadable_segment_is_a_hole() {
    // each read of a directory fails
    let file = File::open(std::env::temp_dir()).unwrap();
    let mut bytes = Vec::new();
    read_segment(&file, 0, &mut bytes);
    assert_eq!(bytes.len(), SEGMENT_BYTES);
    let mut survey = LogSurvey::default();
    survey.take_in(0, &bytes, 0..u64::MAX);
    assert_eq!((survey.holes.len(), survey.holes[0].len), (1, SEGMENT_BYTES as u64));
}

#[test]
fn superseded_changes_count_only_in_damaged_logs() {
    let mut survey = LogSurvey { newest_of_page: [(7, 300)].into(), ..LogSurvey::default() };
    assert!(survey.is_superseded(7, 299) && !survey.is_superseded(7, 301) && !survey.is_superseded(8, 1));
    survey.expect_losses(false);
    assert!(!survey.is_superseded(7, 299), "the newer one may be what is lost");
}

/// Segments 0 and 2 are there, and a batch that began in the one ends in the other.
fn without_segment_1(stable: u64) -> (LogSurvey, u64, u64) {
    let size = SEGMENT_BYTES as u64;
    let slots = vec![SegmentSlot { at: size, number: 0 }, SegmentSlot { at: 0, number: 2 }];
    let survey = LogSurvey { slots, end: 3 * size, stable, ..LogSurvey::default() };
    (survey, size - 100, 2 * size + 100)
}

#[test]
fn a_reused_segment_does_not_break_a_batch() {
    let (mut survey, first, last) = without_segment_1(2 * SEGMENT_BYTES as u64);
    assert!(survey.is_whole(first, last));
    // something else is lost; each place of the file has a segment, so this one was not
    survey.expect_losses(false);
    assert!(survey.is_whole(first, last));
}

#[test]
fn a_possibly_lost_segment_breaks_a_batch() {
    let (mut behind, first, last) = without_segment_1(2 * SEGMENT_BYTES as u64);
    behind.expect_losses(true);
    assert!(!behind.is_whole(first, last));
    let (mut nameless, ..) = without_segment_1(2 * SEGMENT_BYTES as u64);
    nameless.take_in(2 * SEGMENT_BYTES as u64, &vec![0; SEGMENT_BYTES], 0..u64::MAX);
    assert!(nameless.is_whole(first, last), "a healthy log has free places");
    nameless.expect_losses(false);
    assert!(!nameless.is_whole(first, last));
    // it was never written to its end
    let (unstable, ..) = without_segment_1(2 * SEGMENT_BYTES as u64 - 1);
    assert!(!unstable.is_whole(first, last));
}

fn slice(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
}

/// A page without entries, whose keys begin with the first `prefix` bytes of `lo`.
fn page_body(prefix: u8, lo: &[u8], hi: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, prefix][..], &slice(lo), &slice(hi), &[0, 0]].concat()
}

#[test]
fn changes_from_before_segment_reuse_are_dropped() {
    let put = [&[0][..], &slice(b"72"), &slice(b"value")].concat();
    // in between, in a segment that was used anew, the page was written with the prefix "t002"
    let (old, new) = (page_body(3, b"t00", b"t01"), page_body(4, b"t0027", b"t0028"));
    let messages =
        [(MessageKind::Node, &old, 100), (MessageKind::Link, &put, 200), (MessageKind::Node, &new, 300)];
    let read = |survey: &LogSurvey| {
        let mut replay = Replay::default();
        for (kind, body, lsn) in &messages {
            let message = LogMessage { kind: *kind, segment: 0, page: 7, body, body_at: 0 };
            replay.apply_message(&message, *lsn, 0, survey);
        }
        replay.entries.into_keys().collect::<Vec<_>>()
    };
    let whole = LogSurvey { newest_of_page: [(7, 300)].into(), ..LogSurvey::default() };
    assert_eq!(read(&whole), Vec::<Vec<u8>>::new());
}
