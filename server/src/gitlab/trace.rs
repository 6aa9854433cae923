//! What the end of a job's log says. The runner writes the last lines itself, after the build's: only those are believed where
//! they say how it ended.

use crate::domain::Exit;

/// Lines at the end among which the runner's own are.
const RUNNERS: usize = 8;
/// What Spack prints, and then exits with 0, where the build cache has the package already (`spack ci rebuild`).
const UNNEEDED: &str = "No need to rebuild";

/// How a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) exit: Option<Exit>,
    /// Kubernetes' reason for the end of the container.
    pub(super) container_reason: String,
}

/// The end of a log as text of at most `most` bytes.
pub(super) fn text(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let from = text.len().saturating_sub(most);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.get(from..).unwrap_or_default().to_owned()
}

/// How the runner says that the job ended: `ERROR: Job failed: exit code 1`, `.. command terminated with exit code 137`,
/// `ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'`.
pub(super) fn end(log: &str) -> End {
    let last = log.lines().rev().filter(|line| !line.trim().is_empty()).take(RUNNERS);
    let Some(line) = last.into_iter().find(|line| line.contains("Job failed")) else { return End::default() };
    let code = line.rsplit_once("exit code").and_then(|(_, rest)| {
        let digits: String =
            rest.chars().skip_while(|c| ": ".contains(*c)).take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    let reason = line.split_once("reason: '").and_then(|(_, rest)| rest.split_once('\''));
    let reason = reason.map(|(reason, _)| plimsoll_proto::job::fitting(reason, 64)).unwrap_or_default();
    End { exit: code.map(Exit::Code), container_reason: reason }
}

/// Whether the job found its work done already.
pub(super) fn is_unneeded(log: &str) -> bool {
    log.lines().any(|line| line.contains(UNNEEDED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_last_word_says_how_a_job_ended() {
        let ended = |log: &str| {
            let End { exit, container_reason } = end(log);
            (exit, container_reason)
        };
        let section = "\u{1b}[0Ksection_end:1700000000:cleanup_file_variables\r\u{1b}[0K";
        let line = "\u{1b}[31;1mERROR: Job failed: command terminated with exit code 137\u{1b}[0;m";
        assert_eq!(ended(&format!("a\n{section}{line}\n\n")), (Some(Exit::Code(137)), String::new()));
        let killed = "ERROR: Job failed (system failure): Error in container build: exit code: 137, reason: 'OOMKilled'";
        assert_eq!(ended(killed), (Some(Exit::Code(137)), "OOMKilled".to_owned()));
        assert_eq!(ended("ERROR: Job failed: exit status 1"), (None, String::new()));
        let faked = format!("{killed}\n{}", "make: nothing\n".repeat(20));
        assert_eq!(ended(&faked), (None, String::new()), "the build wrote it");
    }

    #[test]
    fn a_log_is_cut_at_a_character_and_a_build_that_was_not_needed_is_known() {
        assert_eq!(text("aäb".as_bytes(), 2), "b");
        assert_eq!(text(b"a\xff", 100), "a\u{fffd}");
        assert!(is_unneeded("==> x\n==> No need to rebuild zlib, found hash match at: s3://x\n"));
        assert!(!is_unneeded("==> Installing zlib\n"));
    }
}
