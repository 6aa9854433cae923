//! Gives a project another name in all that is stored of ended attempts: summaries and verdicts.
//!
//! The rename itself is stored first, and removed when the last record has the new name. A crash in between leaves it there, and
//! the next start of a server finishes it before it reads anything, or the running server if that fails. Each step may be repeated: a record
//! with the new name is not changed again.

use plimsoll_core::domain::{ProjectRename, Summary, Verdict};
use serde_json::Value;

use super::{
    Store,
    codec::Record,
    envelope::{self, JoinedRecord, RecordJoiner},
    keys::{KeyKind, RENAME_PART},
    kv::{Batch, PageLimit},
    records::{SealError, put, read, remove},
};

/// Most entries that one step reads and one commit writes, beside one large record.
const ENTRIES_A_STEP: PageLimit = PageLimit { items: 64, bytes: 64 << 10 };

/// A rename that is stored and not finished, and how far it is. The caller must be the only one that changes ended attempts, and nothing of
/// theirs may be on its way to the store during a step. Open attempts keep their project, because their agents go on under it.
#[derive(Debug)]
pub struct RenameWalk {
    rename: ProjectRename,
    /// Whether all summaries are renamed, and verdicts follow.
    are_summaries_done: bool,
    /// Key up to which all is renamed.
    after: Option<Vec<u8>>,
    attempts: u64,
}

/// What a step has renamed.
#[derive(Debug, Default)]
pub struct RenameStep {
    /// Summaries, as they are now.
    pub summaries: Vec<Summary>,
    /// Verdicts, as they are now.
    pub verdicts: Vec<Verdict>,
    /// Whether the rename is finished.
    pub is_last: bool,
}

impl RenameWalk {
    /// Stores a rename. From here on it will be, also after a crash.
    /// Errors: the store takes no commit; nothing is renamed.
    pub async fn begin(store: &Store, rename: ProjectRename) -> Result<Self, SealError> {
        let mut batch = Batch::default();
        put(&mut batch, &rename)?;
        store.commit(batch).await?;
        Ok(Self::of(rename))
    }

    /// The rename that is stored, if there is one, from its beginning: what is renamed already is not changed again.
    /// Errors: it cannot be read.
    pub async fn stored(store: &Store) -> Result<Option<Self>, SealError> {
        Ok(read::<ProjectRename>(store, KeyKind::Rename.key_of(RENAME_PART)).await?.map(Self::of))
    }

    fn of(rename: ProjectRename) -> Self {
        Self { rename, are_summaries_done: false, after: None, attempts: 0 }
    }

    /// The rename.
    pub fn rename(&self) -> &ProjectRename {
        &self.rename
    }

    /// Number of attempts renamed so far.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Renames some records.
    /// Errors: the store cannot be read, or takes no commit. The next call goes on.
    pub async fn step(&mut self, store: &Store) -> Result<RenameStep, SealError> {
        let (rename, after, mut step) = (&self.rename, self.after.as_deref(), RenameStep::default());
        let next = if self.are_summaries_done {
            let change = |verdict: &mut Verdict| rename_verdict(rename, verdict);
            let next;
            (step.verdicts, next) = rewrite(store, after, change).await?;
            next
        } else {
            let change = |summary: &mut Summary| {
                let name = rename.renamed(&summary.key.project);
                name.map(|name| summary.key.project = name).is_some()
            };
            let next;
            (step.summaries, next) = rewrite(store, after, change).await?;
            next
        };
        if next.is_none() && self.are_summaries_done {
            let mut batch = Batch::default();
            remove(&mut batch, rename)?;
            store.commit(batch).await?;
            step.is_last = true;
        }
        self.are_summaries_done |= next.is_none();
        self.attempts += step.summaries.len() as u64;
        self.after = next;
        Ok(step)
    }

    /// All steps to its end; returns the number of attempts.
    /// Errors: as [`Self::step`].
    pub async fn finish(mut self, store: &Store) -> Result<u64, SealError> {
        while !self.step(store).await?.is_last {}
        Ok(self.attempts)
    }
}

/// Stores those records of a type behind this key again that `change` modifies, of one page, and of further ones until a record is whole.
/// Returns them, and the key behind which the next step goes on. A damaged record stays as it is.
async fn rewrite<T: Record>(
    store: &Store,
    after: Option<&[u8]>,
    change: impl Fn(&mut T) -> bool,
) -> Result<(Vec<T>, Option<Vec<u8>>), SealError> {
    let (mut joiner, mut records) = (RecordJoiner::default(), Vec::<JoinedRecord<T>>::new());
    let (mut read_to, mut whole_to) = (after.map(<[u8]>::to_vec), None);
    loop {
        let page = store.scan(&T::KIND.prefix(), read_to.as_deref(), ENTRIES_A_STEP).await?;
        for entry in &page.entries {
            if joiner.is_next(&entry.key) {
                whole_to.clone_from(&read_to);
            }
            records.extend(joiner.push(entry));
            read_to = Some(entry.key.clone());
        }
        if !page.more {
            records.extend(joiner.finish());
            whole_to = None;
            break;
        }
        if whole_to.as_deref() != after {
            break;
        }
    }
    let (mut batch, mut changed) = (Batch::default(), Vec::new());
    for (key, record) in records {
        if let Some(record) = record.ok().and_then(|mut record| change(&mut record).then_some(record)) {
            envelope::put(&mut batch, &key, &record)?;
            changed.push(record);
        }
    }
    if !changed.is_empty() {
        store.commit(batch).await?;
    }
    Ok((changed, whole_to))
}

/// Renames the project in all parts of a verdict. Who could report on the former name can on the new one.
fn rename_verdict(rename: &ProjectRename, verdict: &mut Verdict) -> bool {
    let Ok(mut value) = serde_json::to_value(&*verdict) else { return false };
    let Some(mut renamed) =
        rename_names(rename, &mut value).then(|| serde_json::from_value::<Verdict>(value).ok()).flatten()
    else {
        return false;
    };
    let (before, now) = (&verdict.basis.reported.project, renamed.basis.reported.project.clone());
    let may_report = |verdict: &Verdict, project: &str| verdict.basis.reported_by.may_report_on(project);
    if may_report(verdict, before) && !may_report(&renamed, &now) {
        renamed.basis.reported_by.also_reports_on(now);
    }
    *verdict = renamed;
    true
}

/// Renames the values of `project` and the elements of `projects`, at any depth; whether there was one.
fn rename_names(rename: &ProjectRename, value: &mut Value) -> bool {
    let rename_text = |value: &mut Value| {
        let name = value.as_str().and_then(|name| rename.renamed(name));
        name.map(|name| *value = name.into()).is_some()
    };
    let mut found = false;
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found |= match (name.as_str(), value) {
                    ("project", value @ Value::String(_)) => rename_text(value),
                    ("projects", Value::Array(names)) => {
                        names.iter_mut().fold(false, |found, name| rename_text(name) | found)
                    }
                    (_, value) => rename_names(rename, value),
                };
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| found |= rename_names(rename, value)),
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Reporter, test_summary, test_verdict};

    use super::*;
    use crate::{put_verdict, read_summary, read_verdicts};

    fn rename(from: &str, to: &str) -> ProjectRename {
        ProjectRename::new(from, to).unwrap()
    }

    /// The projects of the attempts 1 to 4, and whether the verdict on the first counts for its project.
    async fn projects(store: &Store) -> (Vec<String>, bool) {
        let mut found = Vec::new();
        for id in 1..=4 {
            let id = test_summary(&id.to_string(), "zlib", "1", 10).attempt;
            found.push(read_summary(store, &id).await.unwrap().unwrap().key.project);
        }
        let first = test_summary("1", "zlib", "1", 10).attempt;
        let verdict = read_verdicts(store, &first).await.unwrap().remove(0);
        let counts = verdict.is_in_the_name_of(&found[0]);
        (found, counts)
    }

    /// Finishes the stored rename; returns the number of its attempts.
    async fn finish_stored(store: &Store) -> Option<u64> {
        Some(RenameWalk::stored(store).await.unwrap()?.finish(store).await.unwrap())
    }

    #[tokio::test]
    async fn a_rename_is_whole_after_a_crash() {
        let store = Store::memory();
        let mut batch = Batch::default();
        for (id, project) in [("1", "grp/app"), ("2", "grp/app/sub"), ("3", "grp/apple"), ("4", "")] {
            let mut summary = test_summary(id, "zlib", "1", 10);
            summary.key.project = project.into();
            put(&mut batch, &summary).unwrap();
        }
        let mut verdict = test_verdict("1", None);
        verdict.basis.reported.project = "grp/app".into();
        verdict.basis.reported_by = Reporter::of("ci", vec!["grp/*".into()]);
        put_verdict(&mut batch, 1, &verdict).unwrap();
        store.commit(batch).await.unwrap();
        // each rename is cut after its first commit, and finished by the next one, or by a start
        for (from, to, expected) in [
            ("grp/app", "team/x", ["grp/app", "grp/app/sub", "grp/apple", ""]),
            ("team/x", "z", ["team/x", "team/x/sub", "grp/apple", ""]),
            ("z", "grp/app", ["z", "z/sub", "grp/apple", ""]),
        ] {
            finish_stored(&store).await;
            let begun = RenameWalk::begin(&store, rename(from, to)).await.unwrap();
            assert_eq!((begun.rename(), begun.attempts()), (&rename(from, to), 0));
            assert_eq!(projects(&store).await, (expected.map(str::to_owned).to_vec(), true));
        }
        assert_eq!(finish_stored(&store).await, Some(2));
        let back = ["grp/app", "grp/app/sub", "grp/apple", ""].map(str::to_owned).to_vec();
        assert_eq!(projects(&store).await, (back, true));
        assert_eq!(finish_stored(&store).await, None, "it is done");
    }

    #[tokio::test]
    async fn each_record_of_many_pages_is_renamed_once() {
        let store = Store::memory();
        let names: Vec<String> = (0..300).map(|n| format!("job-{n:03}")).collect();
        for (n, name) in names.iter().enumerate() {
            let (mut batch, mut summary) = (Batch::default(), test_summary(name, "zlib", "1", 10));
            // every seventh has more bytes than a step reads
            summary.key.variants = "v".repeat(10 + 200_000 * usize::from(n % 7 == 0));
            summary.key.project = "grp".into();
            put(&mut batch, &summary).unwrap();
            store.commit(batch).await.unwrap();
        }
        let mut walk = RenameWalk::begin(&store, rename("grp", "team")).await.unwrap();
        let (mut renamed, mut is_last) = (Vec::new(), false);
        while !is_last {
            let step = walk.step(&store).await.unwrap();
            renamed.extend(step.summaries.into_iter().map(|summary| summary.attempt.to_string()));
            is_last = step.is_last;
        }
        assert_eq!(renamed, names);
    }

    #[test]
    fn a_rename_without_an_end_is_refused() {
        for (from, to) in
            [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("", "a"), ("a", ""), ("a", "/b"), ("a", "b\n")]
        {
            assert!(ProjectRename::new(from, to).is_err(), "{from:?} to {to:?}");
        }
    }
}
