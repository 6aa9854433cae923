//! The wire as bytes that nobody has looked at yet, for fuzzing: decoded and converted, as handlers do.

use plimsoll_proto::v1::{self as pb, agent_message::Message};
use prost::Message as _;

use super::{convert, stats};
use crate::domain::{Evidence, Key};

/// A message of an agent.
pub(crate) fn delivered(bytes: &[u8]) {
    let message = pb::AgentMessage::decode(bytes).ok().and_then(|message| message.message);
    let fault = match message {
        Some(Message::Hello(hello)) => {
            convert::runner_tags(&hello).err().or_else(|| convert::hello(hello).err())
        }
        Some(Message::Batch(batch)) => convert::batch(batch).err(),
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

/// A question about statistics, and one for a page of attempts.
pub(crate) fn counted(bytes: &[u8]) {
    if let Ok(request) = pb::GetStatsRequest::decode(bytes) {
        let _checked = stats::understood(request).is_ok();
    }
    if let Ok(request) = pb::ListAttemptsRequest::decode(bytes) {
        let _checked = stats::page_understood(&request).is_ok();
    }
}
