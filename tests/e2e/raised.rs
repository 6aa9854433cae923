//! A build that needs more than its limit gets more while it runs, up to the ceiling; what it needed counts as always.

use std::{fs, iter, process::Command};

use plimsoll_tests::{Answer, Site};

const MIB: u64 = 1 << 20;

/// Takes so many MiB in steps of 8, with time for a reading after each and more after the last, and ends with 2 if it is killed.
fn grow(mib: usize) -> String {
    let steps: String = iter::repeat_n(" keep 8 sleep 250", mib / 8).collect();
    format!("{}{steps} sleep 3000 || exit 2", env!("CARGO_BIN_EXE_load"))
}

/// The lines about the limit; `None` if no cgroup can be made here.
fn raises(ran: &Answer) -> Option<Vec<&str>> {
    if ran.stderr.contains("without the memory limit") {
        eprintln!("skipped: {}", ran.stderr);
        return None;
    }
    Some(ran.stderr.lines().filter(|line| line.contains("the build's memory limit")).collect())
}

#[test]
fn a_build_gets_more_than_its_limit() {
    let site = Site::start().unwrap();
    let options = "--attempt raised --key package=grower --limit-memory 100MiB --limit-memory-most 200MiB";
    let ran = site.agent.run(options, &grow(144));
    let Some(lines) = raises(&ran) else { return };
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(lines[0].starts_with("plimsoll: raised the build's memory limit from 100 MiB to "), "{ran:?}");
    assert!(lines.iter().all(|line| line.ends_with("; at most 200 MiB)")), "{ran:?}");
    let summary = site.agent.json(&["show", "--attempt", "raised"])["summary"].take();
    assert_eq!((&summary["oom_kill"], &summary["censored"]), (&0.into(), &false.into()), "{summary}");
    assert_eq!(summary["rescue"]["raises"], lines.len(), "{summary}");
    assert_eq!(summary["memory_limit_at_start_bytes"], 100 * MIB, "{summary}");
    let limit = summary["resources"]["memory_limit_bytes"].as_u64().unwrap();
    assert!((145 * MIB..=200 * MIB).contains(&limit), "{summary}");
    let need = summary["need_peak_bytes"].as_u64().unwrap();
    assert!((144 * MIB..152 * MIB).contains(&need), "the need is the true one: {summary}");
    let shown = site.agent.call(&["show", "--attempt", "raised"]).stdout;
    assert!(shown.contains("100 MiB at the start"), "{shown}");
    let predicted = site.agent.json(&["predict", "--key", "package=grower"]);
    let limit = predicted["memory_limit_bytes"]["value"].as_u64().unwrap();
    assert!(limit >= need, "{predicted}");
}

#[test]
fn a_build_above_the_ceiling_is_killed_there() {
    let site = Site::start().unwrap();
    let options = "--attempt killed --key package=grower --limit-memory 64MiB --limit-memory-most 96MiB";
    let ran = site.agent.run(options, &grow(160));
    let Some(lines) = raises(&ran) else { return };
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(lines.iter().any(|line| line.contains(" to 96 MiB (it needs ")), "{ran:?}");
    let summary = site.agent.json(&["show", "--attempt", "killed"])["summary"].take();
    assert_eq!(
        (&summary["cause"], &summary["oom_origin"]),
        (&"oom".into(), &"own_limit".into()),
        "{summary}"
    );
    assert_eq!(summary["resources"]["memory_limit_bytes"], 96 * MIB, "{summary}");
}

#[test]
fn a_limit_further_up_is_not_passed() {
    let site = Site::start().unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = own.lines().find_map(|line| line.split_once(":memory:")).map_or("", |(_id, path)| path);
    let group = format!("/sys/fs/cgroup/memory{path}/above-{}", std::process::id());
    if path.is_empty() || fs::create_dir(&group).is_err() {
        return eprintln!("skipped: no v1 cgroup can be made here");
    }
    fs::write(format!("{group}/memory.limit_in_bytes"), "80M").unwrap();
    let inside = format!("echo $$ >{group}/cgroup.procs && exec \"$0\" \"$@\"");
    let options =
        "run --attempt above --key package=grower --limit-memory 64MiB --limit-memory-most 128MiB -- sh -c";
    let agent = site.agent.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &inside]).arg(agent.get_program()).args(options.split(' ')).arg(grow(128));
    command.envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Answer::of(&mut command);
    fs::remove_dir(&group).unwrap();
    let lines = raises(&ran).unwrap();
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let kept = lines.iter().filter(|line| line.contains(" for now: it could have ")).count();
    assert_eq!(kept, 1, "{ran:?}");
    let summary = site.agent.json(&["show", "--attempt", "above"])["summary"].take();
    let limit = summary["resources"]["memory_limit_bytes"].as_u64().unwrap();
    assert!((64 * MIB..=80 * MIB).contains(&limit), "{summary}");
}
