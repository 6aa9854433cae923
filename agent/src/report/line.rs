//! The one line at the end, for the person who reads the job's log: what was used, of what, and where the samples are.

use std::{ffi::OsString, fmt, path::Path};

use plimsoll_proto::{
    figures,
    v1::{Key, OomOrigin},
};

use super::{
    End, Facts,
    words::{self, Bytes, Processes},
};

/// The n-th part of a limit: a need that is closer to it has met it.
const NEAR: u64 = 8;

/// All that matters, in one line.
#[derive(Debug)]
pub(super) struct Line<'a>(pub(super) &'a Facts);

/// What is built, in few words.
pub(crate) fn name(key: &Key, command: &[OsString]) -> String {
    match (key.package.as_str(), key.version.as_str()) {
        ("", _version) => {
            let file = command.first().and_then(|command| Path::new(command).file_name());
            file.unwrap_or_default().to_string_lossy().into_owned()
        }
        (package, "") => package.to_owned(),
        (package, version) => format!("{package}@{version}"),
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.wall.as_secs_f64();
        write!(f, "{}", Head(self.0))?;
        #[expect(clippy::cast_precision_loss, reason = "for people: three digits are shown")]
        let cpu = self.0.totals.cpu_usec as f64 / 1e6;
        write!(f, ", CPU {cpu:.1} s")?;
        if seconds >= 0.1 {
            write!(f, " ({})", figures::cores_named(cpu / seconds))?;
        }
        self.write_samples(f)
    }
}

/// The beginning of the line: the end, and the memory. It stands above a folded report.
#[derive(Debug)]
pub(super) struct Head<'a>(pub(super) &'a Facts);

impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.wall.as_secs_f64();
        write!(f, "plimsoll: {} {}", self.0.name, self.0.end)?;
        let comma = if matches!(self.0.end, End::Followed(_)) { "," } else { " after" };
        write!(f, "{comma} {seconds:.1} s")?;
        self.write_memory(f)
    }
}

impl Head<'_> {
    /// At which limit. One that the build set for a part of itself is lower than its own, and was met with less.
    fn killed_where(&self) -> String {
        let totals = &self.0.totals;
        let near = |limit: &u64| totals.need_peak_bytes.is_none_or(|need| need >= limit - limit / NEAR);
        match (totals.oom_origin(), self.0.resources.memory_limit_bytes) {
            (OomOrigin::OwnLimit, Some(limit)) if near(&limit) => format!("at the limit of {}", Bytes(limit)),
            (origin, _limit) => words::origin(origin).to_owned(),
        }
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.0.resources.memory_limit_bytes;
        let kills = self.0.totals.oom_kill.unwrap_or(0);
        let starved = self.0.totals.starved_ms.unwrap_or(0) > 0;
        if kills > 0 {
            write!(f, "; the kernel killed {} {}", Processes(kills), self.killed_where())?;
        }
        let Some(need) = self.0.totals.need_peak_bytes else { return write!(f, "; memory was not measured") };
        let more = if kills > 0 || starved { "needed more than" } else { "need" };
        write!(f, "; {more} {}", Bytes(need))?;
        if let Some(asked) = self.0.resources.memory_request_bytes.filter(|&asked| asked > 0) {
            write!(f, " of {} asked ({})", Bytes(asked), figures::share_of(need, asked))?;
        } else if let Some(limit) = limit.filter(|&limit| limit > 0) {
            write!(f, ", limit {} ({})", Bytes(limit), figures::share_of(need, limit))?;
        }
        match self.0.totals.memory_peak_bytes {
            Some(mark) => write!(f, ", high-water mark {}", Bytes(mark)),
            None => Ok(()),
        }
    }
}

impl Line<'_> {
    fn write_samples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.measures_only {
            return Ok(());
        }
        if self.0.delivery.delivered {
            write!(f, ", samples delivered as {}", self.0.attempt)?;
        } else if let Some(kept) = &self.0.delivery.kept {
            write!(f, ", samples of {} kept for the next run in {}", self.0.attempt, kept.display())?;
        } else {
            write!(f, ", samples of {} not delivered", self.0.attempt)?;
        }
        if self.0.delivery.lost > 0 {
            write!(f, ", {} lost", self.0.delivery.lost)?;
        }
        match &self.0.delivery.problem {
            Some(problem) => write!(f, ": {problem}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_proto::v1::{Exit, Resources, Totals};

    use super::*;
    use crate::delivery::Report;

    fn line(totals: &Totals, resources: &Resources, exit: Exit, report: &Report) -> String {
        let facts = Facts {
            name: "zlib@1.3".to_owned(),
            end: End::Exited(exit),
            wall: Duration::from_millis(12_300),
            totals: *totals,
            resources: *resources,
            attempt: "job-7".to_owned(),
            delivery: report.clone(),
            ..Facts::default()
        };
        Line(&facts).to_string()
    }

    #[test]
    fn a_good_build_says_what_it_used_of_what_was_asked() {
        let totals = Totals {
            cpu_usec: 21_000_000,
            memory_peak_bytes: Some(324 << 20),
            oom_kill: Some(0),
            reclaim_failures: Some(0),
            need_peak_bytes: Some(281 << 20),
            ..Totals::default()
        };
        let resources = Resources { memory_request_bytes: Some(2 << 30), ..Resources::default() };
        let report = Report { delivered: true, ..Report::default() };
        assert_eq!(
            line(&totals, &resources, Exit { code: Some(0), signal: None }, &report),
            "plimsoll: zlib@1.3 ended with exit code 0 after 12.3 s; need 281 MiB of 2.00 GiB asked (14 %), \
             high-water mark 324 MiB, CPU 21.0 s (1.71 cores), samples delivered as job-7"
        );
    }

    #[test]
    fn a_killed_build_says_who_killed_it_and_where_the_samples_wait() {
        let mut totals = Totals { oom_kill: Some(1), need_peak_bytes: Some(255 << 20), ..Totals::default() };
        totals.set_oom_origin(OomOrigin::OwnLimit);
        let resources = Resources { memory_limit_bytes: Some(256 << 20), ..Resources::default() };
        let problem = Some("connection refused".to_owned());
        let report = Report { problem, kept: Some("/spool/job-7".into()), lost: 2, ..Report::default() };
        assert_eq!(
            line(&totals, &resources, Exit { code: None, signal: Some(9) }, &report),
            "plimsoll: zlib@1.3 was ended by SIGKILL after 12.3 s; the kernel killed 1 process at the limit of 256 MiB; \
             needed more than 255 MiB, limit 256 MiB (99.6 %), CPU 0.0 s (0 cores), samples of job-7 kept for the next run in \
             /spool/job-7, 2 lost: connection refused"
        );
    }

    #[test]
    fn a_kill_is_blamed_on_the_limit_that_was_met() {
        let resources = Resources { memory_limit_bytes: Some(256 << 20), ..Resources::default() };
        let exit = Exit { code: Some(1), signal: None };
        let killed = |origin, need| {
            let mut totals = Totals { oom_kill: Some(1), need_peak_bytes: Some(need), ..Totals::default() };
            totals.set_oom_origin(origin);
            line(&totals, &resources, exit, &Report::default())
        };
        assert!(killed(OomOrigin::OwnLimit, 250 << 20).contains("killed 1 process at the limit of 256 MiB"));
        assert!(killed(OomOrigin::OwnLimit, 20 << 20).contains("or at one that the build set itself"));
        assert!(killed(OomOrigin::LimitAbove, 20 << 20).contains("at a limit above the build's own"));
        assert!(killed(OomOrigin::Host, 20 << 20).contains("because the whole machine had no memory left"));
        assert!(
            killed(OomOrigin::Unspecified, 20 << 20).contains("killed 1 process for memory; needed more")
        );
    }

    #[test]
    fn a_key_without_a_package_is_named_after_the_command() {
        let key = Key { version: "1".to_owned(), ..Key::default() };
        assert_eq!(name(&key, &["/usr/bin/make".into()]), "make");
    }
}
