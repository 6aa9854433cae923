//! The report as a page, at the end of a job's log.

use std::fmt::Write as _;

use plimsoll_proto::{
    facts::{self, Line},
    figures::{self, bytes},
    measured,
    reasons::{self, MIN_CONFIDENCE, SizeBound, SizeKind},
    shown::clean,
    v1::{Phase, Prediction, Summary},
};

use super::{BuildFacts, advice, words};
use crate::ask::{curve, outlook};

/// Most phases in the table; the others share one line.
const MAX_PHASES: usize = 8;
/// Characters of the line that draws the memory curve.
const CURVE_WIDTH: usize = 60;
/// Most characters of a phase's name.
const NAME_WIDTH: usize = 32;

/// Everything below the first line of the report; each line ends with a line feed.
pub(super) fn report_body(facts: &BuildFacts, utf8: bool) -> String {
    let (measured, next) = (measured_lines(facts, utf8), next_lines(facts));
    format!("{measured}{}{next}", verdict_lines(facts))
}

/// The page below its first line, without the verdict.
pub(super) fn body_without_verdict(facts: &BuildFacts, utf8: bool) -> String {
    format!("{}{}", measured_lines(facts, utf8), next_lines(facts))
}

fn measured_lines(facts: &BuildFacts, utf8: bool) -> String {
    let mut page = ReportPage::default();
    let summary = facts.summary();
    page.sentences(&summary, &[Line::Memory, Line::Notes]);
    draw_curve(&mut page, facts, utf8);
    page.sentences(&summary, &[Line::Cpu, Line::Killed, Line::HeldBack]);
    for (nth, row) in phase_rows(&facts.phases).iter().enumerate() {
        page.line(if nth == 0 { "phases" } else { "" }, row);
    }
    page.line("samples", &words::samples(facts));
    for note in &facts.notes {
        page.line("note", &clean(note));
    }
    page.0
}

#[derive(Default)]
struct ReportPage(String);

impl ReportPage {
    fn sentences(&mut self, summary: &Summary, lines: &[Line]) {
        for (title, text) in facts::sentences(summary, lines) {
            self.line(title, &text);
        }
    }

    fn line(&mut self, title: &str, text: &str) {
        let line = format!("  {title:<9} {text}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

fn draw_curve(page: &mut ReportPage, facts: &BuildFacts, utf8: bool) {
    let highest = facts.curve.iter().copied().max().unwrap_or(0);
    if facts.curve.len() < 2 || highest == 0 {
        return;
    }
    // the limit is the full height of the curve, unless the curve would then be lower than half
    let limit = measured::above_zero(facts.resources.memory_limit_bytes);
    let top = limit.filter(|&limit| limit >= highest && limit / 2 <= highest).unwrap_or(highest);
    let line = curve::draw_curve(&facts.curve, top, CURVE_WIDTH, utf8);
    let edge = match limit {
        Some(limit) if limit == top => format!("full height is the limit, {}", bytes(limit)),
        Some(limit) => format!("full height is {}, the limit {}", bytes(top), bytes(limit)),
        None => format!("full height is {}", bytes(top)),
    };
    page.line("", &format!("{line}  {edge}"));
}

/// A heading and a row for each of the phases that took longest; no rows without phases. Phases with the same name are added up.
pub(crate) fn phase_rows(phases: &[Phase]) -> Vec<String> {
    let mut rows = measured::phases_by_name(phases);
    rows.sort_by(|one, other| other.wall_ms.cmp(&one.wall_ms).then_with(|| one.name.cmp(&other.name)));
    let rest = rows.split_off(rows.len().min(MAX_PHASES));
    if !rest.is_empty() {
        let mut all = Phase { name: format!("({} more)", rest.len()), ..Phase::default() };
        for sum in &rest {
            measured::add_phase(&mut all, sum);
        }
        rows.push(all);
    }
    let row = |sum: &Phase| {
        let short: String = clean(&sum.name).chars().take(NAME_WIDTH).collect();
        let (wall, cpu) = (figures::millis(sum.wall_ms), figures::micros(sum.cpu_usec));
        format!("{short:<NAME_WIDTH$} {wall:>11} {:>11} {cpu:>11}", measured::phase_need_cell(sum))
    };
    let heading = format!("{:<NAME_WIDTH$} {:>11} {:>11} {:>11}", "", "time", "most needed", "cpu");
    let heading = (!rows.is_empty()).then_some(heading);
    heading.into_iter().chain(rows.iter().map(row)).collect()
}

/// The lines about the verdict on a failed build; empty without a verdict.
pub(super) fn verdict_lines(facts: &BuildFacts) -> String {
    let mut page = ReportPage::default();
    if let Some(verdict) = &facts.advice.verdict {
        let lines = outlook::answer_lines(verdict).into_iter().chain(outlook::fact_lines(verdict));
        for (nth, line) in lines.enumerate() {
            page.line(if nth == 0 { "verdict" } else { "" }, &line);
        }
    }
    page.0
}

fn next_lines(facts: &BuildFacts) -> String {
    let mut page = ReportPage::default();
    next_sizes(&mut page, facts);
    page.0
}

/// Lines with sizes for the next run. Sizes from this build alone are shown only if the server has none.
fn next_sizes(page: &mut ReportPage, facts: &BuildFacts) {
    match &facts.advice.prediction {
        Some(prediction) if !is_default(prediction) => return prediction_lines(page, prediction),
        Some(default) if !advice::was_held_back(facts) => {
            let had = measured::memory_asked_words(Some(&facts.resources));
            let default = size_names(default, &[SizeKind::MemoryRequest, SizeKind::MemoryLimit]);
            let text = format!(
                "nothing is known about it yet: the default is {default}; this attempt asked for {had}"
            );
            return page.line("next run", &text);
        }
        _ => {}
    }
    if let Some(problem) = &facts.advice.problem {
        page.line("", &format!("no advice from the server: {}", clean(problem)));
    }
    if let Some(request) = advice::from_need(facts) {
        page.line("next run", &format!("memory request {} ({})", bytes(request), advice::basis(request)));
    } else if let Some(need) =
        measured::proven_need(&facts.summary()).filter(|_| advice::was_held_back(facts))
    {
        page.line("next run", &format!("more memory than {}: it was held back there", bytes(need)));
    }
}

/// Names and sizes of these kinds, as far as the prediction has them: `memory request 2.00 GiB, memory limit
/// 4.00 GiB`.
fn size_names(prediction: &Prediction, kinds: &[SizeKind]) -> String {
    let named = kinds
        .iter()
        .filter_map(|kind| Some(format!("{} {}", kind.as_str(), kind.shown(kind.of(prediction)?.value))));
    named.collect::<Vec<_>>().join(", ")
}

/// Whether both memory sizes are the operator's defaults, because the server knows no attempt that shows the
/// build's need. They are no advice.
fn is_default(prediction: &Prediction) -> bool {
    [SizeKind::MemoryRequest, SizeKind::MemoryLimit].into_iter().all(|kind| {
        kind.of(prediction)
            .and_then(|size| size.basis.as_ref())
            .is_some_and(|basis| SizeBound::of(basis) == SizeBound::Default)
    })
}

/// The sizes in one line, then a line for each size with its reason. A size in a verdict may be based only on
/// the failure itself; then it has reasons, but no share of attempts that it covers.
fn prediction_lines(page: &mut ReportPage, prediction: &Prediction) {
    let shown = [SizeKind::MemoryRequest, SizeKind::MemoryLimit, SizeKind::CpuRequest, SizeKind::BuildJobs];
    let mut text = size_names(prediction, &shown);
    if prediction.confidence >= MIN_CONFIDENCE {
        let from = figures::counted(prediction.attempts.into(), "attempt");
        let sure = figures::percent(prediction.confidence);
        let _written = write!(text, " (from {from}; the sizes are {sure} sure)");
    }
    page.line("next run", &text);
    for (kind, quantity) in shown.into_iter().filter_map(|kind| Some((kind, kind.of(prediction)?))) {
        let why = reasons::sentence_in(prediction, kind, quantity);
        if !why.is_empty() {
            page.line("", &format!("{}: {}", kind.as_str(), clean(&why)));
        }
    }
}
