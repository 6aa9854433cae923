//! A report as one HTML file for a browser or a printer, drawn by `plimsoll-pages`.

use plimsoll_pages::report::{BARS_HEAD, ReportCell, ReportPage, ReportRow, ReportSection};
use plimsoll_proto::{
    evidence::cause_words,
    reasons, sums,
    v1::{ChangeKind, FailureGroup, MixedNeed, Regression},
};

use super::{
    MAX_NAMED_PACKAGES, ReportData,
    figures::{self, Figure},
    next,
};
use crate::ask::{
    filter_words,
    numbers::{self, amount, count},
    text::{calibration_line, would_have_been},
};

/// The whole HTML file.
pub(super) fn render(digest: &ReportData) -> String {
    let (from, to) = (numbers::date(digest.from_unix_ms), numbers::date(digest.to_unix_ms));
    let title = format!("Builds from {from} to {to}");
    let (from, to) = (numbers::date_time(digest.from_unix_ms), numbers::date_time(digest.to_unix_ms));
    let long = numbers::length_words(digest.to_unix_ms.saturating_sub(digest.from_unix_ms));
    let about = format!(
        "{}; {from} to {to} UTC, against the {long} before",
        filter_words::filter_words(&digest.filter)
    );
    let mut sections = Vec::new();
    if digest.now.attempts > 0 || digest.before.attempts > 0 {
        sections.push(comparison_table("Figures", "figure", figures::figures(digest)));
        sections.push(comparison_table("Failures by cause", "cause", figures::cause_figures(digest)));
    }
    sections.extend([
        failures_section(&digest.stats.failures),
        steps_section(digest),
        wasters_section(digest),
        regressions_section(&digest.stats.regressions),
        mixed_section(&digest.stats.mixed),
        predictions_section(digest),
    ]);
    ReportPage { title, about, advice: next::next(digest), sections, notes: digest.stats.notes.clone() }
        .draw()
}

/// A section with a table of figures. The first column has the names of the figures, or the causes of failures.
fn comparison_table(heading: &'static str, of: &'static str, figures: Vec<Figure>) -> ReportSection {
    let rows = figures.into_iter().map(|figure| {
        let change = match figure.better {
            Some(true) => ReportCell::Better(figure.change),
            Some(false) => ReportCell::Worse(figure.change),
            None => ReportCell::Text(figure.change),
        };
        row(figure.name, [ReportCell::Text(figure.now), ReportCell::Text(figure.before), change])
    });
    ReportSection::Table { heading, columns: vec![of, "now", "before", "change"], rows: rows.collect() }
}

fn row(name: impl Into<String>, cells: impl Into<Vec<ReportCell>>) -> ReportRow {
    ReportRow { name: name.into(), cells: cells.into() }
}

#[expect(clippy::cast_precision_loss, reason = "drawn as bars of some hundred dots")]
fn steps_section(digest: &ReportData) -> ReportSection {
    let steps = &digest.stats.steps;
    let sums = steps.iter().map(|step| (step.from_unix_ms, step.totals.clone().unwrap_or_default()));
    let sums: Vec<_> = sums.collect();
    let most = sums.iter().map(|(_, sums)| sums.failed).max().unwrap_or(0).max(1) as f64;
    let rows = sums.iter().map(|(from, sums)| {
        let wasted = sums::memory_wasted_hours(sums).map_or_else(|| numbers::DASH.to_owned(), amount);
        let texts = [count(sums.attempts), wasted, count(sums.failed)];
        row_with_bar(numbers::date(*from), texts, sums.failed as f64 / most)
    });
    ReportSection::Table {
        heading: "Over time",
        columns: vec!["from (UTC)", "attempts", "wasted GiB·h", "failed", BARS_HEAD],
        rows: rows.collect(),
    }
}

/// A row of a table. Its last number is drawn as a bar that fills this share of the column.
fn row_with_bar<const COLUMNS: usize>(
    name: impl Into<String>,
    texts: [String; COLUMNS],
    share: f64,
) -> ReportRow {
    let mut cells: Vec<ReportCell> = texts.into_iter().map(ReportCell::Text).collect();
    cells.push(ReportCell::Bar(share));
    row(name, cells)
}

fn wasters_section(digest: &ReportData) -> ReportSection {
    let all = digest.now.memory_wasted_gib_hours;
    let most =
        digest.wasters().map(|(_, sums)| sums.memory_wasted_gib_hours).fold(f64::MIN_POSITIVE, f64::max);
    let rows = digest.wasters().map(|(group, sums)| {
        let wasted = sums.memory_wasted_gib_hours;
        let used = sums::memory_used_share(&sums).map_or_else(|| numbers::DASH.to_owned(), numbers::percent);
        let (attempts, failed) = (count(sums.attempts), count(sums.failed));
        let texts = [numbers::share(wasted, all), used, attempts, failed, amount(wasted)];
        row_with_bar(&group.name, texts, wasted / most)
    });
    ReportSection::Table {
        heading: "Packages that waste most",
        columns: vec!["package", "of all", "used of asked", "attempts", "failed", "wasted GiB·h", BARS_HEAD],
        rows: rows.collect(),
    }
}

fn failures_section(groups: &[FailureGroup]) -> ReportSection {
    let rows = groups.iter().take(MAX_NAMED_PACKAGES).map(|group| {
        let texts = [
            cause_words(group.cause()).to_owned(),
            count(group.attempts),
            sums::packages_words(group),
            count(group.retried),
            count(group.passed),
            amount(group.retries_gib_hours),
        ];
        row(reasons::failure_line(&group.failure_line, &group.signature_line), texts.map(ReportCell::Text))
    });
    ReportSection::Table {
        heading: "Failures by the line that they are known by",
        columns: vec!["failing line", "cause", "failures", "packages", "retried", "passed", "retries GiB·h"],
        rows: rows.collect(),
    }
}

fn regressions_section(regressions: &[Regression]) -> ReportSection {
    let rows = regressions.iter().take(MAX_NAMED_PACKAGES).map(|moved| {
        let since = match moved.kind() {
            ChangeKind::Drift => format!("little by little since attempt {}", moved.attempt),
            ChangeKind::Back => format!("back since attempt {}", moved.attempt),
            ChangeKind::Step | ChangeKind::Unspecified => format!("attempt {}", moved.attempt),
        };
        let factor = plimsoll_proto::figures::times(moved.factor);
        let factor = if moved.factor > 1.0 { ReportCell::Worse(factor) } else { ReportCell::Better(factor) };
        let mut cells = vec![factor];
        let texts = [
            numbers::bytes(moved.before_bytes),
            numbers::bytes(moved.now_bytes),
            amount(moved.extra_gib_hours),
            since,
            moved.changed.clone(),
        ];
        cells.extend(texts.map(ReportCell::Text));
        row(&moved.key, cells)
    });
    ReportSection::Table {
        heading: "Needs that have moved",
        columns: vec!["build", "factor", "before", "now", "extra GiB·h", "since", "with it changed"],
        rows: rows.collect(),
    }
}

fn mixed_section(builds: &[MixedNeed]) -> ReportSection {
    let rows = builds.iter().take(MAX_NAMED_PACKAGES).map(|build| {
        let reason = build.groups.as_ref().map(|groups| groups.reason.clone()).unwrap_or_default();
        row(&build.key, [amount(build.extra_gib_hours), reason].map(ReportCell::Text))
    });
    ReportSection::Table {
        heading: "Builds that hide groups with different needs",
        columns: vec!["build", "extra GiB·h", "groups"],
        rows: rows.collect(),
    }
}

fn predictions_section(digest: &ReportData) -> ReportSection {
    let held = digest.now.calibration.as_ref().and_then(calibration_line);
    let would = digest.now.would_have_been.as_ref();
    let would = would.and_then(|would| would_have_been(would, &digest.stats.currency));
    ReportSection::Paragraphs { heading: "Predictions", lines: held.into_iter().chain(would).collect() }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{empty, full},
        *,
    };

    #[test]
    fn every_element_that_is_opened_is_closed() {
        for html in [render(&full()), render(&empty())] {
            for name in [
                "html", "head", "body", "main", "section", "table", "thead", "tbody", "tr", "td", "ol", "li",
                "h2", "div", "p", "code",
            ] {
                let opened =
                    html.matches(&format!("<{name}>")).count() + html.matches(&format!("<{name} ")).count();
                assert_eq!(opened, html.matches(&format!("</{name}>")).count(), "{name}");
            }
        }
    }

    #[test]
    fn every_column_has_a_name_and_what_scrolls_is_reached_without_a_mouse() {
        let html = render(&full());
        assert!(html.contains("<th scope=\"col\">") && !html.contains("<th scope=\"col\"></th>"), "{html}");
        let reached =
            html.matches("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"").count();
        assert_eq!((reached > 2, reached), (true, html.matches("class=\"wide\"").count()));
    }
}
