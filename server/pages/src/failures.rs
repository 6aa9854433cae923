//! The page of failures, by cause and by the log line that identifies them: how many, in which packages, what
//! was retried, and what the retries cost.

use std::collections::BTreeMap;

use maud::{Markup, html};
use plimsoll_proto::{
    evidence::cause_name,
    figures::{self, counted, share_of},
    sums,
    tables::{
        FactCell::{Failures, Number, Text},
        FactTable, failing_lines, table_of,
    },
    v1::{Cause, FailureGroup, GetStatsResponse, RetriesOfCause, StatsTotals},
};

use super::{
    figures::{amount, count},
    page::{card, empty_page, timed_page},
    table::fact_table,
    view::ReaderChoice,
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
        let named: u64 = sums::failures_by_cause(&totals).map(|(_, count)| count).sum();
        let body = html! {
            h1 { "Failures" }
            @if totals.attempts == 0 {
                (empty_page(view, "/failures", &[]))
            } @else {
                dl.cards {
                    (card("Failed", &share_of(totals.failed, totals.attempts), &html! {
                        (count(totals.failed)) " of " (counted(totals.attempts, "attempt"))
                        @if named > totals.failed { "; by cause also " (count(named - totals.failed)) " whose end was not seen" }
                    }))
                    (card("Retries", &count(totals.retries), &html! { (count(totals.retries_helped)) " of them passed" }))
                    (card("Asked for by retries", &figures::gib_hours(totals.retries_by_cause.iter().map(|of| of.asked_gib_hours).sum()), &html! { "memory, over the time of the retries" }))
                }
                div id="failures" {
                    h2 { "By cause" }
                    (fact_table("Failures by cause", &self.by_cause(&totals), usize::MAX, view))
                    h2 { "By failing line" }
                    (by_line(&stats.failures, view))
                }
            }
        };
        timed_page("Failures", "/failures", view, &[], &body)
    }

    /// A row for each cause of failures, and of failures that were retried; those with the most failures come first.
    fn by_cause(&self, totals: &StatsTotals) -> FactTable {
        let mut failed: BTreeMap<Cause, u64> = sums::failures_by_cause(totals).collect();
        let unnamed = totals.failed.saturating_sub(failed.values().sum());
        if unnamed > 0 {
            *failed.entry(Cause::Unspecified).or_default() += unnamed;
        }
        let retries: BTreeMap<Cause, RetriesOfCause> =
            totals.retries_by_cause.iter().map(|of| (of.cause(), *of)).collect();
        let mut causes: Vec<Cause> = failed.keys().chain(retries.keys()).copied().collect();
        let failures = |cause: &Cause| failed.get(cause).copied().unwrap_or_default();
        causes.sort_by_key(|cause| (std::cmp::Reverse(failures(cause)), *cause as i32));
        causes.dedup();
        let columns = ["cause", "failures", "with a known line", "retries", "passed", "retries, GiB·h"];
        table_of(columns, causes, |cause| {
            let known = self.stats.failures.iter().filter(|group| group.cause() == cause);
            let of = retries.get(&cause).copied().unwrap_or_default();
            [
                Text(cause_name(cause)),
                Failures(failures(&cause), cause, self.view.project.clone(), String::new()),
                Number(count(known.map(|group| group.attempts).sum())),
                Number(count(of.count)),
                Number(share_of(of.passed, of.count)),
                Number(amount(of.asked_gib_hours)),
            ]
        })
    }
}

fn by_line(groups: &[FailureGroup], view: &ReaderChoice) -> Markup {
    html! {
        @if groups.is_empty() {
            p.why { "No failure of this time is known by a line of its log. " code { "plimsoll run" } " in front of a build reads its log, and a server with " code { "gitlab_url" } " reads the logs of GitLab jobs." }
        } @else {
            (fact_table("Failures by failing line", &failing_lines(groups), usize::MAX, view))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Cause, CauseCount, StatsTotals};

    use super::*;

    #[test]
    fn rows_and_tiles_count_all_failures_and_retries() {
        let cause = |cause: Cause, count| CauseCount { cause: cause.into(), count };
        let causes = vec![cause(Cause::Infra, 1), cause(Cause::Deterministic, 5), cause(Cause::Oom, 10)];
        // kills have no line in a log, and one failure has no cause
        let kills = RetriesOfCause { cause: Cause::Oom.into(), count: 10, passed: 9, asked_gib_hours: 2.5 };
        let retries_by_cause = vec![RetriesOfCause { count: 1, ..RetriesOfCause::default() }, kills];
        let totals = StatsTotals {
            attempts: 40,
            failed: 17,
            causes,
            retries: 11,
            retries_helped: 9,
            retries_by_cause,
            ..StatsTotals::default()
        };
        let group = FailureGroup {
            project: "g/a".to_owned(),
            cause: Cause::Deterministic.into(),
            failure_line: "x.c:3: error: <b>no</b>".to_owned(),
            signature: "0f".to_owned(),
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
            "out of memory</th><td class=\"n\" data-name=\"Failures\"><a href=\"/attempts?cause=OOM\">10</a>",
            "Retries\">10<",
            "Passed\">90 %",
            "no cause known</th><td class=\"n\" data-name=\"Failures\">1</td>",
            "2.5 GiB·h",
            "/attempts?cause=DETERMINISTIC&amp;signature=0f&amp;project=g%2Fa\">4</a>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let place = |word: &str| text.find(word).unwrap();
        assert!(place("the build itself fails") < place("infrastructure"), "most failures first: {text}");
        stats.failures.clear();
        assert!(drawn(&stats).contains("No failure of this time is known by a line"));
    }
}
