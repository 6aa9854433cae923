//! The page of failures, by cause and by the log line that identifies them: how many, in which packages, what
//! was retried, and what the retries cost.

use maud::{Markup, html};
use plimsoll_proto::{
    figures::{self, counted, share_of},
    reasons,
    v1::{Cause, FailureGroup, GetStatsResponse},
};

use super::{
    numbers::{amount, count},
    page::{card, empty_page, timed_page},
    table::table,
    times,
    view::ReaderChoice,
    words,
};

/// What the page of failures shows.
#[derive(Debug, Clone, Copy)]
pub struct FailuresPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// Statistics about the attempts of that time, with groups of equal failures.
    pub stats: &'a GetStatsResponse,
}

/// The failures of one cause.
struct CauseRow {
    cause: Cause,
    failures: u64,
    /// Number of failures of this cause that are in a group with a log line.
    with_line: u64,
    retried: u64,
    passed: u64,
    retries_gib_hours: f64,
}

impl FailuresPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, stats } = *self;
        let totals = stats.totals.clone().unwrap_or_default();
        let body = html! {
            h1 { "Failures" }
            @if totals.attempts == 0 {
                (empty_page(view, "/failures", &[]))
            } @else {
                dl.cards {
                    (card("Failed", &share_of(totals.failed, totals.attempts), &html! { (count(totals.failed)) " of " (counted(totals.attempts, "attempt")) }))
                    (card("Retries", &count(totals.retries), &html! { (count(totals.retries_helped)) " of them passed" }))
                    (card("Asked for by retries", &figures::gib_hours(self.sum_of(|group| group.retries_gib_hours)), &html! { "memory, after failures with a known line" }))
                }
                div id="failures" {
                    h2 { "By cause" }
                    (by_cause(&self.causes()))
                    h2 { "By failing line" }
                    (by_line(&stats.failures, view))
                }
            }
        };
        timed_page("Failures", "/failures", view, &[], &body)
    }

    fn sum_of(&self, of: impl Fn(&FailureGroup) -> f64) -> f64 {
        self.stats.failures.iter().map(of).sum()
    }

    /// The causes; those with the most failures come first.
    fn causes(&self) -> Vec<CauseRow> {
        let totals = self.stats.totals.clone().unwrap_or_default();
        let mut rows: Vec<CauseRow> = totals
            .causes
            .iter()
            .map(|one| {
                let of = || self.stats.failures.iter().filter(|group| group.cause() == one.cause());
                CauseRow {
                    cause: one.cause(),
                    failures: one.count,
                    with_line: of().map(|group| group.attempts).sum(),
                    retried: of().map(|group| group.retried).sum(),
                    passed: of().map(|group| group.passed).sum(),
                    retries_gib_hours: of().map(|group| group.retries_gib_hours).sum(),
                }
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.failures));
        rows
    }
}

fn by_cause(rows: &[CauseRow]) -> Markup {
    let heads = ["Cause", "#Failures", "#With a known line", "#Retried", "#Passed", "#Retries, GiB·h"];
    let row = |row: &CauseRow| {
        html! {
            tr {
                th scope="row" { (words::cause(row.cause)) }
                td.n { (count(row.failures)) }
                td.n { (count(row.with_line)) }
                td.n { (count(row.retried)) }
                td.n { (share_of(row.passed, row.retried)) }
                td.n { (amount(row.retries_gib_hours)) }
            }
        }
    };
    table("Failures by cause", &heads, rows.iter().map(row))
}

fn by_line(groups: &[FailureGroup], view: &ReaderChoice) -> Markup {
    html! {
        @if groups.is_empty() {
            p.why { "No failure of this time is known by a line of its log. " code { "plimsoll run" } " in front of a build reads its log, and a server with " code { "gitlab_url" } " reads the logs of GitLab jobs." }
        } @else {
            (table("Failures by failing line", &LINE_HEADS, groups.iter().map(|group| group_row(group, view))))
        }
    }
}

/// The headings of the table of failing lines.
const LINE_HEADS: [&str; 8] =
    ["Failing line", "Cause", "#Failures", "Packages", "#Retried", "#Passed", "#Retries, GiB·h", "Last"];

fn group_row(group: &FailureGroup, view: &ReaderChoice) -> Markup {
    let more = group.packages_total.saturating_sub(group.packages.len() as u64);
    html! {
        tr {
            th.text scope="row" {
                code { (reasons::failure_line(&group.failure_line, &group.signature_line)) }
                @if !group.project.is_empty() { " " span.quiet { (group.project) } }
            }
            td { (words::cause(group.cause())) }
            td.n { (count(group.attempts)) }
            td.text {
                @for (place, package) in group.packages.iter().enumerate() {
                    @if place > 0 { ", " }
                    a href=(view.package(package)) { (package) }
                }
                @if more > 0 { " and " (count(more)) " more" }
            }
            td.n { (count(group.retried)) }
            td.n { (share_of(group.passed, group.retried)) }
            td.n { (amount(group.retries_gib_hours)) }
            td { a.id href=(view.attempt(&group.newest_attempt)) { (times::time(group.ended_unix_ms)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{CauseCount, StatsTotals};

    use super::*;

    #[test]
    fn each_failure_is_shown_with_its_line_count_packages_retries_and_their_cost() {
        let cause = |cause: Cause, count| CauseCount { cause: cause.into(), count };
        let causes = vec![cause(Cause::Infra, 1), cause(Cause::Deterministic, 5)];
        let totals = StatsTotals { attempts: 40, failed: 6, causes, ..StatsTotals::default() };
        let group = FailureGroup {
            project: "g/a".to_owned(),
            cause: Cause::Deterministic.into(),
            failure_line: "x.c:3: error: <b>no</b>".to_owned(),
            attempts: 4,
            packages: vec!["zlib".to_owned(), "hdf5".to_owned()],
            packages_total: 3,
            newest_attempt: "job-7".to_owned(),
            retried: 2,
            passed: 1,
            retries_gib_hours: 1.5,
            ..FailureGroup::default()
        };
        let mut stats =
            GetStatsResponse { totals: Some(totals), failures: vec![group], ..Default::default() };
        let drawn = |stats: &GetStatsResponse| {
            FailuresPage { view: &ReaderChoice::default(), stats }.draw().into_string()
        };
        let text = drawn(&stats);
        for part in [
            "x.c:3: error: &lt;b&gt;no",
            "g/a",
            ">4<",
            "zlib",
            "and 1 more",
            "50 %",
            "1.5",
            "/attempts/job-7",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let place = |word: &str| text.find(word).unwrap();
        assert!(place("the build itself fails") < place("infrastructure"), "most failures first: {text}");
        stats.failures.clear();
        assert!(drawn(&stats).contains("No failure of this time is known by a line"));
    }
}
