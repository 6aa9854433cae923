//! What one open attempt takes in, from whom, and how it ends.

use plimsoll_core::domain::{AttemptId, Millis, Sample, SessionId, test_attempt};

use super::*;

fn attempt(session: &str) -> Attempt {
    Attempt { session: SessionId::parse(session).unwrap(), started_unix_ms: 0, ..test_attempt("a") }
}

fn last_message() -> LastMessage {
    LastMessage { unix_ms: 0, moment: Instant::now() }
}

fn batch(first_sequence: u64, lost: u64, count: u64) -> Append {
    let sample = |n| Sample { elapsed: Millis(n * 1000), ..Sample::default() };
    let samples = (first_sequence..first_sequence + count).map(|n| Some(sample(n))).collect();
    Append { attempt: AttemptId::parse("a").unwrap(), first_sequence, lost, samples, acts: None }
}

fn finish(last_sequence: u64, lost: u64, wall: u64) -> Finish {
    Finish {
        lost,
        wall: Some(Millis(wall)),
        ..Finish::unknown(AttemptId::parse("a").unwrap(), last_sequence)
    }
}

fn accept(session: &mut Session, batch: Append) -> Reply<Option<NewSamples>> {
    session.accept_batch(batch, &mut SkippedFacts::default())
}

#[test]
fn a_repeated_number_is_not_taken_twice() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    assert!(accept(&mut session, batch(1, 0, 5)).unwrap().is_some());
    assert_eq!(accept(&mut session, batch(1, 0, 5)).unwrap(), None);
    let new = accept(&mut session, batch(3, 0, 5)).unwrap().unwrap();
    assert_eq!((new.first_sequence, new.lost, new.samples.len()), (6, 0, 2));
    assert_eq!((session.acknowledged, session.progress.samples), (7, 7));
}

#[test]
fn a_sequence_gap_is_refused_unless_declared_lost() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    let gap = accept(&mut session.clone(), batch(3, 1, 1)).unwrap_err();
    assert!(matches!(gap, Refusal::Gap { expected: 1, got: 2, .. }), "{gap:?}");
    let new = accept(&mut session, batch(3, 2, 1)).unwrap().unwrap();
    assert_eq!((new.lost, session.lost, session.acknowledged), (2, 2, 3));
    let again = accept(&mut session, batch(4, 3, 1)).unwrap().unwrap();
    assert_eq!((again.lost, session.lost), (0, 2), "numbers declared lost before are not counted again");
}

#[test]
fn out_of_order_samples_are_skipped_as_lost() {
    let at = |times: &[u64]| -> Vec<Option<Sample>> {
        let sample = |ms: &u64| Some(Sample { elapsed: Millis(*ms), ..Sample::default() });
        times.iter().map(sample).collect()
    };
    for (times, kept) in [
        // back, and far ahead of what follows
        (vec![6000, 1, 7000], vec![6000, 7000]),
        (vec![900_000, 6000, 7000], vec![6000, 7000]),
        (vec![6000, 6000, 7000], vec![6000, 7000]),
        (vec![1, 2, 3], vec![]),
    ] {
        let mut session = Session::new(Arc::new(attempt("s")), last_message());
        accept(&mut session, batch(1, 0, 5)).unwrap();
        let mut skipped = SkippedFacts::default();
        let odd = Append { samples: at(&times), ..batch(6, 0, 0) };
        let new = session.accept_batch(odd.clone(), &mut skipped).unwrap().unwrap();
        let (count, elapsed) = (kept.len() as u64, new.samples.iter().map(|sample| sample.elapsed.0));
        assert_eq!(elapsed.collect::<Vec<_>>(), kept, "{times:?}");
        assert_eq!((new.first_sequence, new.lost), (9 - count, 3 - count), "{times:?}");
        assert_eq!((session.acknowledged, session.lost), (8, 3 - count), "{times:?}");
        assert_eq!(skipped.fields(), ["batch.samples.elapsed_ms"], "{times:?}");
        assert_eq!(accept(&mut session, odd).unwrap(), None, "sent again it is known");
    }
}

#[test]
fn a_decreasing_counter_is_skipped_alone() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    let mut counted = batch(1, 0, 2);
    let kills = |sample: &mut Option<Sample>, kills| sample.as_mut().unwrap().oom_kill = Some(kills);
    kills(&mut counted.samples[0], 2);
    kills(&mut counted.samples[1], 1);
    let mut skipped = SkippedFacts::default();
    let new = session.accept_batch(counted, &mut skipped).unwrap().unwrap();
    assert_eq!(new.samples.iter().map(|sample| sample.oom_kill).collect::<Vec<_>>(), [Some(2), None]);
    assert_eq!((new.lost, skipped.fields()), (0, vec!["batch.samples.oom_kill"]));
}

#[test]
fn wall_times_below_the_last_sample_are_skipped() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    accept(&mut session, batch(1, 0, 5)).unwrap();
    let phase = Phase { name: "build".into(), wall: Millis(7000), ..Phase::default() };
    for (wall, phases, expected, named) in [
        (Some(9000), vec![], 9000, vec![]),
        (Some(4999), vec![], 5000, vec!["finish.wall_ms"]),
        (None, vec![], 5000, vec![]),
        (None, vec![phase], 7000, vec![]),
    ] {
        let mut skipped = SkippedFacts::default();
        let end = Finish { wall: wall.map(Millis), phases, ..finish(5, 0, 0) };
        assert_eq!(session.wall(&end, &mut skipped), Millis(expected), "{wall:?}");
        assert_eq!(skipped.fields(), named, "{wall:?}");
    }
}

#[test]
fn an_end_needs_all_numbers() {
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    accept(&mut session, batch(1, 0, 5)).unwrap();
    assert!(matches!(session.clone().close(&finish(6, 0, 9000)), Err(Refusal::Gap { expected: 6, .. })));
    assert!(session.clone().close(&finish(4, 0, 9000)).is_err());
    session.close(&finish(7, 2, 9000)).unwrap();
    assert_eq!((session.acknowledged, session.lost), (7, 2));
}

#[test]
fn silence_is_measured_by_the_monotonic_clock() {
    let (hour, year_ms) = (Duration::from_hours(1), 365 * 24 * 3_600_000);
    let mut session = Session::new(Arc::new(attempt("s")), last_message());
    session.hand_to(&attempt("s"), &StreamHandle::new()).unwrap();
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
    session.hand_to(&attempt("s"), &old).unwrap();
    assert_eq!(session.hand_to(&attempt("other"), &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    let mut forged = attempt("s");
    forged.key.project = "another".into();
    assert_eq!(session.hand_to(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    let mut forged = attempt("s");
    forged.opening.untrusted = true;
    assert_eq!(session.hand_to(&forged, &new), Err(Refusal::Held(AttemptId::parse("a").unwrap())));
    assert!(!old.replaced.is_cancelled(), "a stranger does not disturb the holder");
    session.hand_to(&attempt("s"), &new).unwrap();
    assert!(old.replaced.is_cancelled());
    assert!(session.check_holder(&old).is_err());
    assert!(session.check_holder(&new).is_ok());
}
