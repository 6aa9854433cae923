//! The wire as bytes that nobody has looked at yet, for fuzzing: decoded and converted, as handlers do.

use plimsoll_proto::{
    externalscaler as keda,
    v1::{self as pb, agent_message::Message},
};
use prost::Message as _;

use super::{convert, scaler, stats};
use crate::domain::{Evidence, Key};

/// A message of an agent.
pub(crate) fn delivered(bytes: &[u8]) {
    let message = pb::AgentMessage::decode(bytes).ok().and_then(|message| message.message);
    let fault = match message {
        Some(Message::Hello(hello)) => {
            convert::runner_tags(&hello).err().or_else(|| convert::hello(hello).err())
        }
        Some(Message::Batch(batch)) => convert::batch(&batch).err(),
        Some(Message::Finish(finish)) => convert::finish(&finish).err(),
        None => None,
    };
    assert!(fault.is_none_or(|fault| !fault.field.is_empty()), "a fault names its field");
}

/// A key that a prediction is asked for.
pub(crate) fn asked(bytes: &[u8]) -> Option<Key> {
    convert::ask(pb::PredictRequest::decode(bytes).ok()?).ok().map(|(key, _limit)| key)
}

/// What a caller says of an ended attempt.
pub(crate) fn question(bytes: &[u8]) -> Option<Evidence> {
    convert::question(pb::ShouldRetryRequest::decode(bytes).ok()?).ok()
}

/// What is asked about tickets.
pub(crate) fn ticket(bytes: &[u8]) {
    if let Ok(request) = pb::OpenTicketRequest::decode(bytes) {
        let fault = convert::opening(request).err();
        assert!(fault.is_none_or(|fault| !fault.field.is_empty()), "a fault names its field");
    }
    let watched = pb::WatchTicketRequest::decode(bytes).map(|request| request.ticket);
    let closed = pb::CloseTicketRequest::decode(bytes).map(|request| request.ticket);
    for ticket in [watched, closed].into_iter().flatten() {
        let _id = convert::ticket_id("ticket", &ticket).is_ok();
    }
}

/// What KEDA asks, with the metadata of a trigger that anybody who may write to a namespace wrote.
pub(crate) fn scaled(bytes: &[u8]) {
    if let Ok(request) = keda::ScaledObjectRef::decode(bytes) {
        scaler::understood(&request);
    }
    if let Ok(request) = keda::GetMetricsRequest::decode(bytes) {
        scaler::understood(&request.scaled_object_ref.unwrap_or_default());
    }
}

/// A question about statistics, and one for a page of attempts.
pub(crate) fn counted(bytes: &[u8]) {
    if let Ok(request) = pb::GetStatsRequest::decode(bytes) {
        let _checked = stats::understood(request).is_ok();
    }
    if let Ok(request) = pb::ListAttemptsRequest::decode(bytes) {
        let _checked = stats::page_understood(&request).is_ok();
    }
}
