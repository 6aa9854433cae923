//! Machines of a server upstream, over a socket.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Router, body::Bytes, extract::State, response::IntoResponse as _};
use dxr::{Fault, FaultResponse, MethodCall, MethodResponse, Value};
use tokio_util::task::TaskTracker;

use super::*;
use crate::tickets::NumberedTicket;

/// How a server upstream answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Manner {
    #[default]
    Answers,
    /// Takes tickets, and their answers are lost.
    Loses,
    Hangs,
    Faults,
    Rubbish,
    Huge,
    Denies,
}

/// A server upstream, which outlives the servers that use it.
#[derive(Debug, Default)]
struct Upstream {
    manner: Manner,
    calls: u32,
    /// Of the last call.
    authorization: String,
    last: u32,
    /// Open tickets, with tags and sandbox.
    open: BTreeMap<u32, String>,
    failed: BTreeSet<u32>,
    forgotten: BTreeSet<u32>,
    /// No machine is ready yet.
    slow: bool,
}

#[derive(Debug, Clone, Default)]
struct Resalloc {
    state: Arc<Mutex<Upstream>>,
    changed: Arc<Notify>,
}

impl Resalloc {
    /// Starts it; its address.
    async fn start() -> (Self, String) {
        let resalloc = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answering = Router::new().fallback(answer).with_state(resalloc.clone());
        TaskTracker::new().spawn(async move { axum::serve(listener, answering).await });
        (resalloc, address)
    }

    fn state(&self) -> MutexGuard<'_, Upstream> {
        self.state.lock().unwrap()
    }

    fn be(&self, manner: Manner) {
        self.state().manner = manner;
    }

    fn open(&self) -> Vec<u32> {
        self.state().open.keys().copied().collect()
    }

    /// Waits for a call after which this holds.
    async fn until(&self, holds: impl Fn(&Upstream) -> bool) {
        loop {
            let called = self.changed.notified();
            if holds(&self.state()) {
                return;
            }
            called.await;
        }
    }
}

async fn answer(
    State(resalloc): State<Resalloc>,
    head: axum::http::HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    let (manner, value) = {
        let mut state = resalloc.state();
        state.calls += 1;
        let sent = head.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        state.authorization = sent.unwrap_or_default();
        let call = MethodCall::from_xml(std::str::from_utf8(&body).unwrap()).unwrap();
        let works = [Manner::Answers, Manner::Loses].contains(&state.manner);
        (state.manner, works.then(|| state.call(&call)))
    };
    resalloc.changed.notify_waiters();
    let text = match (manner, value) {
        (Manner::Answers, Some(Ok(value))) => MethodResponse { value }.to_xml().unwrap(),
        (Manner::Answers, Some(Err(why))) => FaultResponse { fault: Fault::new(1, why) }.to_xml().unwrap(),
        (Manner::Faults, _) => FaultResponse { fault: Fault::new(1, "no".into()) }.to_xml().unwrap(),
        (Manner::Rubbish, _) => "<html>".to_owned(),
        (Manner::Huge, _) => "x".repeat(1 << 20),
        (Manner::Hangs, _) => std::future::pending().await,
        (Manner::Denies, _) => return axum::http::StatusCode::UNAUTHORIZED.into_response(),
        // the connection is cut within the answer
        (_, _) => {
            let cut = tokio_stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
            return axum::body::Body::from_stream(cut).into_response();
        }
    };
    text.into_response()
}

impl Upstream {
    fn call(&mut self, call: &MethodCall<'_>) -> Result<Value, String> {
        let number = match call.params.first() {
            Some(Value::Integer(number)) => u32::try_from(*number).unwrap(),
            _ => 0,
        };
        match &*call.name {
            "takeTicket" if format!("{:?}", call.params).contains("\"refused\"") => Err("no".to_owned()),
            "takeTicket" => {
                self.last += 1;
                self.open.insert(self.last, format!("{:?}", call.params));
                Ok(Value::Integer(self.last.try_into().unwrap()))
            }
            "closeTicket" if number > self.last || self.forgotten.contains(&number) => {
                Err(format!("no such ticket {number}"))
            }
            "closeTicket" => {
                self.open.remove(&number);
                Ok(Value::Nil)
            }
            _ => Ok(self.collect(number)),
        }
    }

    fn collect(&self, number: u32) -> Value {
        let is_known = number <= self.last && !self.forgotten.contains(&number);
        let is = |fact: bool| if is_known { Value::Boolean(fact) } else { Value::Nil };
        let ready = is_known && !self.slow;
        let output = format!("---\nhost: m{number}\n");
        let output = match (ready, number.is_multiple_of(2)) {
            (false, _) => Value::Nil,
            (true, true) => Value::String(output),
            // as Resalloc gives it out
            (true, false) => Value::Base64(output.into()),
        };
        let members = [
            ("ready", is(ready)),
            ("output", output),
            ("closed", is(!self.open.contains_key(&number))),
            ("failed", is(self.failed.contains(&number))),
        ];
        Value::Struct(members.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

fn pools(address: &str) -> String {
    format!(
        "[[pool]]\nname = \"u\"\nat_once = 1\ntags = [\"x\", \"copr_builder\"]\nupstream = \"{address}\"\n[[pool]]\nname = \"big\"\n"
    )
}

fn wants(asked: u64) -> TicketClaim {
    TicketClaim {
        pool: "u".into(),
        on_host: true,
        sandbox: "ann/p--bob".into(),
        upstream_tags: vec!["x".into()],
        ..claim(asked)
    }
}

/// The ticket with this number, once it is ready or has ended.
async fn collected(tickets: &TicketRegistry, number: u64) -> View {
    match tickets.collect_granted(number, &Identity::anyone()).await.unwrap() {
        NumberedTicket::Known(view) => view,
        other => panic!("{other:?}"),
    }
}

/// What its client gets with the ticket.
async fn output(tickets: &TicketRegistry, number: u64) -> String {
    collected(tickets, number).await.ticket().host_output().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn upstream_tickets_open_when_granted_and_close_after() {
    let (resalloc, address) = Resalloc::start().await;
    resalloc.state().last = 40;
    let site = Site::with(&pools(&address));
    let anyone = Identity::anyone();
    site.run(&[], async |tickets: &TicketRegistry| {
        for asked in [1, 2] {
            tickets.open_numbered(Ok(wants(asked))).await.unwrap();
        }
        assert_eq!(output(tickets, 1).await, "---\nhost: m41\n");
        assert_eq!(resalloc.open(), [41], "the other one has no slot");
        let asked = resalloc.state().open[&41].clone();
        assert_eq!(asked, "[Array([String(\"x\")]), String(\"ann/p--bob\")]");
        let pool = site.pools.now().pool("u").cloned().unwrap();
        let status = tickets.upstream(&pool).unwrap();
        assert_eq!((status.address, status.problem.as_str()), (format!("{address}/RPC2"), ""));
        tickets.close_numbered(1, &anyone).await.unwrap();
        assert_eq!(output(tickets, 2).await, "---\nhost: m42\n");
        resalloc.until(|state| !state.open.contains_key(&41)).await;
        tickets.close_numbered(2, &anyone).await.unwrap();
        resalloc.until(|state| state.open.is_empty()).await;
    })
    .await;
}

/// What happens to tickets while an upstream answers in this manner, and afterwards.
async fn trouble(manner: Manner) {
    let (resalloc, address) = Resalloc::start().await;
    resalloc.be(manner);
    let site = Site::with(&pools(&address));
    let pool = site.pools.now().pool("u").cloned().unwrap();
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.open_numbered(Ok(wants(1))).await.unwrap();
        resalloc.until(|state| state.calls > 0).await;
        assert_eq!(open(tickets, "other", 2).await, "granted", "{manner:?}");
        let NumberedTicket::Known(View::Open(status)) =
            tickets.collect(1, &Identity::anyone()).await.unwrap()
        else {
            panic!("{manner:?}")
        };
        assert!(!status.ticket.is_ready());
        assert_eq!(status.waits_for, [format!("pool u: a machine of {address}/RPC2")]);
        if manner == Manner::Hangs {
            return;
        }
        while tickets.upstream(&pool).unwrap().problem.is_empty() {
            tokio::task::yield_now().await;
        }
        resalloc.be(Manner::Answers);
        assert_eq!(output(tickets, 1).await, "---\nhost: m1\n", "{manner:?}");
        assert_eq!(tickets.upstream(&pool).unwrap().problem, "", "{manner:?}");
    })
    .await;
}

#[tokio::test]
async fn a_faulty_upstream_delays_only_its_own_tickets() {
    for manner in [Manner::Hangs, Manner::Faults, Manner::Rubbish, Manner::Huge, Manner::Denies] {
        trouble(manner).await;
    }
}

#[tokio::test]
async fn upstream_tickets_of_a_removed_pool_are_closed() {
    let (resalloc, address) = Resalloc::start().await;
    let site = Site::with(&pools(&address));
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.open_numbered(Ok(wants(1))).await.unwrap();
        output(tickets, 1).await;
    })
    .await;
    fs::write(site.dir.path().join("pools.toml"), "[[pool]]\nname = \"big\"\n").unwrap();
    site.pools.reload_if_changed(true);
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!(output(tickets, 1).await, "---\nhost: m1\n", "its client has it still");
        tickets.close_numbered(1, &Identity::anyone()).await.unwrap();
        resalloc.until(|state| state.open.is_empty()).await;
        while !tickets.0.state().upstream_addresses().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let left = crate::tickets::upstream::read(&site.store).await.unwrap();
    assert_eq!((left.servers.len(), left.tickets.len()), (0, 0));
}

#[tokio::test]
async fn the_password_is_kept_until_all_are_closed() {
    let (resalloc, address) = Resalloc::start().await;
    let site = Site::with(&pools(&address.replace("//", "//ann:secret@")));
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.open_numbered(Ok(wants(1))).await.unwrap();
        output(tickets, 1).await;
        fs::write(site.dir.path().join("pools.toml"), "[[pool]]\nname = \"big\"\n").unwrap();
        site.pools.reload_if_changed(true);
        while tickets.0.state().placement.as_ref().is_none_or(|pools| pools.pool("u").is_some()) {
            tokio::task::yield_now().await;
        }
        tickets.close_numbered(1, &Identity::anyone()).await.unwrap();
        resalloc.until(|state| state.open.is_empty()).await;
        assert_eq!(resalloc.state().authorization, "Basic YW5uOnNlY3JldA==");
    })
    .await;
}
