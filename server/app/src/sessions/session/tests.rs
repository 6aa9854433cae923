//! What one open attempt takes in, from whom, and how it ends.

use plimsoll_core::domain::{
    AttemptId, FinalTotals, Key, MeasurementSource, Millis, OpeningRecord, Resources, Sample, SessionId,
};

use super::*;

fn attempt(session: &str) -> Attempt {
    Attempt {
        id: AttemptId::parse("a").unwrap(),
        session: SessionId::parse(session).unwrap(),
        key: Key { package: "zlib".into(), ..Key::default() },
        number: 1,
        retries: None,
        source: MeasurementSource::CgroupV2,
        resources: Resources::default(),
        started_unix_ms: 0,
        opening: OpeningRecord::default(),
    }
}

fn last_message() -> LastMessage {
    LastMessage { unix_ms: 0, moment: Instant::now() }
}

fn batch(first_sequence: u64, lost: u64, count: u64) -> Append {
    let sample = |n| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let samples = (first_sequence..first_sequence + count).map(sample).collect();
    Append { attempt: AttemptId::parse("a").unwrap(), first_sequence, lost, samples }
}

fn finish(last_sequence: u64, lost: u64, wall: u64) -> Finish {
    let attempt = AttemptId::parse("a").unwrap();
    let (wall, totals) = (Millis(wall), FinalTotals::default());
    let (phases, offloaded_to) = (Vec::new(), String::new());
    Finish {
        attempt,
        last_sequence,
        lost,
        wall,
        exit: None,
        totals,
        phases,
        keeps_ticket: false,
        ended: false,
        offloaded_to,
    }
}

#[test]
fn a_repeated_number_is_not_taken_twice() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    assert!(session.accept(batch(1, 0, 5)).unwrap().is_some());
    assert_eq!(session.accept(batch(1, 0, 5)).unwrap(), None);
    let new = session.accept(batch(3, 0, 5)).unwrap().unwrap();
    assert_eq!((new.first_sequence, new.lost, new.samples.len()), (6, 0, 2));
    assert_eq!((session.acknowledged, session.progress.samples), (7, 7));
}

#[test]
fn a_missing_number_is_an_error_unless_declared_lost() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    let gap = session.clone().accept(batch(3, 1, 1)).unwrap_err();
    assert!(matches!(gap, Refusal::Gap { expected: 1, got: 2, .. }), "{gap:?}");
    let new = session.accept(batch(3, 2, 1)).unwrap().unwrap();
    assert_eq!((new.lost, session.lost, session.acknowledged), (2, 2, 3));
    let again = session.accept(batch(4, 3, 1)).unwrap().unwrap();
    assert_eq!((again.lost, session.lost), (0, 2), "numbers declared lost before are not counted again");
}

#[test]
fn time_that_goes_back_between_batches_is_refused() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    session.accept(batch(1, 0, 5)).unwrap();
    let mut back = batch(6, 0, 2);
    back.samples[1].elapsed = Millis(1);
    let refusal = session.accept(back).unwrap_err();
    assert!(matches!(&refusal, Refusal::Fault(f) if f.field == "batch.samples[1].elapsed_ms"), "{refusal:?}");
}

#[test]
fn an_end_needs_all_numbers() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    session.accept(batch(1, 0, 5)).unwrap();
    assert!(matches!(session.clone().close(&finish(6, 0, 9000)), Err(Refusal::Gap { expected: 6, .. })));
    assert!(session.clone().close(&finish(4, 0, 9000)).is_err());
    assert!(session.clone().close(&finish(5, 0, 4999)).is_err(), "it cannot end before its last sample");
    session.close(&finish(7, 2, 9000)).unwrap();
    assert_eq!((session.acknowledged, session.lost), (7, 2));
}

#[test]
fn an_agent_is_silent_by_the_time_that_passes_whatever_the_clock_on_the_wall_says() {
    let (hour, year_ms) = (Duration::from_hours(1), 365 * 24 * 3_600_000);
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    session.take(&attempt("s"), &StreamHandle::new()).unwrap();
    let now = session.last_message.moment;
    for unix_ms in [0, year_ms, u64::MAX] {
        session.last_message.unix_ms = unix_ms;
        assert!(!session.is_silent(now + hour, hour));
        assert!(session.is_silent(now + hour + hour, hour), "also one that is connected and says nothing");
    }
}

#[test]
fn only_the_same_agent_takes_an_attempt_over() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    let (old, new) = (StreamHandle::new(), StreamHandle::new());
    session.take(&attempt("s"), &old).unwrap();
    assert_eq!(session.take(&attempt("other"), &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    let mut forged = attempt("s");
    forged.key.project = "another".into();
    assert_eq!(session.take(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    let mut forged = attempt("s");
    forged.opening.untrusted = true;
    assert_eq!(session.take(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    assert!(!old.replaced.is_cancelled(), "a stranger does not disturb the holder");
    session.take(&attempt("s"), &new).unwrap();
    assert!(old.replaced.is_cancelled());
    assert!(session.check_holder(&old).is_err());
    assert!(session.check_holder(&new).is_ok());
}
