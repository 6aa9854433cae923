//! Maps errors to gRPC statuses, with the details of `google.rpc`.

use plimsoll_core::{domain::FieldViolation, placement::tickets::TicketRefusal};
use tonic::{
    Code, Response, Status,
    codegen::http::{HeaderMap, HeaderValue},
};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    access::{Refusal, Reply, identity::Denied},
    door::gate::NotAdmitted,
};

/// How a handler answers.
pub(super) type RpcResult<T> = Result<Response<T>, Status>;

/// The name of a code in metrics: as gRPC names it, in lower case.
pub(super) fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

impl From<Refusal> for Status {
    /// The status for a refusal, with the field that is wrong, or with `RetryInfo` if a retry may succeed.
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Fault(FieldViolation { field, description }) => {
                let details = ErrorDetails::with_bad_request_violation(field.clone(), description.clone());
                return Self::with_error_details(Code::InvalidArgument, refusal.to_string(), details);
            }
            Refusal::Forbidden(_) | Refusal::NotAllowed(_) => Code::PermissionDenied,
            Refusal::NotFound(_) | Refusal::Ticket(TicketRefusal::Unknown(_)) => Code::NotFound,
            Refusal::NotOpen(_)
            | Refusal::Gap { .. }
            | Refusal::Running(_)
            | Refusal::Ticket(TicketRefusal::Never(_)) => Code::FailedPrecondition,
            Refusal::Held(_) | Refusal::TakenOver(_) | Refusal::Ticket(TicketRefusal::Taken(_)) => {
                Code::AlreadyExists
            }
            Refusal::Replaced(_) => Code::Aborted,
            Refusal::Full(_)
            | Refusal::FullOfUntrusted(_)
            | Refusal::TooManyVerdicts(_)
            | Refusal::Crowded { .. }
            | Refusal::TooLittleMemory(_)
            | Refusal::Judged { .. }
            | Refusal::Exceeded(_)
            | Refusal::Ticket(_)
            | Refusal::TicketNumbers => Code::ResourceExhausted,
            Refusal::Unwritable(_)
            | Refusal::Unreadable(_)
            | Refusal::TicketUnwritable(_)
            | Refusal::Stopping => Code::Unavailable,
            Refusal::Panicked(_) => Code::Internal,
        };
        match refusal.retry_after() {
            Some(after) => Status::with_error_details(
                code,
                refusal.to_string(),
                ErrorDetails::with_retry_info(Some(after)),
            ),
            None => Status::new(code, refusal.to_string()),
        }
    }
}

impl From<NotAdmitted> for Status {
    fn from(why: NotAdmitted) -> Self {
        let (code, text) = match why {
            NotAdmitted::Exceeded(exceeded) => return Refusal::Exceeded(exceeded).into(),
            NotAdmitted::OverAll(text) => (Code::PermissionDenied, text),
            NotAdmitted::Denied(denied) => match denied {
                Denied::Unidentified | Denied::NotAccepted(_) => (Code::Unauthenticated, denied.to_string()),
                Denied::NotNow | Denied::Changed => (Code::Unavailable, denied.to_string()),
                Denied::NoGrant | Denied::NotAllowed { .. } => (Code::PermissionDenied, denied.to_string()),
            },
        };
        Self::new(code, text)
    }
}

/// The answer of a service as a response, or the status for its refusal.
pub(super) fn answered<T>(answer: Reply<T>) -> RpcResult<T> {
    Ok(Response::new(answer?))
}

/// Replaces tonic's status INTERNAL for a message that cannot be parsed by INVALID_ARGUMENT with
/// the field, because the sender is at fault. `headers` are those of an answer that is only an
/// error, or the trailers of another answer.
pub(super) fn blame_sender(headers: &mut HeaderMap) {
    let is_internal = |code: &HeaderValue| Code::from_bytes(code.as_bytes()) == Code::Internal;
    if !headers.get(Status::GRPC_STATUS).is_some_and(is_internal) {
        return;
    }
    let Some(fault) = Status::from_header_map(headers).and_then(|status| unread(status.message())) else {
        return;
    };
    let mut blamed = HeaderMap::new();
    if Status::from(Refusal::Fault(fault)).add_header(&mut blamed).is_ok() {
        headers.extend(blamed);
    }
}

/// Parses prost's error text for an invalid message, such as `Key.package: PredictRequest.key:
/// invalid string value`; the innermost field comes first.
fn unread(text: &str) -> Option<FieldViolation> {
    let mut rest = text.strip_prefix("failed to decode Protobuf message: ")?;
    let mut fields = Vec::new();
    while let Some((place, behind)) = rest.split_once(": ")
        && let Some((message, field)) = place.split_once('.')
        && message.starts_with(|c: char| c.is_ascii_uppercase())
        && !field.contains(' ')
    {
        fields.push(field);
        rest = behind;
    }
    fields.reverse();
    let field = if fields.is_empty() { "message".to_owned() } else { fields.join(".") };
    Some(FieldViolation::new(field, format!("cannot be read: {rest}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fault_names_its_field_in_the_details() {
        let status = Status::from(Refusal::Fault(FieldViolation::new("key.package", "is empty")));
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "key.package");
    }

    #[test]
    fn undecodable_messages_blame_the_senders_field() {
        let blamed = |status: &Status| {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            blame_sender(&mut headers);
            Status::from_header_map(&headers).unwrap()
        };
        let text = "failed to decode Protobuf message: Key.package: PredictRequest.key: invalid string value: data is not UTF-8 encoded";
        let status = blamed(&Status::internal(text));
        assert_eq!(status.code(), Code::InvalidArgument);
        let field = |status: &Status| {
            status.get_error_details().bad_request().unwrap().field_violations[0].field.clone()
        };
        assert_eq!(field(&status), "key.package");
        assert!(status.message().contains("data is not UTF-8"), "{status}");
        let status = blamed(&Status::internal("failed to decode Protobuf message: buffer underflow"));
        assert_eq!((status.code(), field(&status).as_str()), (Code::InvalidArgument, "message"));
        for other in [Status::internal("the disk is gone"), Status::unavailable("later")] {
            assert_eq!(blamed(&other).code(), other.code());
        }
    }

    #[test]
    fn an_overloaded_server_says_when_to_come_back() {
        let status = Status::from(Refusal::Full(5));
        assert_eq!(status.code(), Code::ResourceExhausted);
        let after = status.get_error_details().retry_info().unwrap().retry_delay;
        assert_eq!(after, Some(Duration::from_secs(30)));
    }
}
