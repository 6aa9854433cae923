//! Which job a pod is, where only its project is known.

use std::collections::HashSet;

use plimsoll_core::domain::JobStatus;
use plimsoll_proto::v1 as pb;
use proptest::prelude::*;

use super::{
    ListedJob, ListedJobs, TimeRange,
    tests::{START_MS, annotations, finish_with, memory, pods, summaries},
};

const MINUTE_MS: u64 = 60_000;

/// A job of project 23 that ran between these minutes behind the start.
fn job(id: u64, from: u64, until: u64) -> ListedJob {
    ListedJob {
        id,
        project: 23,
        key: pb::Key { project: "group/a".to_owned(), package: format!("job-{id}"), ..pb::Key::default() },
        started_ms: START_MS + from * MINUTE_MS,
        finished_ms: Some(START_MS + until * MINUTE_MS),
        end: Some(JobStatus::Succeeded),
        reason: String::new(),
        untrusted: false,
    }
}

/// When a pod was seen.
fn pod(from: u64, until: u64) -> TimeRange {
    TimeRange { start_ms: START_MS + from * MINUTE_MS, end_ms: START_MS + until * MINUTE_MS }
}

fn fit(jobs: &[ListedJob], pods: &[TimeRange]) -> Vec<Option<u64>> {
    let jobs = ListedJobs::new(jobs.to_vec());
    jobs.fit_to_pods(23, pods, &HashSet::new()).into_iter().map(|job| job.map(|job| job.id)).collect()
}

#[test]
fn a_pod_matches_its_projects_only_fitting_job() {
    let jobs = [job(1, 0, 20), job(2, 30, 60)];
    assert_eq!(fit(&jobs, &[pod(3, 19), pod(31, 59)]), [Some(1), Some(2)]);
    // before its job, behind it, and much shorter than any
    assert_eq!(fit(&jobs, &[pod(25, 59), pod(31, 70), pod(100, 110)]), [None; 3]);
    let running = ListedJob { finished_ms: None, end: None, ..job(3, 70, 0) };
    assert_eq!(fit(&[running], &[pod(71, 75)]), [Some(3)]);
}

#[test]
fn concurrent_jobs_match_only_when_unambiguous() {
    // job 2 ends before the long pod does: so the long pod is job 1, and the short one is job 2
    let jobs = [job(1, 0, 60), job(2, 0, 50)];
    assert_eq!(fit(&jobs, &[pod(1, 58), pod(1, 48)]), [Some(1), Some(2)]);
    assert_eq!(fit(&[job(1, 0, 60), job(2, 0, 60)], &[pod(1, 58), pod(2, 57)]), [None, None]);
    // two pods that claim one job: GitLab's list lacks one
    assert_eq!(fit(&[job(1, 0, 60)], &[pod(1, 58), pod(2, 57)]), [None, None]);
}

#[test]
fn an_explicitly_named_job_matches_no_other_pod() {
    let jobs = ListedJobs::new([job(1, 60, 90)]);
    let name = |letter: &str| format!("runner-abc-project-23-concurrent-{letter}");
    let [named, bare] = ["0-x", "1-y"].map(name);
    let found = finish_with(
        pods(&[
            (1, vec![memory(&named, &[(61, "1073741824"), (85, "1073741824")]), annotations(&named, 1)]),
            (1, vec![memory(&bare, &[(62, "1073741824"), (84, "1073741824")])]),
        ]),
        "gitlab.example",
        &jobs,
    );
    let coverage = found.coverage;
    assert_eq!((coverage.keyed, coverage.by_time, coverage.project_alone, coverage.unfit), (1, 0, 1, 1));
    assert_eq!((coverage.ended, summaries(&found).len()), (1, 1));
}

#[test]
fn a_matched_pod_gets_its_jobs_facts() {
    let failed = ListedJob {
        end: Some(JobStatus::Failed),
        reason: "job_execution_timeout".to_owned(),
        untrusted: true,
        ..job(7, 60, 90)
    };
    let pod = "runner-abc-project-23-concurrent-0-x";
    let seen = vec![memory(pod, &[(61, "1073741824"), (85, "2147483648")])];
    let jobs = ListedJobs::new([failed]);
    let found = finish_with(pods(&[(1, seen)]), "gitlab.example", &jobs);
    let (record, end) = found.records().next().unwrap().unwrap();
    let (summary, end) = (record.summary, end.unwrap());
    assert_eq!((summary.attempt.as_str(), summary.key.package.as_str()), ("gitlab.example:7", "job-7"));
    assert!(summary.opening.untrusted && summary.incomplete().is_some());
    assert_eq!((end.status, end.reason.as_str()), (JobStatus::Failed, "job_execution_timeout"));
    assert_eq!((found.coverage.by_time, found.coverage.keyed, found.coverage.ended), (1, 1, 1));
}

#[test]
fn jobs_of_another_gitlab_are_not_matched() {
    let pod = "runner-abc-project-23-concurrent-0-x";
    let seen = vec![memory(pod, &[(61, "1073741824"), (85, "2147483648")]), annotations(pod, 7)];
    let jobs = ListedJobs::new([job(7, 60, 90)]);
    let found = finish_with(pods(&[(1, seen)]), "other.example", &jobs);
    assert_eq!((found.coverage.keyed, found.coverage.ended), (1, 0));
    assert_eq!(found.records().next().unwrap().unwrap().1, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Jobs at random times, each with one pod somewhere inside, or with none (another kind of runner).
    #[test]
    fn no_pod_gets_the_job_of_another(
        ran in prop::collection::vec((0_u64..200, 2_u64..60, 0_u64..25, 0_u64..20, 0_u8..5), 1..25),
    ) {
        let (mut jobs, mut seen, mut truth) = (Vec::new(), Vec::new(), Vec::new());
        for (id, (from, built, before, after, kind)) in (1..).zip(ran) {
            jobs.push(job(id, from, from + before + built + after));
            if kind > 0 {
                seen.push(pod(from + before, from + before + built));
                truth.push(id);
            }
        }
        for (found, truth) in fit(&jobs, &seen).into_iter().zip(truth) {
            prop_assert!(found.is_none_or(|found| found == truth));
        }
    }
}
