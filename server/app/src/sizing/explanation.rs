//! Explains a prediction: the attempts that it used, their groups by memory need, and the need with
//! other numbers of build jobs.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Bytes, History, JobsCurve, Key, NeedGroups, UsedAttempt},
    predict,
};

use super::{SizingAnswer, SizingService};
use crate::access::{Refusal, identity::Identity};

/// A prediction with its explanation.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) answer: SizingAnswer,
    /// The attempts that the caller may see, highest weight first.
    pub(crate) attempts: Vec<UsedAttempt>,
    pub(crate) jobs: JobsCurve,
}

impl SizingService {
    /// Explains the prediction for `key`, as far as `caller` may see it. `limit`: the highest
    /// memory limit that the attempt may get.
    /// Errors: the caller may not ask for this project, or an attempt cannot be read.
    pub(crate) async fn explain(
        &self,
        caller: &Identity,
        mut key: Key,
        limit: Option<Bytes>,
    ) -> Result<Explanation, Refusal> {
        caller.asks(&mut key.project).map_err(Refusal::Forbidden)?;
        let limit = limit.or(self.settings.memory_cap);
        let settings = &*self.settings;
        // one reading: the history may change before the next, and then sizes, attempts and curve would not belong together
        let (mut prediction, attempts, members, jobs) = self.history.read(|history| {
            let (prediction, mut used) = predict::explain(history, &key, settings);
            used.retain(|used| may_name(caller, history, used));
            let is_grouped = prediction.need_groups.is_some();
            let members = is_grouped.then(|| predict::group_members(history, &key, settings));
            let answer = predict::as_answer(prediction, history, &key, settings);
            let jobs = predict::jobs_curve(history, &key, settings, limit);
            (answer, used, members.unwrap_or_default(), jobs)
        });
        if let Some(groups) = prediction.need_groups.take() {
            let groups = self.distinguish(NeedGroups::clone(&groups), &key, &members, caller).await?;
            prediction.need_groups = Some(Arc::new(groups));
        }
        let answer = self.answer(&key, self.with_pool(&key, Arc::new(prediction)));
        Ok(Explanation { answer, attempts, jobs })
    }
}

/// Whether `caller` may read the project of this attempt; if not, the explanation does not name it.
fn may_name(caller: &Identity, history: &History, used: &UsedAttempt) -> bool {
    let brief = history.get(&used.attempt);
    brief.is_some_and(|brief| caller.may_learn_of(&brief.key.project))
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{domain::test_summary, shared_history::SharedHistory};
    use plimsoll_store::{Store, StoreSettings};

    use super::*;
    use crate::{access::identity::Role, door::fixture::sizing};

    #[test]
    fn explanations_omit_attempts_of_hidden_projects() {
        let mut history = History::new(10);
        // so many packages that they say something about one that is not known
        for n in 0..10 {
            let mut summary = test_summary(&n.to_string(), &format!("known-{n}"), "1", 10);
            summary.key.project = if n == 1 { "a".into() } else { "b".into() };
            history.learn(summary);
        }
        let key = Key { package: "zlib".into(), ..Key::default() };
        let used = predict::explain(&history, &key, &predict::Settings::default()).1;
        let projects = vec!["a".to_owned()].into();
        let only_a = Identity { projects, ..Identity::clone(&Identity::anyone()) };
        let named = |caller: &Identity| {
            let named = used.iter().filter(|used| may_name(caller, &history, used));
            named.map(|used| used.attempt.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named(&only_a), ["1"]);
        assert_eq!(named(&Identity::anyone()).len(), 10);
        for (projects, shown) in [(vec![], 0), (vec!["*".to_owned()], 0), (vec!["b*".to_owned()], 9)] {
            let roles = Role::Caller.into();
            let caller =
                Identity { roles, projects: projects.into(), ..Identity::clone(&Identity::anyone()) };
            assert_eq!(named(&caller).len(), shown, "who asks for sizes reads no attempts: {caller:?}");
        }
    }

    #[tokio::test]
    async fn an_explanation_is_of_one_history() {
        let dir = tempfile::tempdir().unwrap();
        let store =
            Store::open(&StoreSettings { dir: dir.path().join("data"), cache_bytes: 1 << 20 }).unwrap();
        let service = SizingService { history: SharedHistory::new(History::new(1000)), ..sizing(&store) };
        let built = |n: u64, mib: u64| {
            let mut summary = test_summary(&n.to_string(), "zlib", "1", mib);
            summary.started_unix_ms = 1_700_000_000_000 + n;
            summary.key.hints.build_jobs = Some(4);
            summary
        };
        // two groups of need: what tells them apart is read from the disk, and meanwhile the history changes
        for n in 0..100 {
            let mib = [40_000, 16_000][usize::from(n * 7 % 10 >= 3)];
            drop(service.history.learn(&built(n, mib)));
        }
        let key = built(0, 0).key;
        let meanwhile = async { (0..90).for_each(|n| service.history.unlearn(&built(n, 0).attempt)) };
        let caller = Identity::anyone();
        let (explained, ()) = tokio::join!(service.explain(&caller, key, None), meanwhile);
        let explained = explained.unwrap();
        assert!(explained.answer.prediction.need_groups.is_some());
        let of_curve: u32 = explained.jobs.points.iter().map(|point| point.attempts).sum();
        assert_eq!((explained.answer.prediction.attempts, of_curve), (100, 100));
    }
}
