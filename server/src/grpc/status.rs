//! The one mapping from what went wrong to a gRPC status, with the details of `google.rpc`.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{domain::Fault, identity::Exceeded, ingest::Refusal, store::StoreError};

/// When to come back to a place where too many are.
const CROWD_RETRY: Duration = Duration::from_secs(30);

/// The name of a code, as metrics have it: gRPC's, in small letters.
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

/// INVALID_ARGUMENT with the field.
pub(super) fn of_fault(fault: &Fault) -> Status {
    let details = ErrorDetails::with_bad_request_violation(fault.field.clone(), fault.description.clone());
    Status::with_error_details(Code::InvalidArgument, fault.to_string(), details)
}

/// `PERMISSION_DENIED` with the field that names what is not for this caller.
pub(super) fn forbidden(fault: &Fault) -> Status {
    Status::permission_denied(fault.to_string())
}

/// The fitting code, with `RetryInfo` where coming back helps.
pub(super) fn of_refusal(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::Fault(fault) => return of_fault(fault),
        Refusal::Forbidden(_) => Code::PermissionDenied,
        Refusal::NotOpen(_) | Refusal::Gap { .. } | Refusal::Running(_) => Code::FailedPrecondition,
        Refusal::Held(_) | Refusal::Ousted(_) => Code::AlreadyExists,
        Refusal::Replaced(_) => Code::Aborted,
        Refusal::Full(_) | Refusal::FullOfUntrusted(_) | Refusal::Crowded(_) | Refusal::Judged { .. } => {
            Code::ResourceExhausted
        }
        Refusal::Exceeded(exceeded) => return of_exceeded(exceeded),
        Refusal::Unwritable(_) | Refusal::Unreadable(_) | Refusal::Stopping => Code::Unavailable,
    };
    match refusal.retry_after() {
        Some(after) => {
            Status::with_error_details(code, refusal.to_string(), ErrorDetails::with_retry_info(Some(after)))
        }
        None => Status::new(code, refusal.to_string()),
    }
}

/// RESOURCE_EXHAUSTED: as many as may be there at once are there.
pub(super) fn of_crowd(what: &str, bound: usize) -> Status {
    let details = ErrorDetails::with_retry_info(Some(CROWD_RETRY));
    let text = format!("{bound} {what} are there, which is the bound; come back later");
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// RESOURCE_EXHAUSTED: the caller has gone beyond a bound of his own.
pub(super) fn of_exceeded(exceeded: &Exceeded) -> Status {
    let details = ErrorDetails::with_retry_info(Some(exceeded.after));
    Status::with_error_details(Code::ResourceExhausted, exceeded.to_string(), details)
}

/// The store cannot be read: UNAVAILABLE.
pub(super) fn of_store(error: &StoreError) -> Status {
    Status::unavailable(format!("the store cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_field_in_the_details() {
        let status = of_refusal(&Refusal::Fault(Fault::new("key.package", "is empty")));
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "key.package");
    }

    #[test]
    fn an_overloaded_server_says_when_to_come_back() {
        let status = of_refusal(&Refusal::Full(5));
        assert_eq!(status.code(), Code::ResourceExhausted);
        let after = status.get_error_details().retry_info().unwrap().retry_delay;
        assert_eq!(after, Some(Duration::from_secs(30)));
    }
}
