//! Exports the corrections in force as JSON lines, as examples for log rules.
//!
//! A line of the export names the rule that was wrong and the corrected cause. It has lines of the
//! log as a rule file has them: in `spares` lines that the wrong rule must not match, in `matches`
//! the line that a rule for the corrected cause must match. Secrets were masked when the log was
//! stored.

use std::{io::Write, mem};

use anyhow::Context as _;
use plimsoll_core::domain::{AttemptId, Cause, EvidenceSource, Verdict};
use plimsoll_store::{self as store, Store};
use serde::Serialize;

/// One correction.
#[derive(Debug, Serialize)]
struct CorrectionLine<'a> {
    attempt: &'a AttemptId,
    project: &'a str,
    /// The rule that was wrong: its id, else the source of the evidence, or `none` if nothing decided.
    rule: &'a str,
    found: Cause,
    found_source: Option<EvidenceSource>,
    /// Lines of the log that the rule matched and should not match.
    spares: Vec<&'a str>,
    /// The corrected cause.
    cause: Cause,
    why: &'a str,
    by: &'a str,
    at_unix_ms: u64,
    /// The first line of the log that shows the failure.
    matches: Vec<&'a str>,
    /// Signature of the failure.
    signature: Option<&'a str>,
    /// When the correction expires for other failures with this signature.
    until_unix_ms: Option<u64>,
}

impl<'a> CorrectionLine<'a> {
    /// The line for a verdict; `None` if the verdict has no correction in force.
    fn of(verdict: &'a Verdict) -> Option<Self> {
        let correction = verdict.correction()?;
        let prefix = format!("{}: ", correction.rule);
        let of_log = verdict.evidence.iter().filter(|line| line.source == EvidenceSource::Log);
        let signature = verdict.outlook.signature.as_ref();
        let first = signature.map(|known| [&known.first, &known.line]);
        let first = first.and_then(|lines| lines.into_iter().find(|line| !line.is_empty()));
        Some(Self {
            attempt: &verdict.attempt,
            project: &correction.project,
            rule: &correction.rule,
            found: correction.found,
            found_source: correction.found_source,
            spares: of_log.filter_map(|line| line.text.strip_prefix(prefix.as_str())).collect(),
            cause: correction.cause,
            why: &correction.why,
            by: &correction.by,
            at_unix_ms: correction.at_unix_ms,
            matches: first.map(String::as_str).into_iter().collect(),
            signature: signature.map(|known| known.id.as_str()),
            until_unix_ms: correction.signature.as_ref().map(|rule| rule.until_unix_ms),
        })
    }
}

/// Writes a line for each correction in force, sorted by attempt id; returns their number.
/// Errors: the store is closed, or `out` cannot be written.
pub(crate) async fn corrections(store: &Store, out: &mut (impl Write + Send)) -> anyhow::Result<u64> {
    // the store returns the verdicts on one attempt one after another
    let (mut last, mut written): (Option<Verdict>, anyhow::Result<u64>) = (None, Ok(0));
    let take = |verdict: Verdict| match &mut last {
        Some(known) if known.attempt == verdict.attempt => {
            if verdict.given_unix_ms >= known.given_unix_ms {
                *known = verdict;
            }
        }
        last => {
            let whole = last.replace(verdict);
            written = write(mem::replace(&mut written, Ok(0)), whole.as_ref(), out);
        }
    };
    store::load(store, take).await?;
    write(written, last.as_ref(), out)
}

/// Writes the correction of one attempt, unless an earlier write failed. Returns how many
/// corrections are written so far.
fn write(
    before: anyhow::Result<u64>,
    verdict: Option<&Verdict>,
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    let before = before?;
    let Some(line) = verdict.and_then(CorrectionLine::of) else { return Ok(before) };
    let mut text = serde_json::to_string(&line).context("a correction cannot be written")?;
    text.push('\n');
    out.write_all(text.as_bytes()).context("the corrections cannot be written")?;
    Ok(before + 1)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{EvidenceLine, VerdictCorrection};

    use super::*;
    use crate::ingest::fixture;

    fn verdict(attempt: &str, at: u64, correction: Option<bool>) -> Verdict {
        let mut verdict = fixture::verdict(&AttemptId::parse(attempt).unwrap());
        verdict.given_unix_ms = Some(at);
        let text = "compile-error: a.c:1:1: error: no".to_owned();
        verdict.evidence = vec![EvidenceLine { source: EvidenceSource::Log, text, supports: false }];
        verdict.basis.correction = correction.map(|undone| {
            Box::new(VerdictCorrection {
                cause: Cause::Infra,
                why: "mirror was down".into(),
                by: "ann".into(),
                at_unix_ms: at,
                project: "p".into(),
                found: Cause::Deterministic,
                found_source: Some(EvidenceSource::Log),
                rule: "compile-error".into(),
                before: None,
                before_source: None,
                signature: None,
                undone,
            })
        });
        verdict
    }

    #[tokio::test]
    async fn each_correction_in_force_is_one_line() {
        let store = Store::memory();
        let given = [
            verdict("a", 1, None),
            verdict("a", 2, Some(false)),
            verdict("b", 1, Some(false)),
            verdict("b", 2, Some(true)),
            verdict("c", 1, None),
        ];
        fixture::put(&store, &[], &given).await;
        let mut out = Vec::new();
        assert_eq!(corrections(&store, &mut out).await.unwrap(), 1, "b was taken back");
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["attempt"], &line["rule"]), (&"a".into(), &"compile-error".into()));
        assert_eq!(line["spares"], serde_json::json!(["a.c:1:1: error: no"]));
        assert_eq!((&line["cause"], &line["why"]), (&"infra".into(), &"mirror was down".into()));
        assert_eq!(line["matches"], serde_json::json!(["make: *** Error 2"]));
    }
}
