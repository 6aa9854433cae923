//! What each job or package should request, and what that saves.

use maud::{Markup, html};
use plimsoll_proto::{
    figures, recommendations as said,
    v1::{RecommendResponse, Recommendation},
};

use super::{
    numbers::{amount, count},
    page::{card, empty, page},
    view::View,
};

/// What the page of savings shows.
#[derive(Debug, Clone, Copy)]
pub struct SavingsPage<'a> {
    /// What the reader has chosen.
    pub view: &'a View,
    /// The rows, in the order of the answer.
    pub answer: &'a RecommendResponse,
}

impl SavingsPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, answer } = *self;
        let body = html! {
            h1 { "Savings" }
            @if answer.recommendations.is_empty() {
                (empty(view, "/savings", &[]))
            } @else {
                (cards(answer))
                p.quiet {
                    "What each package should request, by the attempts that ended " (view.range.during()) " (" (said::window(answer)) "). "
                    @if let Some(scope) = said::scope(answer) { "The cards are " (scope) ". " }
                    "A proposed limit is never below the need of a trusted attempt of that time. As a patch: "
                    code { "plimsoll recommend -o gitlab" } ", " code { "kubernetes" } " or " code { "spack" } "."
                }
                (table(answer, view))
                @if answer.left_out > 0 {
                    p.quiet { (figures::counted(answer.left_out, "package")) " more that save less or request less." }
                }
            }
            @for note in &answer.notes { p.quiet { "Note: " (note) } }
        };
        page("Savings", "/savings", view, &[], &body)
    }
}

fn cards(answer: &RecommendResponse) -> Markup {
    let share = figures::share(answer.saved_gib_hours, answer.asked_gib_hours);
    let of = html! { (share) " of " (figures::gib_hours(answer.asked_gib_hours)) " that is requested" };
    html! {
        dl.cards {
            (card("Saved a month", &figures::gib_hours(answer.saved_gib_hours), &of))
            @if answer.has_prices {
                (card("Saved money a month", figures::money(answer.saved_money, &answer.currency).trim_end(), &html! { "by the prices of memory" }))
            }
        }
    }
}

fn table(answer: &RecommendResponse, view: &View) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Savings by package" {
            table #savings {
                thead { tr {
                    th scope="col" { "Package" } th.n scope="col" { "Request" } th.n scope="col" { "Proposed request" }
                    th.n scope="col" { "Limit" } th.n scope="col" { "Proposed limit" } th.n scope="col" { "Saved GiB·h a month" }
                    @if answer.has_prices { th.n scope="col" { "Saved money" } }
                    th.n scope="col" { "Above the limit" } th.n scope="col" { "Confidence" } th.n scope="col" { "Attempts" }
                } }
                tbody { @for row in &answer.recommendations { (one(row, answer.has_prices, view)) } }
            }
        }
    }
}

fn one(row: &Recommendation, money: bool, view: &View) -> Markup {
    let [request, limit] = [said::memory_request(row), said::memory_limit(row)];
    let reason = said::reason(row);
    let known = |text: String| if reason.is_some() { figures::DASH.to_owned() } else { text };
    html! {
        tr {
            th scope="row" { a href=(view.package(&row.package)) { (row.package) } " " span.quiet { (row.project) } }
            td.n { (figures::cell_bytes(request.today)) }
            td.n { @if let Some(why) = reason { span.quiet { (why) } } @else { (figures::cell_bytes(request.proposed)) } }
            td.n { (figures::cell_bytes(limit.today)) }
            td.n { (known(limit.proposed.map_or_else(|| "stays".to_owned(), figures::bytes))) }
            td.n { (known(amount(row.saved_gib_hours))) }
            @if money { td.n { (known(amount(row.saved_money))) } }
            td.n { (known(said::risk_words(row.limit_risk.as_ref()))) }
            td.n { (known(figures::percent(row.confidence))) }
            td.n { (count(row.attempts)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{FitRisk, NoProposal, RequestedSizes};

    use super::*;

    #[test]
    fn the_page_says_what_the_message_says_and_why_nothing_is_proposed() {
        let sizes = |gib: u64| RequestedSizes { memory_request_bytes: Some(gib << 30), ..Default::default() };
        let row = Recommendation {
            package: "zlib".into(),
            today: Some(sizes(8)),
            proposed: Some(sizes(2)),
            saved_gib_hours: 180.0,
            limit_risk: Some(FitRisk { judged: 40, above: 1, at_most: 0.1134 }),
            ..Recommendation::default()
        };
        let few = Recommendation {
            package: "few".into(),
            no_proposal: NoProposal::TooFew.into(),
            ..Recommendation::default()
        };
        let mut answer = RecommendResponse {
            recommendations: vec![row, few],
            asked_gib_hours: 240.0,
            saved_gib_hours: 180.0,
            ..RecommendResponse::default()
        };
        let drawn =
            |answer: &RecommendResponse| SavingsPage { view: &View::default(), answer }.draw().into_string();
        let text = drawn(&answer);
        for part in ["8.00 GiB", "2.00 GiB", "stays", "180", "1 of 40, with 95 % confidence at most 11 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("fewer than 5 trusted attempts are known"), "{text}");
        assert!(text.contains("75 % of 240 GiB·h") && !text.contains("money"), "{text}");
        answer.recommendations.clear();
        assert!(drawn(&answer).contains("plimsoll run --key"));
    }
}
