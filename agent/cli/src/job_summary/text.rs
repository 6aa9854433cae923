//! The report as a page, at the end of a job's log.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures::{self, bytes},
    measured,
    reasons::{self, MIN_CONFIDENCE, SizeBound, SizeKind},
    shown::clean,
    v1::{Phase, Prediction},
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
    memory_lines(&mut page, facts);
    draw_curve(&mut page, facts, utf8);
    cpu_lines(&mut page, facts);
    problem_lines(&mut page, facts);
    phase_lines(&mut page, &facts.phases);
    page.line("samples", &samples_words(facts));
    page.0
}

#[derive(Default)]
struct ReportPage(String);

impl ReportPage {
    fn line(&mut self, title: &str, text: &str) {
        let line = format!("  {title:<9} {text}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

fn memory_lines(page: &mut ReportPage, facts: &BuildFacts) {
    let summary = facts.summary();
    if measured::need(&summary).is_none() {
        return page.line("memory", "not measured");
    }
    let asked = measured::memory_asked_words(Some(&facts.resources));
    let mut text = format!("needed {}, asked for {asked}", measured::noted_need_words(&summary));
    if let Some(share) = measured::need_of_ask_words(&summary) {
        let _written = write!(text, " ({share})");
    }
    if let Some(mark) = measured::memory_peak_words(&summary) {
        let _written = write!(text, "; {mark}");
    }
    page.line("memory", &text);
    if let Some(unseen) = measured::unseen_note(&summary) {
        page.line("", unseen);
    }
    if let Some(elsewhere) = measured::offloaded_sentence(&summary) {
        page.line("", &elsewhere);
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
    if let Some(phase) = facts.peak_phase() {
        page.line("", &format!("most in {} ({})", phase.name, bytes(phase.need_peak_bytes)));
    }
}

fn cpu_lines(page: &mut ReportPage, facts: &BuildFacts) {
    let summary = facts.summary();
    let mut text = format!("{} in {}", measured::cpu_time_words(&summary), figures::millis(summary.wall_ms));
    if let Some(mean) = measured::mean_cores(&summary) {
        let _written = write!(text, ", {} on average", figures::cores_named(mean));
    }
    for (what, cores) in
        [("asked", facts.resources.cpu_request_cores), ("limit", facts.resources.cpu_limit_cores)]
    {
        if let Some(cores) = cores {
            let _written = write!(text, ", {what} {}", figures::cores(cores));
        }
    }
    if let Some(usec) = measured::above_zero(facts.totals.throttled_usec) {
        let _written = write!(text, "; held back by the limit for {}", figures::micros(usec));
    }
    page.line("cpu", &text);
}

fn problem_lines(page: &mut ReportPage, facts: &BuildFacts) {
    if let Some(ms) = measured::above_zero(facts.totals.starved_ms) {
        let time = figures::millis(ms);
        page.line("starved", &format!("{time} at its memory limit, busy with reclaiming memory"));
    }
    if let Some(kills) = measured::above_zero(facts.totals.oom_kill) {
        let origin = words::limit_words(facts.totals.oom_origin());
        page.line(
            "killed",
            &format!("{} by the kernel, {origin}", figures::counted_as(kills, "process", "processes")),
        );
    }
}

/// The phases that took longest. Phases with the same name are added up.
fn phase_lines(page: &mut ReportPage, phases: &[Phase]) {
    let mut rows = measured::phases_by_name(phases);
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|one, other| other.wall_ms.cmp(&one.wall_ms).then_with(|| one.name.cmp(&other.name)));
    page.line("phases", &format!("{:<NAME_WIDTH$} {:>11} {:>11} {:>11}", "", "time", "most needed", "cpu"));
    let rest = rows.split_off(rows.len().min(MAX_PHASES));
    let mut row = |sum: &Phase| {
        let short: String = sum.name.chars().take(NAME_WIDTH).collect();
        let (wall, cpu) = (figures::millis(sum.wall_ms), figures::micros(sum.cpu_usec));
        let need = bytes(sum.need_peak_bytes);
        page.line("", &format!("{short:<NAME_WIDTH$} {wall:>11} {need:>11} {cpu:>11}"));
    };
    rows.iter().for_each(&mut row);
    if !rest.is_empty() {
        let mut all = Phase { name: format!("({} more)", rest.len()), ..Phase::default() };
        for sum in &rest {
            measured::add_phase(&mut all, sum);
        }
        row(&all);
    }
}

fn samples_words(facts: &BuildFacts) -> String {
    if facts.measures_only {
        return "kept nowhere: no server is set".to_owned();
    }
    let report = &facts.delivery;
    let mut text = match &report.kept {
        _ if report.delivered => format!("delivered as {}", facts.attempt),
        Some(kept) => format!("{} waits for the next run in {}", facts.attempt, kept.display()),
        None => format!("{} not delivered", facts.attempt),
    };
    if report.lost > 0 {
        let _written = write!(text, ", {} lost", report.lost);
    }
    if let Some(problem) = &report.problem {
        let _written = write!(text, ": {problem}");
    }
    clean(&text)
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
