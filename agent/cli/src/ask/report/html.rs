//! A report as one HTML file for a browser or a printer, drawn by `plimsoll-pages`.

use plimsoll_pages::report::{BARS_HEAD, ReportPage, ReportSection};
use plimsoll_proto::{
    figures::{amount, cell, count, float},
    sums,
    tables::{
        self,
        FactCell::{Bar, Number, Text},
        FactTable, table_of,
    },
    times,
};

use super::{MAX_NAMED_PACKAGES, ReportData, TimeRange, figures, next};
use crate::ask::{filter_words, numbers};

/// The whole HTML file.
pub(super) fn render(digest: &ReportData) -> String {
    let TimeRange { from_unix_ms, to_unix_ms } = digest.range;
    let (from, to) = (times::date(from_unix_ms), times::date(to_unix_ms));
    let title = format!("Builds from {from} to {to}");
    let (from, to) = (times::date_time(from_unix_ms), times::date_time(to_unix_ms));
    let long = numbers::length_words(digest.range.length_ms());
    let about = format!(
        "{}; {from} to {to} UTC, against the {long} before",
        filter_words::filter_words(&digest.filter)
    );
    let mut sections = Vec::new();
    if digest.now.attempts > 0 || digest.before.attempts > 0 {
        sections.extend([
            ReportSection::Table { heading: "Figures", table: figures::figures(digest) },
            ReportSection::Table { heading: "Failures by cause", table: figures::cause_figures(digest) },
        ]);
    }
    let stats = &digest.stats;
    let named = |heading, mut table: FactTable| {
        table.rows.truncate(MAX_NAMED_PACKAGES);
        ReportSection::Table { heading, table }
    };
    sections.extend([
        named("Failures by the line that they are known by", tables::failing_lines(&stats.failures)),
        ReportSection::Table { heading: "Over time", table: steps_table(digest) },
        named("Packages that waste most", digest.wasters_table()),
        named("Needs that have moved", tables::regressions(&stats.regressions)),
        named("Builds that hide groups with different needs", tables::mixed_needs(&stats.mixed)),
        ReportSection::Paragraphs { heading: "Predictions", lines: digest.about_predictions() },
    ]);
    ReportPage { title, about, advice: next::next(digest), sections, notes: digest.stats.notes.clone() }
        .draw()
}

fn steps_table(digest: &ReportData) -> FactTable {
    let steps = digest.stats.steps.iter();
    let steps: Vec<_> =
        steps.map(|step| (step.from_unix_ms, step.totals.clone().unwrap_or_default())).collect();
    let most = steps.iter().map(|(_, sums)| sums.failed).max().unwrap_or(0).max(1);
    table_of(["from (UTC)", "attempts", "wasted GiB·h", "failed", BARS_HEAD], steps, |(from, sums)| {
        [
            Text(times::date(from)),
            Number(count(sums.attempts)),
            Number(cell(sums::memory_wasted_hours(&sums), amount)),
            Number(count(sums.failed)),
            Bar(float(sums.failed) / float(most)),
        ]
    })
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
