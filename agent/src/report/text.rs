//! The page at the end of a job's log.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use plimsoll_proto::{
    figures, measured,
    reasons::{self, SizeKind},
    v1::{Phase, Prediction, Quantity, Verdict},
};

use super::{
    Facts, advice, curve,
    words::{self, Bytes, Processes, Time, clean},
};
use crate::ask::{
    outlook,
    words::{action, cause, is_retry},
};

/// Phases in the table; the rest is one line.
const PHASES: usize = 8;
/// Marks of the curve.
const CURVE_WIDTH: usize = 60;
/// Characters of a phase's name.
const NAME_WIDTH: usize = 32;

/// Everything below the first line; each line ends with a line feed.
pub(super) fn body(facts: &Facts, utf8: bool) -> String {
    let mut page = Page::default();
    memory(&mut page, facts);
    draw(&mut page, facts, utf8);
    cpu(&mut page, facts);
    troubles(&mut page, facts);
    phases(&mut page, &facts.phases);
    page.line("samples", &samples(facts));
    advice_lines(&mut page, facts);
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, title: &str, text: &str) {
        let line = format!("  {title:<9} {text}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

fn memory(page: &mut Page, facts: &Facts) {
    let Some(need) = facts.totals.need_peak_bytes else { return page.line("memory", "not measured") };
    let mut text = format!("needed {}", Bytes(need));
    let _written = write!(text, ", asked for {}", measured::memory_asked_words(Some(&facts.resources)));
    if let Some(asked) = measured::memory_asked(Some(&facts.resources)).filter(|asked| asked.bytes > 0) {
        let _written = write!(text, " ({} of it needed)", figures::share_of(need, asked.bytes));
    }
    if let Some(mark) = facts.totals.memory_peak_bytes {
        let _written = write!(text, "; high-water mark with files {}", Bytes(mark));
    }
    page.line("memory", &text);
}

fn draw(page: &mut Page, facts: &Facts, utf8: bool) {
    let highest = facts.curve.iter().copied().max().unwrap_or(0);
    if facts.curve.len() < 2 || highest == 0 {
        return;
    }
    // the limit is the upper edge where that leaves something to see
    let limit = facts.resources.memory_limit_bytes.filter(|&limit| limit > 0);
    let top = limit.filter(|&limit| limit >= highest && limit / 2 <= highest).unwrap_or(highest);
    let line = curve::draw(&facts.curve, top, CURVE_WIDTH, utf8);
    let edge = match limit {
        Some(limit) if limit == top => format!("full height is the limit, {}", Bytes(limit)),
        Some(limit) => format!("full height is {}, the limit {}", Bytes(top), Bytes(limit)),
        None => format!("full height is {}", Bytes(top)),
    };
    page.line("", &format!("{line}  {edge}"));
    if let Some(phase) = facts.peak_phase() {
        page.line("", &format!("most in {} ({})", phase.name, Bytes(phase.need_peak_bytes)));
    }
}

fn cpu(page: &mut Page, facts: &Facts) {
    let (used, wall) = (Duration::from_micros(facts.totals.cpu_usec), facts.wall);
    let mut text = format!("{} in {}", Time(used), Time(wall));
    if wall >= Duration::from_millis(100) {
        let mean = used.as_secs_f64() / wall.as_secs_f64();
        let _written = write!(text, ", {} on average", figures::cores_named(mean));
    }
    for (what, cores) in
        [("asked", facts.resources.cpu_request_cores), ("limit", facts.resources.cpu_limit_cores)]
    {
        if let Some(cores) = cores {
            let _written = write!(text, ", {what} {}", figures::cores(cores));
        }
    }
    if let Some(usec) = facts.totals.throttled_usec.filter(|&usec| usec > 0) {
        let _written = write!(text, "; held back by the limit for {}", Time(Duration::from_micros(usec)));
    }
    page.line("cpu", &text);
}

fn troubles(page: &mut Page, facts: &Facts) {
    if let Some(ms) = facts.totals.starved_ms.filter(|&ms| ms > 0) {
        let time = Time(Duration::from_millis(ms));
        page.line("starved", &format!("{time} at its memory limit, busy with reclaiming memory"));
    }
    if let Some(kills) = facts.totals.oom_kill.filter(|&kills| kills > 0) {
        let origin = words::origin(facts.totals.oom_origin());
        page.line("killed", &format!("{} by the kernel, {origin}", Processes(kills)));
    }
}

/// The phases that took longest, those of one name together.
fn phases(page: &mut Page, phases: &[Phase]) {
    let mut sums: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for phase in phases {
        let (wall, need, cpu) = sums.entry(&phase.name).or_default();
        *wall = wall.saturating_add(phase.wall_ms);
        *need = (*need).max(phase.need_peak_bytes);
        *cpu = cpu.saturating_add(phase.cpu_usec);
    }
    if sums.is_empty() {
        return;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_name, (wall, ..))| std::cmp::Reverse(*wall));
    page.line("phases", &format!("{:<NAME_WIDTH$} {:>11} {:>11} {:>11}", "", "time", "most needed", "cpu"));
    let rest = rows.split_off(rows.len().min(PHASES));
    let mut row = |name: &str, (wall, need, cpu): (u64, u64, u64)| {
        let short: String = name.chars().take(NAME_WIDTH).collect();
        let (wall, cpu) = (Time(Duration::from_millis(wall)), Time(Duration::from_micros(cpu)));
        page.line("", &format!("{short:<NAME_WIDTH$} {wall:>11} {:>11} {cpu:>11}", Bytes(need)));
    };
    for (name, sum) in rows {
        row(name, sum);
    }
    if !rest.is_empty() {
        let sum = rest.iter().fold((0_u64, 0, 0_u64), |all, (_name, one)| {
            (all.0.saturating_add(one.0), all.1.max(one.1), all.2.saturating_add(one.2))
        });
        row(&format!("({} more)", rest.len()), sum);
    }
}

fn samples(facts: &Facts) -> String {
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

fn advice_lines(page: &mut Page, facts: &Facts) {
    if let Some(verdict) = &facts.advice.verdict {
        page.line("retry", &verdict_words(verdict));
        for line in outlook::lines(verdict) {
            page.line("", &line);
        }
    }
    if let Some(prediction) = &facts.advice.prediction {
        return prediction_lines(page, prediction);
    }
    if let Some(problem) = &facts.advice.problem {
        page.line("", &format!("no advice from the server: {}", clean(problem)));
    }
    match (advice::from_need(facts), facts.totals.need_peak_bytes) {
        (Some(request), _) => {
            page.line("next run", &format!("memory request {} ({})", Bytes(request), advice::basis()));
        }
        (None, Some(need)) => {
            page.line("next run", &format!("more memory than {}: it was held back there", Bytes(need)));
        }
        (None, None) => {}
    }
}

fn verdict_words(verdict: &Verdict) -> String {
    let answer = match action(verdict.action()) {
        _ if !is_retry(verdict.action()) => "no".to_owned(),
        action => format!("yes, {}", action.replace('_', " ")),
    };
    let cause = cause(verdict.cause()).replace('_', " ");
    let left = figures::counted(verdict.attempts_left.into(), "attempt");
    let sure = figures::percent(verdict.confidence);
    format!("{answer}: {cause} ({sure} sure, {left} left); {}", clean(&verdict.reason))
}

/// The sizes in one line, each with its reason in one of its own.
fn prediction_lines(page: &mut Page, prediction: &Prediction) {
    let shown = [SizeKind::MemoryRequest, SizeKind::MemoryLimit, SizeKind::CpuRequest, SizeKind::BuildJobs];
    let sizes = || shown.into_iter().filter_map(|kind| Some((kind, kind.of(prediction)?)));
    let short =
        |(kind, quantity): (SizeKind, &Quantity)| format!("{} {}", kind.name(), kind.shown(quantity.value));
    let parts: Vec<String> = sizes().map(short).collect();
    let from = figures::counted(prediction.attempts.into(), "attempt");
    let sure = figures::percent(prediction.confidence);
    page.line("next run", &format!("{} (from {from}, {sure} sure)", parts.join(", ")));
    for (kind, quantity) in sizes() {
        let why = reasons::sentence(kind, quantity);
        if !why.is_empty() {
            page.line("", &format!("{}: {}", kind.name(), clean(&why)));
        }
    }
}

#[cfg(test)]
mod tests;
