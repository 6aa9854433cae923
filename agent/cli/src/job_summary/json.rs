//! Writes the report for programs: a file with one JSON object, with the names and units of the wire.
//!
//! A symbolic link at the path is followed: its target is replaced, and the link stays. If a file has several
//! hard links, it is replaced under this name only.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::fcntl::OFlag;
use plimsoll_proto::json::{ToJson, Word as _};
use rustix::{
    fs::fstat,
    stdio::{stderr, stdout},
};
use serde_json::{Value, json};

use super::{BuildFacts, MeasurementEnd, advice};
use crate::{ask::json::for_programs, standard_error};

/// Most symbolic links that are followed; the kernel has the same limit (`path_resolution(7)`).
const MAX_LINKS: usize = 40;
/// How long to wait for a pipe or a terminal to accept the report.
const TARGET_PATIENCE: Duration = Duration::from_secs(1);

/// Writes the report. A regular file is replaced atomically. A pipe, a device, or a file that this process already writes to
/// (`/dev/stderr`) is written to directly.
/// Errors: the directory cannot be written to, the pipe has no reader, or the target is a directory.
pub(crate) fn write(facts: &BuildFacts, path: &Path) -> io::Result<()> {
    let text = format!("{:#}\n", report_json(facts));
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() || is_stream_of_ours(&found) => {
            let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
            let target = File::options().append(true).custom_flags(flags.bits()).open(path)?;
            standard_error::write_within(&target, text.as_bytes(), TARGET_PATIENCE)
                .map_err(|unwritten| unwritten.error)
        }
        _ => replace_file(&resolve_links(path)?, &text),
    }
}

/// Whether a file is this process's standard output or standard error. Such a file must not be replaced,
/// because other programs write to the same file.
fn is_stream_of_ours(found: &fs::Metadata) -> bool {
    [stdout(), stderr()]
        .into_iter()
        .filter_map(|stream| fstat(stream).ok())
        .any(|stream| (stream.st_dev, stream.st_ino) == (found.dev(), found.ino()))
}

/// The path that a symbolic link leads to, even if no file is there yet. The user made the link on purpose, so
/// it stays.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _link in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.with_file_name("").join(next),
            Err(_no_link) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links"))
}

fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    let draft = path.with_file_name(name);
    let made = File::create_new(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if made.is_err() {
        drop(fs::remove_file(&draft));
    }
    made
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
    json!({
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
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use plimsoll_proto::fixtures::{Fill, assert_pinned, message};

    use super::*;

    #[test]
    fn the_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        fs::write(&path, "old").unwrap();
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
    fn what_is_no_file_is_written_into_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, link) = (dir.path().join("fifo"), dir.path().join("link"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("fifo", &link).unwrap();
        assert!(write(&BuildFacts::default(), &link).is_err(), "the pipe has no reader");
        let flags = OFlag::O_NONBLOCK.bits();
        let mut reader = File::options().read(true).custom_flags(flags).open(&fifo).unwrap();
        for target in [&fifo, &link] {
            write(&BuildFacts { attempt: "job-7".to_owned(), ..BuildFacts::default() }, target).unwrap();
            let mut bytes = [0; 4096];
            let read = io::Read::read(&mut reader, &mut bytes).unwrap();
            let read: Value = serde_json::from_slice(&bytes[..read]).unwrap();
            assert_eq!(read["attempt"], "job-7");
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(!fs::metadata(&fifo).unwrap().is_file());
    }

    #[test]
    fn a_link_to_a_file_stays_and_the_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("there")).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("there/report.json", &link).unwrap();
        for _absent_then_present in 0..2 {
            write(&BuildFacts::default(), &link).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert!(fs::read_to_string(dir.path().join("there/report.json")).unwrap().contains("totals"));
        }
    }

    #[test]
    fn a_file_with_a_second_name_keeps_its_bytes_there() {
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
