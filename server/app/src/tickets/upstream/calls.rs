//! Calls of Resalloc over XML-RPC: within bounds of time and size, one attempt each.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use axum::body::Bytes;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use dxr::{FaultResponse, MethodCall, MethodResponse, Value};
use http_body_util::Full;
use hyper::{
    Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT},
};
use plimsoll_core::placement::upstream::{CollectAnswer, PoolUpstream};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::runtime::{
    outgoing::{self, BodyFailure, HttpClient, KeptPart},
    xml,
};

/// A call changes a row of a database. Beyond this time the server hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// Largest answer, bytes: that with a machine's output, in which each character may be written as a
/// reference.
const ANSWER_BYTES: usize = 64 * 1024;
/// Longest output of a machine: YAML of Copr's builders has some hundred bytes.
const OUTPUT_BYTES: usize = 8192;
/// Number of characters of the upstream's texts that are logged.
const SHOWN_CHARS: usize = 200;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The call was not sent.
    Unreachable(String),
    /// The server, or a proxy before it, did not let the call in.
    Refused(StatusCode),
    /// The call was sent, and the connection broke.
    Broken(String),
    /// There was no answer in time.
    Timeout,
    /// The answer is not one of Resalloc.
    Malformed(String),
    /// The answer is larger than any of Resalloc.
    TooLarge,
    /// The server answered with a fault.
    Fault(String),
}

impl CallFailure {
    /// The label in metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) | Self::Broken(_) => "unreachable",
            Self::Timeout => "timeout",
            Self::Malformed(_) | Self::TooLarge | Self::Refused(_) => "malformed",
            Self::Fault(_) => "fault",
        }
    }

    /// Whether a call may have done its work. A fault is an answer: Resalloc commits before it answers, and a failed call changes nothing.
    pub(super) fn may_have_worked(&self) -> bool {
        !matches!(self, Self::Unreachable(_) | Self::Refused(_) | Self::Fault(_))
    }

    /// Whether the server, or a proxy before it, is there and does not want the call.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Fault(_) | Self::Refused(_))
    }

    /// The reason as text for people.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Unreachable(why) => format!("cannot be reached: {why}"),
            Self::Broken(why) => format!("broke the connection: {why}"),
            Self::Timeout => format!("did not answer within {} s", ANSWERS_WITHIN.as_secs()),
            Self::Refused(status) => format!("refused the call: status {status}"),
            Self::Malformed(why) => format!("does not answer as Resalloc does: {why}"),
            Self::TooLarge => format!("does not answer as Resalloc does: more than {ANSWER_BYTES} bytes"),
            Self::Fault(why) => format!("answered with a fault: {why}"),
        }
    }
}

/// A client of one upstream server.
#[derive(Debug)]
pub(super) struct UpstreamClient {
    http: HttpClient<Full<Bytes>>,
    address: String,
    authorization: Option<HeaderValue>,
}

impl UpstreamClient {
    /// The client for an upstream. Reads the certificates that the system trusts.
    /// Errors: `upstream_ca_file` does not contain the certificate of a CA.
    pub(super) fn new(upstream: &PoolUpstream) -> anyhow::Result<Self> {
        let authorization = upstream.address.credentials().map(|credentials| {
            let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credentials)))?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let authorization = authorization.transpose()?;
        let pem = upstream.ca_certificates.as_deref().unwrap_or_default();
        let cas: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let http = cas.map_err(anyhow::Error::from).and_then(outgoing::http_client_trusting);
        let http = http.context("upstream_ca_file holds no CA's certificate")?;
        Ok(Self { http, address: upstream.address.shown().to_owned(), authorization })
    }

    /// Takes a ticket upstream; returns its number there.
    pub(super) async fn take(&self, tags: &[String], sandbox: &str) -> Result<u32, CallFailure> {
        let tags = Value::Array(tags.iter().cloned().map(Value::String).collect());
        let mut params = vec![tags];
        if !sandbox.is_empty() {
            params.push(Value::String(sandbox.to_owned()));
        }
        match self.call("takeTicket", params).await? {
            Value::Integer(number @ 1..) => Ok(number.unsigned_abs()),
            _ => Err(CallFailure::Malformed("takeTicket gives no number above 0".to_owned())),
        }
    }

    /// The state of a ticket upstream.
    pub(super) async fn collect(&self, number: u32) -> Result<CollectAnswer, CallFailure> {
        let Value::Struct(members) = self.call("collectTicket", vec![integer(number)]).await? else {
            return Err(CallFailure::Malformed("collectTicket gives no struct".to_owned()));
        };
        collected(&members).ok_or_else(|| CallFailure::Malformed("collectTicket gives no state".to_owned()))
    }

    /// Closes a ticket. `output`: what it was given out with, if one with another output is another client's and stays as it is. If the
    /// call fails with a fault, the ticket is collected to see why. Returns false if the server does not know the ticket.
    pub(super) async fn close(&self, number: u32, output: Option<&str>) -> Result<bool, CallFailure> {
        if let Some(output) = output
            && let CollectAnswer::Ready(there) = self.collect(number).await?
            && there != output
        {
            return Ok(true);
        }
        match self.call("closeTicket", vec![integer(number)]).await {
            Err(CallFailure::Fault(_)) => match self.collect(number).await? {
                CollectAnswer::Unknown => Ok(false),
                CollectAnswer::Closed => Ok(true),
                _ => Err(CallFailure::Fault(format!("ticket {number} cannot be closed"))),
            },
            closed => closed.map(|_nil| true),
        }
    }

    async fn call(&self, method: &str, params: Vec<Value>) -> Result<Value, CallFailure> {
        timeout(ANSWERS_WITHIN, self.once(method, params)).await.unwrap_or(Err(CallFailure::Timeout))
    }

    async fn once(&self, method: &str, params: Vec<Value>) -> Result<Value, CallFailure> {
        let not_sent = |why: String| CallFailure::Unreachable(shown(&why));
        let sent = MethodCall { name: method.into(), params }.to_xml();
        let sent = sent.map_err(|error| not_sent(error.to_string()))?;
        let mut request = Request::post(&self.address)
            .header(USER_AGENT, "plimsoll-server")
            .header(CONTENT_TYPE, "text/xml");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request =
            request.body(Full::new(Bytes::from(sent))).map_err(|error| not_sent(error.to_string()))?;
        let answer = self.http.request(request).await.map_err(|error| {
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let cause = shown(&cause);
            if error.is_connect() { CallFailure::Unreachable(cause) } else { CallFailure::Broken(cause) }
        })?;
        let (head, body) = answer.into_parts();
        refused(head.status)?;
        let bytes =
            outgoing::read(body, KeptPart::All(ANSWER_BYTES)).await.map_err(|unread| match unread {
                BodyFailure::Cut => CallFailure::Broken("in its answer".to_owned()),
                BodyFailure::TooLarge => CallFailure::TooLarge,
            })?;
        parse(&bytes)
    }
}

/// Reads the state of a ticket from the struct that `collectTicket` gives. Resalloc keeps outputs as bytes, which Python sends in base64.
fn collected(members: &BTreeMap<String, Value>) -> Option<CollectAnswer> {
    let is = |name: &str| matches!(members.get(name), Some(Value::Boolean(true)));
    let output = match members.get("output") {
        Some(Value::String(text)) => Some(Some(text.clone())),
        Some(Value::Base64(bytes)) => Some(String::from_utf8(bytes.clone()).ok()),
        _ => None,
    };
    Some(match members.get("ready") {
        Some(Value::Nil) => CollectAnswer::Unknown,
        Some(Value::Boolean(_)) if is("closed") => CollectAnswer::Closed,
        Some(Value::Boolean(_)) if is("failed") => CollectAnswer::Failed,
        Some(Value::Boolean(false)) => CollectAnswer::Waits,
        Some(Value::Boolean(true)) => {
            output?.filter(|text| is_fit(text)).map_or(CollectAnswer::Unfit, CollectAnswer::Ready)
        }
        _ => return None,
    })
}

/// Whether the output of a machine can be kept: it is short enough, and text that XML 1.0 can carry.
fn is_fit(output: &str) -> bool {
    let is_fit = |letter: char| match letter {
        '\u{b}' | '\u{c}' | '\u{fffe}' | '\u{ffff}' => false,
        letter => !letter.is_control() || letter.is_whitespace(),
    };
    output.len() <= OUTPUT_BYTES && output.chars().all(is_fit)
}

/// Checks the status of an answer: one of 400 to 499 comes before the call is carried out.
fn refused(status: StatusCode) -> Result<(), CallFailure> {
    match status {
        StatusCode::OK => Ok(()),
        status if status.is_client_error() => Err(CallFailure::Refused(status)),
        status => Err(CallFailure::Malformed(format!("status {status}"))),
    }
}

fn integer(number: u32) -> Value {
    Value::Integer(i32::try_from(number).unwrap_or(i32::MAX))
}

/// Parses the result in an answer.
fn parse(bytes: &[u8]) -> Result<Value, CallFailure> {
    let malformed = |why: &str| CallFailure::Malformed(shown(why));
    let text = std::str::from_utf8(bytes).map_err(|_error| malformed("is not UTF-8"))?;
    xml::check(text).map_err(|why| malformed(&why))?;
    // an error of the parser repeats the whole text
    let parsed = MethodResponse::from_xml(text);
    match parsed {
        Ok(MethodResponse { value }) => Ok(value),
        Err(_error) => match FaultResponse::from_xml(text) {
            Ok(FaultResponse { fault }) => Err(CallFailure::Fault(shown(fault.string()))),
            Err(_error) => Err(malformed("is no answer of XML-RPC")),
        },
    }
}

/// The start of a foreign text, without secrets and control characters.
fn shown(text: &str) -> String {
    let plain = plimsoll_core::mask::text(text);
    plain.chars().filter(|letter| !letter.is_control()).take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_xml_safe_text_or_bytes() {
        let answer = |output: Value| {
            let members = [("ready", Value::Boolean(true)), ("output", output)];
            collected(&BTreeMap::from_iter(members.map(|(name, value)| (name.to_owned(), value))))
        };
        let ready = Some(CollectAnswer::Ready("---\nhost: ü\n".to_owned()));
        assert_eq!(answer(Value::String("---\nhost: ü\n".to_owned())), ready);
        assert_eq!(answer(Value::Base64("---\nhost: ü\n".into())), ready);
        for wrong in ["\u{b}", "\u{c}", "\u{fffe}", "\u{ffff}", "\u{1}", &"x".repeat(OUTPUT_BYTES + 1)] {
            assert_eq!(answer(Value::String(wrong.to_owned())), Some(CollectAnswer::Unfit), "{wrong:?}");
        }
        assert_eq!(answer(Value::Base64(vec![0xff])), Some(CollectAnswer::Unfit));
        assert_eq!(answer(Value::Nil), None);
        // as Python's xmlrpc sends bytes
        let python = "<?xml version='1.0'?>\n<methodResponse>\n<params>\n<param>\n<value><base64>\nLS0tCmhvc3Q6\nIG0xCg==\n</base64></value>\n</param>\n</params>\n</methodResponse>\n";
        assert_eq!(parse(python.as_bytes()), Ok(Value::Base64("---\nhost: m1\n".into())));
    }

    #[test]
    fn refused_and_faulted_calls_had_no_effect() {
        let status = |code: u16| refused(StatusCode::from_u16(code).unwrap());
        assert_eq!(status(200), Ok(()));
        let did_nothing =
            [status(401).unwrap_err(), status(404).unwrap_err(), CallFailure::Fault(String::new())];
        assert!(did_nothing.iter().all(|failure| !failure.may_have_worked()), "{did_nothing:?}");
        for unknown in [status(502).unwrap_err(), CallFailure::Timeout, CallFailure::TooLarge] {
            assert!(unknown.may_have_worked(), "{unknown:?}");
        }
    }

    #[test]
    fn malformed_answers_are_refused_and_faults_recognized() {
        let value = |inner: &str| {
            format!(
                "<?xml version='1.0'?>\n<methodResponse>\n<params>\n<param>\n<value>{inner}</value>\n</param>\n</params>\n</methodResponse>\n"
            )
        };
        assert_eq!(parse(value("<int>7</int>").as_bytes()), Ok(Value::Integer(7)));
        assert_eq!(parse(value("<nil/>").as_bytes()), Ok(Value::Nil));
        let fault = "<?xml version='1.0'?>\n<methodResponse>\n<fault>\n<value><struct>\n<member>\n<name>faultCode</name>\n<value><int>1</int></value>\n</member>\n<member>\n<name>faultString</name>\n<value><string>&lt;class 'Exception'&gt;:no such ticket 5</string></value>\n</member>\n</struct></value>\n</fault>\n</methodResponse>\n";
        let why = "<class 'Exception'>:no such ticket 5".to_owned();
        assert_eq!(parse(fault.as_bytes()), Err(CallFailure::Fault(why)));
        let deep = "<array><data><value>".repeat(9) + &"</value></data></array>".repeat(9);
        let entity = "<!DOCTYPE x [<!ENTITY a \"b\">]>".to_owned() + &value("<int>1</int>");
        for wrong in [
            "",
            "<html>503</html>",
            "\u{1}\u{2}",
            &value(&deep),
            &entity,
            value("<int>7</int>").get(..90).unwrap(),
        ] {
            assert!(matches!(parse(wrong.as_bytes()), Err(CallFailure::Malformed(_))), "{wrong}");
        }
        assert!(matches!(parse(b"\xff\xfe"), Err(CallFailure::Malformed(_))));
    }
}
