//! Reads the end of a job's log. The runner writes the last lines after the build has ended; only
//! these lines are trusted about how the job ended.

use plimsoll_core::{
    domain::Exit,
    retry::{other_container, reason_in_container},
};

/// Number of lines at the end of the log among which the runner's line is searched.
const RUNNER_LINES: usize = 8;
/// Start of the line that Spack prints before it exits with 0 if the build cache has the package
/// already (`spack ci rebuild`). The package's name follows.
const UNNEEDED_START: &str = "No need to rebuild ";
/// End of the line that starts with [`UNNEEDED_START`], after the package's name.
const UNNEEDED_ENDS: [&str; 2] = [", found hash match at:", ", found full hash match at:"];

/// How a job ended, according to the runner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TraceEnd {
    pub(super) exit: Option<Exit>,
    /// Kubernetes' reason for the end of a container. If it is not the build's container, its name
    /// is added.
    pub(super) container_reason: String,
}

/// The last `most` bytes of a log as text, no longer than its bytes: what is not UTF-8 becomes a question mark.
pub(super) fn text(bytes: &[u8], most: usize) -> String {
    let cut = bytes.len().saturating_sub(most);
    // not in the middle of a character
    let inside = bytes
        .iter()
        .skip(cut)
        .take(if cut > 0 { 3 } else { 0 })
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    let end = bytes.get(cut + inside..).unwrap_or_default();
    end.utf8_chunks()
        .flat_map(|part| [part.valid(), if part.invalid().is_empty() { "" } else { "?" }])
        .collect()
}

/// How the job ended, according to lines of the runner such as `ERROR: Job failed: exit code 1`,
/// `.. command terminated with exit code 137`, `ERROR: Job failed (system failure): Error in
/// container build: exit code: 137, reason: 'OOMKilled'`.
pub(super) fn end_of_build(log: &str) -> TraceEnd {
    let last = log.lines().rev().filter(|line| !line.trim().is_empty()).take(RUNNER_LINES);
    let Some(line) = last.into_iter().find(|line| line.contains("Job failed")) else {
        return TraceEnd::default();
    };
    let code = line.rsplit_once("exit code").and_then(|(_, rest)| {
        let digits: String =
            rest.chars().skip_while(|c| ": ".contains(*c)).take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    let reason = line.split_once("reason: '").and_then(|(_, rest)| rest.split_once('\''));
    let reason = reason.map(|(reason, _)| plimsoll_proto::job::clean_and_cut(reason, 64)).unwrap_or_default();
    match other_container(line) {
        // the exit code of another container is not that of the build
        Some(container) if !reason.is_empty() => {
            let container = plimsoll_proto::job::clean_and_cut(container, 64);
            TraceEnd { exit: None, container_reason: reason_in_container(&reason, &container) }
        }
        Some(_) => TraceEnd::default(),
        None => TraceEnd { exit: code.map(Exit::Code), container_reason: reason },
    }
}

/// Whether the job found its work done already. The same words inside another line, as in the
/// output of a test, do not count.
pub(super) fn is_unneeded(log: &str) -> bool {
    log.lines().any(is_spacks_word)
}

/// Whether this is a complete line of Spack: `==> No need to rebuild zlib, found hash match at:`.
/// Runner and Spack may put colours, a section marker or the time in front of it.
fn is_spacks_word(line: &str) -> bool {
    if !line.contains(UNNEEDED_START) {
        return false;
    }
    let plain = without_escapes(line);
    let line = plain.trim_end();
    let line = line.rsplit('\r').next().unwrap_or(line);
    let line = line.strip_prefix("==>").or_else(|| without_timestamp(line)?.strip_prefix("==>"));
    let Some(line) = line.map(str::trim_start) else { return false };
    let line = match line.strip_prefix('[').and_then(|time| time.split_once(']')) {
        Some((_time, rest)) => rest.trim_start(),
        None => line,
    };
    let Some(rest) = line.strip_prefix(UNNEEDED_START) else { return false };
    let name = UNNEEDED_ENDS.iter().find_map(|found| rest.strip_suffix(found));
    name.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// The part of the line after the runner's time and stream, `2026-01-31T10:00:00.000000Z 01O `.
fn without_timestamp(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ')?;
    let (stream, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_time = time.ends_with('Z') && time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('T');
    (is_time && stream.len() <= 4).then_some(rest)
}

/// The line without terminal control sequences (ECMA-48 5.4: `ESC [`, parameters, one final byte).
fn without_escapes(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| ('@'..='~').contains(&c)).map_or(part.len(), |end| end + 1);
        plain.push_str(part.get(end..).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_final_line_gives_the_exit() {
        let ended = |log: &str| {
            let TraceEnd { exit, container_reason } = end_of_build(log);
            (exit, container_reason)
        };
        let section = "\u{1b}[0Ksection_end:1700000000:cleanup_file_variables\r\u{1b}[0K";
        let line = "\u{1b}[31;1mERROR: Job failed: command terminated with exit code 137\u{1b}[0;m";
        assert_eq!(ended(&format!("a\n{section}{line}\n\n")), (Some(Exit::Code(137)), String::new()));
        let killed = "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'";
        assert_eq!(ended(killed), (Some(Exit::Code(137)), "OOMKilled".to_owned()));
        let helper = killed.replace("build", "helper");
        let reason = "OOMKilled in container helper".to_owned();
        assert_eq!(ended(&helper), (None, reason), "no exit of the build");
        assert_eq!(ended("ERROR: Job failed: exit status 1"), (None, String::new()));
        let faked = format!("{killed}\n{}", "make: nothing\n".repeat(20));
        assert_eq!(ended(&faked), (None, String::new()), "the build wrote it");
    }

    #[test]
    fn logs_are_cut_at_characters_and_rebuilds_detected() {
        assert_eq!(text("aäb".as_bytes(), 2), "b");
        assert_eq!(text(b"a\xff", 100), "a?");
        for line in [
            "==> No need to rebuild zlib, found hash match at: ",
            "==> No need to rebuild zlib, found full hash match at:",
            "\u{1b}[1;34m==>\u{1b}[0m No need to rebuild zlib, found hash match at: ",
            "==> [2026-01-31-10:00:00.123456] No need to rebuild zlib, found hash match at: ",
            "2026-01-31T10:00:00.000000Z 01O ==> No need to rebuild zlib, found hash match at: ",
            "section_start:1700000000:step_script\r\u{1b}[0K==> No need to rebuild zlib, found hash match at:",
        ] {
            assert!(is_unneeded(&format!("==> x\n{line}\n    s3://mirror/zlib\n")), "{line}");
        }
        for line in [
            "==> Installing zlib",
            "the log said ==> No need to rebuild zlib, found hash match at:",
            "No need to rebuild zlib, found hash match at:",
            "==> No need to rebuild the whole of it, found hash match at:",
            "==> No need to rebuild zlib",
        ] {
            assert!(!is_unneeded(line), "{line}");
        }
    }
}
