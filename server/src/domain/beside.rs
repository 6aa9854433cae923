//! What statistics count of an ended attempt beside its [`super::Brief`].

use std::collections::BTreeMap;

use super::{Bytes, Cores, Predicted, Summary};

/// What is known of an ended attempt and neither predictions nor verdicts ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// Who pays.
    pub owner: String,
    /// Name of the pool; empty if not known.
    pub pool: String,
    /// Branch or tag.
    pub git_ref: String,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// CPU that it occupied for others ([`super::Resources::cpu_asked`]).
    pub cpu_asked: Option<Cores>,
    /// What was predicted for it when it opened.
    pub predicted: Option<Predicted>,
    /// What it proves of the need: all of it, or more than that if it is censored.
    pub proven: Option<Bytes>,
    /// See [`Summary::censored`].
    pub censored: bool,
}

impl Beside {
    /// Takes it out of a summary that becomes a brief, which has no use for it. What a brief reads is left.
    pub fn take(summary: &mut Summary) -> Self {
        let key = &mut summary.key;
        let job = key.job().map(|(pipeline, job)| {
            [("pipeline", pipeline), ("job", job)].map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        let labels = std::mem::take(&mut key.labels);
        key.labels.extend(job.into_iter().flatten());
        Self {
            owner: std::mem::take(&mut key.owner),
            pool: std::mem::take(&mut summary.opening.pool),
            git_ref: std::mem::take(&mut key.git_ref),
            labels,
            cpu_asked: summary.resources.cpu_asked(),
            predicted: summary.opening.predicted,
            proven: summary.teaches_memory().then(|| summary.proven_need()),
            censored: summary.censored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Brief;

    #[test]
    fn taking_it_out_changes_nothing_of_the_brief() {
        let mut summary = crate::domain::test_summary("a", "zlib", "1", 10);
        summary.key.owner = "science".into();
        summary.key.git_ref = "main".into();
        let labels = [("pipeline", "7"), ("job", "build"), ("stage", "2")];
        summary.key.labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let whole = summary.clone();
        let beside = Beside::take(&mut summary);
        assert_eq!(Brief::from(summary), Brief::from(whole.clone()));
        assert_eq!((beside.owner.as_str(), beside.labels), ("science", whole.key.labels));
    }
}
