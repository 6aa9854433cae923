//! Calls through the gate, to routes that a test makes.

use http_body::Body as _;
use tokio::sync::Notify;

use super::*;
use crate::{
    access::{
        guard::{Caller, Guard},
        identity::{Identity, Role},
    },
    door::{
        gate::Gate,
        grpc::{caller::tests::OneStream, policy},
        net::{self, Listener, SentBody},
    },
};

const PREDICT: &str = "/plimsoll.v1.Predictor/Predict";
/// It lasts: it holds a slot among the streams instead of the calls.
const PREDICT_BATCH: &str = "/plimsoll.v1.Predictor/PredictBatch";

type Answer = Response<SentBody<Body, Option<crate::access::identity::UsageSlot>>>;

fn gate(guard: Guard, routes: Router) -> Arc<Gate<GrpcPort>> {
    let calls = Calls::default();
    let port = GrpcPort::new(calls.clone(), Arc::new(Metrics::new()));
    Arc::new(Gate { routes, calls, guard, body_within: Duration::from_secs(10), port })
}

/// A gate without an access file.
fn open(routes: Router) -> Arc<Gate<GrpcPort>> {
    gate(Guard::open(None, Arc::new(Metrics::new())).unwrap(), routes)
}

async fn call(gate: &Arc<Gate<GrpcPort>>, path: &str) -> Answer {
    let request = Request::post(path).version(Version::HTTP_2).header("content-type", "application/grpc");
    let request = request.header("authorization", "Bearer secret").header("grpc-timeout", "50m");
    let Ok(answer) = Arc::clone(gate).answer(request.body(Body::empty()).unwrap()).await;
    answer
}

fn code<B>(answer: &Response<B>) -> Option<Code> {
    answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

#[test]
fn only_a_post_of_protobuf_is_a_call() {
    let gate = open(Router::new());
    let status = |method: &str, kind: Option<&str>| {
        let request = Request::builder().method(method).version(Version::HTTP_2).uri(PREDICT);
        let request = kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
        let (head, ()) = request.body(()).unwrap().into_parts();
        gate.port.endpoint(&head).map_or_else(|refused| refused.status().as_u16(), |_row| 200)
    };
    for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC; x=y"] {
        assert_eq!(status("POST", Some(kind)), 200, "{kind}");
        assert_eq!(status("GET", Some(kind)), 405);
    }
    for kind in ["application/json", "application/grpc-web+proto", "application/grpc+json", "text/plain", ""]
    {
        assert_eq!(status("POST", Some(kind)), 415, "{kind}");
    }
    assert_eq!(status("POST", None), 415);
}

#[test]
fn timeouts_are_read_as_grpc_defines_them() {
    let timeout = |text: &str| {
        call_timeout(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), text.parse().unwrap())]))
    };
    for (text, expected) in [
        ("1H", Duration::from_hours(1)),
        ("2M", Duration::from_mins(2)),
        ("3S", Duration::from_secs(3)),
        ("4m", Duration::from_millis(4)),
        ("5u", Duration::from_micros(5)),
        ("0n", Duration::ZERO),
        ("99999999H", Duration::from_hours(99_999_999)),
    ] {
        assert_eq!(timeout(text), Some(expected));
    }
    for text in ["", "H", "1", "1s", "+1S", "-1S", "1.5S", " 1S", "1 S", "100000000n"] {
        assert_eq!(timeout(text), None, "{text:?}");
    }
}

#[tokio::test]
async fn failed_calls_are_counted_by_code() {
    let never = async || std::future::pending::<Response>().await;
    let crowd = async || Status::from(Refusal::Crowded { what: "watchers", most: 5 }).into_http::<Body>();
    let gate = open(Router::new().route(PREDICT, axum::routing::post(never)).fallback(crowd));
    assert_eq!(code(&call(&gate, PREDICT).await), Some(Code::DeadlineExceeded), "its caller waits no longer");
    assert_eq!(code(&call(&gate, PREDICT_BATCH).await), Some(Code::ResourceExhausted));
    assert_eq!(code(&call(&gate, "/plimsoll.v1.Predictor/X").await), Some(Code::Unimplemented));
    let text = gate.port.metrics.encode().unwrap();
    for kind in ["deadline_exceeded", "resource_exhausted", "unimplemented"] {
        let line = format!("plimsoll_grpc_calls_failed_total{{kind=\"{kind}\"}} 1\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test]
async fn calls_and_streams_per_caller_are_limited() {
    let one = OneStream::new(Role::Caller);
    let finish = Arc::new(Notify::new());
    let message = Arc::clone(&finish);
    // its message comes to its end when the test says so
    let gate = gate(
        one.guard.clone(),
        Router::new().fallback(async move || {
            message.notified().await;
            "a word"
        }),
    );
    let mut first = std::pin::pin!(call(&gate, PREDICT));
    tokio::select! {
        biased;
        _early = first.as_mut() => panic!("its message has not come to its end"),
        second = call(&gate, PREDICT) => assert_eq!(code(&second), Some(Code::ResourceExhausted)),
    }
    finish.notify_one();
    let answer = first.await;
    assert_eq!(code(&call(&gate, PREDICT).await), Some(Code::ResourceExhausted), "the answer is not read");
    drop(answer);
    finish.notify_one();
    let lasting = call(&gate, PREDICT_BATCH).await;
    finish.notify_one();
    assert_eq!(code(&call(&gate, PREDICT).await), None);
    drop(lasting);
}

#[tokio::test]
async fn reflection_is_bounded_and_needs_no_token() {
    let gate = gate(OneStream::new(Role::Caller).guard, Router::new().fallback(async || "a word"));
    let reflect = async || call(&gate, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").await;
    let mut unread = Vec::new();
    for _ in 0..MAX_REFLECTIONS {
        unread.push(reflect().await);
        assert_eq!(unread.last().and_then(code), None);
    }
    assert_eq!(code(&reflect().await), Some(Code::ResourceExhausted));
    assert_eq!(code(&call(&gate, PREDICT).await), None);
    drop(unread);
    assert_eq!(code(&reflect().await), None);
}

/// The next frame of an answer.
async fn frame(answer: &mut Answer) -> Option<Frame<Bytes>> {
    let body = answer.body_mut();
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.map(Result::unwrap)
}

#[tokio::test]
async fn a_call_runs_until_its_final_frame() {
    let bytes = 100_000;
    let gate = open(Router::new().fallback(async move |request: Request| {
        let caller = request.extensions().get::<Caller>();
        assert_eq!(caller.map(|caller| &**caller), Some(&Identity::anyone()));
        "x".repeat(bytes)
    }));
    let mut answer = call(&gate, PREDICT).await;
    // what is ready is sent, also when the server stops
    gate.calls.end_idle();
    let (mut came, mut pieces) = (0, 0);
    while let Some(frame) = frame(&mut answer).await {
        came += frame.into_data().unwrap().len();
        pieces += 1;
        assert_eq!(answer.body().is_end_stream(), came == bytes, "the library lets go of it at its end");
    }
    assert_eq!((came, pieces, gate.calls.running()), (bytes, 7, 1));
    drop(answer);
    assert_eq!(gate.calls.running(), 0);
}

#[tokio::test]
async fn an_idle_answer_ends_as_unavailable() {
    let silent = || Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>());
    let gate = open(Router::new().fallback(async move || silent()));
    let mut answer = call(&gate, PREDICT).await;
    let ended = async { (frame(&mut answer).await, frame(&mut answer).await.is_none()) };
    let (ended, ()) = tokio::join!(ended, async { gate.calls.end_idle() });
    let (Some(last), true) = ended else { panic!("it goes on: {ended:?}") };
    assert_eq!(last.into_trailers().unwrap()[Status::GRPC_STATUS], "14");
    drop(answer);
    gate.calls.ended().await;
}

#[tokio::test]
async fn only_agent_streams_run_on_agent_threads() {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let (stopping, threads) =
        (tokio_util::sync::CancellationToken::new(), plimsoll_store::threads::agent_threads().unwrap());
    let policy = policy(8, threads.handle().clone(), &Metrics::new());
    let whereabouts = async |_request| {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(Response::new(Body::from(thread)))
    };
    let serving = net::serve(Listener { tcp, tls: None }, policy, whereabouts, stopping.clone());
    let clients = async {
        let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).unwrap();
        let (mut agent, mut other) = (endpoint.connect().await.unwrap(), endpoint.connect().await.unwrap());
        let is_on_agents = async |client: &mut tonic::transport::Channel, path: &str| {
            let request = Request::post(path).body(tonic::body::Body::empty()).unwrap();
            let answer = client.ready().await.unwrap().oneshot(request).await.unwrap();
            axum::body::to_bytes(Body::new(answer.into_body()), 100).await.unwrap() == "agents"
        };
        let stream = "/plimsoll.v1.Collector/Stream";
        for (path, expected) in [(PREDICT, false), (stream, true), (PREDICT, false), (stream, true)] {
            assert_eq!(is_on_agents(&mut agent, path).await, expected, "{path}");
            assert!(!is_on_agents(&mut other, PREDICT).await);
        }
        // either kind ends with the server, although their clients would stay
        stopping.cancel();
    };
    tokio::join!(serving, clients);
    threads.shutdown_background();
}
