//! Gives a project another name in all that is stored of ended attempts: summaries and verdicts.
//!
//! The rename itself is stored first, and removed when the last record has the new name. A crash in between leaves it there, and
//! the next start of a server finishes it before it reads anything. Each step may be repeated: a record with the new name is not changed again.

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

/// Stores that a project is renamed. From here on it will be, also after a crash. [`finish_rename`] does it. An earlier one that was
/// interrupted is finished first; returns the number of its attempts if it was the same, else 0.
/// Errors: an earlier rename cannot be finished, or the store takes no commit.
pub async fn begin_rename(store: &Store, rename: &ProjectRename) -> Result<u64, SealError> {
    let interrupted = read::<ProjectRename>(store, KeyKind::Rename.key_of(RENAME_PART)).await?;
    let attempts = finish_rename(store).await?;
    let mut batch = Batch::default();
    put(&mut batch, rename)?;
    store.commit(batch).await?;
    Ok(if interrupted.as_ref() == Some(rename) { attempts } else { 0 })
}

/// Renames the project of a rename that was begun, if there is one; returns the number of attempts. The caller must be the only one that
/// changes ended attempts. Open attempts keep their project, because their agents go on under it.
/// Errors: the store cannot be read, or takes no commit. The next call goes on.
pub async fn finish_rename(store: &Store) -> Result<u64, SealError> {
    let key = KeyKind::Rename.key_of(RENAME_PART);
    let Some(rename) = read::<ProjectRename>(store, key).await? else { return Ok(0) };
    let change = |summary: &mut Summary| {
        let name = rename.renamed(&summary.key.project);
        name.map(|name| summary.key.project = name).is_some()
    };
    let attempts = rewrite(store, change).await?;
    rewrite(store, |verdict| rename_verdict(&rename, verdict)).await?;
    let mut batch = Batch::default();
    remove(&mut batch, &rename)?;
    store.commit(batch).await?;
    Ok(attempts)
}

/// Stores all records of a type again that `change` modifies; returns their number. A damaged record stays as it is.
async fn rewrite<T: Record>(store: &Store, change: impl Fn(&mut T) -> bool) -> Result<u64, SealError> {
    let (mut after, mut joiner, mut changed) = (None::<Vec<u8>>, RecordJoiner::default(), 0);
    loop {
        let page = store.scan(&T::KIND.prefix(), after.as_deref(), ENTRIES_A_STEP).await?;
        after = page.next_after();
        let mut records: Vec<JoinedRecord<T>> =
            page.entries.iter().filter_map(|entry| joiner.push(entry)).collect();
        if after.is_none() {
            records.extend(joiner.finish());
        }
        let mut batch = Batch::default();
        for (key, record) in records {
            if let Some(record) = record.ok().and_then(|mut record| change(&mut record).then_some(record)) {
                envelope::put(&mut batch, &key, &record)?;
                changed += 1;
            }
        }
        if !batch.is_empty() {
            store.commit(batch).await?;
        }
        if after.is_none() {
            return Ok(changed);
        }
    }
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
            let of_the_same = begin_rename(&store, &rename(from, to)).await.unwrap();
            assert_eq!(of_the_same, 0, "the one before had other names");
            assert_eq!(projects(&store).await, (expected.map(str::to_owned).to_vec(), true));
        }
        assert_eq!(finish_rename(&store).await.unwrap(), 2);
        let back = ["grp/app", "grp/app/sub", "grp/apple", ""].map(str::to_owned).to_vec();
        assert_eq!(projects(&store).await, (back, true));
        assert_eq!(finish_rename(&store).await.unwrap(), 0, "it is done");
        for attempts in [0, 2] {
            assert_eq!(begin_rename(&store, &rename("grp/app", "q")).await.unwrap(), attempts, "repeated");
        }
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
