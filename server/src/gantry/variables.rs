//! A prediction as variables of a GitLab job, in the only form that every Spack takes: an object of texts.
//!
//! A value above what the runner allows fails the job, and a request above its limit makes a pod that Kubernetes refuses: so
//! every value is bounded, last the request by the limit that goes with it.

use plimsoll_proto::quantity;
use serde::Serialize;

use super::settings::{Extra, Settings};
use crate::domain::{Bytes, Cores, Prediction, Quantity};

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    variables: Variables,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
}

/// GitLab's `retry`, which Spack joins with its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Retry {
    max: u8,
    exit_codes: Vec<u8>,
}

/// The most retries that GitLab takes.
const RETRIES: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Variables {
    #[serde(rename = "KUBERNETES_CPU_REQUEST")]
    cpu_request: String,
    #[serde(rename = "KUBERNETES_MEMORY_REQUEST")]
    memory_request: String,
    #[serde(rename = "KUBERNETES_CPU_LIMIT", skip_serializing_if = "Option::is_none")]
    cpu_limit: Option<String>,
    #[serde(rename = "KUBERNETES_MEMORY_LIMIT", skip_serializing_if = "Option::is_none")]
    memory_limit: Option<String>,
    #[serde(rename = "SPACK_BUILD_JOBS", skip_serializing_if = "Option::is_none")]
    build_jobs: Option<String>,
    #[serde(rename = "KUBERNETES_EPHEMERAL_STORAGE_REQUEST", skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
}

/// A job keeps what it has. Spack takes it without a complaint, also with `require: [variables]`.
pub(crate) const NOTHING: &str = r#"{"variables":{}}"#;

/// What a job of `stack` shall ask for.
pub(crate) fn answer(prediction: &Prediction, stack: &str, settings: &Settings) -> Answer {
    // a default is no knowledge: as an extra it would replace what the job or its runner says
    let sent = |extra, quantity: &Quantity| {
        let sure = !quantity.basis.is_default() && prediction.confidence_in(quantity) >= settings.confidence;
        sure && settings.extras.contains(&extra)
    };
    let (sends_memory_limit, sends_cpu_limit, sends_jobs) = (
        sent(Extra::MemoryLimit, &prediction.memory_limit),
        sent(Extra::CpuLimit, &prediction.cpu_limit),
        sent(Extra::BuildJobs, &prediction.build_jobs),
    );
    let memory = |max: Option<Bytes>| max.map_or(u64::MAX, |max| max.0);
    let cpu = |max: Option<Cores>| max.map_or(u64::MAX, |max| quantity::millicores(max.0));
    let memory_limit = prediction.memory_limit.value.min(memory(settings.max_memory_limit));
    let cpu_limit = prediction.cpu_limit.value.min(cpu(settings.max_cpu_limit));
    let memory_request = prediction.memory_request.value.min(memory(settings.max_memory_request));
    let cpu_request = prediction.cpu_request.value.min(cpu(settings.max_cpu_request));
    let codes = &settings.retry_exit_codes;
    let retry = (!codes.is_empty()).then(|| Retry { max: RETRIES, exit_codes: codes.clone() });
    Answer {
        retry,
        variables: Variables {
            cpu_request: format!("{}m", cpu_request.min(cpu_limit)),
            memory_request: mebibytes(memory_request.min(memory_limit)),
            cpu_limit: sends_cpu_limit.then(|| format!("{cpu_limit}m")),
            memory_limit: sends_memory_limit.then(|| mebibytes(memory_limit)),
            build_jobs: sends_jobs.then(|| prediction.build_jobs.value.to_string()),
            disk: settings
                .disk(stack)
                .filter(|_| settings.extras.contains(&Extra::EphemeralStorage))
                .map(|disk| mebibytes(disk.0)),
        },
    }
}

/// Predictions are whole mebibytes; only a bound is not, and it is never rounded up.
fn mebibytes(bytes: u64) -> String {
    if bytes < Bytes::MIB.0 { bytes.to_string() } else { format!("{}Mi", bytes / Bytes::MIB.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{History, Key, Rung},
        predict,
    };

    fn sizes(memory_gib: (u64, u64), milli: (u64, u64)) -> Prediction {
        let mut prediction =
            predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
        prediction.memory_request.value = memory_gib.0 << 30;
        prediction.memory_limit.value = memory_gib.1 << 30;
        prediction.cpu_request.value = milli.0;
        prediction.cpu_limit.value = milli.1;
        prediction.build_jobs.value = 8;
        prediction.confidence = 0.9;
        let Prediction { memory_request, memory_limit, cpu_request, cpu_limit, build_jobs, .. } =
            &mut prediction;
        for quantity in [memory_request, memory_limit, cpu_request, cpu_limit, build_jobs] {
            quantity.basis.rung = Rung::Exact;
        }
        prediction
    }

    fn text(prediction: &Prediction, settings: &Settings) -> String {
        serde_json::to_string(&answer(prediction, "", settings)).unwrap()
    }

    #[test]
    fn disk_is_asked_for_where_the_operator_says_how_much_and_never_above_what_the_runner_allows() {
        let gib = |n: u64| Bytes(n << 30);
        let settings = Settings {
            extras: vec![Extra::EphemeralStorage],
            ephemeral_storage: vec![("e4s".into(), gib(40)), ("big".into(), gib(400))],
            max_ephemeral_storage: Some(gib(100)),
            ..Settings::default()
        };
        let disk = |stack: &str, settings: &Settings| {
            let said = serde_json::to_value(answer(&sizes((2, 4), (500, 500)), stack, settings)).unwrap();
            said["variables"].get("KUBERNETES_EPHEMERAL_STORAGE_REQUEST").cloned()
        };
        assert_eq!(disk("e4s", &settings), Some("40960Mi".into()));
        assert_eq!(disk("big", &settings), Some("102400Mi".into()));
        assert_eq!((disk("", &settings), disk("other", &settings)), (None, None), "nobody said how much");
        let all = Settings { ephemeral_storage: vec![("*".into(), gib(20))], ..settings.clone() };
        assert_eq!(disk("other", &all), Some("20480Mi".into()));
        assert_eq!(disk("e4s", &Settings { extras: Vec::new(), ..settings }), None, "not switched on");
    }

    #[test]
    fn without_settings_only_the_two_requests_are_sent() {
        let said = text(&sizes((2, 4), (1234, 2000)), &Settings::default());
        let expected =
            r#"{"variables":{"KUBERNETES_CPU_REQUEST":"1234m","KUBERNETES_MEMORY_REQUEST":"2048Mi"}}"#;
        assert_eq!(said, expected);
    }

    #[test]
    fn extras_are_sent_when_they_are_switched_on() {
        let settings = Settings { extras: Extra::ALL.to_vec(), ..Settings::default() };
        let said = text(&sizes((2, 4), (1234, 2000)), &settings);
        let expected =
            r#""KUBERNETES_CPU_LIMIT":"2000m","KUBERNETES_MEMORY_LIMIT":"4096Mi","SPACK_BUILD_JOBS":"8"}}"#;
        assert!(said.ends_with(expected), "{said}");
    }

    #[test]
    fn an_extra_of_which_nothing_is_known_is_not_sent() {
        let settings = Settings { extras: Extra::ALL.to_vec(), ..Settings::default() };
        let mut prediction = sizes((2, 4), (1000, 2000));
        for quantity in [&mut prediction.cpu_request, &mut prediction.cpu_limit, &mut prediction.build_jobs] {
            quantity.basis.rung = Rung::Default;
        }
        let said = text(&prediction, &settings);
        let expected = r#"{"variables":{"KUBERNETES_CPU_REQUEST":"1000m","KUBERNETES_MEMORY_REQUEST":"2048Mi","KUBERNETES_MEMORY_LIMIT":"4096Mi"}}"#;
        assert_eq!(said, expected);
        let unknown = predict::predict(&History::new(1), &Key::default(), &predict::Settings::default());
        let only_requests = text(&unknown, &Settings::default());
        assert_eq!(
            text(&unknown, &settings),
            only_requests,
            "a default limit would take from the job what it has"
        );
    }

    #[test]
    fn retries_are_spoken_of_only_where_exit_codes_are_set() {
        let settings = Settings { retry_exit_codes: vec![82, 83], ..Settings::default() };
        let said = text(&sizes((2, 4), (1234, 2000)), &settings);
        assert!(said.ends_with(r#"},"retry":{"max":2,"exit_codes":[82,83]}}"#), "{said}");
    }

    #[test]
    fn nothing_goes_above_what_the_runner_allows() {
        let settings = Settings {
            extras: Extra::ALL.to_vec(),
            max_memory_request: Some(Bytes(64_000_000_000)),
            max_memory_limit: Some(Bytes(96_000_000_000)),
            max_cpu_request: Some(Cores(16.0)),
            max_cpu_limit: Some(Cores(0.29)),
            ..Settings::default()
        };
        let said = text(&sizes((100, 200), (99_000, 99_000)), &settings);
        // 64e9 / 2^20 = 61035.2, 96e9 / 2^20 = 91552.7; the CPU request may not exceed its limit either
        for part in [
            r#""KUBERNETES_MEMORY_REQUEST":"61035Mi""#,
            r#""KUBERNETES_MEMORY_LIMIT":"91552Mi""#,
            r#""KUBERNETES_CPU_REQUEST":"290m""#,
            r#""KUBERNETES_CPU_LIMIT":"290m""#,
        ] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
    }
}
