//! Explains a prediction: the attempts that it used, and the need with other numbers of build jobs.

use std::sync::Arc;

use plimsoll_core::{
    domain::{Bytes, History, JobsCurve, Key, UsedAttempt},
    predict,
};

use super::{SizingAnswer, SizingService};
use crate::access::{Refusal, Reply, identity::Identity};

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
    /// Errors: the caller may not ask for this project.
    pub(crate) fn explain(
        &self,
        caller: &Identity,
        mut key: Key,
        limit: Option<Bytes>,
    ) -> Reply<Explanation> {
        caller.asks(&mut key.project).map_err(Refusal::Forbidden)?;
        let limit = limit.or(self.settings.memory_cap);
        let settings = &*self.settings;
        // one reading: the history may change before the next, and then sizes, attempts and curve would not belong together
        let (prediction, attempts, jobs) = self.history.read(|history| {
            let (prediction, mut used) = predict::explain(history, &key, settings);
            used.retain(|used| may_name(caller, history, used));
            let answer = predict::as_answer(prediction, history, &key, settings);
            let jobs = predict::jobs_curve(history, &key, settings, limit);
            (answer, used, jobs)
        });
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
    use plimsoll_core::domain::test_summary;

    use super::*;
    use crate::access::identity::Role;

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
}
