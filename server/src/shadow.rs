//! Shadow mode: measure and predict, and leave what builds get as it is, but for a share of them. Pure.
//!
//! Which builds belong to the share follows from what is built, so that a build is always on the same side, and a larger share
//! only adds builds. What the others would have got is held against what they asked and needed ([`WouldBe`]).

use crate::domain::{Cause, Fnv, Key, Summary};

/// What the operator decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Predictions are in force for the builds of `apply` only.
    pub on: bool,
    /// Shares by stack, 0 to 1.
    pub apply: Vec<(String, f64)>,
}

/// Stands for every stack that is not named.
pub(crate) const ANY_STACK: &str = "*";

impl Settings {
    /// Whether predictions are shown only, and builds of this key get what they have today.
    pub(crate) fn withholds(&self, key: &Key) -> bool {
        self.on && place(key) >= self.share(&key.stack)
    }

    fn share(&self, stack: &str) -> f64 {
        let named = |name: &str| self.apply.iter().find(|(known, _)| known == name).map(|(_, share)| *share);
        named(stack).or_else(|| named(ANY_STACK)).unwrap_or(0.0)
    }
}

/// Where a build stands between 0 and 1, evenly spread: [`Fnv`] over what is built, and the
/// finalizer of `SplitMix64` (Steele, Lea, Flood 2014), which lets every bit count.
fn place(key: &Key) -> f64 {
    let built = key.texts().into_iter().filter(|(name, _)| !["ref", "owner"].contains(name));
    // a byte that no text holds keeps neighbours apart
    let mut hash = Fnv::default().with(built.flat_map(|(_, text)| text.bytes().chain([0xff]))).value();
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let top = u32::try_from((hash ^ (hash >> 31)) >> 32).unwrap_or(0);
    f64::from(top) / f64::from(u32::MAX).next_up()
}

/// An ended attempt, had it had the sizes that were predicted when it opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WouldBe {
    /// Memory that it asked for over its time, bytes x s.
    pub(crate) asked: f64,
    /// Memory that the predicted request would have asked for over the same time, bytes x s.
    pub(crate) predicted: f64,
    /// Memory ended it.
    pub(crate) failed: bool,
    /// Its need is above the predicted limit.
    pub(crate) would_fail: bool,
}

impl WouldBe {
    /// `None` for an attempt without a prediction, or whose ask or need is not known.
    pub(crate) fn of(summary: &Summary) -> Option<Self> {
        let predicted = summary.foretold()?;
        let asked = summary.resources.memory_asked()?;
        let seconds = summary.wall.as_f64() / 1000.0;
        summary.teaches_memory().then(|| Self {
            asked: asked.as_f64() * seconds,
            predicted: predicted.memory_request.as_f64() * seconds,
            failed: summary.cause.is_some_and(Cause::is_memory),
            would_fail: holds(summary, predicted.memory_limit.0) == Some(false),
        })
    }
}

/// Whether the need of an attempt stayed at or below `bytes`; `None` if nobody knows: it was ended before it needed more.
pub(crate) fn holds(summary: &Summary, bytes: u64) -> Option<bool> {
    let need = summary.proven_need().0;
    let known = summary.teaches_memory() && (!summary.censored || need >= bytes);
    known.then_some(need <= bytes && !summary.censored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Bytes, Outcome, Predicted, test_summary};

    fn key(stack: &str, n: usize) -> Key {
        Key { stack: stack.to_owned(), package: format!("package-{n}"), ..Key::default() }
    }

    fn applied(settings: &Settings, stack: &str) -> Vec<usize> {
        (0..10_000).filter(|n| !settings.withholds(&key(stack, *n))).collect()
    }

    fn with(apply: &[(&str, f64)]) -> Settings {
        let apply = apply.iter().map(|(stack, share)| ((*stack).to_owned(), *share)).collect();
        Settings { on: true, apply }
    }

    #[test]
    fn without_shadow_mode_nothing_is_withheld_and_in_it_everything() {
        assert_eq!(applied(&Settings::default(), "e4s").len(), 10_000);
        assert_eq!(applied(&with(&[]), "e4s"), Vec::<usize>::new());
        assert_eq!(applied(&with(&[("e4s", 1.0)]), "e4s").len(), 10_000, "all is all");
    }

    #[test]
    fn a_share_is_kept_by_stack_and_a_larger_one_only_adds_builds() {
        let settings = with(&[("e4s", 0.1), ("none", 0.0), ("*", 0.5)]);
        let tenth = applied(&settings, "e4s");
        assert!((900..1100).contains(&tenth.len()), "{}", tenth.len());
        assert_eq!(applied(&settings, "none"), Vec::<usize>::new());
        assert!((4800..5200).contains(&applied(&settings, "another").len()));
        let fifth = applied(&with(&[("e4s", 0.2)]), "e4s");
        assert!(tenth.iter().all(|n| fifth.contains(n)), "a build changed sides");
    }

    #[test]
    fn a_build_stands_in_the_same_place_in_every_release() {
        let zlib = Key { package: "zlib".into(), ..Key::default() };
        assert!((place(&zlib) - 0.680_614_663_912).abs() < 1e-9, "{}", place(&zlib));
    }

    #[test]
    fn branch_owner_labels_and_hints_do_not_move_a_build() {
        let settings = with(&[("*", 0.5)]);
        for n in 0..100 {
            let plain = key("e4s", n);
            let mut other = Key { git_ref: "pr-1".into(), owner: "me".into(), ..plain.clone() };
            other.labels.insert("commit".into(), "abc".into());
            other.hints.build_jobs = Some(8);
            assert_eq!(settings.withholds(&plain), settings.withholds(&other));
        }
    }

    fn predicted(mib: u64) -> Summary {
        let mut summary = test_summary("a", "zlib", "1", 100);
        summary.resources.memory_request = Some(Bytes(400 << 20));
        let limit = Bytes(mib << 20);
        let predicted = Predicted { memory_request: limit, memory_limit: limit, ..Predicted::default() };
        summary.opening.predicted = Some(predicted);
        summary
    }

    #[test]
    fn an_attempt_would_have_failed_if_its_need_is_above_the_predicted_limit() {
        for (limit, fails) in [(99, true), (100, false), (200, false)] {
            let would = WouldBe::of(&predicted(limit)).unwrap();
            assert_eq!((would.failed, would.would_fail), (false, fails), "{limit}");
            assert!(
                (would.asked / would.predicted - 400.0 / f64::from(u32::try_from(limit).unwrap())).abs()
                    < 1e-9
            );
        }
    }

    #[test]
    fn an_attempt_that_memory_ended_tells_of_smaller_limits_only() {
        let stopped = |mib| Summary {
            outcome: Outcome::Failed,
            cause: Some(Cause::Oom),
            censored: true,
            ..predicted(mib)
        };
        let would = |mib| WouldBe::of(&stopped(mib)).map(|would| (would.failed, would.would_fail));
        assert_eq!((would(50), would(100)), (Some((true, true)), Some((true, true))));
        assert_eq!(would(101), Some((true, false)), "nobody knows, so nobody says it would");
        assert_eq!(holds(&stopped(101), 101 << 20), None);
    }

    #[test]
    fn nothing_is_said_of_attempts_without_prediction_or_ask() {
        let mut silent = predicted(100);
        (silent.resources.memory_request, silent.resources.memory_limit) = (None, None);
        let mut old = predicted(100);
        old.opening.predicted = None;
        assert_eq!((WouldBe::of(&silent), WouldBe::of(&old)), (None, None));
    }
}
