//! Batches, the line of questions for verdicts, and explanations as they are sent.

use std::sync::Arc;

use plimsoll_core::{
    domain::{History, test_summary},
    shared_history::SharedHistory,
};
use plimsoll_store::{self as store, Batch, Store};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    access::{identity::Role, privacy::PrivacySettings},
    door::{fixture, grpc::caller::tests::OneStream},
};

/// One batch at a time.
const ONE: StreamLimit = StreamLimit { most: 1, ..BATCHES };

/// The service over what is on disk, with an empty history.
async fn service(store: &Store) -> PredictorService {
    PredictorService {
        sizing: fixture::sizing(store),
        verdicts: fixture::verdicts(store).await,
        batches: Streams::new(ONE, TaskTracker::new(), CancellationToken::new()),
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_batch_frees_its_slot_and_ends() {
    let service = service(&Store::memory()).await;
    let endless = tokio_stream::iter(std::iter::repeat_with(|| Ok(pb::PredictRequest::default())));
    let answers = service.batch(endless, Identity::anyone().into()).unwrap();
    // nothing moves meanwhile, so that this takes no time
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    let some = tokio_stream::iter((0..1000).map(|_| Ok(pb::PredictRequest::default())));
    let all_read = service.batch(some, Identity::anyone().into()).unwrap();
    let last = answers.collect::<Vec<_>>().await.pop().unwrap();
    assert_eq!(last.unwrap_err().code(), tonic::Code::ResourceExhausted);
    let read = all_read.collect::<Vec<_>>().await;
    assert_eq!((read.len(), read.iter().filter(|answer| answer.is_ok()).count()), (1000, 1000));
}

#[tokio::test]
async fn verdict_questions_are_limited_and_cancelable() {
    let service = service(&Store::memory()).await;
    let one = OneStream::new(Role::Caller);
    let asked = |number: u32| {
        let (attempt, pod_reason) = ("ci:7".into(), "Evicted".into());
        one.ask(pb::ShouldRetryRequest { attempt, pod_reason, number, ..Default::default() })
    };
    {
        let first = service.should_retry(asked(1));
        tokio::select! {
            biased;
            _early = first => panic!("weighing takes another thread, which takes its time"),
            second = service.should_retry(asked(2)) => {
                let status = second.unwrap_err();
                assert_eq!(status.code(), tonic::Code::ResourceExhausted);
                assert!(status.message().contains("bounds.verdicts"), "{status}");
            }
        }
        assert_eq!(service.sizing.metrics.verdicts_asked.get(), 0, "the first one has given up");
    }
    assert!(service.should_retry(asked(3)).await.is_ok());
}

#[tokio::test]
async fn explanations_hide_private_labels_that_separate_groups() {
    let (store, mut batch) = (Store::memory(), Batch::default());
    let mut service = service(&store).await;
    service.sizing.history = SharedHistory::new(History::new(100));
    for n in 0..40 {
        let (cache, need_mib) = [("warm", 16_000), ("cold", 40_000)][usize::from(n * 7 % 10 < 3)];
        let mut summary = test_summary(&format!("g{n}"), "zlib", "1", need_mib);
        summary.key.labels = [("cache".to_owned(), cache.to_owned())].into();
        store::put(&mut batch, &summary).unwrap();
        service.sizing.history.learn(&summary);
    }
    store.commit(batch).await.unwrap();
    let request = |caller: &Identity| {
        let key = pb::Key { package: "zlib".into(), version: "1".into(), ..pb::Key::default() };
        let mut request = Request::new(pb::PredictRequest { key: Some(key), memory_limit_bytes: None });
        request.extensions_mut().insert(Caller::from(Arc::new(caller.clone())));
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

    service.sizing.private = Arc::new(PrivacySettings { labels: vec!["cache".into()], logs: false });
    let roles = Role::Reader.into();
    let projects = Vec::<String>::new().into();
    let reader = Identity { roles, projects, ..Identity::clone(&Identity::anyone()) };
    let groups = explained(&service, &reader).await;
    assert_eq!(groups.told_apart_by, None);
    assert!(groups.reason.contains("Nothing that is recorded tells them apart"), "{groups:?}");
}
