//! Each form of the same rows.

use super::*;

const GIB: u64 = 1 << 30;

fn sizes(request: u64, limit: u64) -> RequestedSizes {
    RequestedSizes {
        memory_request_bytes: Some(request * GIB),
        memory_limit_bytes: Some(limit * GIB).filter(|limit| *limit > 0),
        cpu_request_cores: Some(1.5),
    }
}

fn row(package: &str, proposed: Option<RequestedSizes>) -> Recommendation {
    Recommendation {
        project: "group/app".into(),
        package: package.into(),
        attempts: 40,
        today: Some(sizes(8, 16)),
        no_proposal: if proposed.is_some() { 0 } else { NoProposal::TooFew.into() },
        asked_gib_hours: 240.0,
        saved_gib_hours: if proposed.is_some() { 180.0 } else { 0.0 },
        saved_money: if proposed.is_some() { 1.8 } else { 0.0 },
        confidence: 0.6,
        limit_risk: proposed.map(|_| FitRisk { judged: 40, above: 0, at_most: 0.072 }),
        request_risk: proposed.map(|_| FitRisk { judged: 40, above: 2, at_most: 0.15 }),
        proposed,
        ..Recommendation::default()
    }
}

fn answer(recommendations: Vec<Recommendation>) -> RecommendResponse {
    RecommendResponse {
        asked_gib_hours: recommendations.iter().map(|row| row.asked_gib_hours).sum(),
        saved_gib_hours: recommendations.iter().map(|row| row.saved_gib_hours).sum(),
        saved_money: recommendations.iter().map(|row| row.saved_money).sum(),
        has_prices: true,
        currency: "EUR".into(),
        window_ms: 10 * DAY_MS,
        recommendations,
        ..RecommendResponse::default()
    }
}

fn three() -> RecommendResponse {
    let kept = row("a-package-with-a-very-long-name", Some(sizes(3, 0)));
    answer(vec![row("zlib", Some(sizes(2, 4))), row("few", None), kept])
}

#[test]
fn the_table_fits_80_columns_and_says_what_stays_and_why_nothing_is_proposed() {
    let text = table(&three());
    let expected = "\
saves 360 GiB·h of 720 GiB·h a month (50 %), 3.6 EUR
attempts of 10 days, counted up to a month of 30 days

package       request   -> new    limit   -> new    GiB·h    money    above sure
zlib           8.00Gi   2.00Gi  16.00Gi   4.00Gi      180      1.8     0/40  60%
few            8.00Gi  fewer than 5 trusted attempts are known
a-package-w…   8.00Gi   3.00Gi  16.00Gi        =      180      1.8     0/40  60%

GiB·h, money: saved a month. above: attempts above the limit. sure: confidence.
";
    assert_eq!(text, expected);
    let mut free = three();
    free.has_prices = false;
    let text = table(&free);
    assert!(!text.contains("1.8") && !text.contains("EUR"), "without prices there is no money: {text}");
    let long = text.lines().filter(|line| line.chars().count() > 80);
    assert_eq!(long.count(), 0, "{text}");
}

#[test]
fn where_no_attempt_requested_memory_what_is_saved_is_not_known() {
    let new = Recommendation { asked_gib_hours: 0.0, today: None, ..row("new", Some(sizes(2, 4))) };
    let text = table(&answer(vec![new]));
    assert!(text.starts_with("what is saved is not known: no attempt requested memory\n"), "{text}");
    let cells: Vec<_> =
        text.lines().find(|line| line.starts_with("new")).unwrap().split_whitespace().collect();
    assert_eq!(cells[5..7], ["–", "–"], "{text}");
}

#[test]
fn a_csv_has_a_cell_for_each_column_and_texts_are_no_formulas() {
    let text = csv(&answer(vec![row("a,\"b\"", Some(sizes(2, 4))), row("=cmd", None)]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(",confidence,no_proposal,saved_money_a_month"));
    assert_eq!(
        lines[1],
        "group/app,\"a,\"\"b\"\"\",40,0,8589934592,2147483648,17179869184,4294967296,1.5,1.5,240,180,40,0,0.072,2,0.6,,1.8"
    );
    assert_eq!(lines[2], "group/app,'=cmd,40,0,8589934592,,17179869184,,1.5,,240,0,,,,,0.6,too_few,0");
    assert_eq!(lines[0].split(',').count(), lines[2].split(',').count());
}

#[test]
fn a_gitlab_patch_sizes_each_job_and_a_matrix_as_one() {
    let jobs = ["it's", "test 1/2", "test 2/2", "os: [arm, x86]", "half 1/2"];
    let mut rows: Vec<Recommendation> = jobs.map(|job| row(job, Some(sizes(2, 4)))).into();
    rows[2].proposed = Some(sizes(3, 4));
    rows.push(row("half 2/2", None));
    let text = gitlab(&answer(rows)).unwrap();
    let expected = "\
# By plimsoll recommend: saves 900 GiB·h of 1,440 GiB·h a month (62 %), 9 EUR.
# jobs without a proposal, which keep what they have: 2
# The runner must allow it: memory_request_overwrite_max_allowed and the others of its kind.
'it''s':
  variables:
    KUBERNETES_MEMORY_REQUEST: '2048Mi'
    KUBERNETES_MEMORY_LIMIT: '4096Mi'
    KUBERNETES_CPU_REQUEST: '1500m'
'os':
  variables:
    KUBERNETES_MEMORY_REQUEST: '2048Mi'
    KUBERNETES_MEMORY_LIMIT: '4096Mi'
    KUBERNETES_CPU_REQUEST: '1500m'
'test':
  variables:
    KUBERNETES_MEMORY_REQUEST: '3072Mi'
    KUBERNETES_MEMORY_LIMIT: '4096Mi'
    KUBERNETES_CPU_REQUEST: '1500m'
";
    assert_eq!(text, expected);
}

#[test]
fn a_kubernetes_patch_names_objects_and_leaves_out_what_cannot_be_one() {
    let rows = vec![row("zlib", Some(sizes(2, 4))), row("Bad Name", Some(sizes(2, 4)))];
    let text = kubernetes(&answer(rows)).unwrap();
    assert!(text.contains("packages without a proposal, which keep what they have: 1"), "{text}");
    let document = "\
---
apiVersion: batch/v1
kind: Job
metadata:
  name: 'zlib'
spec:
  template:
    spec:
      containers:
        - name: build
          resources:
            requests:
              memory: '2048Mi'
              cpu: '1500m'
            limits:
              memory: '4096Mi'
";
    assert!(text.ends_with(document), "{text}");
}

#[test]
fn a_mapping_for_spack_matches_packages_and_keeps_limits_that_stay() {
    let text = spack(&answer(vec![row("zlib", Some(sizes(2, 0)))])).unwrap();
    let section = "\
ci:
  pipeline-gen:
  - submapping:
    - match: ['zlib']
      build-job:
        variables:
          KUBERNETES_MEMORY_REQUEST: '2048Mi'
          KUBERNETES_CPU_REQUEST: '1500m'
";
    assert!(text.ends_with(section), "{text}");
    assert!(spack(&answer(Vec::new())).unwrap().ends_with("- submapping: []\n"));
}

#[test]
fn patches_are_for_one_project() {
    let other = Recommendation { project: "other".into(), ..row("zlib", None) };
    let two = answer(vec![row("zlib", Some(sizes(2, 4))), other]);
    for patch in [gitlab(&two), kubernetes(&two), spack(&two)] {
        assert!(patch.unwrap_err().ends_with("there are 2: name one with --project"));
    }
}

#[test]
fn a_risk_says_what_it_counted_and_how_sure_that_is() {
    let risk = FitRisk { judged: 40, above: 1, at_most: 0.1134 };
    assert_eq!(risk_words(Some(&risk)), "1 of 40, with 95 % confidence at most 11 %");
    assert_eq!(risk_words(Some(&FitRisk::default())), "not known");
    assert_eq!(risk_words(None), "not known");
}

#[test]
fn a_cut_answer_says_which_packages_its_sums_are_over() {
    let mut cut = answer(vec![row("zlib", Some(sizes(2, 4)))]);
    (cut.packages, cut.saved_gib_hours) = (1, 60.0);
    assert_eq!(scope(&cut), None);
    (cut.packages, cut.left_out) = (12, 11);
    let text = table(&cut);
    assert!(
        text.starts_with("saves 60 GiB·h") && text.contains("\nsums of all 12 packages, 1 shown\n"),
        "{text}"
    );
    assert!(gitlab(&cut).unwrap().contains("\n# sums of all 12 packages, 1 shown\n"));
    (cut.packages, cut.left_out) = (500, 1000);
    assert_eq!(scope(&cut).unwrap(), "sums of the 500 packages that request most, 1 shown");
}

#[test]
fn a_gitlab_patch_leaves_out_names_that_are_no_jobs_and_counts_them() {
    let names = ["default", "variables 1/2", "spec: [a]", ".hidden", "<<", "pages", "zlib"];
    let mut rows: Vec<_> = names.into_iter().map(|name| row(name, Some(sizes(2, 4)))).collect();
    rows.push(row("few", None));
    let text = gitlab(&answer(rows)).unwrap();
    let jobs: Vec<&str> = text.lines().filter(|line| line.starts_with('\'')).collect();
    assert_eq!(jobs, ["'pages':", "'zlib':"]);
    assert!(text.contains("\n# jobs without a proposal, which keep what they have: 1\n"), "{text}");
    assert!(text.contains("\n# jobs with a name that has a meaning of its own in GitLab: 5\n"), "{text}");
}

#[test]
fn strange_names_stay_one_quoted_key() {
    let names = ["a: b", "it's", "*a", "&a", "{{ a }}", "# a", "a\nb:", "a\u{2028}b"];
    let rows = names.into_iter().map(|name| row(name, Some(sizes(2, 4)))).collect();
    let text = gitlab(&answer(rows)).unwrap();
    let jobs: Vec<&str> = text.lines().filter(|line| line.starts_with('\'')).collect();
    assert_eq!(jobs, ["'# a':", "'&a':", "'*a':", "'a: b':", "'it''s':", "'{{ a }}':"]);
    assert!(text.contains("which keep what they have: 2\n"), "{text}");
}
