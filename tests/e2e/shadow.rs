//! Shadow mode: every caller sees predictions, and none is put into force, except for the builds that the operator names.

use plimsoll_proto::v1::{self as pb, predictor_client::PredictorClient};
use plimsoll_tests::{Server, Site};
use serde_json::{Value, json};

const OPTIONS: [&str; 6] =
    ["--allocation-within", "10min", "--shadow", "on", "--shadow-apply", "in-force=100%,another=0"];

fn start() -> Site {
    Site::start_with(&[], &OPTIONS).unwrap()
}

fn withheld(server: &Server, kind: &str) -> bool {
    let (_, metrics) = server.get("/metrics").unwrap();
    metrics.contains(&format!("plimsoll_shadow_withheld_total{{kind=\"{kind}\"}} 1\n"))
}

#[test]
fn shadow_predictions_give_shells_no_variables() {
    let site = start();
    let ask = |stack: &str, format: &str| {
        let stack = format!("stack={stack}");
        site.agent.call(&["predict", "--key", "package=zlib", "--key", &stack, "-o", format])
    };
    let shell = ask("e4s", "env");
    assert_eq!((shell.code, shell.stdout.as_str()), (Some(0), ""), "{shell:?}");
    assert!(withheld(&site.server, "prediction"));
    let shown: Value = serde_json::from_str(&ask("e4s", "json").stdout).unwrap();
    assert_eq!(shown["shadow"], json!(true));
    assert!(shown["memory_limit_bytes"]["value"].as_u64().unwrap() > 0, "it is shown: {shown}");
    assert!(ask("e4s", "text").stdout.contains("\nshadow mode: "));
    let shell = ask("in-force", "env");
    assert_eq!(shell.stdout, "", "nothing is known yet");
    assert!(shell.stderr.contains("no sizes: the sizes are 0 % sure"), "{shell:?}");
    for attempt in ["1", "2"] {
        let key = ["--key", "package=zlib", "--key", "stack=in-force"];
        let ran =
            site.agent.call(&[&["run", "--quiet", "--attempt", attempt], &key[..], &["--", "true"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let shell = ask("in-force", "env");
    assert!(shell.stdout.contains("KUBERNETES_MEMORY_REQUEST="), "{shell:?}");
    let text = ask("in-force", "text").stdout;
    assert!(!text.contains("shadow"), "{text}");
    assert_eq!(ask("e4s", "env").stdout, "", "what is known of another stack puts nothing into force here");
}

#[test]
fn spack_gets_variables_only_for_active_stacks() {
    let site = start();
    let ask = |header: &str| {
        let path = "/v1/allocation?spec=zlib@1.3.1%20arch=linux-debian12-x86_64_v3%25gcc@12.2.0";
        site.server.send("GET", path, header, "").unwrap().body
    };
    assert_eq!(ask(""), "{\"variables\":{}}");
    assert!(withheld(&site.server, "allocation"));
    assert_eq!(ask("Plimsoll-Stack: another\r\n"), "{\"variables\":{}}");
    let shown = ask("Plimsoll-Stack: in-force\r\n");
    assert!(shown.contains("KUBERNETES_MEMORY_REQUEST"), "{shown}");
    let long = format!("Plimsoll-Stack: {}\r\n", "x".repeat(5000));
    assert!(ask(&long).contains("Plimsoll-Stack: must be at most"), "a bad header is named");
}

#[tokio::test]
async fn every_prediction_answer_marks_shadow_mode() {
    let site = start();
    let mut client = PredictorClient::connect(site.server.url()).await.unwrap();
    for (stack, shadow) in [("e4s", true), ("in-force", false)] {
        let key = pb::Key { package: "zlib".into(), stack: stack.into(), ..pb::Key::default() };
        let ask = pb::PredictRequest { key: Some(key), ..pb::PredictRequest::default() };
        let explained = client.explain(ask.clone()).await.unwrap().into_inner().prediction.unwrap();
        let asks = tokio_stream::iter([ask]);
        let mut answers = client.predict_batch(asks).await.unwrap().into_inner();
        let Some(pb::predict_batch_response::Result::Prediction(one)) =
            answers.message().await.unwrap().unwrap().result
        else {
            panic!("no prediction")
        };
        assert_eq!((explained.shadow, one.shadow), (shadow, shadow), "{stack}");
    }
}
