//! The report as a page, at the end of a job's log.

use plimsoll_proto::{
    facts::{self, Line},
    figures::bytes,
    measured,
    reasons::{SizeBound, SizeKind},
    shown::clean,
    v1::{Prediction, Summary, Verdict},
    verdict,
};

use super::{BuildFacts, Settings, advice, words};
use crate::ask::{
    curve,
    text::{cleaned_row, phase_lines, prediction_lines},
};

const MEMORY_SIZES: [SizeKind; 2] = [SizeKind::MemoryRequest, SizeKind::MemoryLimit];
/// Characters of the line that draws the memory curve.
const CURVE_WIDTH: usize = 60;

/// What was measured; each line ends with a line feed.
pub(super) fn measured_lines(facts: &BuildFacts, settings: &Settings) -> String {
    let mut page = ReportPage::default();
    let summary = facts.summary();
    page.sentences(&summary, &[Line::Memory, Line::Notes]);
    draw_curve(&mut page, facts, settings.utf8);
    page.sentences(&summary, &[Line::Cpu, Line::Killed, Line::Processes, Line::HeldBack, Line::Rescue]);
    page.block("phases", phase_lines(&summary, settings.columns).lines());
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

    fn block(&mut self, title: &str, lines: impl Iterator<Item = impl AsRef<str>>) {
        for (nth, line) in lines.enumerate() {
            self.line(if nth == 0 { title } else { "" }, line.as_ref());
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

/// The lines about the verdict on a failed build; empty without a verdict.
pub(super) fn verdict_lines(facts: &BuildFacts) -> String {
    let mut page = ReportPage::default();
    let rows = facts.advice.verdict.iter().flat_map(verdict::rows);
    page.block("verdict", rows.map(cleaned_row));
    page.0
}

/// What a page of the CI system shows of a failure: the line of the log that says why, else the cause; `None` if neither is known.
pub(super) fn annotated(verdict: &Verdict) -> Option<String> {
    let line = verdict.outlook.as_ref().map(|outlook| outlook.failure_line.clone()).unwrap_or_default();
    if line.is_empty() && verdict::is_cause_unknown(verdict) {
        return None;
    }
    let answer = || Some(verdict::rows(verdict).into_iter().next()?.1);
    if line.is_empty() { answer() } else { Some(line) }
}

/// Lines with sizes for the next run; each ends with a line feed.
pub(super) fn next_lines(facts: &BuildFacts) -> String {
    let mut page = ReportPage::default();
    next_sizes(&mut page, facts);
    page.0
}

/// Lines with sizes for the next run. Sizes from this build alone are shown only if the server has none.
fn next_sizes(page: &mut ReportPage, facts: &BuildFacts) {
    match &facts.advice.prediction {
        Some(prediction) if !is_default(prediction) => {
            return page.block("next run", prediction_lines(prediction));
        }
        Some(default) if !advice::was_held_back(facts) => {
            let had = measured::memory_asked_words(Some(&facts.resources));
            let size =
                |kind: SizeKind| Some(format!("{} {}", kind.as_str(), kind.shown(kind.of(default)?.value)));
            let default = MEMORY_SIZES.into_iter().filter_map(size).collect::<Vec<_>>().join(", ");
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
    let was_rescued = measured::was_rescued(facts.rescue.as_ref());
    if let Some(request) = advice::from_need(facts) {
        page.line("next run", &format!("memory request {} ({})", bytes(request), advice::basis(request)));
    } else if let Some(need) =
        measured::proven_need(&facts.summary()).filter(|_| advice::was_held_back(facts) || was_rescued)
    {
        page.line("next run", &format!("more memory than {}: it was held back there", bytes(need)));
    }
}

/// Whether both memory sizes are the operator's defaults, because the server knows no attempt that shows the
/// build's need. They are no advice.
fn is_default(prediction: &Prediction) -> bool {
    MEMORY_SIZES.into_iter().all(|kind| {
        kind.of(prediction)
            .and_then(|size| size.basis.as_ref())
            .is_some_and(|basis| SizeBound::of(basis) == SizeBound::Default)
    })
}
