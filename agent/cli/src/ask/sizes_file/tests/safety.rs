//! A size is never lowered by accident, and a class never holds less than what is known to be needed.

use super::*;

/// One package in a new file, with its class and request.
fn sized(row: Recommendation, classes: &Classes) -> (String, String) {
    let text = spack_file(&answer(vec![row]), classes).unwrap();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(name)).unwrap_or_default();
        line.split_once(": ").map_or("", |(_, value)| value.trim_matches('\'')).to_owned()
    };
    (of("CI_JOB_SIZE"), of("KUBERNETES_MEMORY_REQUEST"))
}

#[test]
fn a_class_holds_what_attempts_needed() {
    // without prices the least memory is the cheapest
    let unpriced = Classes::parse(&POOLS.replace("price_", "# price_"), "").unwrap();
    let needed = |row: Recommendation, gib: u64, failed_for_memory: u64| {
        let row = Recommendation { highest_need_bytes: Some(gib * GIB), failed_for_memory, ..row };
        sized(row, &unpriced).0
    };
    let by_jobs = || row("a", vec![build("", 2.0, 0.2)]);
    assert_eq!(needed(flat("a", 1.0), 3, 0), "small");
    assert_eq!(needed(flat("a", 1.0), 10, 0), "medium", "jobs do not change the need");
    assert_eq!(needed(flat("a", 1.0), 100, 0), "large", "no class holds it");
    assert_eq!(needed(by_jobs(), 10, 0), "small", "fewer jobs need less");
    assert_eq!(needed(by_jobs(), 10, 1), "medium", "memory ended an attempt");
    let variants = row("a", vec![build("~x", 1.0, 0.0), build("+x", 10.0, 0.0)]);
    let variants = Recommendation { highest_need_bytes: Some(9 * GIB), ..variants };
    let text = spack_file(&answer(vec![variants]), &classes()).unwrap();
    assert!(text.contains("'a+x'") && text.contains("CI_JOB_SIZE: 'small'"), "{text}");
}

#[test]
fn requests_never_exceed_their_class() {
    let one = |memory: &str| format!("[[pool]]\nname = \"c\"\ncores = 1\nmemory = \"{memory}\"\n");
    let class = Classes::parse(&one("13G"), "").unwrap();
    assert_eq!(sized(flat("a", 20.0), &class).1, "12397Mi", "13G are 12397.8 MiB");
    let kept = Kept::spack("");
    kept.update(vec![flat("a", 11.5)]);
    let shrunk = Classes::parse(&POOLS.replace("16GiB", "8GiB"), "").unwrap();
    let unsure = Recommendation { confidence: 0.1, ..flat("a", 3.0) };
    for status in [FILE_CHANGED, 0] {
        assert_eq!(update(&kept.file, &answer(vec![unsure.clone()]), Some(&shrunk)).unwrap().status, status);
    }
    let text = kept.text();
    assert!(text.contains("'large'") && text.contains("'12288Mi'"), "{text}");
}

#[test]
fn unknown_needs_clamp_into_no_class() {
    let mut known = build("", 10.0, 0.0);
    known.sizes.truncate(1);
    assert_eq!(sized(row("a", vec![known]), &classes()), (String::new(), String::new()));
}

#[test]
fn unseen_builds_bound_what_is_lowered() {
    let kept = Kept::spack("");
    kept.update(vec![flat("a", 11.5), flat("b", 11.5)]);
    let highest = |name: &str| Recommendation { highest_need_bytes: Some(9 * GIB), ..flat(name, 3.0) };
    let (_, text) = kept.update(vec![Recommendation { has_more_builds: true, ..highest("a") }, highest("b")]);
    let mut found = mapping::requests(&text);
    found.sort();
    assert_eq!(found, [("a", "9216Mi"), ("b", "3072Mi")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn a_renamed_class_lowers_nothing_by_itself() {
    for (confidence, request) in [(0.1, "7168Mi"), (0.96, "3072Mi")] {
        let kept = Kept::spack("");
        let (_, text) = kept.update(vec![flat("gcc", 6.8)]);
        fs::write(&kept.file.path, text.replace("'medium'", "'gone'")).unwrap();
        let (status, text) = kept.update(vec![Recommendation { confidence, ..flat("gcc", 3.0) }]);
        assert_eq!((status, mapping::requests(&text)), (FILE_CHANGED, vec![("gcc".into(), request.into())]));
    }
}

#[test]
fn raises_lower_no_limit_and_no_cores() {
    for format in [ProposalFormat::Gitlab, ProposalFormat::Kubernetes] {
        let kept = Kept::new(format, "");
        let (_, text) = kept.update(vec![flat("a", 1.0)]);
        let text = text.replace("8192Mi", "16384Mi").replace("2000m", "8000m");
        fs::write(&kept.file.path, text.replace("4096Mi", "2048Mi")).unwrap();
        assert_eq!(kept.update(vec![flat("a", 1.0)]).1, text);
        // the limit alone is too small, and too little is known for less
        fs::write(&kept.file.path, text.replace("4096Mi", "6144Mi").replace("16384Mi", "7168Mi")).unwrap();
        let unsure = Recommendation { confidence: 0.1, ..flat("a", 1.0) };
        let raised = text.replace("4096Mi", "6144Mi").replace("16384Mi", "8192Mi");
        assert_eq!(kept.update(vec![unsure]).1, raised);
    }
    let kept = Kept::new(ProposalFormat::Csv, "");
    let (_, text) = kept.update(vec![flat("a", 1.0)]);
    let text = text.replace(",8589934592,", ",17179869184,");
    let small = text.replace(",4294967296,", ",2147483648,");
    fs::write(&kept.file.path, &small).unwrap();
    assert_ne!(small, text);
    assert_eq!(kept.update(vec![flat("a", 1.0)]).1, text);
}

#[test]
fn raised_requests_get_the_limit_they_need() {
    for format in [ProposalFormat::Gitlab, ProposalFormat::Kubernetes] {
        let kept = Kept::new(format, "");
        let (_, text) = kept.update(vec![flat("a", 1.0)]);
        let is_limit = |line: &&str| line.contains("limits:") || line.contains("8192Mi");
        let lines: Vec<&str> = text.lines().filter(|line| !is_limit(line)).collect();
        fs::write(&kept.file.path, lines.join("\n").replace("4096Mi", "2048Mi") + "\n").unwrap();
        let mut tight = flat("a", 1.0);
        if let Some(today) = &mut tight.today {
            today.memory_limit_bytes = Some(3 * GIB);
        }
        let (_, new) = kept.update(vec![tight]);
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&new), sorted(&text));
        assert!(yaml::parse(&new).is_ok());
    }
}

#[test]
fn jobs_with_several_containers_are_refused() {
    let kept = Kept::new(ProposalFormat::Kubernetes, "");
    let (_, text) = kept.update(vec![flat("a", 1.0)]);
    fs::write(
        &kept.file.path,
        text.replace("        - name: build\n", "        - name: log\n        - name: build\n"),
    )
    .unwrap();
    let why = kept.refused(vec![flat("a", 1.0)]);
    assert!(why.starts_with("FILE: line 12: a has sizes in several places"), "{why}");
}

#[test]
fn rows_keep_their_quotes_and_line_ends() {
    let kept = Kept::new(ProposalFormat::Csv, "");
    let (_, text) = kept.update(vec![flat("a", 1.0), flat("b", 1.0)]);
    let small = text.replace("4294967296", "2147483648");
    let lines: Vec<&str> = small.lines().collect();
    let [head, a, b] = lines.as_slice() else { panic!("{text}") };
    let a = a.replacen(",a,", ",\"a\",", 1);
    fs::write(&kept.file.path, format!("{head}\n{a},\"keep\"\r\n{b}")).unwrap();
    let (_, new) = kept.update(vec![flat("a", 1.0), flat("b", 1.0)]);
    let raised = b.replace("2147483648", "4294967296");
    assert_eq!(new, format!("{head}\n{a},\"keep\"\r\n{raised}"));
    fs::write(&kept.file.path, format!("{head}\n{a},\"two\nlines\"\n")).unwrap();
    assert!(kept.refused(vec![flat("a", 1.0)]).starts_with("FILE: line 2: a quote has no end"));
}
