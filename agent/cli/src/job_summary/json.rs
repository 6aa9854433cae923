//! Writes the report for programs: a file with one JSON object, with the names and units of the wire.
//!
//! A symbolic link at the path is refused, except for those of the system to open files, such as `/dev/stderr`. If a file has several hard
//! links, it is replaced under this name only.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use nix::fcntl::OFlag;
use plimsoll_base::own_files;
use plimsoll_proto::{WireEnum as _, json::ToJson};
use rustix::{
    fs::fstat,
    io::Errno,
    stdio::{stderr, stdout},
};
use serde_json::{Value, json};

use super::{BuildFacts, MeasurementEnd, advice};
use crate::{ask::json::for_programs, standard_error};

/// How long to wait for a pipe or a terminal to accept the report.
const TARGET_PATIENCE: Duration = Duration::from_secs(1);

/// Writes the report. A regular file is replaced atomically. A pipe, a device, or an open file (one that this process already writes to,
/// `/dev/stderr`) is written to directly.
/// Errors: the path is a symbolic link, the directory cannot be written to, the pipe has no reader, or the target is a directory.
pub(crate) fn write(facts: &BuildFacts, path: &Path) -> io::Result<()> {
    let text = format!("{:#}\n", report_json(facts));
    let names_open_file = names_open_file(path);
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if names_open_file || !found.is_file() || is_stream_of_ours(&found) => {
            let follow = if names_open_file { OFlag::empty() } else { OFlag::O_NOFOLLOW };
            let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | follow;
            let target = File::options().append(true).custom_flags(flags.bits()).open(path);
            let target = target.map_err(|error| match error.raw_os_error() {
                Some(code) if code == Errno::LOOP.raw_os_error() => own_files::LinkRefusal::Symbolic.into(),
                _ => error,
            })?;
            standard_error::write_within(&target, text.as_bytes(), TARGET_PATIENCE)
                .map_err(|unwritten| unwritten.error)
        }
        _ => own_files::replace_named(path, text.as_bytes()),
    }
}

/// Whether the path is one of the system's links to open files and devices: `/dev/stderr`, `/dev/fd/3`, `/proc/self/fd/3`. Other programs
/// cannot make links there.
fn names_open_file(path: &Path) -> bool {
    let dir = path.parent().and_then(|dir| fs::canonicalize(dir).ok());
    dir.is_some_and(|dir| dir == Path::new("/dev") || dir.starts_with("/proc"))
}

/// Whether a file is this process's standard output or standard error. Such a file must not be replaced,
/// because other programs write to the same file.
fn is_stream_of_ours(found: &fs::Metadata) -> bool {
    [stdout(), stderr()]
        .into_iter()
        .filter_map(|stream| fstat(stream).ok())
        .any(|stream| (stream.st_dev, stream.st_ino) == (found.dev(), found.ino()))
}

/// For a build that the agent did not start, if its exit status is unknown: how its end was noticed.
fn seen_end(end: &MeasurementEnd) -> Option<&str> {
    match end {
        MeasurementEnd::Exited(_) => None,
        MeasurementEnd::Ended(how) => Some(how),
        MeasurementEnd::Followed(until) => Some(until),
    }
}

fn report_json(facts: &BuildFacts) -> Value {
    let delivery = &facts.delivery;
    // cannot fail: JSON can represent these messages
    let to_json = |message: &dyn ToJson| serde_json::to_value(message.json(for_programs)).unwrap_or_default();
    let mut totals = to_json(&facts.totals);
    // if no process was killed, or the limit is unknown, write `null`
    let origin = totals.pointer_mut("/oom_origin").filter(|origin| *origin == "unspecified");
    origin.map(Value::take);
    let mut report = json!({
        "attempt": facts.attempt,
        "number": facts.number,
        "retries": facts.retries,
        "name": facts.name,
        "exit": to_json(&facts.end.exit().unwrap_or_default()),
        "followed_until": seen_end(&facts.end),
        "wall_ms": u64::try_from(facts.wall.as_millis()).unwrap_or(u64::MAX),
        "source": facts.source.word(),
        "offloaded_to": Some(&facts.offloaded_to).filter(|service| !service.is_empty()),
        "resources": to_json(&facts.resources),
        "totals": totals,
        "phases": to_json(&facts.phases),
        "peak_phase": facts.peak_phase().map(|phase| &phase.name),
        "need_curve_bytes": facts.curve,
        "largest_process": to_json(&facts.largest_process),
        "rescue": to_json(&facts.rescue),
        "delivery": {
            "delivered": delivery.delivered,
            "lost": delivery.lost,
            "kept": delivery.kept,
            "problem": delivery.problem,
        },
        "prediction": to_json(&facts.advice.prediction),
        "verdict": to_json(&facts.advice.verdict),
        "advice_problem": facts.advice.problem,
        "memory_request_from_need_bytes": advice::from_need(facts),
    });
    if let Some(fields) = report.as_object_mut().filter(|_| !facts.notes.is_empty()) {
        fields.insert("notes".to_owned(), json!(facts.notes));
    }
    report
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, os::fd::AsRawFd as _};

    use plimsoll_proto::fixtures::{Fill, assert_pinned, message};

    use super::*;

    #[test]
    fn the_file_is_whole_or_not_there() {
        let (dir, path) = plimsoll_support::temporary::file_with("report.json", "old");
        let facts = BuildFacts { attempt: "job-7".to_owned(), ..BuildFacts::default() };
        write(&facts, &path).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&read["attempt"], &read["totals"]["need_peak_bytes"]), (&"job-7".into(), &Value::Null));
        assert!(write(&facts, &dir.path().join("absent/report.json")).is_err());
        assert!(write(&facts, Path::new("/")).is_err());
        // the target is a folder, so the rename fails: the temporary file must be removed
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert!(write(&facts, &dir.path().join("folder")).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn pipes_are_written_into_and_not_replaced() {
        let (_dir, fifo) = plimsoll_support::temporary::file_name("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(write(&BuildFacts::default(), &fifo).is_err(), "the pipe has no reader");
        let flags = OFlag::O_NONBLOCK.bits();
        let mut reader = File::options().read(true).custom_flags(flags).open(&fifo).unwrap();
        let by_number = format!("/proc/self/fd/{}", reader.as_raw_fd()).into();
        for target in [&fifo, &by_number] {
            write(&BuildFacts { attempt: "job-7".to_owned(), ..BuildFacts::default() }, target).unwrap();
            let mut bytes = [0; 4096];
            let read = io::Read::read(&mut reader, &mut bytes).unwrap();
            let read: Value = serde_json::from_slice(&bytes[..read]).unwrap();
            assert_eq!(read["attempt"], "job-7");
        }
        assert!(!fs::metadata(&fifo).unwrap().is_file());
    }

    #[test]
    fn a_link_is_refused_and_its_target_untouched() {
        let (dir, link) = plimsoll_support::temporary::file_name("link");
        fs::write(dir.path().join("other"), "of another program").unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for target in ["other", "absent", "pipe", "/dev/null"] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let refused = write(&BuildFacts::default(), &link).unwrap_err();
            assert!(refused.to_string().starts_with("it is a symbolic link"), "{target}: {refused}");
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"of another program");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn writing_a_report_keeps_other_hard_links_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (other, path) = (dir.path().join("other"), dir.path().join("report.json"));
        fs::write(&other, "of another program").unwrap();
        fs::hard_link(&other, &path).unwrap();
        write(&BuildFacts::default(), &path).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"of another program");
        assert!(fs::read_to_string(&path).unwrap().contains("totals"));
    }

    #[test]
    fn programs_read_the_same_bytes_as_ever() {
        let mut all = String::new();
        for fill in [Fill::Rich, Fill::Zero, Fill::Empty] {
            let mut facts = BuildFacts {
                attempt: "job-7".to_owned(),
                name: "zlib".to_owned(),
                totals: message("Totals", fill),
                resources: message("Resources", fill),
                phases: vec![message("Phase", fill)],
                curve: vec![1, 2],
                largest_process: Some(message("LargestProcess", fill)),
                rescue: Some(message("Rescue", fill)),
                ..BuildFacts::default()
            };
            facts.advice.prediction = Some(message("Prediction", fill));
            facts.advice.verdict = Some(message("Verdict", fill));
            let _written = writeln!(all, "## {fill:?}\n{:#}", report_json(&facts));
        }
        let _written = writeln!(all, "## nothing\n{:#}", report_json(&BuildFacts::default()));
        assert_pinned(&all, include_str!("../ask/json/golden/report.txt"), "agent_report");
    }
}
