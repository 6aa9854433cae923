//! A server that started knows what one knows that ran all the time.

use plimsoll_core::{
    domain::{Cause, History, HistoryLimits, Key, Millis, Outcome, Summary, test_summary},
    predict,
    shared_history::SharedHistory,
    stats::{PoolPrices, Question, Settings, Stats},
};

use super::NewestAttempts;

/// Attempts in the order of their ids, as they are stored; many end at the same time.
fn attempts(count: u64) -> Vec<Summary> {
    let one = |n: u64| {
        let random = n * 7919 % 1009;
        let mut summary = test_summary(&format!("{n:0>6}"), "", "1", 10 + random);
        summary.started_unix_ms = 1_700_000_000_000 + random % 300 * 60_000;
        summary.wall = Millis(1000 * (1 + random * 31 % 997));
        summary.key = key(random % 40);
        summary.key.labels =
            [("pipeline".to_owned(), (n % 400).to_string()), ("job".to_owned(), "build".to_owned())].into();
        summary.opening.untrusted = random.is_multiple_of(9);
        if random.is_multiple_of(6) {
            (summary.outcome, summary.cause) = (Outcome::Failed, Some(Cause::Oom));
            summary.censored = true;
        }
        summary
    };
    (0..count).map(one).collect()
}

fn key(n: u64) -> Key {
    let version = (n % 4).to_string();
    // names of different lengths take different amounts of memory
    Key {
        package: format!("p{}{}", n / 4, "x".repeat(usize::from(u8::try_from(n * 11 % 200).unwrap()))),
        version,
        ..Key::default()
    }
}

fn empty(room: HistoryLimits) -> SharedHistory {
    SharedHistory::with_stats(History::with_room(room), Stats::new(Settings::default()))
}

fn started(all: &[Summary], room: HistoryLimits) -> SharedHistory {
    let history = empty(room);
    let mut newest = history.capacity().map(|room| NewestAttempts::of(room, history.stats().clone()));
    for summary in all {
        newest[usize::from(summary.opening.untrusted)].take(summary);
    }
    for newest in newest {
        history.learn_all(newest.finish());
    }
    history
}

/// The attempts that are known, what is predicted from them, and the counts of the statistics.
fn known(history: &SharedHistory) -> (Vec<String>, Vec<String>, [u64; 4]) {
    let ids = history.newest_first().iter().map(|brief| brief.attempt.to_string()).collect();
    let predicted = |n: u64| {
        history.read(|history| {
            format!("{:?}", predict::explain(history, &key(n), &predict::Settings::default()))
        })
    };
    let totals = history.stats().report(&Question::default(), &PoolPrices::default()).unwrap().totals;
    let counts = [totals.attempts, totals.retries().count, totals.retries().passed, totals.samples];
    (ids, (0..40).map(predicted).collect(), counts)
}

#[test]
fn a_restarted_server_predicts_like_one_always_running() {
    let all = attempts(6000);
    for room in [
        HistoryLimits { attempts: 10_000, bytes: usize::MAX },
        HistoryLimits { attempts: 1000, bytes: usize::MAX },
        HistoryLimits { attempts: 10_000, bytes: 500 << 10 },
        HistoryLimits { attempts: 10_000, bytes: 60 << 10 },
    ] {
        let expected = known(&started(&all, room));
        assert!(expected.0.len() > 10 && (expected.0.len() < 2000 || room.bytes == usize::MAX));
        for step in [1, 5999, 1231] {
            let history = empty(room);
            for n in 0..all.len() {
                history.learn(&all[n * step % all.len()]);
            }
            let (ids, predicted, counts) = known(&history);
            assert_eq!(ids, expected.0, "{room:?}");
            assert_eq!(predicted, expected.1, "{room:?}");
            assert_eq!(counts, expected.2, "{room:?}");
        }
    }
}
