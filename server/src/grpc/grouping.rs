//! What tells groups of need apart, from all that is on disk of their attempts: labels, refs, owners, pools and phases too.
//!
//! Only Explain asks for it. It reads one summary for each attempt, at most those of a few lists of the history.

use std::{borrow::Cow, sync::Arc};

use super::{predictor::PredictorService, status};
use crate::{
    domain::{AttemptId, Key, NeedGroups, Summary},
    identity::Identity,
    predict::groups::{Grouped, Trait, fields_of_key, fields_of_summary, keep_long_times, told_apart},
};
use tonic::Status;

impl PredictorService {
    /// The groups with the field that tells them apart, of all that `caller` may be told of their attempts. `members`: those, with the
    /// place of the group of each.
    pub(super) async fn tell_apart(
        &self,
        groups: NeedGroups,
        key: &Key,
        members: &[(usize, AttemptId)],
        caller: &Identity,
    ) -> Result<NeedGroups, Status> {
        let mut read: Vec<(usize, Arc<Summary>)> = Vec::with_capacity(members.len());
        for (group, id) in members {
            let found = self.ingest.find(id).await.map_err(|refusal| status::of_refusal(&refusal))?;
            let may_see = |summary: &Summary| caller.may_be_told_of(&summary.key.project);
            if let Some((summary, false)) = found.filter(|(summary, _running)| may_see(summary)) {
                read.push((*group, summary));
            }
        }
        if read.is_empty() {
            return Ok(groups);
        }
        let mut grouped: Vec<Grouped<'_>> =
            read.iter().map(|(group, summary)| (*group, self.all_fields(summary, caller))).collect();
        keep_long_times(&mut grouped, read.iter().map(|(_, summary)| summary.started_unix_ms));
        let told_apart_by = told_apart(groups.groups.len(), &grouped, &self.asked_fields(key));
        Ok(NeedGroups { told_apart_by, looked_at_all: true, ..groups })
    }

    /// What is on disk of an attempt, as fields; without labels that are private to others.
    fn all_fields<'s>(&'s self, summary: &'s Summary, caller: &Identity) -> Vec<Trait<'s>> {
        let key = &summary.key;
        let mut fields = fields_of_summary(summary);
        fields.push(("ref_class".into(), self.learned.stats().ref_class(&key.git_ref).into()));
        let hides = self.private.hides_from(caller, &key.project);
        let shown = key.labels.iter().filter(|(name, _)| !(hides && self.private.has_label(name)));
        fields.extend(shown.map(|(name, value)| (label(name), value.as_str().into())));
        fields
    }

    /// The same of the key that is asked about.
    fn asked_fields<'k>(&'k self, key: &'k Key) -> Vec<Trait<'k>> {
        let mut fields = fields_of_key(key);
        fields.push(("ref_class".into(), self.learned.stats().ref_class(&key.git_ref).into()));
        fields.extend(key.labels.iter().map(|(name, value)| (label(name), value.as_str().into())));
        fields
    }
}

fn label(name: &str) -> Cow<'_, str> {
    format!("label {name}").into()
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{self as pb, predictor_server::Predictor as _};
    use tonic::Request;

    use super::*;
    use crate::{
        domain::{History, test_summary},
        grpc::predictor::tests::service,
        identity::Role,
        learned::Learned,
        privacy::Private,
        store::{self, Batch, Store},
    };

    #[tokio::test]
    async fn an_explanation_names_the_label_that_tells_groups_of_need_apart_unless_it_is_private() {
        let (store, mut batch) = (Store::memory(), Batch::default());
        let mut service = service(&store).await;
        service.learned = Learned::new(History::new(100));
        for n in 0..40 {
            let (cache, need_mib) = [("warm", 16_000), ("cold", 40_000)][usize::from(n * 7 % 10 < 3)];
            let mut summary = test_summary(&format!("g{n}"), "zlib", "1", need_mib);
            summary.key.labels = [("cache".to_owned(), cache.to_owned())].into();
            store::put_summary(&mut batch, &summary).unwrap();
            service.learned.learn(&summary);
        }
        store.commit(batch).await.unwrap();
        let request = |caller: &Identity| {
            let key = pb::Key { package: "zlib".into(), version: "1".into(), ..pb::Key::default() };
            let mut request = Request::new(pb::PredictRequest { key: Some(key), memory_limit_bytes: None });
            request.extensions_mut().insert(Arc::new(caller.clone()));
            request
        };
        let explained = async |service: &PredictorService, caller: &Identity| {
            let explained = service.explain(request(caller)).await.unwrap().into_inner();
            explained.prediction.unwrap().need_groups.unwrap()
        };
        let groups = explained(&service, &Identity::anyone()).await;
        let sizes: Vec<_> = groups.groups.iter().map(|group| (group.attempts, group.within_limit)).collect();
        assert_eq!(sizes, [(28, true), (12, true)]);
        assert!(groups.reason.contains("label cache: warm in the first, cold in the second."), "{groups:?}");
        assert_eq!(groups.told_apart_by.unwrap().field, "label cache");

        let predicted = service.predict(request(&Identity::anyone())).await.unwrap().into_inner();
        let groups = predicted.prediction.unwrap().need_groups.unwrap();
        assert!(groups.reason.contains("Nothing in the key tells them apart"), "{groups:?}");

        service.private = Arc::new(Private { labels: vec!["cache".into()], logs: false });
        let roles = Role::Reader.into();
        let projects = Vec::<String>::new().into();
        let reader = Identity { roles, projects, ..Identity::clone(&Identity::anyone()) };
        let groups = explained(&service, &reader).await;
        assert_eq!(groups.told_apart_by, None);
        assert!(groups.reason.contains("Nothing that is recorded tells them apart"), "{groups:?}");
    }
}
