//! `plimsoll report`: compares a period with the one before, from two answers of the server.
//!
//! `figures` and `next` compute the content and are pure; `text`, `html` and `json` format it.

mod figures;
mod html;
mod json;
mod next;
mod text;

use plimsoll_client::questions::{Client, QuestionFailure};
use plimsoll_pages::report::BARS_HEAD;
use plimsoll_proto::{
    figures::{amount, cell, count, percent, share},
    sums,
    tables::{
        FactCell::{Bar, Number, Text},
        FactTable, table_of,
    },
    v1::{Filter, GetStatsRequest, GetStatsResponse, Group, GroupBy, StatsTotals},
};

use super::{
    CommandOutput,
    fleet::Presentation,
    text::{calibration_line, would_have_been},
};

/// Most packages, and most changes of need, that a report names.
const MAX_NAMED_PACKAGES: usize = 10;

/// Least time that one step of the chart covers. With more than [`MAX_CHART_STEPS`] steps, each step covers more.
const STEP_MS: u64 = 24 * 3_600_000;

/// Most steps of the chart over time.
const MAX_CHART_STEPS: u64 = 60;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DigestFormat {
    /// For people, on a terminal or in a mail.
    Text,
    /// For programs: stable names with their unit.
    Json,
    /// For people, as one file for a browser or a printer.
    Html,
}

/// A period of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Start of the period, milliseconds since 1970.
    pub from_unix_ms: u64,
    /// The first millisecond after the period.
    pub to_unix_ms: u64,
}

impl TimeRange {
    /// Length of the period, milliseconds.
    fn length_ms(self) -> u64 {
        self.to_unix_ms.saturating_sub(self.from_unix_ms)
    }

    /// The range of the same length just before this one.
    fn previous(self) -> Self {
        let from_unix_ms = self.from_unix_ms.saturating_sub(self.length_ms());
        Self { from_unix_ms, to_unix_ms: self.from_unix_ms }
    }

    /// Time that one step of the chart covers: whole days, and so many that there are at most [`MAX_CHART_STEPS`] steps.
    fn step_ms(self) -> u64 {
        let days = self.length_ms().div_ceil(STEP_MS);
        STEP_MS * days.div_ceil(MAX_CHART_STEPS).max(1)
    }

    fn filter_within(self, filter: &Filter) -> Filter {
        Filter { from_unix_ms: Some(self.from_unix_ms), to_unix_ms: Some(self.to_unix_ms), ..filter.clone() }
    }
}

/// The content of a report.
#[derive(Debug, Default)]
struct ReportData {
    /// Which attempts the report covers, without times.
    filter: Filter,
    range: TimeRange,
    now: StatsTotals,
    before: StatsTotals,
    /// The server's statistics, by package and over time.
    stats: GetStatsResponse,
}

/// A report on the attempts of `filter` in `range`; times in `filter` are ignored.
/// Errors: the server did not answer, or rejected the request.
pub async fn digest(
    client: &Client,
    filter: Filter,
    range: TimeRange,
    shown: Presentation<DigestFormat>,
) -> Result<CommandOutput, QuestionFailure> {
    let now = GetStatsRequest {
        filter: Some(range.filter_within(&filter)),
        group_by: GroupBy::Package.into(),
        step_ms: range.step_ms(),
        ..GetStatsRequest::default()
    };
    let before = GetStatsRequest {
        filter: Some(range.previous().filter_within(&filter)),
        ..GetStatsRequest::default()
    };
    let (now, before) = (client.stats(now).await?, client.stats(before).await?);
    let digest = ReportData {
        filter: Filter { from_unix_ms: None, to_unix_ms: None, ..filter },
        range,
        now: now.totals.clone().unwrap_or_default(),
        before: before.totals.unwrap_or_default(),
        stats: now,
    };
    Ok(match shown.format {
        DigestFormat::Text => CommandOutput::prose(text::render(&digest, shown.style)),
        DigestFormat::Json => CommandOutput::data(json::render(&digest)),
        DigestFormat::Html => CommandOutput::data(html::render(&digest)),
    })
}

impl ReportData {
    /// The packages that waste the most memory.
    fn wasters(&self) -> impl Iterator<Item = (&Group, StatsTotals)> {
        let sums = sums::named_groups(&self.stats.groups)
            .map(|group| (group, group.totals.clone().unwrap_or_default()));
        sums.filter(|(_, sums)| sums.memory_wasted_gib_hours > 0.0).take(MAX_NAMED_PACKAGES)
    }

    /// The [`Self::wasters`] as a table.
    fn wasters_table(&self) -> FactTable {
        let all = self.now.memory_wasted_gib_hours;
        let most =
            self.wasters().map(|(_, sums)| sums.memory_wasted_gib_hours).fold(f64::MIN_POSITIVE, f64::max);
        let columns = ["package", "GiB·h", BARS_HEAD, "of all", "used", "attempts", "failed"];
        table_of(columns, self.wasters(), |(group, sums)| {
            let wasted = sums.memory_wasted_gib_hours;
            [
                Text(group.name.clone()),
                Number(amount(wasted)),
                Bar(wasted / most),
                Number(share(wasted, all)),
                Number(cell(sums::memory_used_share(&sums), percent)),
                Number(count(sums.attempts)),
                Number(count(sums.failed)),
            ]
        })
    }

    /// How well predictions fitted, and what they would have changed: one sentence each.
    fn about_predictions(&self) -> Vec<String> {
        let held = self.now.calibration.as_ref().and_then(calibration_line);
        let would = self.now.would_have_been.as_ref();
        let would = would.and_then(|would| would_have_been(would, &self.stats.currency));
        held.into_iter().chain(would).collect()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::{stats_of_full_week, text_of_full_week};
