//! Real builds in real groups, where this machine lets us make some; elsewhere these tests say so and prove nothing.

use std::process::{Child, Command, Stdio};

use super::super::*;
use crate::kernel::Kernel;

const MIB: u64 = 1 << 20;
/// No test needs as long, on a machine that does anything else.
const TOO_LONG: Duration = Duration::from_mins(2);

/// A group with this limit; `None` if none can be made here.
fn own_group(limit: Option<u64>) -> Option<Meter> {
    let meter = Meter::prepare(&Kernel::running(), &ulid::Ulid::new().to_string(), limit);
    if !meter.has_own_group() || meter.no_limit().is_some() {
        println!("skipped: no cgroup can be made here");
        return None;
    }
    Some(meter)
}

/// A folder on a disk, beside the test program: a temporary folder may be in memory, where files are need.
fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

fn start(meter: &mut Meter, script: &str) -> (Option<Reading>, Child) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (before, child) = meter.run_inside(|| command.spawn());
    (before, child.unwrap())
}

/// Samples the script to its end, or until `enough`; its limit may be raised to `most`. Returns what was measured and all notices.
async fn measure(
    mut meter: Meter,
    script: &str,
    most: Option<u64>,
    enough: impl Fn(&Sample) -> bool,
) -> (Measured, Vec<Sample>, Vec<String>) {
    let (before, mut child) = start(&mut meter, script);
    let begin = Instant::now();
    let mut sampler = Sampler::new(meter, before, begin, Duration::from_secs(1)).with_limit_most(most);
    let (mut samples, mut notices) = (Vec::new(), Vec::new());
    while child.try_wait().unwrap().is_none() && !samples.last().is_some_and(&enough) {
        assert!(begin.elapsed() < TOO_LONG, "still running; last: {:?}", samples.last());
        tokio::time::sleep_until(sampler.due()).await;
        samples.extend(sampler.tick());
        notices.extend(sampler.take_notice());
    }
    sampler.meter.kill_own_group();
    child.wait().unwrap();
    let measured = sampler.finish();
    (measured, samples, notices)
}

#[tokio::test]
async fn writing_many_files_needs_little_memory() {
    let Some(meter) = own_group(Some(128 * MIB)) else { return };
    let dir = disk();
    let script = format!("head -c {} /dev/zero > {}/file; sleep 0.2", 300 * MIB, dir.path().display());
    let (measured, samples, notices) = measure(meter, &script, Some(512 * MIB), |_sample| false).await;
    let totals = measured.totals;
    assert!(totals.need_peak_bytes.unwrap() < 32 * MIB, "{totals:?}");
    let mark = totals.memory_peak_bytes.unwrap();
    assert!((120 * MIB..=128 * MIB).contains(&mark), "{totals:?}");
    assert!(samples.iter().all(|sample| sample.memory_bytes <= mark));
    assert!(totals.reclaim_failures.unwrap() > 0, "failures at the limit are counted: {totals:?}");
    assert_eq!((totals.starved_ms, totals.oom_kill), (Some(0), Some(0)));
    assert!(notices.is_empty(), "{notices:?}");
    assert_eq!((measured.rescue, totals.memory_limit_bytes), (None, None), "page cache raises no limit");
    measured.meter.close().await;
}

#[tokio::test]
async fn names_of_many_files_are_no_need() {
    let Some(meter) = own_group(None) else { return };
    let dir = disk();
    let script = format!(
        "cd {} && i=0; while [ $i -lt 40000 ]; do : > $i; i=$((i+1)); done; sleep 0.2",
        dir.path().display()
    );
    let (measured, ..) = measure(meter, &script, None, |_sample| false).await;
    let totals = measured.totals;
    // 40,000 files are 56 MB of kernel memory
    assert!(totals.need_peak_bytes.unwrap() < 24 * MIB, "{totals:?}");
    measured.meter.close().await;
}

#[tokio::test]
async fn a_real_thrashing_build_is_starved() {
    let Some(meter) = own_group(Some(64 * MIB)) else { return };
    let dir = disk();
    let program = std::env::current_exe().unwrap();
    // All but 9 MiB is held. The rest is too little for the text of programs that run in turn and whose pages belong to this
    // group; of one program alone it may hold all that is used.
    let script = format!(
        "cd {1} && for i in 1 2 3 4 5 6 7 8; do cp {0} x$i; done; \
         {{ head -c {2} /dev/zero; sleep 300; }} | tail >/dev/null & \
         while :; do for i in 1 2 3 4 5 6 7 8; do ./x$i --list >/dev/null; done; done",
        program.display(),
        dir.path().display(),
        55 * MIB
    );
    let enough = |sample: &Sample| sample.starved_ms > Some(0) || sample.oom_kill > Some(0);
    let (measured, samples, notices) = measure(meter, &script, None, enough).await;
    if measured.totals.oom_kill > Some(0) {
        return println!("skipped: this kernel kills at once where others thrash");
    }
    assert!(measured.totals.starved_ms > Some(1500), "{:?}", samples.last());
    assert!(notices.iter().any(|notice| notice.contains("is starving now")), "{notices:?}");
    measured.meter.close().await;
}

#[tokio::test]
async fn a_limit_that_others_change_is_theirs() {
    let Some(meter) = own_group(Some(64 * MIB)) else { return };
    let folder = meter.limits().limiting.clone().unwrap();
    let mut files = ["memory.max", "memory.limit_in_bytes"].map(|name| folder.join(name)).into_iter();
    let file = files.find(|file| file.is_file()).unwrap();
    let mut sampler = Sampler::new(meter, None, Instant::now(), Duration::from_millis(20));
    sampler = sampler.with_limit_most(Some(128 * MIB));
    for (limit, expected) in [
        (64, None),
        (48, Some("the build's memory limit is raised no more: others changed it from 64 MiB to 48 MiB")),
        (64, None),
    ] {
        std::fs::write(&file, (limit * MIB).to_string()).unwrap();
        tokio::time::sleep_until(sampler.due()).await;
        assert!(sampler.tick().is_some());
        assert_eq!(sampler.take_notice().as_deref(), expected);
        assert!(!sampler.raising.as_ref().unwrap().needs_readings());
    }
    let measured = sampler.finish();
    let reason = "the memory limit is raised no more: others changed it from 64 MiB to 48 MiB";
    assert_eq!(measured.rescue.unwrap().gave_up, reason);
    measured.meter.close().await;
}
