//! Files that are kept: what changes, what stays, and what is refused.

mod bad_input;
mod mapping;
mod safety;

use std::{fmt::Write as _, fs, os::unix::fs::PermissionsExt as _};

use plimsoll_proto::{
    fixtures::assert_recorded,
    v1::{BuildSizes, FitRisk, NoProposal, RequestedSizes, SizeAtJobs},
};

use super::*;

const GIB: u64 = 1 << 30;
const POOLS: &str = r#"
currency = "EUR"
[[pool]]
name = "small"
tags = ["spack", "small"]
cores = 1
memory = "4GiB"
price_gib_hour = 0.01
price_core_hour = 0.05
[[pool]]
name = "medium"
tags = ["spack", "medium"]
cores = "4000m"
memory = "16GiB"
price_gib_hour = 0.01
price_core_hour = 0.05
node_selector = { "pool" = "medium" }
[[pool]]
name = "large"
tags = ["spack", "large"]
cores = 16
build_jobs = 12
memory = "64GiB"
price_gib_hour = 0.01
price_core_hour = 0.05
[[pool]]
name = "special"
by_rule = true
"#;

fn classes() -> Classes {
    Classes::parse(POOLS, "").unwrap()
}

/// A build whose need grows with its jobs: `base` GiB, and `each` more for each job. With `each` its jobs share the work, else they wait for
/// each other.
fn build(variants: &str, base: f64, each: f64) -> BuildSizes {
    let size = |jobs: u32| SizeAtJobs {
        build_jobs: jobs,
        memory_request_bytes: figures::to_whole((base + each * f64::from(jobs)) * figures::float(GIB)),
        wall_ms: if each > 0.0 { 3_600_000 / u64::from(jobs) } else { 3_600_000 },
    };
    BuildSizes { version: "1.0".into(), variants: variants.into(), sizes: [1, 4, 12].map(size).into() }
}

fn row(package: &str, builds: Vec<BuildSizes>) -> Recommendation {
    let sizes = |gib: u64| RequestedSizes {
        memory_request_bytes: Some(gib * GIB),
        memory_limit_bytes: Some(2 * gib * GIB),
        cpu_request_cores: Some(2.0),
    };
    Recommendation {
        project: "spack/spack".into(),
        package: package.into(),
        attempts: 40,
        failed_for_memory: 1,
        today: Some(sizes(16)),
        proposed: Some(sizes(4)),
        asked_gib_hours: 1600.0,
        saved_gib_hours: 1200.0,
        confidence: 0.96,
        request_risk: Some(FitRisk { judged: 40, above: 1, at_most: 0.1134 }),
        highest_need_bytes: Some(3 * GIB),
        builds,
        ..Default::default()
    }
}

/// A package that needs about this much at each number of jobs.
fn flat(package: &str, gib: f64) -> Recommendation {
    row(package, vec![build("", gib, 0.0)])
}

fn answer(rows: Vec<Recommendation>) -> RecommendResponse {
    RecommendResponse { window_ms: 30 * 86_400_000, recommendations: rows, ..Default::default() }
}

/// A file in a folder of its own.
struct Kept {
    dir: tempfile::TempDir,
    file: KeptFile,
}

impl Kept {
    fn new(format: ProposalFormat, text: &str) -> Self {
        let (dir, path) = plimsoll_support::temporary::file_name("kept");
        if !text.is_empty() {
            fs::write(&path, text).unwrap();
        }
        Self { dir, file: KeptFile { path, format, summary: false } }
    }

    fn spack(text: &str) -> Self {
        Self::new(ProposalFormat::Spack, text)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file.path).unwrap_or_default()
    }

    /// The status, and the text afterwards. A second run must change nothing.
    fn update(&self, rows: Vec<Recommendation>) -> (u8, String) {
        let answer = answer(rows);
        let status = update(&self.file, &answer, Some(&classes())).unwrap().status;
        let text = self.text();
        let again = update(&self.file, &answer, Some(&classes())).unwrap();
        assert_eq!((again.status, self.text()), (0, text.clone()), "a second run");
        (status, text)
    }

    fn refused(&self, rows: Vec<Recommendation>) -> String {
        let before = self.text();
        let why = update(&self.file, &answer(rows), Some(&classes())).unwrap_err();
        assert_eq!(self.text(), before, "it is as it was");
        assert!(fs::read_dir(self.dir.path()).unwrap().count() <= 2, "nothing is left behind");
        why.replace(&self.file.path.display().to_string(), "FILE")
    }
}

/// Packages of each class; one whose variant needs more; and names that YAML reads as something else.
fn several() -> Vec<Recommendation> {
    vec![
        flat("zlib", 0.3),
        flat("on", 0.3),
        row("trilinos", vec![build("~cuda", 3.0, 0.5), build("+cuda", 9.0, 2.0)]),
        flat("llvm", 30.0),
        flat("null", 0.3),
        flat("1.0", 7.2),
    ]
}

#[test]
fn new_files_and_summaries_are_as_recorded() {
    let kept = Kept::spack("");
    let whole = Classes::parse(POOLS, "medium").unwrap();
    let summary = KeptFile { summary: true, path: kept.file.path.clone(), ..kept.file };
    let mut rows = several();
    rows.push(Recommendation { proposed: None, no_proposal: NoProposal::TooFew.into(), ..flat("few", 1.0) });
    let first = update(&summary, &answer(rows), Some(&whole)).unwrap();
    let file = fs::read_to_string(&summary.path).unwrap();
    let risen = [flat("zlib", 0.6), flat("llvm", 12.0), flat("a|`b", 1.0), flat("1.0", 7.9)];
    let second = update(&summary, &answer(risen.into()), Some(&whole)).unwrap();
    assert_eq!((first.status, second.status), (FILE_CHANGED, FILE_CHANGED));
    let texts = [
        ("a new file", file),
        ("its summary", first.output),
        ("the summary of changes", second.output),
        ("the file after the changes", fs::read_to_string(&summary.path).unwrap()),
    ];
    assert_recorded(&texts, include_str!("recorded.txt"), "sizes_file");
}

#[test]
fn sizes_change_only_for_a_reason() {
    let kept = Kept::spack("");
    kept.update(vec![flat("a", 6.8), flat("b", 6.8), flat("c", 6.8), flat("d", 6.8)]);
    let unsure = Recommendation { confidence: 0.89, ..flat("b", 2.0) };
    let unsure_but_more = Recommendation { confidence: 0.1, ..flat("c", 9.0) };
    // 6.4 GiB are rounded to 7, as before; d moves to a smaller class
    let (status, text) = kept.update(vec![flat("a", 6.4), unsure, unsure_but_more, flat("d", 3.0)]);
    assert_eq!(status, FILE_CHANGED);
    let found = mapping::requests(&text);
    let of = |name: &str| found.iter().find(|(spec, _)| spec == name).unwrap().1.as_str();
    assert_eq!((of("a"), of("b"), of("c"), of("d")), ("7168Mi", "7168Mi", "9216Mi", "3072Mi"));
}

#[test]
fn what_people_mark_or_comment_stays() {
    let kept = Kept::spack("");
    let (_, text) = kept.update(vec![flat("a", 6.8), flat("b", 6.8), flat("c", 0.3)]);
    let text = text
        .replace("- 'a'\n", "- 'a' # keep: a customer asked\n")
        .replace("  - 'b'\n", "  # needs more since CUDA 13\n      - 'b' # ask Eve\n");
    fs::write(&kept.file.path, &text).unwrap();
    assert_eq!(kept.update(vec![flat("a", 6.8), flat("b", 6.8)]), (0, text), "other packages stay, too");
    let (status, text) = kept.update(vec![flat("a", 2.0), flat("b", 12.0)]);
    assert_eq!(status, FILE_CHANGED);
    assert!(text.contains("- 'a' # keep: a customer asked\n"), "{text}");
    assert!(text.contains("# needs more since CUDA 13\n      - 'b' # ask Eve\n"), "{text}");
    let found = mapping::requests(&text);
    let found: Vec<_> = found.iter().map(|(spec, size)| format!("{spec} {size}")).collect();
    assert_eq!(found, ["b 12288Mi", "a 7168Mi", "c 384Mi"]);
}

/// A file of the form that Spack publishes, with an anchor, a merge key and defaults of all jobs.
const PUBLISHED: &str = "# sizes, by hand
ci:
  pipeline-gen:
  - match_behavior: first
    submapping:
    - match:
      - llvm
      - zlib
      build-job:
        tags: [ \"spack\", \"large\" ]
        variables:
          CI_JOB_SIZE: large
          KUBERNETES_MEMORY_REQUEST: 48G

    - match:
      - gcc
      build-job:
        variables:
          CI_JOB_SIZE: \"medium\"
          KUBERNETES_MEMORY_REQUEST: \"2G\"

    - match:
      - cmake # keep
      build-job:
        variables: {CI_JOB_SIZE: large, KUBERNETES_MEMORY_REQUEST: 48G}

  # what all jobs get
  - build-job:
      variables:
        KUBERNETES_MEMORY_REQUEST: 16G
";

#[test]
fn groups_of_people_win_and_stay() {
    let kept = Kept::spack(PUBLISHED);
    let (status, text) = kept.update(vec![flat("zlib", 0.3), flat("openmpi", 1.0)]);
    assert_eq!(status, FILE_CHANGED);
    let (before, after) = PUBLISHED.split_once("\n  # what all jobs get").unwrap();
    assert!(text.starts_with(before) && text.ends_with(&format!("\n  # what all jobs get{after}")), "{text}");
    assert!(!text.contains("'zlib'") && text.contains("'openmpi'"), "{text}");
}

#[test]
fn people_may_take_a_package_over() {
    for (spec, job, is_taken) in [
        ("gcc", "variables: {KUBERNETES_MEMORY_REQUEST: 9G}", true),
        ("builtin.gcc", "tags: [x]", true),
        ("gcc", "variables: {A: b}", false),
        ("gcc@13", "tags: [x]", false),
        ("gcc ^gcc", "tags: [x]", false),
    ] {
        let kept = Kept::spack("");
        let (_, text) = kept.update(vec![flat("gcc", 6.8), flat("zlib", 0.3)]);
        let by_hand = format!(
            "  pipeline-gen:\n  - submapping:\n    - match: ['{spec}']\n      build-job: {{{job}}}\n"
        );
        let text = text.replace("  pipeline-gen:\n", &by_hand);
        fs::write(&kept.file.path, &text).unwrap();
        let (_, new) = kept.update(vec![flat("gcc", 6.8), flat("zlib", 0.3)]);
        assert_eq!((!new.contains("- 'gcc'\n"), new != text), (is_taken, is_taken), "{spec} {job}");
        let (_, raised) = kept.update(vec![flat("gcc", 9.0)]);
        assert_eq!(raised.contains("'9216Mi'"), !is_taken, "{spec} {job}");
    }
}

#[test]
fn a_class_that_is_gone_is_replaced() {
    let kept = Kept::spack("");
    let (_, text) = kept.update(vec![flat("gcc", 6.8), flat("zlib", 0.3)]);
    fs::write(&kept.file.path, text.replace("'medium'", "'gone'")).unwrap();
    let (status, changed) = kept.update(vec![flat("gcc", 6.8), flat("zlib", 0.3)]);
    assert_eq!((status, changed), (FILE_CHANGED, text));
}

#[test]
fn ten_thousand_packages_are_kept() {
    let kept = Kept::spack("");
    let (_, text) = kept.update(vec![flat("a", 0.3)]);
    let mut many = String::new();
    for number in 0..10_000 {
        let _infallible = writeln!(many, "      - 'p{number:05}'");
    }
    fs::write(&kept.file.path, text.replace("      - 'a'\n", &format!("      - 'a'\n{many}"))).unwrap();
    let (status, text) = kept.update(vec![flat("p05000", 2.0)]);
    assert_eq!((status, mapping::requests(&text).len()), (FILE_CHANGED, 10_001));
}

#[test]
fn jobs_of_gitlab_and_kubernetes_keep_their_lines() {
    for (format, by_hand) in [
        (ProposalFormat::Gitlab, "include: other.yml\nbuilt:\n  script: [make]\n"),
        (ProposalFormat::Kubernetes, "metadata:\n  name: built\n"),
    ] {
        let kept = Kept::new(format, by_hand);
        let (status, text) = kept.update(vec![flat("zlib", 1.0), flat("built", 1.0), flat("gcc", 1.0)]);
        assert_eq!(status, FILE_CHANGED);
        assert!(text.starts_with(by_hand) && text.contains("4096Mi") && text.contains("zlib"), "{text}");
        let text =
            text.replacen("4096Mi'", "2048Mi' # too little?", 1).replace("name: build\n", "name: main\n");
        fs::write(&kept.file.path, &text).unwrap();
        let (status, raised) = kept.update(vec![flat("zlib", 1.0), flat("gcc", 1.0)]);
        assert_eq!(status, FILE_CHANGED);
        assert_eq!(raised, text.replacen("2048Mi' #", "4096Mi' #", 1), "only the value");
        let marked = text.replacen("# too little?", "# keep", 1);
        fs::write(&kept.file.path, &marked).unwrap();
        assert_eq!(kept.update(vec![flat("gcc", 1.0)]), (0, marked));
    }
}

#[test]
fn rows_of_csv_change_alone() {
    let kept = Kept::new(ProposalFormat::Csv, "");
    let (_, text) = kept.update(vec![flat("zlib", 1.0), flat("gcc", 1.0), flat("a,b", 1.0)]);
    let text = text.replace("4294967296", "2147483648").replacen("\r\n", ",note\r\n# by hand\r\n", 1);
    let text = text.trim_end().to_owned() + ",keep\r\n";
    fs::write(&kept.file.path, &text).unwrap();
    let (status, changed) = kept.update(vec![flat("gcc", 1.0), flat("zlib", 1.0), flat("m", 1.0)]);
    let lines: Vec<&str> =
        changed.lines().map(|line| line.split_once(",40,").map_or(line, |(name, _)| name)).collect();
    assert_eq!(
        (status, &lines[1..]),
        (
            FILE_CHANGED,
            ["# by hand", "spack/spack,\"a,b\"", "spack/spack,gcc", "spack/spack,m", "spack/spack,zlib"]
                .as_slice()
        )
    );
    assert_eq!(changed.matches("2147483648").count(), 2, "another package, and the one with keep: {changed}");
}

#[test]
fn the_mode_of_a_file_stays() {
    let kept = Kept::spack(PUBLISHED);
    fs::set_permissions(&kept.file.path, fs::Permissions::from_mode(0o640)).unwrap();
    kept.update(several());
    assert_eq!(fs::metadata(&kept.file.path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn proposals_without_history_change_nothing() {
    let few = Recommendation { proposed: None, no_proposal: NoProposal::TooFew.into(), ..flat("gcc", 1.0) };
    for rows in [Vec::new(), vec![few]] {
        assert_eq!(Kept::spack(PUBLISHED).update(rows.clone()), (0, PUBLISHED.to_owned()));
        assert_eq!(Kept::spack("").update(rows), (0, String::new()));
    }
}
