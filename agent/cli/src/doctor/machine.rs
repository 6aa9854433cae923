//! Checks of this machine: how a build here would be measured, and where its samples would wait for the server.

use std::time::{Duration, Instant};

use plimsoll_base::checks::CheckLine;
use plimsoll_client::connection_check;
use plimsoll_measure::{cgroup::CgroupLimits, kernel::Kernel, meter::Meter};
use plimsoll_proto::{figures, v1::Source};

use super::Settings;
use crate::{
    key::CiJob,
    output::{PHASE_TOOLS, PhaseMarks},
};

/// Number of readings, of which the median time is shown.
const READING_COUNT: usize = 5;

/// How a build would be measured here, and the limits in force for it. Creates the cgroup that a build would
/// get, and removes it again.
pub(super) async fn check_measuring(kernel: &Kernel) -> Vec<CheckLine> {
    let mut meter = Meter::prepare(kernel, &format!("doctor-{}", ulid::Ulid::new()), None);
    let mut costs: Vec<Duration> = (0..READING_COUNT).filter_map(|_| time_reading(&mut meter)).collect();
    costs.sort_unstable();
    let cost = costs.get(costs.len() / 2).copied();
    let lines =
        vec![measurement_source(meter.source(), meter.has_own_group(), cost), check_limits(meter.limits())];
    meter.close().await;
    lines
}

fn time_reading(meter: &mut Meter) -> Option<Duration> {
    let begin = Instant::now();
    meter.read().map(|_reading| begin.elapsed())
}

/// Which source measures a build, what it cannot measure, and how long one reading takes.
fn measurement_source(source: Source, has_own_group: bool, cost: Option<Duration>) -> CheckLine {
    const CHECK_NAME: &str = "cgroup";
    let Some(cost) = cost else {
        let text = "nothing can be measured here: neither a cgroup nor /proc can be read; run it as the build's user, with /proc mounted";
        return CheckLine::fail(CHECK_NAME, text);
    };
    let cost = format!("a reading takes {:.2} ms", cost.as_secs_f64() * 1000.0);
    let version = match source {
        Source::CgroupV1 => "v1",
        Source::CgroupV2 => "v2",
        _tree => {
            let text = format!(
                "no cgroup of the build can be read, so its processes are added up: {cost}, more with many processes; kills for \
                 memory are not seen. Give the agent a cgroup that it may write (deploy/docs/agent.md)"
            );
            return CheckLine::warn(CHECK_NAME, text);
        }
    };
    let text = if has_own_group {
        format!("{version}, a group for each build: {cost}")
    } else {
        format!(
            "{version}, the group of this job, so other commands in it are counted, and --limit-memory has no effect: {cost}"
        )
    };
    CheckLine::ok(CHECK_NAME, text)
}

fn check_limits(limits: &CgroupLimits) -> CheckLine {
    let memory = limits
        .memory
        .map_or_else(|| "none, so a build can take all of the machine".to_owned(), figures::bytes);
    let cpu = limits.cpu.map_or_else(|| "none".to_owned(), |cores| format!("{cores} cores"));
    CheckLine::ok("limits", format!("memory: {memory}; CPU: {cpu}"))
}

/// Checks the directory where samples wait for the server.
pub(super) async fn check_spool(settings: &Settings) -> CheckLine {
    const CHECK_NAME: &str = "spool";
    let dir = settings.spool_dir.display();
    let found = match connection_check::check_spool(&settings.spool_dir, settings.spool_bytes).await {
        Ok(found) => found,
        Err(error) => {
            let text = format!(
                "{dir} cannot be used ({error}): samples wait in memory only, and are lost if the server is away; name another --spool-dir"
            );
            return CheckLine::warn(CHECK_NAME, text);
        }
    };
    let text = format!("{} takes up to {}", found.dir.display(), figures::bytes(settings.spool_bytes));
    let free = found.free_bytes.unwrap_or(u64::MAX);
    if free < settings.spool_bytes {
        let free = figures::bytes(free);
        return CheckLine::warn(
            CHECK_NAME,
            format!("{text}, but its disk has only {free} free: make room, or name another --spool-dir"),
        );
    }
    let left = [(found.waiting, "waiting for the server"), (found.refused, "refused by a server")];
    let left = left.into_iter().filter(|(count, _)| *count > 0);
    let left: Vec<String> = left.map(|(count, what)| format!("; earlier attempts {what}: {count}")).collect();
    CheckLine::ok(CHECK_NAME, text + &left.concat())
}

/// Which markers the agent would look for in the output of a build.
pub(super) fn check_phases(marks: Option<&PhaseMarks>) -> CheckLine {
    let Some(marks) = marks else {
        let options: Vec<String> = PHASE_TOOLS.iter().map(|tool| format!("--phases {}", tool.name)).collect();
        let options = options.join(", ");
        return CheckLine::ok("phases", format!("not read here: {options} or a pattern turns them on"));
    };
    let mut kinds: Vec<String> = marks.tools.iter().map(|tool| tool.markers.to_owned()).collect();
    if !marks.patterns.is_empty() {
        kinds.push(figures::counted(u64::try_from(marks.patterns.len()).unwrap_or(u64::MAX), "pattern"));
    }
    CheckLine::ok("phases", format!("read from the build's output: {}", kinds.join(", ")))
}

/// What names a build in this job, and what is unusual about it; `None` outside of CI.
pub(crate) fn check_job(job: &CiJob) -> Option<CheckLine> {
    const CHECK_NAME: &str = "job";
    if !job.ci {
        return None;
    }
    let system = job.recognized.map_or("a CI system that is not known", |system| system.title);
    // the name of a build is the same for every command that builds no RPM
    let (key, mut notes) = job.named_key(&["make".into()], &[]).ok()?;
    notes.extend(job.foreign_note());
    let project = if key.project.is_empty() { "none" } else { &key.project };
    let id = job.attempt.as_deref().unwrap_or("of its own");
    let text = format!("{system}: project {project}, package {}, id {id}", key.package);
    Some(if notes.is_empty() {
        CheckLine::ok(CHECK_NAME, job.secrets.mask_text(&text))
    } else {
        CheckLine::warn(CHECK_NAME, job.secrets.mask_text(&format!("{text}. {}", notes.join(". "))))
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::fake_kernel::FakeKernel;

    use super::*;

    #[tokio::test]
    async fn an_unreadable_cgroup_warns_and_no_kernel_fails() {
        let nothing = check_measuring(&FakeKernel::new().kernel()).await;
        assert!(nothing[0].is_failed() && nothing[0].finding.contains("/proc can be read"), "{nothing:?}");
        let tree = measurement_source(Source::ProcessTree, false, Some(Duration::from_millis(2)));
        assert!(!tree.is_ok(), "{tree:?}");
        assert!(tree.finding.contains("a reading takes 2.00 ms"), "{tree:?}");
        assert!(tree.finding.contains("kills for memory"), "{tree:?}");
        let shared = measurement_source(Source::CgroupV2, false, Some(Duration::ZERO));
        assert!(shared.is_ok() && shared.finding.contains("other commands in it are counted"), "{shared:?}");
    }

    #[test]
    fn limits_say_that_there_are_none() {
        assert!(check_limits(&CgroupLimits::default()).finding.starts_with("memory: none"));
        let some = CgroupLimits { memory: Some(2 << 30), cpu: Some(1.5), ..CgroupLimits::default() };
        assert_eq!(check_limits(&some).finding, "memory: 2.00 GiB; CPU: 1.5 cores");
    }

    #[tokio::test]
    async fn an_unusable_spool_names_the_loss() {
        let (dir, file) = plimsoll_support::temporary::file_with("file", "");
        let settings = |spool_dir, spool_bytes| Settings { spool_dir, spool_bytes, ..Settings::default() };
        let refused = check_spool(&settings(file.join("spool"), 1 << 20)).await;
        assert!(!refused.is_ok() && refused.finding.contains("name another --spool-dir"), "{refused:?}");
        let full = check_spool(&settings(dir.path().join("spool"), u64::MAX - 1)).await;
        assert!(full.finding.contains("free: make room"), "{full:?}");
        assert!(check_spool(&settings(dir.path().join("spool"), 1 << 20)).await.is_ok());
    }

    #[test]
    fn phases_say_what_is_looked_for() {
        assert!(check_phases(None).finding.starts_with("not read here"));
        let marks = PhaseMarks { tools: vec![PHASE_TOOLS[0]], ..PhaseMarks::default() };
        assert_eq!(check_phases(Some(&marks)).finding, "read from the build's output: GitLab's sections");
    }
}
