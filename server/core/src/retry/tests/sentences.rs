//! What verdicts say, to be read by people: every cause in every situation, as one table.

use std::fmt::Write as _;

use plimsoll_proto::reasons::{self, SizeKind};

use super::*;
use crate::domain::{EvidenceLine, Hints};

/// All sentences, one in a line.
const SENTENCES: &str = include_str!("sentences.txt");

/// What is known beside the evidence.
#[derive(Default)]
struct Situation {
    settings: Settings,
    policy: RetryPolicy,
    history: Option<History>,
}

impl Situation {
    /// The action and the sentence, then the memory sizes with their reasons.
    fn sentence(&self, evidence: &Evidence, finding: Finding) -> String {
        let (seen, empty) = (KnownFailures::new(1), History::new(1));
        let history = self.history.as_ref().unwrap_or(&empty);
        let known = VerdictInputs { history, seen: &seen, settings: &self.settings, policy: &self.policy };
        let verdict = super::super::judge(evidence, finding, &known);
        let mut text = format!("{}: {}\n", verdict.action.as_str().replace('_', " "), verdict.reason);
        let Some(next) =
            verdict.next.filter(|_| verdict.cause.is_memory() || verdict.cause == Cause::Timeout)
        else {
            return text;
        };
        for (kind, quantity) in [
            (SizeKind::MemoryRequest, &next.memory_request),
            (SizeKind::MemoryLimit, &next.memory_limit),
            (SizeKind::BuildJobs, &next.build_jobs),
            (SizeKind::LongTime, &next.wall_p95),
        ] {
            let basis = &quantity.basis;
            let why =
                reasons::reason_of_size(kind, quantity.value, basis.quantile, basis.margin, &basis.bound);
            if why.is_empty() {
                continue;
            }
            let _written = writeln!(text, "    {} {}: {why}", kind.as_str(), kind.shown(quantity.value));
        }
        text
    }
}

fn found(cause: Cause, source: EvidenceSource, text: &str) -> Finding {
    let line = EvidenceLine { source, text: text.to_owned(), supports: true };
    let (decided_by, confidence) = (Some(source), if source == EvidenceSource::Log { 0.4 } else { 0.97 });
    Finding { cause: Some(cause), confidence, decided_by, lines: vec![line], ..Finding::default() }
}

/// The sentence of every cause: proven, from the log alone, again when the attempts are used up, and where the policy asks for more.
fn every_cause(text: &mut String) {
    let generous = RetryPolicy::parse_terms("[[terms]]\nretries = 5\n").unwrap();
    let generous = Situation {
        policy: RetryPolicy { terms: generous, ..RetryPolicy::default() },
        ..Situation::default()
    };
    let usual = Situation::default();
    for cause in Cause::ALL {
        let kernel = || found(cause, EvidenceSource::Kernel, "what was seen");
        let log = || found(cause, EvidenceSource::Log, "rule: a line of the log");
        let asked = |number| Evidence { number, ..evidence(Some(failed(Some(0))), Exit::Code(2), "") };
        let _written = writeln!(text, "# {}", cause.as_str());
        text.push_str(&usual.sentence(&asked(1), kernel()));
        text.push_str(&usual.sentence(&asked(1), log()));
        text.push_str(&usual.sentence(&asked(2), log()));
        text.push_str(&usual.sentence(&asked(3), kernel()));
        if cause.is_final() {
            text.push_str(&generous.sentence(&asked(1), kernel()));
        }
    }
}

/// Memory was short, in every place that there is.
fn short_of_memory(text: &mut String) {
    let oom = || found(Cause::Oom, EvidenceSource::Kernel, "oom_kill 1");
    let mut history = History::new(10);
    for id in 100..108 {
        history.learn(Arc::new(test_summary(&id.to_string(), "zlib", "1", 300)));
    }
    let with = |jobs, number| {
        let mut asked = Evidence { number, ..evidence(Some(failed(Some(1))), Exit::Code(2), "") };
        asked.key.hints = Hints { build_jobs: jobs, ..Hints::default() };
        asked
    };
    let at = |mib| Situation { settings: capped(mib), ..Situation::default() };
    text.push_str("# oom at the cap\n");
    for (jobs, number) in [(Some(8), 1), (Some(1), 1), (None, 1), (Some(8), 3)] {
        text.push_str(&at(280).sentence(&with(jobs, number), oom()));
    }
    text.push_str("# oom just below the cap\n");
    for (jobs, number) in [(Some(8), 1), (None, 1), (Some(8), 3)] {
        text.push_str(&at(300).sentence(&with(jobs, number), oom()));
    }
    text.push_str("# oom with a history: far below it, within it, and without an agent\n");
    let known = Situation { history: Some(history), ..Situation::default() };
    let mut low = failed(Some(1));
    low.resources.memory_limit = Some(Bytes(120 * MIB));
    low.resources.memory_request = Some(Bytes(2048 * MIB));
    low.need_peak = Bytes(118 * MIB);
    text.push_str(&known.sentence(&evidence(Some(low), Exit::Code(2), ""), oom()));
    text.push_str(&known.sentence(&with(None, 1), oom()));
    text.push_str(&known.sentence(&evidence(None, Exit::Code(137), ""), oom()));
}

/// Places where it is not the size that decides.
fn others(text: &mut String) {
    let usual = Situation::default();
    text.push_str("# others\n");
    let hung = Summary { cpu: CpuMicros(5000), ..failed(Some(0)) };
    let timeout = || found(Cause::Timeout, EvidenceSource::Ci, "failure reason job_execution_timeout");
    text.push_str(&usual.sentence(&evidence(Some(hung), Exit::Code(124), ""), timeout()));
    text.push_str(&usual.sentence(&evidence(None, Exit::Code(1), ""), timeout()));
    let oom = found(Cause::Oom, EvidenceSource::Log, "killed-compiler: cc1plus was killed");
    text.push_str(&usual.sentence(&evidence(None, Exit::Code(1), ""), oom));
    let host = Summary { oom_origin: Some(OomOrigin::Host), ..failed(Some(1)) };
    let infra = found(Cause::Infra, EvidenceSource::Kernel, "oom_kill 1: the machine had no memory left");
    text.push_str(&usual.sentence(&evidence(Some(host), Exit::Code(2), ""), infra));
    let held_back = Summary {
        wall: Millis(600_000),
        cpu: CpuMicros(1_150_000_000),
        throttled: Some(Micros(900_000_000)),
        ..failed(Some(0))
    };
    for number in [1, 3] {
        let asked = Evidence { number, ..evidence(Some(held_back.clone()), Exit::Code(124), "") };
        let cause = found(Cause::Contention, EvidenceSource::Kernel, "held back at its limit of 2 cores");
        text.push_str(&usual.sentence(&asked, cause));
    }
}

fn rendered() -> String {
    let mut text = String::new();
    every_cause(&mut text);
    short_of_memory(&mut text);
    others(&mut text);
    text
}

#[test]
fn the_table_of_verdicts_is_what_people_read() {
    let rendered = rendered();
    let first = rendered.lines().zip(SENTENCES.lines()).find(|(now, table)| now != table);
    assert!(
        rendered == SENTENCES,
        "read these, then put them into sentences.txt (first: {first:?}):\n{rendered}"
    );
}
