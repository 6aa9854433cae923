//! Attempts of one key may form groups with clearly different memory needs. This module finds the
//! field that distinguishes the groups, from all stored fields of the attempts: also labels, refs,
//! owners, pools and phases.
//!
//! Only `Explain` uses this search, because it reads the summary of each attempt from the store.

use std::borrow::Cow;

use plimsoll_core::{
    domain::{AttemptId, Key, NeedGroups, Summary},
    predict::groups::{
        FieldValue, GroupedAttempt, fields_of_key, fields_of_summary, find_distinction, keep_long_times,
    },
};
use plimsoll_store as store;

use super::SizingService;
use crate::access::{Refusal, identity::Identity};

impl SizingService {
    /// Adds the field that distinguishes the groups, found in attempts that `caller` may see.
    /// `members`: the attempts, each with the index of its group.
    pub(super) async fn distinguish(
        &self,
        groups: NeedGroups,
        key: &Key,
        members: &[(usize, AttemptId)],
        caller: &Identity,
    ) -> Result<NeedGroups, Refusal> {
        let mut read: Vec<(usize, Summary)> = Vec::with_capacity(members.len());
        for (group, id) in members {
            let found = store::read_summary(&self.store, id).await?;
            if let Some(summary) = found.filter(|summary| caller.may_learn_of(&summary.key.project)) {
                read.push((*group, summary));
            }
        }
        if read.is_empty() {
            return Ok(groups);
        }
        let mut grouped: Vec<GroupedAttempt<'_>> =
            read.iter().map(|(group, summary)| (*group, self.all_fields(summary, caller))).collect();
        keep_long_times(&mut grouped, read.iter().map(|(_, summary)| summary.started_unix_ms));
        let told_apart_by = find_distinction(groups.groups.len(), &grouped, &self.asked_fields(key));
        Ok(NeedGroups { told_apart_by, looked_at_all: true, ..groups })
    }

    /// The stored fields of an attempt, without labels that are hidden from `caller`.
    fn all_fields<'s>(&'s self, summary: &'s Summary, caller: &Identity) -> Vec<FieldValue<'s>> {
        let key = &summary.key;
        let mut fields = fields_of_summary(summary);
        fields.push(("ref_class".into(), self.history.stats().ref_class(&key.git_ref).into()));
        let shown =
            key.labels.iter().filter(|(name, _)| !self.private.hides_label(caller, &key.project, name));
        fields.extend(shown.map(|(name, value)| (label_field(name), value.as_str().into())));
        fields
    }

    /// The fields of the requested key.
    fn asked_fields<'k>(&'k self, key: &'k Key) -> Vec<FieldValue<'k>> {
        let mut fields = fields_of_key(key);
        fields.push(("ref_class".into(), self.history.stats().ref_class(&key.git_ref).into()));
        fields.extend(key.labels.iter().map(|(name, value)| (label_field(name), value.as_str().into())));
        fields
    }
}

fn label_field(name: &str) -> Cow<'_, str> {
    format!("label {name}").into()
}
