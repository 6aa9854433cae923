//! The one line at the end, for the person who reads the job's log: what was used, of what, and where the samples are.

use std::{ffi::OsString, fmt, path::Path, time::Duration};

use plimsoll_proto::v1::{Exit, Key, Resources, Totals};

use crate::delivery::Report;

/// Everything that the line says.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) name: String,
    pub(super) exit: Exit,
    pub(super) wall: Duration,
    pub(super) totals: &'a Totals,
    /// What was asked for, and the limits in force.
    pub(super) resources: &'a Resources,
    pub(super) attempt: &'a str,
    pub(super) report: &'a Report,
    /// Samples go nowhere, on purpose.
    pub(super) measures_only: bool,
}

/// What is built, in few words.
pub(super) fn name(key: &Key, command: &[OsString]) -> String {
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
        let seconds = self.wall.as_secs_f64();
        write!(f, "plimsoll: {} {} after {seconds:.1} s", self.name, Ending(self.exit))?;
        self.write_memory(f)?;
        #[expect(clippy::cast_precision_loss, reason = "for people: three digits are shown")]
        let cpu = self.totals.cpu_usec as f64 / 1e6;
        write!(f, ", CPU {cpu:.1} s")?;
        if seconds >= 0.1 {
            write!(f, " ({:.1} cores)", cpu / seconds)?;
        }
        self.write_samples(f)
    }
}

impl Line<'_> {
    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.resources.memory_limit_bytes;
        let kills = self.totals.oom_kill.unwrap_or(0);
        if kills > 0 {
            write!(f, "; the kernel killed {}", Processes(kills))?;
            match limit {
                Some(limit) => write!(f, " at the limit of {}", Bytes(limit))?,
                None => write!(f, " for memory")?,
            }
        }
        let Some(need) = self.totals.need_peak_bytes else { return write!(f, "; memory was not measured") };
        write!(f, "; need {}", Bytes(need))?;
        if let Some(asked) = self.resources.memory_request_bytes.filter(|&asked| asked > 0) {
            write!(f, " of {} asked ({} %)", Bytes(asked), percent(need, asked))?;
        } else if let Some(limit) = limit.filter(|&limit| limit > 0) {
            write!(f, ", limit {} ({} %)", Bytes(limit), percent(need, limit))?;
        }
        match self.totals.memory_peak_bytes {
            Some(mark) => write!(f, ", high-water mark {}", Bytes(mark)),
            None => Ok(()),
        }
    }

    fn write_samples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.measures_only {
            return Ok(());
        }
        if self.report.delivered {
            write!(f, ", samples delivered as {}", self.attempt)?;
        } else if let Some(kept) = &self.report.kept {
            write!(f, ", samples of {} kept for the next run in {}", self.attempt, kept.display())?;
        } else {
            write!(f, ", samples of {} not delivered", self.attempt)?;
        }
        if self.report.lost > 0 {
            write!(f, ", {} lost", self.report.lost)?;
        }
        match &self.report.problem {
            Some(problem) => write!(f, ": {problem}"),
            None => Ok(()),
        }
    }
}

/// Rounded; `of` is above zero.
fn percent(part: u64, of: u64) -> u128 {
    (u128::from(part) * 100 + u128::from(of / 2)) / u128::from(of.max(1))
}

struct Ending(Exit);

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |signal| nix::sys::signal::Signal::try_from(signal).map(nix::sys::signal::Signal::as_str);
        match (self.0.code, self.0.signal) {
            (Some(code), _signal) => write!(f, "ended with exit code {code}"),
            (None, Some(signal)) => match known(signal) {
                Ok(name) => write!(f, "was ended by {name}"),
                Err(_realtime) => write!(f, "was ended by signal {signal}"),
            },
            (None, None) => write!(f, "ended unseen"),
        }
    }
}

struct Processes(u64);

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} process{}", self.0, if self.0 == 1 { "" } else { "es" })
    }
}

/// Bytes in the largest unit that leaves a number of at least one, with three digits.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "for people: three digits are shown")]
        let mut number = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
            // 1023.6 would be shown as 1024
            if number < 1023.5 {
                break;
            }
            number /= 1024.0;
            unit = larger;
        }
        let digits = match number {
            _bytes if unit == "B" => 0,
            n if n < 9.995 => 2,
            n if n < 99.95 => 1,
            _large => 0,
        };
        write!(f, "{number:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(totals: &Totals, resources: &Resources, exit: Exit, report: &Report) -> String {
        let line = Line {
            name: "zlib@1.3".to_owned(),
            exit,
            wall: Duration::from_millis(12_300),
            totals,
            resources,
            attempt: "job-7",
            report,
            measures_only: false,
        };
        line.to_string()
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
             high-water mark 324 MiB, CPU 21.0 s (1.7 cores), samples delivered as job-7"
        );
    }

    #[test]
    fn a_killed_build_says_who_killed_it_and_where_the_samples_wait() {
        let totals = Totals { oom_kill: Some(1), need_peak_bytes: Some(255 << 20), ..Totals::default() };
        let resources = Resources { memory_limit_bytes: Some(256 << 20), ..Resources::default() };
        let problem = Some("connection refused".to_owned());
        let report = Report { problem, kept: Some("/spool/job-7".into()), lost: 2, ..Report::default() };
        assert_eq!(
            line(&totals, &resources, Exit { code: None, signal: Some(9) }, &report),
            "plimsoll: zlib@1.3 was ended by SIGKILL after 12.3 s; the kernel killed 1 process at the limit of 256 MiB; \
             need 255 MiB, limit 256 MiB (100 %), CPU 0.0 s (0.0 cores), samples of job-7 kept for the next run in \
             /spool/job-7, 2 lost: connection refused"
        );
    }

    #[test]
    fn bytes_have_three_digits() {
        let shown = |bytes| Bytes(bytes).to_string();
        assert_eq!(shown(999), "999 B");
        assert_eq!(shown(1024), "1.00 KiB");
        assert_eq!(shown((1 << 30) - 1), "1.00 GiB");
        assert_eq!(shown(15 << 30), "15.0 GiB");
        assert_eq!(shown(281 << 20), "281 MiB");
    }

    #[test]
    fn a_key_without_a_package_is_named_after_the_command() {
        let key = Key { version: "1".to_owned(), ..Key::default() };
        assert_eq!(name(&key, &["/usr/bin/make".into()]), "make");
    }
}
