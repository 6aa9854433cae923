//! What is asked, what is read, and which attempts come of it.

use plimsoll_core::domain::{Bytes, Cause, Cores, CpuMicros, Millis, Outcome, Summary};
use plimsoll_proto::measured::IncompleteNeed;
use plimsoll_store::{self as store, Store};
use serde_json::{Value, json};

use super::*;
use crate::import::commit_records;

mod labels;

const HOUR_MS: u64 = 3_600_000;
pub(super) const START_MS: u64 = 1_800_000_000_000;
const GIB: f64 = 1_073_741_824.0;

/// The series of an answer.
fn series(body: &[u8]) -> Result<Vec<PrometheusSeries>, String> {
    read_answer(body)?.series().collect()
}

fn read(result: &Value) -> Vec<PrometheusSeries> {
    let body = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
    series(body.to_string().as_bytes()).unwrap()
}

fn window(hour: u64) -> TimeRange {
    TimeRange { start_ms: START_MS + hour * HOUR_MS, end_ms: START_MS + (hour + 1) * HOUR_MS }
}

/// Samples of a pod's memory: minutes behind the start, and what was read.
pub(super) fn memory(pod: &str, samples: &[(u64, &str)]) -> (PrometheusQuestion, Vec<PrometheusSeries>) {
    let seconds = |minute: u64| (START_MS + minute * 60_000) / 1000;
    let values: Vec<Value> = samples.iter().map(|(minute, text)| json!([seconds(*minute), text])).collect();
    let series = json!([{"metric": {"namespace": "ci", "pod": pod, "id": "/kubepods/x"}, "values": values}]);
    (PrometheusQuestion::Memory, read(&series))
}

fn single_series(
    question: PrometheusQuestion,
    labels: &Value,
    value: &str,
) -> (PrometheusQuestion, Vec<PrometheusSeries>) {
    (question, read(&json!([{"metric": labels, "value": [START_MS / 1000, value]}])))
}

pub(super) fn annotations(pod: &str, job: u64) -> (PrometheusQuestion, Vec<PrometheusSeries>) {
    let labels = json!({
        "namespace": "ci",
        "pod": pod,
        "annotation_job_runner_gitlab_com_id": job.to_string(),
        "annotation_job_runner_gitlab_com_name": "compile",
        "annotation_job_runner_gitlab_com_ref": "main",
        "annotation_job_runner_gitlab_com_url": format!("https://gitlab.example/group/a/-/jobs/{job}"),
    });
    single_series(PrometheusQuestion::Annotations, &labels, "1")
}

/// A range of five hours.
fn range() -> TimeRange {
    TimeRange { start_ms: START_MS, end_ms: START_MS + 5 * HOUR_MS }
}

/// Its attempts, without GitLab.
fn finish(pods: BuildPods) -> PodAttempts<'static> {
    finish_with(pods, "", Box::leak(Box::default()))
}

/// The same with the jobs of a GitLab.
pub(super) fn finish_with<'j>(pods: BuildPods, host: &str, jobs: &'j ListedJobs) -> PodAttempts<'j> {
    pods.from_source(range(), host, jobs).unwrap()
}

pub(super) fn summaries(found: &PodAttempts<'_>) -> Vec<Summary> {
    found.records().map(|record| record.unwrap().0.summary).collect()
}

/// The answers about a window.
pub(super) type Answers = Vec<(PrometheusQuestion, Vec<PrometheusSeries>)>;

pub(super) fn pods(windows: &[(u64, Answers)]) -> BuildPods {
    let mut pods = BuildPods::new(PrometheusLabels::default());
    for (hour, answers) in windows {
        for (question, series) in answers {
            for series in series {
                pods.add(window(*hour), *question, series).unwrap();
            }
        }
    }
    pods
}

#[test]
fn a_pod_in_two_windows_is_one_attempt() {
    let labels = json!({"namespace": "ci", "pod": "p"});
    let of = |resource: &str| json!({"namespace": "ci", "pod": "p", "resource": resource});
    let found = finish(pods(&[
        (
            0,
            vec![
                // the last one is the first moment of the window behind as well
                memory("p", &[(50, "1073741824"), (55, "NaN"), (60, "2147483648")]),
                single_series(PrometheusQuestion::Cpu, &labels, "600"),
                annotations("p", 101),
            ],
        ),
        (
            1,
            vec![
                memory("p", &[(60, "2147483648"), (70, "3221225472")]),
                single_series(PrometheusQuestion::Cpu, &labels, "1200"),
                single_series(PrometheusQuestion::Resident, &labels, "1000"),
                single_series(PrometheusQuestion::HighWater, &labels, "4294967296"),
                single_series(PrometheusQuestion::Requests, &of("memory"), "4294967296"),
                single_series(PrometheusQuestion::Requests, &of("cpu"), "2"),
                single_series(PrometheusQuestion::Limits, &of("memory"), "8589934592"),
                // nothing happened
                single_series(PrometheusQuestion::OomEvents, &labels, "0"),
            ],
        ),
    ]));
    let summaries = summaries(&found);
    let [summary] = summaries.as_slice() else { panic!("{found:?}") };
    assert_eq!(summary.attempt.as_str(), "gitlab.example:101");
    let key = &summary.key;
    assert_eq!(key.project.as_str(), "group/a");
    assert_eq!(key.package.as_str(), "compile");
    assert_eq!(key.git_ref.as_str(), "main");
    assert_eq!((summary.started_unix_ms, summary.wall), (START_MS + 50 * 60_000, Millis(20 * 60_000)));
    assert_eq!(summary.need_peak, Bytes::from_f64(3.0 * GIB));
    assert_eq!(summary.need_mean, Bytes::from_f64(2.0 * GIB));
    assert_eq!((summary.memory_peak, summary.cpu), (Bytes::from_f64(4.0 * GIB), CpuMicros(1_800_000_000)));
    let asked = summary.resources;
    assert_eq!((asked.memory_request, asked.memory_limit), (Some(Bytes(4 << 30)), Some(Bytes(8 << 30))));
    assert_eq!((asked.cpu_request, asked.cpu_limit), (Some(Cores(2.0)), None));
    assert_eq!(summary.outcome, Outcome::Succeeded);
    assert!(!summary.censored);
    assert_eq!(summary.incomplete(), Some(IncompleteNeed::Prometheus));
    assert_eq!((summary.measured_cpu_peak(), summary.oom_kill), (None, None), "a mean is no peak");
    let totals = found.totals["ci"];
    assert!((totals.core_hours - 0.5).abs() < 1e-9 && (totals.used - 2.0 / 3.0).abs() < 1e-9, "{totals:?}");
}

/// The same answers, and the windows between them are over as well.
fn pods_by_window(answers: &[(u64, Answers)]) -> (BuildPods, usize) {
    let (mut pods, mut most) = (BuildPods::new(PrometheusLabels::default()), 0);
    for hour in 0..5 {
        let of_hour = answers.iter().filter(|(other, _)| *other == hour).flat_map(|(_, answers)| answers);
        for (question, series) in of_hour {
            for series in series {
                pods.add(window(hour), *question, series).unwrap();
            }
        }
        most = most.max(pods.running_pods.len());
        pods.end_window(window(hour)).unwrap();
    }
    (pods, most)
}

#[test]
fn ended_pods_are_packed_and_still_extended() {
    let labels = |pod: &str| json!({"namespace": "ci", "pod": pod});
    let of = |pod: &str, job, minutes: &[u64]| {
        let samples: Vec<(u64, &str)> = minutes.iter().map(|minute| (*minute, "1073741824")).collect();
        vec![
            memory(pod, &samples),
            annotations(pod, job),
            single_series(PrometheusQuestion::Cpu, &labels(pod), "60"),
        ]
    };
    // nothing was scraped for two hours; the kill of b is seen an hour behind its end
    let killed = json!({"namespace": "ci", "pod": "b", "reason": "OOMKilled"});
    let all = [
        (0, of("a", 1, &[30, 40])),
        (0, of("b", 2, &[20, 50])),
        (1, vec![single_series(PrometheusQuestion::OomKilled, &killed, "1")]),
        (2, of("c", 3, &[130, 140])),
        (3, [of("a", 1, &[190, 200]), vec![annotations("b", 2)]].concat()),
    ];
    let (by_window, most) = pods_by_window(&all);
    assert!(most <= 3, "{most} in memory at once");
    assert_eq!(by_window.projects(), [].into());
    let (by_window, at_once) = (finish(by_window), finish(pods(&all)));
    let builds = |found: &PodAttempts<'_>| (found.coverage, found.totals["ci"].builds);
    assert_eq!(builds(&by_window), builds(&at_once));
    let mut found = [&by_window, &at_once].map(summaries);
    for found in &mut found {
        found.sort_by_key(|summary| summary.attempt.to_string());
    }
    assert_eq!(found[0], found[1]);
    let [a, b, c] = found[0].as_slice() else { panic!("{found:?}") };
    assert_eq!(a.wall, Millis(170 * 60_000));
    assert_eq!(a.cpu, CpuMicros(120_000_000));
    assert_eq!(a.outcome, Outcome::Succeeded);
    assert_eq!((b.outcome, b.cause), (Outcome::Failed, Some(Cause::Oom)));
    assert_eq!(c.wall, Millis(10 * 60_000));
}

#[test]
fn need_lies_between_resident_and_high_water() {
    let need = |resident: &str, mark: &str| {
        let labels = json!({"namespace": "ci", "pod": "p"});
        let found = finish(pods(&[(
            1,
            vec![
                memory("p", &[(70, "2147483648"), (80, "1")]),
                single_series(PrometheusQuestion::Resident, &labels, resident),
                single_series(PrometheusQuestion::HighWater, &labels, mark),
                annotations("p", 1),
            ],
        )]));
        summaries(&found)[0].need_peak
    };
    assert_eq!(need("0", "NaN"), Bytes(2 << 30));
    assert_eq!(need("3221225472", "0"), Bytes(3 << 30));
    assert_eq!(need("0", "1073741824"), Bytes(1 << 30));
}

#[test]
fn only_an_observed_oom_kill_censors_the_need() {
    let labels = json!({"namespace": "ci", "pod": "p"});
    let reason = json!({"namespace": "ci", "pod": "p", "reason": "OOMKilled"});
    let other = json!({"namespace": "ci", "pod": "p", "reason": "Error"});
    let outcome = |series| {
        let found =
            finish(pods(&[(1, vec![memory("p", &[(70, "2147483648")]), annotations("p", 1), series])]));
        let summary = &summaries(&found)[0];
        (summary.outcome, summary.cause, summary.censored)
    };
    let killed = (Outcome::Failed, Some(Cause::Oom), true);
    assert_eq!(outcome(single_series(PrometheusQuestion::OomEvents, &labels, "2")), killed);
    assert_eq!(outcome(single_series(PrometheusQuestion::OomKilled, &reason, "1")), killed);
    let passed = (Outcome::Succeeded, None, false);
    assert_eq!(outcome(single_series(PrometheusQuestion::OomKilled, &reason, "0")), passed);
    // the runner ends the pod of a job that is done
    assert_eq!(outcome(single_series(PrometheusQuestion::OomKilled, &other, "1")), passed);
}

#[test]
fn incomplete_and_jobless_pods_are_counted_but_excluded() {
    let found = finish(pods(&[
        (0, vec![memory("before", &[(1, "1073741824"), (30, "1073741824")]), annotations("before", 1)]),
        (1, vec![memory("runner-abc-project-23-concurrent-0-xyz", &[(70, "1073741824")])]),
        (1, vec![memory("nothing", &[(70, "1073741824")])]),
        (2, vec![memory("tiny", &[(130, "5")]), annotations("tiny", 4)]),
        (4, vec![memory("running", &[(280, "1073741824"), (299, "1073741824")]), annotations("running", 2)]),
        (4, vec![memory("done", &[(280, "1073741824"), (290, "1073741824")]), annotations("done", 3)]),
    ]));
    let coverage = PodCoverage {
        builds: 6,
        keyed: 4,
        project_alone: 1,
        running: 1,
        began_before: 1,
        ..PodCoverage::default()
    };
    assert_eq!(found.coverage, coverage);
    let ids: Vec<String> = summaries(&found).iter().map(|summary| summary.attempt.to_string()).collect();
    assert_eq!(ids, ["gitlab.example:3"]);
    let refusals = found.refusals.to_string();
    assert!(refusals.contains("ci/tiny: 5 cannot be the memory of a build"), "{refusals}");
}

#[test]
fn pods_of_partial_answers_are_left_for_later() {
    let partial = |body: &Value| read_answer(body.to_string().as_bytes()).unwrap().is_partial;
    let answer = json!({"status": "success", "data": {"result": []}});
    let with = |name: &str, value: Value| {
        let mut body = answer.clone();
        body[name] = value;
        partial(&body)
    };
    assert!(!partial(&answer) && !with("isPartial", json!(false)) && with("isPartial", json!(true)));
    assert!(!with("warnings", json!(["PromQL warning: bucket label is missing"])));
    assert!(with("warnings", json!(["receive series from store-1: rpc error: code = Unavailable"])));
    let mut all = pods(&[
        (0, vec![memory("early", &[(10, "1048576"), (20, "1048576")]), annotations("early", 101)]),
        (1, vec![memory("cut", &[(110, "1048576"), (119, "1048576")]), annotations("cut", 102)]),
        (2, vec![memory("seen", &[(130, "1048576"), (140, "1048576")]), annotations("seen", 103)]),
    ]);
    all.note_partial(window(2));
    let found = finish(all);
    let ids: Vec<String> = summaries(&found).iter().map(|summary| summary.attempt.to_string()).collect();
    assert_eq!((ids, found.coverage.partial), (vec!["gitlab.example:101".to_owned()], 2));
}

#[tokio::test]
async fn scraped_jobs_are_added_once_despite_agents() {
    let store = Store::memory();
    let mut batch = store::Batch::default();
    let measured = plimsoll_core::domain::test_summary("gitlab.example:7.2", "zlib", "1", 10);
    store::put(&mut batch, &measured).unwrap();
    store.commit(batch).await.unwrap();
    let found = || {
        let of = |pod: &str, job| {
            vec![memory(pod, &[(70, "1073741824"), (80, "1073741824")]), annotations(pod, job)]
        };
        // the pod of job 8 was made twice
        finish(pods(&[(1, of("a", 7)), (1, of("b", 8)), (1, of("c", 8)), (1, of("d", 9))]))
    };
    for expected in [(2, 1), (0, 3)] {
        let found = found();
        let records = found.records().map(|record| record.map(|(record, _end)| record));
        let imported = commit_records(records, found.refusals.clone(), &store).await.unwrap();
        assert_eq!((imported.added, imported.known), expected);
    }
    let mut scraped = Vec::new();
    let keep = |summary: Summary| {
        if summary.incomplete().is_some() {
            scraped.push(summary.attempt.to_string());
        }
    };
    store::load(&store, keep).await.unwrap();
    scraped.sort();
    assert_eq!(scraped, ["gitlab.example:8", "gitlab.example:9"]);
}
