//! The page of failures, by cause and by the log line that identifies them: how many, in which packages, what
//! was retried, and what the retries cost.

use maud::{Markup, html};
use plimsoll_proto::{
    figures::{self, counted, share_of},
    tables::{
        FactCell::{Number, Text},
        FactTable, failing_lines, table_of,
    },
    v1::{FailureGroup, GetStatsResponse},
};

use super::{
    figures::{amount, count},
    page::{card, empty_page, timed_page},
    table::{fact_table, scrolled},
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
                    (scrolled("Failures by cause", &fact_table(&self.by_cause(), usize::MAX, view)))
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

    /// A row for each cause; those with the most failures come first.
    fn by_cause(&self) -> FactTable {
        let mut causes = self.stats.totals.clone().unwrap_or_default().causes;
        causes.sort_by_key(|one| std::cmp::Reverse(one.count));
        let columns = ["cause", "failures", "with a known line", "retried", "passed", "retries, GiB·h"];
        table_of(columns, causes, |one| {
            let groups = || self.stats.failures.iter().filter(|group| group.cause() == one.cause());
            let sum = |of: fn(&FailureGroup) -> u64| groups().map(of).sum::<u64>();
            let (with_line, retried) = (sum(|group| group.attempts), sum(|group| group.retried));
            [
                Text(words::cause(one.cause()).to_owned()),
                Number(count(one.count)),
                Number(count(with_line)),
                Number(count(retried)),
                Number(share_of(sum(|group| group.passed), retried)),
                Number(amount(groups().map(|group| group.retries_gib_hours).sum())),
            ]
        })
    }
}

fn by_line(groups: &[FailureGroup], view: &ReaderChoice) -> Markup {
    html! {
        @if groups.is_empty() {
            p.why { "No failure of this time is known by a line of its log. " code { "plimsoll run" } " in front of a build reads its log, and a server with " code { "gitlab_url" } " reads the logs of GitLab jobs." }
        } @else {
            (scrolled("Failures by failing line", &fact_table(&failing_lines(groups), usize::MAX, view)))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Cause, CauseCount, StatsTotals};

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
