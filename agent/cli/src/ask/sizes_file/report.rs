//! What changed in a file and why, for a reviewer.

use std::{collections::BTreeMap, fmt::Write as _};

use plimsoll_proto::{
    figures, lowering,
    recommendations::{risk_words, scope, window},
    shown::clean,
    v1::{RecommendResponse, Recommendation},
};

/// Most rows of the table, and most names in a sentence.
const MAX_ROWS: usize = 500;
const MAX_NAMES: usize = 20;

/// A changed size.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) name: String,
    /// What the file had; empty for a new size.
    pub(super) old: String,
    pub(super) new: String,
    /// The new memory request of a job or a row, bytes.
    pub(super) request: u64,
    /// It was too small, so nothing of the job is lowered.
    pub(super) is_raise: bool,
    /// Sentences without a full stop.
    pub(super) why: String,
    pub(super) evidence: Evidence,
    /// GiB·h a month; `None` if it is not known what attempts request today.
    pub(super) saved: Option<f64>,
}

/// What is known of the attempts behind a size.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    attempts: u64,
    killed: u64,
    peak: Option<u64>,
    risk: String,
    /// Lowest confidence of the rows, 0 to 1.
    pub(super) confidence: f64,
    /// GiB·h that attempts request in a month for each byte of their request.
    hours: Option<f64>,
}

impl Evidence {
    pub(super) fn of(rows: &[&Recommendation]) -> Self {
        let worst = rows.iter().filter_map(|row| row.request_risk.as_ref());
        let worst = worst.max_by(|a, b| a.at_most.total_cmp(&b.at_most));
        let hours = |row: &&Recommendation| {
            let request = row.today.as_ref()?.memory_request_bytes.filter(|bytes| *bytes > 0)?;
            Some(row.asked_gib_hours / figures::float(request))
        };
        Self {
            attempts: rows.iter().map(|row| row.attempts).sum(),
            killed: rows.iter().map(|row| row.failed_for_memory).sum(),
            peak: rows.iter().filter_map(|row| row.highest_need_bytes).max(),
            risk: risk_words(worst),
            confidence: rows.iter().map(|row| row.confidence).reduce(f64::min).unwrap_or_default(),
            hours: rows.iter().map(hours).sum(),
        }
    }

    /// What the attempts save in a month with another request, in GiB·h; below 0 if they need more. `share`: the part of the attempts that gets it.
    pub(super) fn saved(&self, old: u64, new: u64, share: f64) -> Option<f64> {
        Some((figures::float(old) - figures::float(new)) * self.hours? * share)
    }
}

/// All that happened to a file.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) changes: Vec<Change>,
    /// Names of what stays, by the reason.
    kept: BTreeMap<String, Vec<String>>,
    /// Sentences for the reviewer.
    pub(super) notes: Vec<String>,
}

impl Report {
    pub(super) fn keep(&mut self, why: &str, name: &str) {
        self.kept.entry(why.to_owned()).or_default().push(name.to_owned());
    }

    /// `2 changed, 1 new, 40 as they were`.
    pub(super) fn counts(&self) -> String {
        let new = self.changes.iter().filter(|change| change.old.is_empty()).count();
        let kept: usize = self.kept.values().map(Vec::len).sum();
        format!("{} changed, {new} new, {kept} as they were", self.changes.len() - new)
    }

    /// The summary, as Markdown.
    pub(super) fn markdown(&self, answer: &RecommendResponse) -> String {
        let mut text = format!("## Sizes: {}\n", self.counts());
        let saved: f64 = self.changes.iter().filter_map(|change| change.saved).sum();
        let _written =
            write!(text, "\n{} saved a month, by {}.\n", figures::gib_hours(saved), window(answer));
        if !self.changes.is_empty() {
            text.push_str("\n| package | now | new | why | attempts | needed | killed | saved, GiB·h a month | above the request |\n");
            text.push_str("|---|---|---|---|--:|--:|--:|--:|---|\n");
        }
        for change in self.changes.iter().take(MAX_ROWS) {
            let Evidence { attempts, killed, peak, risk, .. } = &change.evidence;
            let old = if change.old.is_empty() { figures::DASH } else { &change.old };
            let saved = figures::cell(change.saved, figures::amount);
            let cells = [
                code(&change.name),
                cell(old),
                cell(&change.new),
                cell(&change.why),
                figures::count(*attempts),
                figures::cell(*peak, figures::bytes),
                figures::count(*killed),
                saved,
                cell(risk),
            ];
            let _written = writeln!(text, "| {} |", cells.join(" | "));
        }
        if let Some(more) = self.changes.len().checked_sub(MAX_ROWS + 1) {
            let _written = writeln!(text, "\nand {} more.", more + 1);
        }
        let mut notes: Vec<String> = Vec::new();
        for (why, names) in &self.kept {
            let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| code(name)).collect();
            let more = names.len().saturating_sub(MAX_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!(
                "{} as they were, because {}: {}{more}",
                names.len(),
                cell(why),
                shown.join(", ")
            ));
        }
        let taken_back =
            answer.recommendations.iter().filter_map(|row| Some((row, row.taken_back.as_ref()?)));
        for (row, lowering) in taken_back.take(MAX_ROWS) {
            notes.push(format!("{}: {}", code(&row.package), lowering::taken_back(lowering)));
        }
        notes.extend(self.notes.iter().map(|note| cell(note)));
        notes.extend(answer.notes.iter().map(|note| cell(note)));
        notes.extend(scope(answer));
        if !notes.is_empty() {
            let _written = write!(text, "\n- {}\n", notes.join("\n- "));
        }
        text
    }
}

/// Text in a cell, which Markdown takes as it is written.
fn cell(text: &str) -> String {
    let mut shown = String::new();
    for letter in clean(text).chars() {
        if "|<>`*_[]\\#~".contains(letter) {
            shown.push('\\');
        }
        shown.push(letter);
    }
    shown
}

/// A name as code.
fn code(name: &str) -> String {
    format!("`{}`", clean(name).replace('`', "'").replace('|', "\\|"))
}
