//! Attempts that rescue paused or ended: they may raise sizes, and teach no time.

use super::*;
use crate::domain::{AttemptId, OpeningRecord, Rescue};

/// A successful attempt that needed `need_mib`, because it was paused; together its processes would have needed `together_mib`.
fn paused(id: usize, need_mib: u64, together_mib: u64) -> Summary {
    let rescue = Rescue {
        pauses: 4,
        paused: Millis(30_000),
        together_peak: Bytes(together_mib * MIB),
        ..Rescue::default()
    };
    Summary { rescue: Some(rescue), ..built(id, "1", need_mib, 2) }
}

fn limit_of(known: impl IntoIterator<Item = Summary>) -> u64 {
    ask(&history(known), &key("zlib", "1")).memory_limit.value / MIB
}

#[test]
fn five_paused_attempts_lower_no_limit() {
    for needs in [[300; 8], [300, 900, 310, 880, 305, 300, 920, 300]] {
        let before = || (0..8).map(|n| built(n, "1", needs[n], 2));
        let limit = limit_of(before());
        for need in [10, 150, 290, 300] {
            let after = limit_of(before().chain((10..15).map(|n| paused(n, need, 0))));
            assert!(after >= limit, "{limit} became {after} by needs of {need}");
        }
        let after_kill = || before().chain([stopped(9, "1", 1200)]);
        let killed = limit_of(after_kill());
        let after = limit_of(after_kill().chain((10..15).map(|n| paused(n, 290, 0))));
        assert!(
            after >= killed,
            "{killed} became {after}: no pause shows that the size before the kill is enough"
        );
    }
}

#[test]
fn a_need_spared_by_pauses_raises_the_limit() {
    let before = || (0..4).map(|n| built(n, "1", 300, 2));
    let after = limit_of(before().chain((10..15).map(|n| paused(n, 300, 700))));
    assert!(after > 700, "{after}");
    assert!(limit_of((0..5).map(|n| paused(n, 300, 9_000))) > 9_000, "and if nothing else is known");
}

#[test]
fn paused_time_teaches_nothing() {
    let times = |known: Vec<Summary>| {
        let found = ask(&history(known), &key("zlib", "1"));
        [found.wall_p50, found.wall_p95, found.cpu_request, found.cpu_limit].map(|quantity| quantity.value)
    };
    let before: Vec<Summary> = (0..4).map(|n| built(n, "1", 300, 2)).collect();
    let usual = times(before.clone());
    for wall in [1_000, 60_000, 86_400_000] {
        let slow = (10..30).map(|n| Summary { wall: Millis(wall), ..paused(n, 300, 0) });
        assert_eq!(times(before.iter().cloned().chain(slow).collect()), usual, "{wall}");
    }
}

/// One attempt by its numbers: version, need, minutes, and whether memory stopped it.
type Drawn = (u8, u64, u64, bool);

fn drawn(n: usize, &(version, need, minutes, is_stopped): &Drawn) -> Summary {
    let version = version.to_string();
    let of = if is_stopped { stopped(n, &version, need) } else { built(n, &version, need, 2) };
    Summary { wall: Millis(minutes * 60_000), ..of }
}

fn any_attempts() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((0..3_u8, 1..20_000_u64, 1..9_000_u64, prop::bool::weighted(0.2)), 0..20)
}

proptest! {
    #[test]
    fn watching_alone_changes_no_prediction(attempts in any_attempts(), together in 0..1_u64 << 40, raises in 0..3_u32) {
        let watched = Rescue {
            would_pause: Some(Millis(7)),
            would_pause_processes: 3,
            together_peak: Bytes(together),
            gave_up: "too late".into(),
            raises,
            ..Rescue::default()
        };
        let all = |rescue: Option<Rescue>| {
            history(attempts.iter().enumerate().map(|(n, one)| Summary { rescue: rescue.clone(), ..drawn(n, one) }))
        };
        for asked in [key("zlib", "1"), key("zlib", "7"), key("unknown", "1")] {
            prop_assert_eq!(ask(&all(None), &asked), ask(&all(Some(watched.clone())), &asked));
        }
    }

    #[test]
    fn untrusted_rescue_lowers_nothing_for_others(
        attempts in any_attempts(), forks in any_attempts(), pauses in 0..3_u32, together in 0..1_u64 << 40, is_ended in any::<bool>(),
    ) {
        let claim = Rescue { pauses, together_peak: Bytes(together), ended: is_ended.then_some(Millis(1)), ..Rescue::default() };
        let own = || attempts.iter().enumerate().map(|(n, one)| drawn(n, one));
        let forks = forks.iter().enumerate().map(|(n, one)| Summary {
            attempt: AttemptId::parse(&format!("fork{n}")).unwrap(),
            opening: OpeningRecord { untrusted: true, ..OpeningRecord::default() },
            rescue: Some(claim.clone()),
            ..drawn(n, one)
        });
        let [before, after] = [history(own()), history(own().chain(forks))];
        for asked in [key("zlib", "1"), key("zlib", "7"), key("unknown", "1")] {
            let [before, after] = [&before, &after].map(|known| ask(known, &asked));
            let sizes = |of: &Prediction| {
                [&of.memory_request, &of.memory_limit, &of.cpu_limit, &of.wall_p95].map(|size| size.value)
            };
            for (before, after) in sizes(&before).into_iter().zip(sizes(&after)) {
                prop_assert!(after >= before, "{before} became {after}");
            }
            prop_assert!(after.confidence <= before.confidence);
        }
    }
}
