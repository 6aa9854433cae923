//! Describes the cause; and the next size: whether it is unchanged, what replaced it if not, and why.

use std::fmt::Write as _;

use plimsoll_proto::{
    limits,
    reasons::{self, SizeBound, SizeKind},
    verdict::{LOG_UNREAD, NO_RULE_KNOWS_IT},
};

use super::{
    RemedyCase,
    sizes::{is_size, sizes_had},
};
use crate::{
    domain::{Bytes, Cause, EvidenceSource, Prediction, Quantity, Summary},
    retry::cause::finding::Finding,
};

/// Advice on how to find the cause if no log was read.
const READ_THE_LOG: &str = "to make it known, put `plimsoll run` in front of the build, outside CI with `--phases gitlab`, or set `gitlab_url` \
                            on the server, which then reads the logs of GitLab jobs";
/// Advice if a log was read and no rule matches a line that names the cause.
const NAME_THE_CAUSE: &str =
    "to make it known, say it with `plimsoll verdict correct`, or write a rule for its log into `rules_dir`";

const SAME_SIZE: &str = "with the same size";

/// Describes how the next sizes compare with those of the last attempt, as the end of "retry ...". They are the same, unless the attempt
/// had no usable sizes.
pub(super) fn how_it_was(next: &Prediction, measured: Option<&Summary>) -> String {
    let Some(had) = measured.map(|summary| summary.resources) else { return SAME_SIZE.to_owned() };
    let sizes = [(had.memory_request, &next.memory_request), (had.memory_limit, &next.memory_limit)];
    for (size, next) in
        sizes.iter().filter_map(|(size, next)| Some((size.filter(|size| is_size(*size))?, next)))
    {
        let now = Bytes(next.value);
        match &next.basis.bound {
            SizeBound::Floor(_) if size < now => {
                return format!(
                    "with {now} of memory, because the {size} that it had is below the least size"
                );
            }
            SizeBound::Cap(_) if size > now => {
                return format!("with {now} of memory, the most there is, in the place of {size}");
            }
            _ => {}
        }
    }
    let asked = had.memory_request.filter(|asked| asked.0 > limits::MEMORY_BYTES);
    if let Some(asked) = asked.filter(|_| sizes_had(&had).request.is_none()) {
        return format!("without its memory request of {asked}, which no machine has");
    }
    let had_none = sizes_had(&had).request.is_none();
    if had_none && !next.memory_request.basis.is_unchanged_default() {
        return "with the predicted size, because it had none of its own".to_owned();
    }
    SAME_SIZE.to_owned()
}

/// Sets the reason to why the next memory sizes differ from `predicted`, and why they are below the prediction for a first attempt, if they
/// are.
///
/// Statements about the history are in the past tense, because a verdict is also read after later attempts.
pub(super) fn explain(next: &mut Prediction, case: RemedyCase<'_>) {
    let pairs = [
        (SizeKind::MemoryRequest, &next.memory_request, &case.predicted.memory_request),
        (SizeKind::MemoryLimit, &next.memory_limit, &case.predicted.memory_limit),
    ];
    if pairs.iter().all(|(_, next, predicted)| next == predicted) {
        return;
    }
    let mut parts: Vec<String> = Vec::with_capacity(pairs.len());
    for (kind, size, _) in pairs.into_iter().filter(|(_, size, _)| !size.basis.is_unchanged_default()) {
        let basis = &size.basis;
        let why = reasons::reason_of_size(kind, size.value, basis.quantile, basis.margin, &basis.bound);
        if !why.is_empty() {
            parts.push(format!("{} {}: {why}", kind.as_str(), kind.shown(size.value)));
        }
    }
    next.reason = parts.join("; ");
    if let Some((kind, default)) = default_above(next, case.first) {
        let which = if case.untrusted_succeeded() { "trusted build of this package" } else { "such build" };
        let _written = write!(
            next.reason,
            "; when this was judged, no {which} had succeeded, and the default {kind} of {default} is no measurement of one, so it does not \
             count"
        );
    }
}

/// Name and value of a default that is larger than the next size; `None` if there is none, or if the next size did not grow from that of
/// the last attempt.
fn default_above(next: &Prediction, first: &Prediction) -> Option<(&'static str, Bytes)> {
    let sizes = [
        ("limit", &next.memory_limit, &first.memory_limit),
        ("request", &next.memory_request, &first.memory_request),
    ];
    let grew = |size: &Quantity| {
        matches!(
            size.basis.bound,
            SizeBound::Stopped(_)
                | SizeBound::MayHaveHad(_)
                | SizeBound::NeededAbove(_)
                | SizeBound::Grown(_)
                | SizeBound::VerdictBefore
        )
    };
    let is_less = |size: &Quantity, first: &Quantity| {
        // a cap may have lowered the next size below the default
        first.basis.is_default() && first.value > size.value && !size.basis.bound.is_cut()
    };
    let has_grown = sizes.iter().any(|(_, size, _)| grew(size));
    let less = sizes.into_iter().find(|(_, size, first)| has_grown && is_less(size, first));
    less.map(|(kind, _, first)| (kind, Bytes(first.value)))
}

/// One sentence with the cause and its strongest evidence.
pub(in crate::retry) fn cause_sentence(finding: &Finding, cause: Cause) -> String {
    let decided = finding.lines.iter().find(|line| line.supports && Some(line.source) == finding.decided_by);
    // a cause of memory is certain only with evidence of kernel or container; any other cause is only probable if it comes from the log
    // alone
    let is_probable = match cause {
        Cause::Oom | Cause::Starved => !finding.is_proven(),
        Cause::Unknown | Cause::Flaky => false,
        _ => finding.decided_by == Some(EvidenceSource::Log),
    };
    let by_rule = finding.cause == Some(Cause::Flaky) && finding.decided_by == Some(EvidenceSource::Log);
    let [head, tail] = if by_rule && cause == Cause::Flaky {
        ["a test or its helper probably ", "failed by chance"]
    } else {
        cause.traits().sentence
    };
    let words = format!("{head}{}{tail}", if is_probable { "probably " } else { "" });
    let words = match decided {
        Some(line) => format!("{words} ({})", line.text),
        None => words,
    };
    match (cause, &finding.own_failure) {
        (Cause::Undecided | Cause::Infra, Some(own)) => format!("{words}, or the build itself did ({own})"),
        (Cause::Unknown, _) if finding.log_unread => format!("{words}: {LOG_UNREAD} ({READ_THE_LOG})"),
        (Cause::Unknown, _) => format!("{words}: {NO_RULE_KNOWS_IT} ({NAME_THE_CAUSE})"),
        _ => words,
    }
}
