//! The page of savings: what each job or package should request, and what that saves.

use maud::{Markup, html};
use plimsoll_proto::{figures, recommendations as words, v1::RecommendResponse};

use super::{
    page::{card, empty_page, timed_page},
    table::fact_table,
    view::ReaderChoice,
};

/// What the page of savings shows.
#[derive(Debug, Clone, Copy)]
pub struct SavingsPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
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
                (empty_page(view, "/savings", &[]))
            } @else {
                (number_cards(answer))
                p.quiet {
                    "One size for all builds of a package, by the attempts that ended " (view.range.words_in_sentence()) " (" (words::window(answer)) "): "
                    "the largest that is predicted for its newest builds, of all versions, variants and compilers. "
                    "What one of these builds gets next can be less, and is on the page of the package. "
                    @if let Some(scope) = words::scope(answer) { "The cards are " (scope) ". " }
                    "A proposed limit is never below the need of a trusted attempt of that time. As a patch: "
                    code { "plimsoll recommend -o gitlab" } ", " code { "kubernetes" } " or " code { "spack" } "."
                }
                div #savings { (fact_table("Savings by package", &words::table(answer), usize::MAX, view)) }
                @if answer.left_out > 0 {
                    p.quiet { (figures::counted(answer.left_out, "package")) " more that save less or request less." }
                }
            }
            @for note in &answer.notes { p.quiet { "Note: " (note) } }
        };
        timed_page("Savings", "/savings", view, &[], &body)
    }
}

fn number_cards(answer: &RecommendResponse) -> Markup {
    let share = figures::share(answer.saved_gib_hours, answer.asked_gib_hours);
    let of = html! { (share) " of " (figures::gib_hours(answer.asked_gib_hours)) " that is requested" };
    let unknown = words::savings_unknown(answer);
    html! {
        dl.cards {
            @match unknown {
                Some(why) => (card("Saved a month", figures::NOT_KNOWN, &html! { (why) })),
                None => (card("Saved a month", &figures::gib_hours(answer.saved_gib_hours), &of)),
            }
            @if answer.has_prices && unknown.is_none() {
                (card("Saved money a month", figures::money(answer.saved_money, &answer.currency).trim_end(), &html! { "by the prices of memory" }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{FitRisk, NoProposal, Recommendation, RequestedSizes};

    use super::*;

    #[test]
    fn the_savings_page_matches_the_api_message() {
        let sizes = |gib: u64| RequestedSizes { memory_request_bytes: Some(gib << 30), ..Default::default() };
        let row = Recommendation {
            package: "zlib".into(),
            today: Some(sizes(8)),
            proposed: Some(sizes(2)),
            asked_gib_hours: 240.0,
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
        let drawn = |answer: &RecommendResponse| {
            SavingsPage { view: &ReaderChoice::default(), answer }.draw().into_string()
        };
        let text = drawn(&answer);
        for part in ["8.00 GiB", "2.00 GiB", "180", "1 of 40, with 95 % confidence at most 11 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("fewer than 5 trusted attempts are known"), "{text}");
        assert!(text.contains("75 % of 240 GiB·h") && !text.contains("money"), "{text}");
        assert!(text.contains("One size for all builds of a package"), "{text}");
        answer.asked_gib_hours = 0.0;
        let text = drawn(&answer);
        assert!(text.contains("no attempt requested memory") && !text.contains(">0 GiB·h"), "{text}");
        answer.recommendations.clear();
        assert!(drawn(&answer).contains("plimsoll run --key"));
    }
}
