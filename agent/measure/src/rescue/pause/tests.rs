//! Builds that are made up, and 100,000 random ones.

use std::collections::BTreeSet;

use super::*;

const MIB: u64 = 1 << 20;
const MOST: Duration = Duration::from_mins(10);

fn unit(number: u64, mib: u64) -> Unit {
    let id = ProcessId { started: number, pid: i32::try_from(number).unwrap() };
    Unit { id, members: vec![id], bytes: mib * MIB, cpu_ticks: 0, is_stopped: false }
}

fn moment(tenths: u64, need: u64, limit: u64) -> Moment {
    Moment {
        now: Duration::from_millis(tenths * 100),
        need: need * MIB,
        grown: 0,
        limit: Some(limit * MIB),
        remaining: None,
        ticks_per_second: 100,
    }
}

fn pids(list: &[ProcessId]) -> Vec<i32> {
    list.iter().map(|id| id.pid).collect()
}

/// The ids that are stopped and continued.
fn decided(rule: &mut PauseRule, moment: &Moment, units: &[Unit]) -> (Vec<i32>, Vec<i32>) {
    let acts = rule.decide(moment, units, |_unit| true);
    (pids(&acts.stop), pids(&acts.go))
}

#[test]
fn all_but_the_oldest_pause_near_the_limit() {
    let mut rule = PauseRule::new(MOST);
    let units = |a, b, c| [unit(1, a), unit(2, b), unit(3, c)];
    assert!(!rule.needs_look(200 * MIB, 0, Some(800 * MIB)));
    assert!(rule.needs_look(200 * MIB, 300 * MIB, Some(800 * MIB)));
    assert_eq!(decided(&mut rule, &moment(0, 300, 800), &units(100, 100, 100)), (vec![], vec![]));
    assert_eq!(decided(&mut rule, &moment(1, 480, 800), &units(180, 160, 140)), (vec![3, 2], vec![]));
    // no room for two of the largest size yet
    assert_eq!(decided(&mut rule, &moment(2, 640, 800), &units(250, 160, 140)), (vec![], vec![]));
    // the first has ended
    let left = [unit(2, 160), unit(3, 140)];
    assert_eq!(decided(&mut rule, &moment(3, 300, 800), &left), (vec![], vec![2]));
    assert_eq!(decided(&mut rule, &moment(4, 360, 800), &[unit(2, 220), unit(3, 140)]), (vec![], vec![3]));
    let expected = Rescue {
        pauses: 2,
        paused_ms: 300,
        paused_process_ms: 500,
        together_peak_bytes: (250 + 220 + 140 + 90) * MIB,
        ..Rescue::default()
    };
    assert_eq!(*rule.totals(), expected);
}

#[test]
fn memory_given_back_before_a_pause_is_not_part_of_it() {
    let mut rule = PauseRule::new(MOST);
    let units = |a, b| [unit(1, a), unit(2, b)];
    assert_eq!(decided(&mut rule, &moment(0, 300, 2000), &units(280, 20)), (vec![], vec![]));
    // its compiler has ended, and its assembler runs
    assert_eq!(decided(&mut rule, &moment(1, 420, 800), &units(20, 400)).0, [2]);
    decided(&mut rule, &moment(2, 430, 800), &units(30, 400));
    assert_eq!(rule.totals().together_peak_bytes, 430 * MIB);
}

#[test]
fn what_a_stuck_agent_had_paused_runs_and_is_not_counted() {
    let mut rule = PauseRule::new(MOST);
    let two = [unit(1, 200), unit(2, 200)];
    assert_eq!(decided(&mut rule, &moment(0, 400, 600), &two).0, [2]);
    assert_eq!(decided(&mut rule, &moment(9000, 400, 600), &two), (vec![], vec![2]));
    assert_eq!((rule.totals().paused_ms, rule.totals().gave_up.as_str()), (5000, ""));
    assert_eq!(decided(&mut rule, &moment(9030, 400, 600), &two).0, [2]);
}

#[test]
fn a_newcomer_waits_while_an_older_one_is_paused() {
    let mut rule = PauseRule::new(MOST);
    let two = [unit(1, 200), unit(2, 200)];
    assert_eq!(decided(&mut rule, &moment(0, 400, 600), &two).0, [2]);
    let three = [unit(1, 200), unit(2, 200), unit(3, 1)];
    assert_eq!(decided(&mut rule, &moment(1, 401, 600), &three).0, [3]);
}

#[test]
fn a_paused_process_that_changes_goes_on() {
    let mut rule = PauseRule::new(MOST);
    let two = [unit(1, 200), unit(2, 200)];
    assert_eq!(decided(&mut rule, &moment(0, 400, 600), &two).0, [2]);
    // it has a child now, so that it is no unit any more
    assert_eq!(decided(&mut rule, &moment(1, 400, 600), &two[..1]).1, [2]);
    assert_eq!(rule.paused().count(), 0);
}

#[test]
fn what_may_not_be_stopped_runs_on() {
    let mut rule = PauseRule::new(MOST);
    let three = [unit(1, 200), unit(2, 200), unit(3, 200)];
    let acts = rule.decide(&moment(0, 600, 700), &three, |unit| unit.id.pid != 2);
    assert_eq!((pids(&acts.stop), rule.totals().pauses), (vec![3], 1));
}

#[test]
fn let_go_processes_run_for_a_moment() {
    let mut rule = PauseRule::new(MOST);
    let two = [unit(1, 200), unit(2, 200)];
    assert_eq!(decided(&mut rule, &moment(0, 400, 600), &two).0, [2]);
    assert_eq!(pids(&rule.let_go(Duration::from_millis(100)).go), [2]);
    assert_eq!(decided(&mut rule, &moment(2, 400, 600), &two), (vec![], vec![]));
    assert_eq!(decided(&mut rule, &moment(30, 400, 600), &two).0, [2]);
}

#[test]
fn late_readings_pause_earlier() {
    let ms = Duration::from_millis;
    let stops = |limit, passed, late| {
        let need = 600;
        let grown = growth_ahead(80 * MIB, ms(passed), ms(late), need * MIB);
        let units: Vec<Unit> = (1..9).map(|number| unit(number, 60)).collect();
        let now = Moment { grown, ..moment(0, need, limit) };
        decided(&mut PauseRule::new(MOST), &now, &units).0.len()
    };
    assert_eq!((stops(1000, 100, 100), stops(1000, 100, 300)), (0, 7));
    assert_eq!(stops(1000, 300, 300), 0, "it grew more slowly");
    assert_eq!((stops(1500, 100, 5_000), stops(1500, 1, 5_000)), (0, 0), "memory is 2.5 times the need");
    assert_eq!(growth_ahead(400, ms(100), ms(100), 500), 400, "what was read counts as it is");
}

#[test]
fn one_compiler_alone_is_never_paused() {
    let mut rule = PauseRule::new(MOST);
    assert_eq!(decided(&mut rule, &moment(0, 799, 800), &[unit(1, 790)]), (vec![], vec![]));
    assert_eq!(decided(&mut rule, &moment(1, 799, 800), &[]), (vec![], vec![]));
}

#[test]
fn idle_runners_let_all_go_on() {
    let mut rule = PauseRule::new(MOST);
    let units = [unit(1, 300), unit(2, 300)];
    let mut stops = Vec::new();
    for tenths in 0..200 {
        stops.push(decided(&mut rule, &moment(tenths, 600, 640), &units).0.len());
    }
    assert_eq!(stops.iter().sum::<usize>(), 3, "{stops:?}");
    assert_eq!(rule.totals().gave_up, "the running processes waited for the paused ones");
}

#[test]
fn bounds_end_all_pauses_for_good() {
    let bounded = |most, remaining: Option<u64>, percent: u64| {
        let mut rule = PauseRule::new(Duration::from_secs(most));
        let begin = 36_000 * percent;
        let end = (0..360_000).find(|tenths| {
            let mut units = [unit(1, 300), unit(2, 300)];
            units[0].cpu_ticks = *tenths;
            let left = remaining.map(|left| Duration::from_secs(left.saturating_sub(tenths / 10)));
            let now = Moment { remaining: left, ..moment(begin + tenths, 600, 640) };
            !decided(&mut rule, &now, &units).1.is_empty()
        });
        (end.map(|tenths| tenths / 10), rule.totals().gave_up.clone())
    };
    assert_eq!(bounded(600, None, 0), (Some(600), "a process was paused for as long as it may be".into()));
    assert_eq!(bounded(6_000, None, 0), (Some(900), "all pauses together took as long as they may".into()));
    assert_eq!(bounded(9_000, None, 8).0, Some(7_200), "20 % of ten hours");
    assert_eq!(bounded(600, Some(1_000), 0), (Some(200), "the job's time is nearly over".into()));
    assert_eq!(bounded(600, Some(50), 0), (None, String::new()), "none begins");
}

#[test]
fn a_limit_taken_away_lets_all_go_on() {
    for limit in [None, Some(0)] {
        let mut rule = PauseRule::new(MOST);
        let units = [unit(1, 300), unit(2, 300)];
        assert_eq!(decided(&mut rule, &moment(0, 600, 800), &units).0, [2]);
        assert_eq!(decided(&mut rule, &Moment { limit, ..moment(1, 600, 0) }, &units).1, [2]);
    }
}

/// A made-up build: its units grow, end, and start at random, also while they are paused.
struct RandomBuild {
    seed: u64,
    units: Vec<Unit>,
    next: u64,
    paused: BTreeSet<ProcessId>,
}

impl RandomBuild {
    fn draw(&mut self, below: u64) -> u64 {
        // Knuth's constants for a linear congruential generator of 64 bits
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn step(&mut self) {
        for mut unit in std::mem::take(&mut self.units) {
            if self.draw(10) == 0 {
                self.paused.remove(&unit.id);
                continue;
            }
            let is_paused = self.paused.contains(&unit.id);
            // its owner stops it, others continue it
            unit.is_stopped = if self.draw(20) == 0 { self.draw(2) == 0 } else { is_paused };
            if !is_paused {
                unit.bytes += self.draw(200) * MIB;
                unit.cpu_ticks += self.draw(11);
            }
            self.units.push(unit);
        }
        while self.draw(3) == 0 && self.units.len() < 8 {
            self.next += 1;
            let mib = self.draw(50);
            self.units.push(unit(self.next, mib));
        }
    }

    fn apply(&mut self, acts: &PauseActs) {
        for id in &acts.stop {
            assert!(self.paused.insert(*id), "it is stopped twice");
        }
        for id in &acts.go {
            let has_ended = !self.units.iter().any(|unit| unit.id == *id);
            assert!(self.paused.remove(id) || has_ended, "it was not paused");
        }
    }
}

#[test]
fn random_builds_are_never_left_paused() {
    for seed in 0..100_000 {
        let mut build = RandomBuild { seed, units: Vec::new(), next: 0, paused: BTreeSet::new() };
        let mut rule = PauseRule::new(Duration::from_secs(1 + seed % 5));
        let (mut now, mut last_go) = (0, 0);
        for _look in 0..16 {
            build.step();
            now += 1 + build.draw(40) * u64::from(build.draw(5) == 0);
            let need = build.units.iter().map(|unit| unit.bytes / MIB).sum::<u64>() + build.draw(300);
            let limit = [0, 500, 1000, 1000, 1000, u64::MAX / MIB][usize::try_from(build.draw(6)).unwrap()];
            let had_given_up = !rule.totals().gave_up.is_empty();
            let grown = build.draw(100) * MIB;
            let acts = rule.decide(&Moment { grown, ..moment(now, need, limit) }, &build.units, |_unit| true);
            build.apply(&acts);
            assert!(!had_given_up || acts.stop.is_empty(), "seed {seed}: after the bound");
            let goes = |unit: &Unit| acts.go.contains(&unit.id);
            let go = build.units.iter().filter(|unit| goes(unit)).count();
            assert!(acts.stop.is_empty() || go == 0, "seed {seed}: both at once");
            let runs = |unit: &&Unit| !unit.is_stopped && !build.paused.contains(&unit.id);
            let runners = build.units.iter().filter(runs).count() + go;
            assert!(build.paused.is_empty() || runners > 0, "seed {seed}: nothing runs");
            let kept: BTreeSet<ProcessId> = rule.paused().collect();
            assert_eq!(kept, build.paused, "seed {seed}");
            last_go = if build.paused.is_empty() { now } else { last_go };
            assert!(now - last_go <= 10 * (1 + seed % 5) + 16 * 41, "seed {seed}: too long");
        }
        build.apply(&rule.give_up("the build ended"));
        assert!(build.paused.is_empty(), "seed {seed}: left paused");
    }
}
