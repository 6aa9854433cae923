//! Batches, and the line of questions for verdicts.

use plimsoll_store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    access::identity::Role,
    door::{fixture, grpc::caller::tests::OneStream},
};

/// One batch at a time.
const ONE: StreamLimit = StreamLimit { most: 1, ..BATCHES };

/// The service over what is on disk, with an empty history.
async fn service(store: &Store) -> PredictorService {
    PredictorService {
        sizing: fixture::sizing(),
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
