//! The rules that match a log, each with its lines: collected while the log is read backwards.

use std::collections::VecDeque;

use crate::domain::{Cause, LogOrder, RootLine};
use crate::retry::{known::signature::names_better, log::log_tail::shown, matching::rule::Rule};

/// Most lines kept that follow from a root line.
const MAX_CONSEQUENCE_LINES: usize = 3;

/// A rule that matched, with two of the lines that it matches. `line` is chosen independently of their order, so that a failure has the
/// same signature if a parallel build reports its errors in another order. `first` is the first matching line: it caused the others.
#[derive(Debug)]
pub(in crate::retry) struct RuleMatch<'r> {
    pub(in crate::retry) rule: &'r Rule,
    pub(in crate::retry) line: String,
    pub(in crate::retry) first_line: String,
    /// Position of `first`, and the lines that follow from it.
    pub(in crate::retry) root: Option<RootLine>,
    pub(in crate::retry) log_order: LogOrder,
    /// Whether two different lines match.
    pub(in crate::retry) repeated: bool,
    /// Whether at least one matching line is more than a summary.
    pub(in crate::retry) has_reason: bool,
}

impl RuleMatch<'_> {
    /// Whether the rule names failed tests, but not why they failed.
    pub(in crate::retry) fn names_test(&self) -> bool {
        self.rule.test && self.rule.weak
    }

    /// Whether all its lines only pass a failure on, of whatever made it: `configure: error: cannot fetch sources`.
    pub(in crate::retry) fn is_echo(&self) -> bool {
        let is_download = self.rule.cause == Cause::Infra && !self.has_reason;
        self.rule.weak && (is_download || (says_no_reason(self.rule) && !self.names_test()))
    }
}

/// Summary lines that follow the current line in the log, nearest first.
#[derive(Debug, Default)]
pub(in crate::retry) struct Consequences(VecDeque<String>);

impl Consequences {
    /// The summary lines nearest to the current line, at most 3.
    pub(in crate::retry) fn nearest(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    /// Reads a line of a log that is read backwards, with the rules that match it.
    pub(in crate::retry) fn read(&mut self, rules: &[(usize, &Rule)], line: &str) {
        if !rules.iter().all(|(_, rule)| rule.weak) || !rules.iter().any(|(_, rule)| says_no_reason(rule)) {
            return;
        }
        let line = shown(line);
        if self.0.front() != Some(&line) {
            self.0.push_front(line);
            self.0.truncate(MAX_CONSEQUENCE_LINES);
        }
    }
}

/// Whether the rule matches lines that only report that something failed.
pub(in crate::retry) fn says_no_reason(rule: &Rule) -> bool {
    rule.weak && (rule.summary || rule.cause == Cause::Unknown)
}

/// Makes the match of a summary line that mentions a download weak, such as `configure: error: cannot fetch sources`, if the build failed
/// before it or for a reason of its own: such a line follows from another one.
pub(in crate::retry) fn weaken_download_summaries(hits: &mut [RuleMatch<'_>]) {
    let is_download = |hit: &RuleMatch<'_>| hit.rule.cause == Cause::Infra && hit.is_echo();
    let lines: Vec<String> =
        hits.iter().filter(|hit| is_download(hit)).map(|hit| hit.first_line.clone()).collect();
    let is_own = |hit: &RuleMatch<'_>| {
        let began_before = !lines.contains(&hit.first_line);
        matches!(hit.rule.cause, Cause::Deterministic | Cause::Flaky)
            && (hit.has_reason || hit.names_test() || began_before)
    };
    if hits.iter().any(is_own) {
        hits.iter_mut().filter(|hit| is_download(hit)).for_each(|hit| hit.log_order = LogOrder::Overcome);
    }
}

/// Records a line for each rule that matches it.
pub(in crate::retry) fn note_all<'r>(
    hits: &mut Vec<RuleMatch<'r>>,
    match_positions: &mut [Option<usize>],
    rules: Vec<(usize, &'r Rule)>,
    (line, root): (&str, Option<RootLine>),
) {
    let all_name_a_reason = !rules.iter().any(|(_, rule)| says_no_reason(rule));
    for (at, rule) in rules {
        if let Some(place) = match_positions.get_mut(at) {
            note_line(hits, place, rule, (shown(line), root.clone()));
        }
        if let Some(hit) = match_positions.get(at).copied().flatten().and_then(|place| hits.get_mut(place)) {
            hit.has_reason |= all_name_a_reason;
        }
    }
}

/// Records a line for one rule, in a log that is read backwards: as a new hit, or as an earlier line of a known one.
fn note_line<'r>(
    hits: &mut Vec<RuleMatch<'r>>,
    match_position: &mut Option<usize>,
    rule: &'r Rule,
    (line, root): (String, Option<RootLine>),
) {
    if let Some(hit) = match_position.and_then(|place| hits.get_mut(place)) {
        if names_better(&line, &hit.line) {
            hit.line.clone_from(&line);
        }
        hit.repeated |= hit.first_line != line;
        (hit.first_line, hit.root) = (line, root);
    } else {
        *match_position = Some(hits.len());
        hits.push(RuleMatch {
            rule,
            first_line: line.clone(),
            line,
            root,
            log_order: LogOrder::Alone,
            repeated: false,
            has_reason: false,
        });
    }
}
