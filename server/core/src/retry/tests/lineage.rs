//! Which attempts of a job came before, and that a log buys one retry of all of them.

use super::*;

/// An attempt of the job `build` of pipeline 9, started in this minute.
fn of_job(id: &str, minute: u64, retries: Option<&str>) -> Summary {
    let mut summary = failed(Some(1));
    summary.attempt = AttemptId::parse(id).unwrap();
    summary.key.labels = [("pipeline".into(), "9".into()), ("job".into(), "build".into())].into();
    summary.started_unix_ms = 1_700_000_000_000 + minute * 60_000;
    summary.retries = retries.map(|id| AttemptId::parse(id).unwrap());
    summary
}

#[test]
fn attempts_are_counted_without_the_ci_number() {
    let history = test_history([("a", 0), ("b", 10), ("c", 20)].map(|(id, minute)| of_job(id, minute, None)));
    let asked = |id: &str, minute, reported_number| {
        let asked = Evidence { number: reported_number, ..evidence_of(of_job(id, minute, None)) };
        judge_with(&asked, &history, &Settings::default()).attempts_left
    };
    assert_eq!(asked("a", 0, 1), 2, "the first");
    assert_eq!(asked("b", 10, 9), 1, "the second, whatever was said");
    assert_eq!(asked("c", 20, 1), 0, "the third");
}

#[test]
fn clock_skew_does_not_break_the_retry_chain() {
    let history = test_history([of_job("a", 60, None)]);
    let second = of_job("b", 0, Some("a"));
    let asked = Evidence { number: 1, ..evidence(Some(second), Exit::Code(2), "") };
    assert_eq!(judge_with(&asked, &history, &Settings::default()).attempts_left, 1);
}

#[test]
fn circular_retry_chains_terminate() {
    let history = test_history([of_job("a", 0, Some("b")), of_job("b", 1, Some("a"))]);
    let asked = evidence(Some(of_job("c", 2, Some("b"))), Exit::Code(2), "");
    assert_eq!(judge_with(&asked, &history, &Settings::default()).action, Action::No);
}

/// A list of runs of `build` as GitLab gives it: id, status.
fn list(runs: &[(&str, &str)]) -> Vec<ListedRun> {
    let run = |(id, status): &(&str, &str)| ListedRun {
        id: (*id).to_owned(),
        name: "build".into(),
        status: (*status).to_owned(),
        ..ListedRun::default()
    };
    runs.iter().map(run).collect()
}

/// Attempts left of an unmeasured attempt, with this list and this hint.
fn left(attempt: &str, reported_number: u32, listed: Vec<ListedRun>) -> u32 {
    let attempt = AttemptId::parse(attempt).unwrap();
    let evidence = Evidence { failure_reason: "api_failure".into(), ..code(1, "") };
    judged(&Evidence { attempt, number: reported_number, listed, ..evidence }).attempts_left
}

#[test]
fn the_ci_list_counts_unobserved_runs() {
    let runs = list(&[("103", "failed"), ("101", "failed"), ("102", "canceled")]);
    assert_eq!(["101", "102", "103"].map(|id| left(id, 1, runs.clone())), [2, 1, 0]);
    assert_eq!(left("gitlab.com:102", 1, runs.clone()), 1, "with the host in front");
    let unlisted = left("gitlab.com:104", 1, runs.clone());
    assert_eq!(unlisted, 0, "the list ends before the run that is asked about");
    let mut others = runs;
    others.push(ListedRun { id: "99".into(), name: "lint".into(), ..list(&[("1", "failed")])[0].clone() });
    assert_eq!(left("102", 1, others), 1, "another job of the pipeline");
    let twice = list(&[("101", "failed"), ("101", "failed"), ("102", "failed")]);
    assert_eq!(left("102", 1, twice), 1, "a page that came twice");
    let never = list(&[("100", "manual"), ("101", "skipped"), ("102", "failed")]);
    assert_eq!(left("102", 1, never), 2, "runs that were never tried");
    let later = list(&[("102", "failed"), ("103", "running"), ("104", "created")]);
    assert_eq!(left("102", 1, later), 2, "those after it");
}

#[test]
fn gitlabs_retry_count_is_only_a_hint() {
    // it tells 1, 2, 2 for the first three runs of a job
    let runs = list(&[("101", "failed"), ("102", "failed"), ("103", "failed")]);
    for (id, hint, expected) in [("101", 1, 2), ("102", 2, 1), ("103", 2, 0)] {
        assert_eq!(left(id, hint + 1, runs.clone()), expected, "{id}");
    }
    let mut history = History::new(10);
    for (id, hint, expected) in [("a", 1, 2), ("b", 2, 1), ("c", 2, 0)] {
        let minute = history.len() as u64 * 10;
        let this = of_job(id, minute, None);
        let asked = Evidence { number: hint, ..evidence_of(this.clone()) };
        let verdict = judge_with(&asked, &history, &Settings::default());
        assert_eq!(verdict.attempts_left, expected, "{id}");
        history.learn(Arc::new(this));
    }
    assert_eq!(left("a", 2, Vec::new()), 1, "where there is nothing else, it counts");
}

#[test]
fn unnumbered_ci_lists_are_ordered_by_time() {
    let run = |id: &str, created| ListedRun {
        created_unix_ms: Some(created),
        ..list(&[(id, "failed")])[0].clone()
    };
    let runs = vec![run("x", 10), run("z", 30), run("y", 20)];
    assert_eq!(["x", "y", "z"].map(|id| left(id, 1, runs.clone())), [2, 1, 0]);
    let mixed = vec![run("x", 10), ListedRun { name: "lint".into(), ..run("y", 20) }];
    assert_eq!(left("other", 1, mixed), 2);
}

#[test]
fn job_numbers_order_attempts_despite_clock_skew() {
    // the second ran after the first, on a machine whose clock is an hour ahead
    let history = test_history([of_job("gitlab.com:11", 0, None), of_job("gitlab.com:12", 75, None)]);
    let asked = |id: &str, minute| {
        let asked = evidence_of(of_job(id, minute, None));
        judge_with(&asked, &history, &Settings::default()).attempts_left
    };
    assert_eq!(asked("gitlab.com:13", 20), 0, "the third");
    assert_eq!(asked("gitlab.com:11", 0), 2, "the first stays the first");
    assert_eq!(asked("gitlab.com:12/2", 20), 0, "the second run of a job comes after the first");
}

#[test]
fn commands_of_one_job_are_not_retries() {
    let before = [("gitlab.com:11", 0), ("gitlab.com:11.2", 5), ("gitlab.com:11.2/2", 10)];
    let history = test_history(before.map(|(id, minute)| of_job(id, minute, None)));
    let asked = |id: &str, minute, listed| {
        let asked = Evidence { listed, ..evidence_of(of_job(id, minute, None)) };
        judge_with(&asked, &history, &Settings::default()).attempts_left
    };
    assert_eq!(asked("gitlab.com:11.3", 15, Vec::new()), 2, "another command");
    assert_eq!(asked("gitlab.com:11/2", 15, Vec::new()), 1, "the first command in the same place");
    assert_eq!(asked("gitlab.com:11.2/3", 15, Vec::new()), 0, "the second command, twice in the same place");
    assert_eq!(asked("gitlab.com:12", 20, Vec::new()), 1, "the job is retried");
    let runs = list(&[("10", "failed"), ("11", "failed"), ("12", "running")]);
    assert_eq!(asked("gitlab.com:11.3", 15, runs), 1, "GitLab lists its jobs, not their commands");
}

#[test]
fn retries_of_one_original_belong_together() {
    let [first, second, third] =
        [("7", 0, None), ("7/2", 10, Some("7")), ("7/3", 20, Some("7"))].map(|(id, minute, retries)| {
            let mut tried = of_job(id, minute, retries);
            tried.key.labels.clear();
            tried
        });
    let history = test_history([first, second]);
    assert_eq!(judge_with(&evidence_of(third), &history, &Settings::default()).attempts_left, 0);
}

/// Retries that five attempts of one job get, each with another of these logs, as far as the verdicts allow any.
fn retries_of_five(logs: &[String], kills: Option<u64>) -> usize {
    let (mut history, mut retries) = (History::new(10), 0);
    let (mut seen, rules, settings, policy) =
        (KnownFailures::new(10), LogRules::built_in(), Settings::default(), RetryPolicy::default());
    for n in 0..5_usize {
        let mut this = of_job(&format!("{}", 100 + n), n as u64 * 10, None);
        this.oom_kill = kills;
        let asked = Evidence {
            attempt: this.attempt.clone(),
            ..evidence(Some(this.clone()), Exit::Code(1), &logs[n % logs.len()])
        };
        let known = VerdictInputs { history: &history, seen: &seen, settings: &settings, policy: &policy };
        let verdict = judge(&asked, &rules, &known);
        seen.learn(&this.key, &verdict);
        history.learn(Arc::new(this));
        if let Some(next) = verdict.next.filter(|_| verdict.action != Action::No) {
            assert!(next.memory_limit.value <= 280 * MIB, "{:?} grew a size", logs[n % logs.len()]);
            retries += 1;
        }
    }
    retries
}

#[test]
fn log_evidence_allows_at_most_one_retry() {
    let rules = matching::log_rules::built_in().unwrap();
    let lines: Vec<String> = rules.iter().flat_map(|rule| rule.matches.clone()).collect();
    for kills in [None, Some(0)] {
        for line in &lines {
            let retries = retries_of_five(std::slice::from_ref(line), kills);
            assert!(retries <= 1, "{line:?} buys {retries}");
        }
        for five in lines.chunks(5) {
            assert!(retries_of_five(five, kills) <= 1, "{five:?}");
        }
    }
}
