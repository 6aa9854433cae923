//! Computes the signature of a failure: the line that shows what went wrong, without the parts that change from run to run.
//!
//! Removed are directories, numbers (line numbers, times, sizes, process ids, addresses), words that look like hashes, and paths in
//! `/tmp`. File names stay: an error in another file is another error.

use crate::domain::{Cause, EvidenceSource, Fnv, Signature};
use crate::retry::cause::finding::Finding;

/// Most bytes of a line that the signature is computed from.
const MAX_LINE_BYTES: usize = 400;
/// Least length of a mixed run of letters and digits that counts as a hash.
const MIN_HASH_CHARS: usize = 7;

/// The signature of a failure; `None` if no line of the log shows what went wrong.
pub(in crate::retry) fn of(finding: &Finding) -> Option<Signature> {
    let line = normalise(best_line(finding).or(finding.last_words.as_deref())?);
    let cause = finding.by_rules.map(|(found, _source)| found).or(finding.cause);
    let id = format!("{:016x}", hash(cause.unwrap_or(Cause::Unknown).as_str(), &line));
    Some(Signature { id, line, first: finding.failure_line.clone().unwrap_or_default() })
}

/// The matching line of the log that says most about the failure.
pub(in crate::retry) fn best_line(finding: &Finding) -> Option<&str> {
    let from_log = |supports: bool| {
        let mut lines = finding.lines.iter().filter(|line| line.source == EvidenceSource::Log);
        lines.find(|line| line.supports == supports).map(|line| line.text.as_str())
    };
    from_log(true).or_else(|| from_log(false))
}

/// Hash of the line. It is stored, so it must stay the same in later releases.
fn hash(cause: &str, line: &str) -> u64 {
    Fnv::default().with(cause.bytes().chain([0]).chain(line.bytes())).value()
}

/// The line without the parts that change from run to run.
pub(in crate::retry) fn normalise(line: &str) -> String {
    let mut plain = String::new();
    let mut word = String::new();
    for letter in line.chars().take(MAX_LINE_BYTES).chain([' ']) {
        if letter.is_alphanumeric() || "/._-+~$%@".contains(letter) {
            word.push(letter);
            continue;
        }
        plain.push_str(&without_variable_parts(&word));
        word.clear();
        if !(letter.is_whitespace() && plain.ends_with(' ')) {
            plain.push(if letter.is_whitespace() { ' ' } else { letter });
        }
    }
    plain.trim().to_owned()
}

/// A word without its directories, hashes and numbers.
fn without_variable_parts(word: &str) -> String {
    if word.starts_with("/tmp/") || word.starts_with("/var/tmp/") {
        return "/tmp".to_owned();
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let parts: Vec<String> = name.split(['-', '_', '.']).map(normalised_part).collect();
    // the separators `-`, `_` and `.` all become a dot
    parts.join(".")
}

fn normalised_part(part: &str) -> String {
    let digits = part.chars().filter(char::is_ascii_digit).count();
    let hex = part.chars().all(|c| c.is_ascii_hexdigit());
    let mixed = digits > 1 && part.chars().all(|c| c.is_ascii_alphanumeric());
    if part.len() >= MIN_HASH_CHARS && digits > 0 && (hex || mixed) {
        return "#".to_owned();
    }
    let mut plain = String::new();
    for letter in part.chars() {
        if !letter.is_ascii_digit() {
            plain.push(letter);
        } else if !plain.ends_with('0') {
            plain.push('0');
        }
    }
    plain
}

/// Whether `one` is a better line than `other` to identify a failure by. This ordering does not depend on positions in the log. Parts that
/// change from run to run are compared last.
pub(in crate::retry) fn names_better(one: &str, other: &str) -> bool {
    let name = |line| (normalise(line), line);
    one != other && name(one) < name(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_signature_hash_is_stable_across_releases() {
        assert_eq!(format!("{:016x}", hash("oom", "make.. . Error")), "8306686762c367b8");
    }

    #[test]
    fn signatures_ignore_parts_that_vary_between_runs() {
        let same = [
            ("/builds/a1b2/src/x.c:10:5: error: no 'foo'", "/home/u/x.c:993:17: error: no 'foo'"),
            ("[12:04:33] curl: (6) Could not resolve host: x", "[1:4:3] curl: (6) Could not resolve host: x"),
            ("ld: /tmp/ccAbx91.o: undefined reference", "ld: /tmp/ccZZ.o: undefined reference"),
            ("failed to install zlib-1.3-k5jcm7xq3tqo2f", "failed to install zlib-1.3-abcdm9xq3tqo2f"),
            ("thread 'main' (4711) panicked at 0x7f00ab12", "thread 'main' (99) panicked at 0x7fffab12"),
        ];
        for (one, other) in same {
            assert_eq!(normalise(one), normalise(other));
        }
    }

    #[test]
    fn what_went_wrong_stays() {
        let lines = [
            "x.c:1:1: error: 'foo' undeclared",
            "x.c:1:1: error: 'bar' undeclared",
            "y.c:1:1: error: 'foo' undeclared",
            "undefined reference to `foo'",
            "ModuleNotFoundError: No module named 'numpy'",
        ];
        let signatures: std::collections::HashSet<String> = lines.into_iter().map(normalise).collect();
        assert_eq!(signatures.len(), lines.len(), "{signatures:?}");
    }

    proptest! {
        #[test]
        fn no_line_breaks_it(line in "\\PC{0,600}") {
            let once = normalise(&line);
            prop_assert!(once.len() <= 4 * MAX_LINE_BYTES);
            prop_assert!(!once.chars().any(|c| c.is_ascii_digit() && c != '0'));
        }
    }
}
