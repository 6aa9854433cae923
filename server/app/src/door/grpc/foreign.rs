//! The wire as unchecked bytes, for fuzzing: decoded and converted, as handlers do.

use plimsoll_core::domain::{Evidence, Key};
use plimsoll_proto::{
    externalscaler as keda,
    v1::{self as pb, agent_message::Message},
};
use prost::Message as _;

use crate::{ci::keda as triggers, door::wire, runtime::skipped_facts::SkippedFacts};

/// Decodes and converts a message of an agent.
pub(crate) fn delivered(bytes: &[u8]) {
    let message = pb::AgentMessage::decode(bytes).ok().and_then(|message| message.message);
    let mut skipped = SkippedFacts::default();
    let fault = match message {
        Some(Message::Hello(hello)) => {
            let _tags = wire::delivery::runner_tags(&hello, &mut skipped);
            wire::delivery::hello(hello, &mut skipped).err()
        }
        Some(Message::Batch(batch)) => wire::delivery::batch(&batch, &mut skipped).err(),
        Some(Message::Finish(finish)) => wire::delivery::finish(&finish, &mut skipped).err(),
        None => None,
    };
    assert!(fault.is_none_or(|fault| !fault.field.is_empty()), "a fault names its field");
}

/// Decodes and converts a prediction request.
pub(crate) fn asked(bytes: &[u8]) -> Option<Key> {
    wire::sizing::ask(pb::PredictRequest::decode(bytes).ok()?).ok().map(|(key, _limit)| key)
}

/// Decodes and converts a caller's report on an ended attempt.
pub(crate) fn question(bytes: &[u8]) -> Option<Evidence> {
    wire::verdicts::question(pb::ShouldRetryRequest::decode(bytes).ok()?).ok()
}

/// Decodes and converts requests about tickets.
pub(crate) fn ticket(bytes: &[u8]) {
    if let Ok(request) = pb::OpenTicketRequest::decode(bytes) {
        let fault = wire::tickets::opening(request).err();
        assert!(fault.is_none_or(|fault| !fault.field.is_empty()), "a fault names its field");
    }
    let watched = pb::WatchTicketRequest::decode(bytes).map(|request| request.ticket);
    let closed = pb::CloseTicketRequest::decode(bytes).map(|request| request.ticket);
    for ticket in [watched, closed].into_iter().flatten() {
        let _id = wire::ticket_id("ticket", &ticket).is_ok();
    }
}

/// KEDA's requests, with a trigger's metadata, which any user of a namespace may write.
pub(crate) fn scaled(bytes: &[u8]) {
    if let Ok(request) = keda::ScaledObjectRef::decode(bytes) {
        triggers::understood(&request.scaler_metadata);
    }
    if let Ok(request) = keda::GetMetricsRequest::decode(bytes) {
        triggers::understood(&request.scaled_object_ref.unwrap_or_default().scaler_metadata);
    }
}

/// A question about statistics, one for a page of attempts, and one for proposals.
pub(crate) fn counted(bytes: &[u8]) {
    if let Ok(request) = pb::GetStatsRequest::decode(bytes) {
        let _checked = wire::filter::question(request).is_ok();
    }
    if let Ok(request) = pb::ListAttemptsRequest::decode(bytes) {
        let _checked =
            wire::paging::Page::read(&request).is_ok() && wire::filter::filter(request.filter).is_ok();
    }
    if let Ok(request) = pb::RecommendRequest::decode(bytes) {
        let _checked = wire::recommendations::question(request).is_ok();
    }
}
