//! What the client of Resalloc may send, and what it gets.

use std::sync::Arc;

use plimsoll_store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    door::fixture,
    pools::PoolRegistry,
    runtime::{clock::Clock, metrics::Metrics},
    tickets::TicketRegistry,
};

const POOLS: &str = "[[pool]]\nname = \"p\"\nat_once = 1\ntags = [\"x\", \"y\"]\n";

/// Tickets of a server with one pool, whose keeper works until the test ends.
fn tickets() -> TicketService {
    let (_dir, file) = plimsoll_support::temporary::file_with("pools.toml", POOLS);
    let metrics = Arc::new(Metrics::new());
    let pools = PoolRegistry::open(Some(file), Arc::clone(&metrics)).unwrap();
    let (registry, keeper) = TicketRegistry::new(Store::memory(), pools.clone(), metrics, Clock);
    TaskTracker::new().spawn(keeper.run(CancellationToken::new()));
    TicketService { sizing: fixture::sizing_alone(pools), registry }
}

/// The answer to a call with these arguments, each of them as XML, without the elements around it.
async fn answered(tickets: &TicketService, name: &str, arguments: &[&str]) -> String {
    let arguments = arguments.iter().map(|argument| format!("<param>\n<value>{argument}</value></param>\n"));
    let arguments = arguments.collect::<Vec<_>>().concat();
    let sent = format!(
        "<?xml version='1.0'?>\n<methodCall>\n<methodName>{name}</methodName>\n<params>\n{arguments}</params>\n</methodCall>\n"
    );
    let caller = Identity::anyone();
    let answered = match request::parse(&sent) {
        Ok(call) => answer(tickets, &caller, &call).await,
        Err(fault) => Err(fault),
    };
    let xml = encode(answered);
    let inner = xml.strip_prefix("<methodResponse>").and_then(|xml| xml.strip_suffix("</methodResponse>"));
    inner.unwrap_or_else(|| panic!("{xml}")).replace("<params><param>", "").replace("</param></params>", "")
}

#[tokio::test]
async fn invalid_calls_get_the_matching_fault_code() {
    let tickets = tickets();
    let code = async |name: &str, arguments: &[&str]| {
        let answer = answered(&tickets, name, arguments).await;
        let (_, rest) =
            answer.split_once("<name>faultCode</name><value><i4>").unwrap_or_else(|| panic!("{answer}"));
        rest.split('<').next().unwrap().parse::<i32>().unwrap()
    };
    assert_eq!(code("takeTickets", &[]).await, NO_METHOD);
    assert_eq!(code("system.methodHelp", &["nothing"]).await, NO_METHOD);
    for name in ["collectTicket", "waitTicket", "closeTicket", "system.methodSignature"] {
        assert_eq!(code(name, &[]).await, WRONG_ARGUMENTS, "{name}");
        assert_eq!(code(name, &["1", "2"]).await, WRONG_ARGUMENTS, "{name}");
    }
    let deep = "<array><data><value>".repeat(10_000) + &"</value></data></array>".repeat(10_000);
    for malformed in ["&entity;", "<int>x</int>", "<int>99999999999</int>", "<what>x</what>", "<int>", &deep]
    {
        assert_eq!(code("collectTicket", &[malformed]).await, NOT_WELL_FORMED, "{malformed:.40}");
    }
    for sent in [
        "",
        "hello",
        "<methodCall>",
        "<methodCall></methodCall>",
        "<methodResponse><params/></methodResponse>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><methodCall><methodName>x</methodName><params/></methodCall>",
    ] {
        assert_eq!(request::parse(sent).unwrap_err().code(), NOT_WELL_FORMED, "{sent}");
    }
}

#[tokio::test]
async fn every_method_is_listed_described_and_there() {
    let tickets = tickets();
    let listed = answered(&tickets, "system.listMethods", &[]).await;
    for (name, help, signatures) in METHODS {
        assert!(listed.contains(&format!("<string>{name}</string>")), "{listed}");
        assert!(answered(&tickets, "system.methodHelp", &[name]).await.contains(help));
        let types = answered(&tickets, "system.methodSignature", &[name]).await;
        assert_eq!(types.matches("<array>").count(), signatures.len() + 1, "{types}");
        let call = MethodCall { name: name.into(), params: Vec::new() };
        let is_there = answer(&tickets, &Identity::anyone(), &call).await;
        assert!(is_there.map_or_else(|fault| fault.code() != NO_METHOD, |_| true), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn unusable_bodies_are_refused_with_their_status() {
    let headers = |kind: &str| [(header::CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
    let status = async |kind: &str, body: Body| match request::read(&headers(kind), body).await {
        Ok(_) => 200,
        Err((status, _)) => status.as_u16(),
    };
    assert_eq!(status("text/xml; charset=utf-8", Body::from("<a/>")).await, 200);
    assert_eq!(status("text/plain", Body::from("<a/>")).await, 415);
    assert_eq!(status("text/xml", Body::from(vec![b' '; 100 << 20])).await, 413);
    assert_eq!(status("text/xml", Body::from(vec![0xff])).await, 400);
    let endless = Body::from_stream(tokio_stream::pending::<Result<Vec<u8>, std::io::Error>>());
    assert_eq!(status("text/xml", endless).await, 408);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_keeps_its_connection_alive() {
    use http_body_util::BodyExt as _;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut body = PendingAnswer::new(async move { receiver.await.unwrap() });
    let mut sent = String::new();
    for _ in 0..4 {
        sent += std::str::from_utf8(body.frame().await.unwrap().unwrap().data_ref().unwrap()).unwrap();
    }
    sender.send("<methodResponse/>".to_owned()).unwrap();
    sent += std::str::from_utf8(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(sent, format!("{DECLARATION}\n\n\n\n<methodResponse/>"));
}
