//! What suggestions owe to the pools: their architecture, cores, measured times and prices.

use super::*;

/// An attempt of a package, each an hour after the one before.
struct MadeRun<'r> {
    package: &'r str,
    chroot: &'r str,
    jobs: u32,
    pool: &'r str,
    /// Hours.
    wall: f64,
    /// Hours.
    cpu: f64,
}

/// Six hours on four cores, all of them busy.
const BUSY: MadeRun<'_> =
    MadeRun { package: "gcc", chroot: "fedora-42-x86_64", jobs: 4, pool: "", wall: 6.0, cpu: 24.0 };

fn recorded<'r>(runs: impl IntoIterator<Item = MadeRun<'r>>) -> RecordedBuilds {
    let mut text =
        "attempt,owner,project,package,arch,build_jobs,submitted_ms,wall_ms,peak_bytes,cpu_usec,outcome,pool\n"
            .to_owned();
    for (n, run) in runs.into_iter().enumerate() {
        let MadeRun { package, chroot, jobs, pool, wall, cpu } = run;
        let submitted = START + u64::try_from(n).unwrap() * 3_600_000;
        let (wall, cpu) = (wall * HOUR, cpu * HOUR * 1000.0);
        writeln!(
            text,
            "b{n},@team,apps,{package},{chroot},{jobs},{submitted},{wall:.0},1000000000,{cpu:.0},success,{pool}"
        )
        .unwrap();
    }
    read(&text)
}

fn times_eight(run: impl Fn() -> MadeRun<'static>) -> impl Iterator<Item = MadeRun<'static>> {
    (0..8).map(move |_| run())
}

fn list(text: &str) -> CoprTable {
    CoprTable::parse(text).unwrap()
}

#[test]
fn packages_of_other_architectures_are_counted_but_excluded() {
    let mut terms = terms();
    terms.powerful.arch = "x86_64".to_owned();
    assert_eq!(terms.arch(), "x86_64");
    let arm = || MadeRun { chroot: "fedora-42-aarch64", ..BUSY };
    let none = || MadeRun { package: "docs", chroot: "", ..BUSY };
    let builds = recorded(times_eight(|| BUSY).chain(times_eight(arm)).chain(times_eight(none)));
    let old = list("[{'pattern': '@team/apps/.*aarch64/gcc$', 'tags': ['extra_powerful']}]");
    let all = suggest(&builds, &old, TAG, &terms);
    let verdict = |family: &str, package: &str| {
        let one = all.iter().find(|one| one.group.family == family && one.group.package == package);
        one.unwrap().verdict
    };
    assert_eq!(verdict("x86_64", "gcc"), ListVerdict::Add);
    assert_eq!(verdict("aarch64", "gcc"), ListVerdict::OtherArch);
    assert_eq!(verdict("", "docs"), ListVerdict::Add);
    let new = new_list(&old, &all, TAG).unwrap();
    assert_eq!(new.entries().len(), 3, "the entry of the other architecture stays: {new}");
    assert!(text(&all, &terms, "").contains("of another architecture than x86_64: 1 package."));
}

#[test]
fn an_entry_loses_only_the_removed_tag() {
    let serial = || MadeRun { cpu: 6.0, ..BUSY };
    let builds = recorded(times_eight(serial));
    let old = list(
        "[{'pattern': '@team/apps/.*/gcc$', 'tags': ['big_disk', 'extra_powerful']},
          {'pattern': '@team/.*/gcc$', 'tags': ['extra_powerful']}]",
    );
    let new = new_list(&old, &suggest(&builds, &old, TAG, &terms()), TAG).unwrap();
    let [entry] = new.entries() else { panic!("{new}") };
    assert_eq!(entry.pattern(), "@team/apps/.*/gcc$");
    assert_eq!(entry.tags.as_slice(), &["big_disk".to_owned()][..]);
}

#[test]
fn more_jobs_than_cores_change_no_time() {
    let times = |jobs| {
        let builds = recorded(times_eight(move || MadeRun { jobs, wall: 4.0, cpu: 16.0, ..BUSY }));
        suggest(&builds, &CoprTable::default(), TAG, &terms())[0].times.unwrap()
    };
    for jobs in [4, 8, 16] {
        let BuilderTimes { normal, powerful, .. } = times(jobs);
        assert_eq!((normal, powerful), (Millis(4 * 3_600_000), Millis(900_000)), "-j{jobs}");
    }
    // eight cores were busy, so it had more than a usual builder
    let builds = recorded(times_eight(|| MadeRun { jobs: 8, wall: 2.0, cpu: 16.0, ..BUSY }));
    let times = suggest(&builds, &CoprTable::default(), TAG, &terms())[0].times.unwrap();
    assert_eq!((times.normal, times.powerful), (Millis(4 * 3_600_000), Millis(900_000)));
}

#[test]
fn a_chroot_entry_covers_only_its_own_builds() {
    let rawhide = || MadeRun { chroot: "fedora-rawhide-x86_64", ..BUSY };
    let builds = recorded(times_eight(|| BUSY).chain(times_eight(rawhide)));
    let old = list("[{'pattern': '@team/apps/fedora-42-x86_64/gcc$', 'tags': ['extra_powerful']}]");
    let all = suggest(&builds, &old, TAG, &terms());
    assert_eq!((all.len(), all[0].listed, all[0].verdict), (1, false, ListVerdict::Add));
}

#[test]
fn pools_without_a_price_show_no_money() {
    let builds = recorded(times_eight(|| BUSY));
    let shown = |price_hour| {
        let mut terms = terms();
        (terms.normal.price_hour, terms.powerful.price_hour) = (price_hour, price_hour);
        let none = CoprTable::default();
        text(&suggest(&builds, &none, TAG, &terms), &terms, "EUR")
    };
    assert_eq!((shown(0.0).matches("EUR").count(), shown(1.0).matches("EUR").count()), (0, 1));
}

#[test]
fn without_timestamps_savings_are_per_file_not_month() {
    let timed = recorded(times_eight(|| BUSY));
    let mut untimed = recorded(times_eight(|| BUSY));
    untimed.groups.iter_mut().for_each(|group| group.per_month = None);
    let shown = |builds: &RecordedBuilds| {
        let all = suggest(builds, &CoprTable::default(), TAG, &terms());
        let json: serde_json::Value =
            serde_json::from_str(&json(&all, &terms(), "", &CoprTable::default())).unwrap();
        (text(&all, &terms(), ""), json["packages"][0].clone())
    };
    let (text, json) = shown(&untimed);
    assert!(text.contains("hours in file") && !text.contains("month"), "{text}");
    // eight times six hours become 22.5 minutes
    assert!((json["hours_saved_in_file"].as_f64().unwrap() - 8.0 * 5.625).abs() < 1e-6, "{json}");
    for of_month in ["builds_per_month", "hours_saved_per_month", "money_more_per_month"] {
        assert!(json[of_month].is_null(), "{of_month}: {json}");
    }
    let (text, json) = shown(&timed);
    assert!(text.contains("hours/month"), "{text}\n{json}");
    assert!(json["hours_saved_per_month"].as_f64().unwrap() > 100.0, "{text}\n{json}");
}

#[test]
fn lists_up_to_the_limit_round_trip() {
    let names: Vec<String> = (0..=CoprTable::MAX_ENTRIES).map(|n| format!("package-{n}")).collect();
    let group = |name: &String| BuildGroup {
        owner_project: "@team/apps".to_owned(),
        family: "x86_64",
        package: name.clone(),
        ..BuildGroup::default()
    };
    let groups: Vec<BuildGroup> = names.iter().map(group).collect();
    let add = |group| Suggestion { group, listed: false, times: None, verdict: ListVerdict::Add };
    let all: Vec<Suggestion<'_>> = groups.iter().map(add).collect();
    let new = new_list(&CoprTable::default(), &all[..CoprTable::MAX_ENTRIES], TAG).unwrap();
    let printed = new.to_string();
    let read_back = CoprTable::parse(&printed).unwrap();
    assert_eq!((read_back.entries().len(), read_back.to_string()), (CoprTable::MAX_ENTRIES, printed));
    let refusal = new_list(&CoprTable::default(), &all, TAG).unwrap_err();
    assert!(refusal.contains("5001 entries, at most 5000"), "{refusal}");
}
