//! XML-RPC: the calls of Resalloc's client, unchanged, at `POST /RPC2` and `POST /`. Its tickets are those of [`crate::tickets::ticket_service`].
//!
//! | method | answer |
//! |---|---|
//! | `takeTicket([TAG, ...], SANDBOX)` | the number of the ticket |
//! | `collectTicket(NUMBER)` | `ready`, `output`, `closed`, `failed`; all nil if there is no such ticket |
//! | `waitTicket(NUMBER)` | `output`, once there is one; empty if the ticket has ended without it; a fault if too many wait |
//! | `closeTicket(NUMBER)` | nil |
//! | `system.listMethods()`, `system.methodHelp(NAME)`, `system.methodSignature(NAME)` | what there is |
//!
//! The client repeats whatever fails every 3 s, for ever. So a fault is for what can succeed later, and for what no client of Resalloc
//! sends. A ticket that could never be granted is one that has ended; a number that is no ticket's is answered like one.
//!
//! | module | |
//! |---|---|
//! | `request` | what a client sends, within bounds |
//! | `waiting` | the answer of a call that waits |

mod request;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt::Display;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use dxr::{Fault, FaultResponse, MethodCall, MethodResponse, Value};
use plimsoll_core::{
    domain::FieldViolation,
    validated::{Validated, text},
};
use plimsoll_proto::limits;

use super::refusal::refuse;
use crate::{
    access::{Refusal, Reply, guard::Caller, identity::Identity},
    door::{gate::LongAnswer, http_state::HttpState},
    tickets::{
        TicketService,
        ticket_service::{CollectedTicket, TagQuestion},
    },
};
use waiting::PendingAnswer;

/// Start of each answer: the declaration of XML.
const DECLARATION: &str = "<?xml version='1.0'?>\n";

// the numbers of faults are those of "Specification for Fault Code Interoperability", version 20010516
const NOT_WELL_FORMED: i32 = -32700;
const NO_METHOD: i32 = -32601;
const WRONG_ARGUMENTS: i32 = -32602;
const NOT_NOW: i32 = -32500;

/// A method: its name, a text that says what it does, and its signatures, each with the type of the answer first.
type Method = (&'static str, &'static str, &'static [&'static [&'static str]]);

const METHODS: [Method; 7] = [
    ("closeTicket", "Ends a ticket; its place is free at once.", &[&["nil", "int"], &["nil", "string"]]),
    (
        "collectTicket",
        "What became of a ticket: ready, output, closed, failed.",
        &[&["struct", "int"], &["struct", "string"]],
    ),
    ("system.listMethods", "The names of all methods.", &[&["array"]]),
    ("system.methodHelp", "What a method does.", &[&["string", "string"]]),
    ("system.methodSignature", "The signatures of a method.", &[&["array", "string"]]),
    (
        "takeTicket",
        "Opens a ticket for a place in a pool that has all of the tags, within a sandbox; gives its number.",
        &[&["int"], &["int", "array"], &["int", "array", "string"]],
    ),
    (
        WAIT_TICKET,
        "Waits until a ticket has its place; gives the output, which is empty if the ticket has ended.",
        &[&["string", "int"], &["string", "string"]],
    ),
];

const WAIT_TICKET: &str = "waitTicket";

pub(super) async fn call(
    State(parts): State<HttpState>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let sent = match request::read(&head.headers, body).await {
        Ok(sent) => sent,
        Err((status, fault)) => return refuse(head.uri.path(), status, &fault),
    };
    let call = match request::parse(&sent) {
        Ok(call) => call,
        Err(fault) => return complete(&encode(Err(fault))),
    };
    let tickets = parts.services.tickets.clone();
    if call.name != WAIT_TICKET {
        return complete(&encode(answer(&tickets, &caller, &call).await));
    }
    let number = match number(WAIT_TICKET, call.params.as_slice()) {
        Ok(number) => number,
        Err(fault) => return complete(&encode(Err(fault))),
    };
    let slot = match parts.waits.take(&caller) {
        Ok(slot) => slot,
        Err(turned_away) => return at_once(tickets.collect_at_once(&caller, number, turned_away).await),
    };
    let calls = parts.calls.clone();
    // ten thousand of them may be there: each holds what it needs and no more
    let waited = async move {
        let _slot = slot;
        encode(tokio::select! {
            waited = wait(&tickets, &caller, number) => waited,
            () = calls.idle_ended() => Err(later(&Refusal::Stopping)),
            denied = caller.admission_ended() => Err(Fault::new(NOT_NOW, denied.to_string())),
        })
    };
    let mut waiting = xml(Body::new(PendingAnswer::new(waited)));
    waiting.extensions_mut().insert(LongAnswer);
    waiting.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    waiting
}

/// The answer to a client that may not wait. If its ticket waits, it comes back over another connection.
fn at_once(collected: Reply<CollectedTicket>) -> Response {
    let answer = collected.map(output).map_err(|refusal| later(&refusal));
    // not logged: thousands of clients may come every 3 s
    let mut answer = complete(&answer.map_or_else(fault_xml, |output| encode(Ok(output))));
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// What a method answers.
async fn answer(tickets: &TicketService, caller: &Identity, call: &MethodCall<'_>) -> Result<Value, Fault> {
    let (name, arguments) = (&*call.name, call.params.as_slice());
    match name {
        "takeTicket" => {
            let number =
                tickets.take(caller, question(arguments)).await.map_err(|refusal| later(&refusal))?;
            // the registry gives out no larger one
            Ok(Value::Integer(i32::try_from(number).unwrap_or(i32::MAX)))
        }
        WAIT_TICKET => wait(tickets, caller, number(name, arguments)?).await,
        "collectTicket" => {
            let number = number(name, arguments)?;
            let collected = tickets.collect(caller, number, false).await;
            collected.map(state).map_err(|refusal| later(&refusal))
        }
        "closeTicket" => {
            let number = number(name, arguments)?;
            tickets.registry.close_numbered(number, caller).await.map_err(|refusal| later(&refusal))?;
            Ok(Value::Nil)
        }
        "system.listMethods" => Ok(texts(METHODS.iter().map(|(name, ..)| *name))),
        "system.methodHelp" => Ok(Value::String(described(arguments)?.1.to_owned())),
        "system.methodSignature" => {
            let signatures = described(arguments)?.2.iter();
            Ok(Value::Array(signatures.map(|types| texts(types.iter().copied())).collect()))
        }
        unknown => Err(no_method(unknown)),
    }
}

/// What `waitTicket` answers, once it can.
async fn wait(tickets: &TicketService, caller: &Identity, number: u64) -> Result<Value, Fault> {
    tickets.collect(caller, number, true).await.map(output).map_err(|refusal| later(&refusal))
}

/// What `takeTicket` asks for. What is wrong with it is for the ticket's rules: it is a ticket that has ended.
fn question(arguments: &[Value]) -> Validated<TagQuestion> {
    let (tags, sandbox) = match arguments {
        [] => return Ok(TagQuestion::default()),
        [tags] => (tags, &Value::Nil),
        [tags, sandbox] => (tags, sandbox),
        _ => return Err(FieldViolation::new("takeTicket", "takes a list of tags and a sandbox")),
    };
    let tag = |tag: &Value| match tag {
        Value::String(tag) => text("tags", tag.clone(), limits::LABEL_BYTES),
        _ => Err(FieldViolation::new("tags", "must be texts")),
    };
    let tags = match tags {
        Value::Nil => Vec::new(),
        Value::Array(tags) if tags.len() > limits::TICKET_TAGS => {
            let description = format!("has {} tags, at most {} are allowed", tags.len(), limits::TICKET_TAGS);
            return Err(FieldViolation::new("tags", description));
        }
        Value::Array(tags) => tags.iter().map(tag).collect::<Validated<_>>()?,
        _ => return Err(FieldViolation::new("tags", "must be a list")),
    };
    let sandbox = match sandbox {
        Value::Nil => String::new(),
        Value::String(sandbox) => text("sandbox", sandbox.clone(), limits::OWNER_BYTES)?,
        _ => return Err(FieldViolation::new("sandbox", "must be a text")),
    };
    Ok(TagQuestion { tags, sandbox })
}

/// The number of a ticket, as an integer or as text; 0, which is no ticket's, for anything else.
fn number(name: &str, arguments: &[Value]) -> Result<u64, Fault> {
    match arguments {
        [Value::Integer(number)] => Ok(u64::try_from(*number).unwrap_or(0)),
        [Value::String(number)] => Ok(number.trim().parse().unwrap_or(0)),
        [_other] => Ok(0),
        _ => Err(Fault::new(WRONG_ARGUMENTS, format!("{name} takes the number of a ticket"))),
    }
}

/// The answer of `collectTicket`: the state of a ticket, as a struct.
fn state(collected: CollectedTicket) -> Value {
    let (ready, output, closed, failed) = match collected {
        CollectedTicket::Unknown => (Value::Nil, Value::Nil, Value::Nil, Value::Nil),
        CollectedTicket::Known { output, closed, failed } => {
            let ready = Value::Boolean(output.is_some());
            let output = output.map_or(Value::Nil, Value::String);
            (ready, output, Value::Boolean(closed), Value::Boolean(failed))
        }
    };
    let members = [("ready", ready), ("output", output), ("closed", closed), ("failed", failed)];
    Value::Struct(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The answer of `waitTicket`: the output of the ticket; empty if there is none.
fn output(collected: CollectedTicket) -> Value {
    match collected {
        CollectedTicket::Known { output: Some(output), .. } => Value::String(output),
        _ => Value::String(String::new()),
    }
}

/// Finds the method with the name in `arguments`.
fn described(arguments: &[Value]) -> Result<Method, Fault> {
    let [Value::String(asked)] = arguments else {
        return Err(Fault::new(WRONG_ARGUMENTS, "takes the name of a method".to_owned()));
    };
    METHODS.into_iter().find(|(name, ..)| name == asked).ok_or_else(|| no_method(asked))
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Value {
    Value::Array(texts.map(|text| Value::String(text.to_owned())).collect())
}

fn no_method(name: &str) -> Fault {
    let name: String = name.chars().take(limits::LABEL_BYTES).collect();
    Fault::new(
        NO_METHOD,
        format!("there is no method {name:?}; system.listMethods lists those that there are"),
    )
}

/// The fault for a refused call that the client may repeat later.
fn later(refusal: &Refusal) -> Fault {
    Fault::new(NOT_NOW, refusal.to_string())
}

/// The answer as XML, without [`DECLARATION`].
fn encode(answer: Result<Value, Fault>) -> String {
    let encoded = match answer {
        Ok(value) => MethodResponse { value }.to_xml(),
        Err(fault) => {
            tracing::info!(code = fault.code(), fault = fault.string(), "answered a call with a fault");
            return fault_xml(fault);
        }
    };
    encoded.unwrap_or_else(no_xml)
}

/// A fault as XML, without [`DECLARATION`].
fn fault_xml(fault: Fault) -> String {
    FaultResponse { fault }.to_xml().unwrap_or_else(no_xml)
}

fn no_xml(error: impl Display) -> String {
    tracing::error!(%error, "an answer has no form in XML");
    String::new()
}

fn complete(answer: &str) -> Response {
    if answer.is_empty() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    xml(Body::from(DECLARATION.to_owned() + answer))
}

fn xml(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/xml")], body).into_response()
}
