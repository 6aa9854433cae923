//! Any gRPC client can talk to the server: health and reflection answer, and so does every rpc.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient, stats_client::StatsClient};
use plimsoll_tests::{Programs, Sender, Server, batch, eventually, finish, key};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_on_the_wrong_port_is_corrected() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    let channel = tonic::transport::Endpoint::new(format!("http://{}", server.http)).unwrap();
    let mut client = PredictorClient::new(channel.connect().await.unwrap());
    let ask = pb::PredictRequest { key: Some(key("zlib")), ..Default::default() };
    let refused = client.predict(ask).await.unwrap_err();
    let port = format!("serves gRPC at port {} (grpc_listen)", server.grpc.port());
    assert!(refused.code() == Code::Unimplemented && refused.message().contains(&port), "{refused:?}");

    let agent = plimsoll_tests::Agent::new(
        Programs::for_tests(),
        format!("http://{}", server.http),
        &dir.path().join("spool"),
    );
    let answer = agent.call(&["predict", "--key", "package=zlib"]);
    assert!(answer.code == Some(3) && answer.stderr.contains(&port), "{answer:?}");

    let asked = |headers: &str| {
        let mut stream = TcpStream::connect(server.grpc).unwrap();
        write!(stream, "POST /plimsoll.v1.Predictor/Predict HTTP/1.1\r\nHost: x\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let curl = asked("Content-Length: 0\r\n");
    assert!(curl.starts_with("HTTP/1.1 426 ") && curl.contains("http_listen"), "{curl}");
    let proxied = asked("Content-Type: application/grpc\r\nTE: trailers\r\nContent-Length: 0\r\n");
    assert!(proxied.contains("grpc-status: 12\r\n"), "{proxied}");
    assert!(proxied.contains("HTTP/2 on all of its way"), "{proxied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_answers_for_each_service() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let channel = tonic::transport::Endpoint::new(server.url()).unwrap().connect().await.unwrap();
    for service in ["", "plimsoll.v1.Collector", "plimsoll.v1.Predictor", "plimsoll.v1.Stats"] {
        let check = async || {
            let request = HealthCheckRequest { service: service.to_owned() };
            HealthClient::new(channel.clone()).check(request).await.map(|answer| answer.into_inner().status())
        };
        let serving =
            |status: &Result<ServingStatus, tonic::Status>| matches!(status, Ok(ServingStatus::Serving));
        eventually("the service is up", check, serving).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let channel = tonic::transport::Endpoint::new(server.url()).unwrap().connect().await.unwrap();
    let mut client = ServerReflectionClient::new(channel);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers =
        client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    for name in
        ["plimsoll.v1.Collector", "plimsoll.v1.Predictor", "plimsoll.v1.Stats", "grpc.health.v1.Health"]
    {
        assert!(names.iter().any(|n| n == name), "{name} is missing in {names:?}");
    }
}

/// Measures one finished attempt of `package` over the wire.
async fn finished(server: &Server, attempt: &str, package: &str, code: i32, oom_kill: u64) {
    let mut stream = Sender::opened(&server.url(), attempt, package).await.unwrap();
    stream.exchange(batch(attempt, 1, 100)).await.unwrap();
    let totals = Some(pb::Totals { oom_kill: Some(oom_kill), ..pb::Totals::default() });
    stream.exchange(pb::Finish { totals, ..finish(attempt, 100, Some(code)) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_learn_and_explain_themselves() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    for n in 0..4 {
        finished(&server, &format!("ok-{n}"), "zlib", 0, 0).await;
    }
    let mut client = PredictorClient::connect(server.url()).await.unwrap();
    let ask = pb::PredictRequest { key: Some(key("zlib")), ..Default::default() };
    let prediction = client.predict(ask.clone()).await.unwrap().into_inner().prediction.unwrap();
    assert_eq!(prediction.attempts, 4, "{prediction:?}");
    let limit = prediction.memory_limit_bytes.clone().unwrap();
    assert!(limit.value > 100 << 20, "the need was 100 MiB: {limit:?}");
    assert_eq!(limit.basis.unwrap().rung(), pb::Rung::Exact);
    let explained = client.explain(ask).await.unwrap().into_inner();
    assert_eq!(explained.prediction.unwrap(), prediction, "the explanation is of the same prediction");
    assert_eq!(explained.attempts.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_stable_across_restarts() {
    let (dir, server) = Server::fresh(&[]).unwrap();
    finished(&server, "killed", "zlib", 2, 1).await;
    let ask = pb::ShouldRetryRequest { attempt: "killed".into(), ..Default::default() };
    let verdict = async |server: &Server| server.judge(ask.clone()).await.unwrap();
    let first = verdict(&server).await;
    assert_eq!((first.cause(), first.action()), (pb::Cause::Oom, pb::Action::Bigger), "{first:?}");
    let next = first.next.clone().unwrap().memory_limit_bytes.unwrap().value;
    assert!(next > 100 << 20, "it died with 100 MiB: {next}");
    // more history would give another answer to a new question
    finished(&server, "fine", "zlib", 0, 0).await;
    assert_eq!(verdict(&server).await, first);
    server.kill().unwrap();
    let server = Server::start(Programs::for_tests(), dir.path()).unwrap();
    assert_eq!(verdict(&server).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_list_and_watch_show_what_happened() {
    let (_dir, server) = Server::fresh(&[]).unwrap();
    finished(&server, "one", "zlib", 0, 0).await;
    finished(&server, "two", "hdf5", 1, 1).await;
    let mut client = StatsClient::connect(server.url()).await.unwrap();
    let ask = pb::GetStatsRequest { group_by: pb::GroupBy::Package.into(), ..Default::default() };
    let stats = client.get_stats(ask).await.unwrap().into_inner();
    let totals = stats.totals.unwrap();
    assert_eq!((totals.attempts, totals.succeeded, totals.failed, totals.oom), (2, 1, 1, 1));
    assert_eq!(stats.groups.len(), 2);
    let list = client.list_attempts(pb::ListAttemptsRequest::default()).await.unwrap().into_inner();
    let ids: Vec<_> = list.attempts.iter().map(|summary| summary.attempt.as_str()).collect();
    assert_eq!(ids, ["two", "one"], "newest first");

    let mut stream = Sender::opened(&server.url(), "now", "zlib").await.unwrap();
    let mut watch = client.watch(pb::WatchRequest {}).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.running[0].attempt, "now");
    stream.exchange(batch("now", 1, 1)).await.unwrap();
    let change = watch.message().await.unwrap().unwrap();
    assert_eq!((change.running[0].elapsed_ms, change.running[0].need_bytes), (1000, 1 << 20));
    let missing = client
        .get_attempt(pb::GetAttemptRequest {
            attempt: "none".into(),
            with_series: false,
            ..Default::default()
        })
        .await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
}
