//! What is refused leaves the file as it was, and says where and what to do.

use super::*;

#[test]
fn unusable_files_are_named_by_line() {
    let marked = |lines: &str| {
        format!(
            "ci:\n  pipeline-gen:\n  # plimsoll: begin\n  - match_behavior: first\n    submapping:\n{lines}  # plimsoll: end\n"
        )
    };
    let match_a = "    - match:\n      - 'a'\n";
    let nested = format!("{}a: {}\n", PUBLISHED, "[".repeat(200) + &"]".repeat(200));
    for (text, why) in [
        ("ci: [".to_owned(), "line 2: is no YAML"),
        ("ci:\n\tpipeline-gen: []\n".to_owned(), "line 2: is no YAML"),
        ("a: b\n".to_owned(), "has no list `ci: pipeline-gen:`"),
        (
            "ci:\n  pipeline-gen: []\n".to_owned(),
            "line 2: pipeline-gen is not a list with a line for each section",
        ),
        (PUBLISHED.replace("      - zlib\n", "<<<<<<< ours\n      - zlib\n"), "line 8: a merge conflict"),
        (marked("    - match:\n      - 'a'\n      - \"a\"\n"), "line 8: a is there twice, also in line 7"),
        (
            marked(&format!("{match_a}      build-job:\n        image: x\n")),
            "line 9: \"image: x\" is not of the form",
        ),
        (marked("    - match: [a]\n"), "line 6: \"- match: [a]\" is not of the form"),
        (marked("").replace("  # plimsoll: end\n", ""), "line 3: `# plimsoll: begin` and `# plimsoll: end`"),
        (nested, "line 31: is nested more than 100 deep"),
    ] {
        let found = Kept::spack(&text).refused(several());
        assert!(found.starts_with(&format!("FILE: {why}")), "{found}\nfor\n{text}");
    }
    let two = [flat("a", 1.0), Recommendation { project: "b".into(), ..flat("b", 1.0) }];
    assert!(Kept::spack("").refused(two.into()).ends_with("there are 2: name one with --project"));
    let old_server = Recommendation { builds: Vec::new(), ..flat("a", 1.0) };
    assert!(Kept::spack("").refused(vec![old_server]).contains("older than this command"));
}

#[test]
fn unusable_files_of_other_formats_are_named() {
    let no_job = "# plimsoll: begin\na: b\n# plimsoll: end\n";
    let twice = "# plimsoll: begin\n'a':\n  variables: {}\n'a':\n  variables: {}\n# plimsoll: end\n";
    for (format, text, why) in [
        (ProposalFormat::Gitlab, "a: [", "line 2: is no YAML"),
        (ProposalFormat::Gitlab, twice, "line 4: a is there twice"),
        (ProposalFormat::Kubernetes, no_job, "line 2: is no job that Plimsoll writes"),
        (ProposalFormat::Csv, "package,memory\n", "line 1: the columns must begin with project,package,"),
        (ProposalFormat::Text, "", "--into needs -o spack, gitlab, kubernetes or csv"),
    ] {
        let found = Kept::new(format, text).refused(several());
        assert!(found.starts_with(&format!("FILE: {why}")), "{found}");
    }
    let kept = Kept::new(ProposalFormat::Csv, "");
    let (_, text) = kept.update(vec![flat("a", 1.0)]);
    let last = text.lines().last().unwrap();
    fs::write(&kept.file.path, format!("{text}{last}\r\n")).unwrap();
    assert!(kept.refused(several()).contains("line 3: the same package as in line 2"));
}

#[test]
fn links_and_read_only_files_are_refused() {
    let kept = Kept::spack(PUBLISHED);
    fs::set_permissions(&kept.file.path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(kept.refused(several()).contains("is read-only"));
    let link = kept.dir.path().join("link");
    std::os::unix::fs::symlink(&kept.file.path, &link).unwrap();
    let kept = Kept { file: KeptFile { path: link, ..kept.file }, ..kept };
    assert!(kept.refused(several()).contains("is a symbolic link"));
    assert!(fs::symlink_metadata(&kept.file.path).unwrap().is_symlink());
}

#[test]
fn anchors_and_merge_keys_stay_as_they_are() {
    let text = PUBLISHED.replace(
        "  pipeline-gen:\n  - match_behavior",
        "  x: &x {match: [gcc]}\n  pipeline-gen:\n  - submapping:\n    - <<: *x\n  - match_behavior",
    );
    let kept = Kept::spack(&text);
    let (status, new) = kept.update(vec![flat("gcc", 9.0), flat("zlib", 0.3), flat("new", 1.0)]);
    assert_eq!((status, new.contains("'gcc'"), new.contains("'new'")), (FILE_CHANGED, false, true));
    let (before, after) = text.split_at(text.find("\n  # what all jobs get").unwrap());
    assert!(new.starts_with(before) && new.ends_with(after), "{new}");
}

#[test]
fn line_ends_of_windows_stay() {
    let kept = Kept::spack(&PUBLISHED.replace('\n', "\r\n"));
    let (_, text) = kept.update(several());
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
}

#[test]
fn unusable_classes_are_named() {
    for (text, why) in [
        ("", "has no [[pool]]"),
        ("[[pool]]\nname = \"a\"\ncores = 1\n", "pool a: memory is missing"),
        ("[[pool]]\nname = \"a\"\nmemory = \"1GiB\"\n", "pool a: cores is missing"),
        ("[[pool]]\nname = \"a b\"\n", "pool \"a b\": a name is"),
        ("[[pool]]\nname = \"a\"\ncores = 1\nmemory = \"4\"\n", "pool a: memory: \"4\" is less than 1 MiB"),
        ("[[pool]]\nname = \"a\"\ncores = 1\nmemory = \"4GiB\"\nbuild_jobs = 0\n", "pool a: cores must be"),
        (
            "[[pool]]\nname = \"a\"\ncores = 1\nmemory = \"4GiB\"\nprice_gib_hour = -1.0\n",
            "pool a: a price must be",
        ),
        ("[[pool]\n", "TOML parse error at line 1"),
        (&POOLS.replace("\"small\"\ntags", "\"medium\"\ntags"), "pool medium is there twice"),
    ] {
        let found = Classes::parse(text, "").unwrap_err();
        assert!(found.starts_with(why), "{found}");
    }
    let found = Classes::parse(POOLS, "special").unwrap_err();
    assert!(found.ends_with("--default-class: small, medium, large"), "{found}");
    let pool = |jobs: u32| {
        format!("[[pool]]\nname = \"p{jobs}\"\ncores = 1\nmemory = \"4GiB\"\nbuild_jobs = {jobs}\n")
    };
    let nine: String = (1..10).map(pool).collect();
    assert_eq!(Classes::parse(&nine, "").unwrap_err(), "has 9 different build_jobs, at most 8");
}
