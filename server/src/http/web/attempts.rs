//! Finished attempts, page by page, with filters.

use axum::http::Uri;
use maud::{Markup, html};
use plimsoll_proto::{
    measured,
    v1::{AttemptOrder, Cause, Filter, ListAttemptsRequest, Outcome, Summary},
};

use super::{
    asking::Asking,
    flow,
    numbers::{millis, some_bytes, some_cores},
    page::{Page, empty, page},
    times,
    trouble::Trouble,
    view::{Query, View},
    words,
};
use crate::domain::Fault;

/// Attempts of one page.
const ROWS: u32 = 50;

/// What a form may say beside the choice of the reader, in the order of the form.
const FIELDS: [(&str, &str); 7] = [
    ("package", "Package"),
    ("version", "Version"),
    ("compiler", "Compiler"),
    ("arch", "Architecture"),
    ("pool", "Pool"),
    ("owner", "Owner"),
    ("ref_class", "Class of ref"),
];

const OUTCOMES: [Outcome; 3] = [Outcome::Succeeded, Outcome::Failed, Outcome::Lost];

const ORDERS: [(AttemptOrder, &str); 5] = [
    (AttemptOrder::Unspecified, "newest first"),
    (AttemptOrder::Waste, "most waste first"),
    (AttemptOrder::Need, "highest need first"),
    (AttemptOrder::Wall, "longest first"),
    (AttemptOrder::Oldest, "oldest first"),
];

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Page, Trouble> {
    let (query, view) = flow::asked(&uri)?;
    let answer = parts.inside.list_attempts(question(&query, &view, ROWS)?).await?;
    let kept: Vec<(&str, &str)> = kept(&query);
    let next = [kept.as_slice(), &[("page_token", answer.next_page_token.as_str())]].concat();
    let body = html! {
        h1 { "Attempts" }
        (form(&query, &view))
        @if answer.attempts.is_empty() {
            @if kept.is_empty() { (empty(&view, "/attempts", &kept)) } @else {
                div.empty {
                    p { strong { "No attempt that ended " (view.range.during()) " is like this." } }
                    p { a href=(view.link("/attempts", &[])) { "Show all" } }
                }
            }
        } @else {
            (table(&answer.attempts, &view, "Attempts"))
            nav.pager aria-label="Pages of the table" {
                @if !query.get("page_token").is_empty() { a href=(view.link("/attempts", &kept)) { "← First page" } }
                @if !answer.next_page_token.is_empty() { a rel="next" href=(view.link("/attempts", &next)) { "Next →" } }
            }
        }
    };
    Ok(page("Attempts", "/attempts", &view, &kept, &body))
}

/// What a query asks for.
///
/// # Errors
/// A word that is not known.
pub(super) fn question(query: &Query, view: &View, page_size: u32) -> Result<ListAttemptsRequest, Fault> {
    let order = match query.get("order") {
        "" => AttemptOrder::Unspecified,
        text => AttemptOrder::from_str_name(&words::wire_name("ATTEMPT_ORDER_", text))
            .ok_or_else(|| unknown("order", text, ORDERS.map(|(order, _)| order_value(order))))?,
    };
    Ok(ListAttemptsRequest {
        filter: Some(filter(query, view)?),
        page_size,
        page_token: query.get("page_token").to_owned(),
        order: order.into(),
    })
}

/// The filter of a query.
///
/// # Errors
/// A word that is not known.
pub(super) fn filter(query: &Query, view: &View) -> Result<Filter, Fault> {
    let outcome = match query.get("outcome") {
        "" => Outcome::Unspecified,
        text => Outcome::from_str_name(&words::wire_name("OUTCOME_", text))
            .ok_or_else(|| unknown("outcome", text, OUTCOMES.map(outcome_value)))?,
    };
    let cause = match query.get("cause") {
        "" => Cause::Unspecified,
        text => Cause::from_str_name(&words::wire_name("CAUSE_", text))
            .ok_or_else(|| unknown("cause", text, words::causes().map(|(value, _)| value)))?,
    };
    let text = |name| query.get(name).to_owned();
    Ok(Filter {
        package: text("package"),
        version: text("version"),
        compiler: text("compiler"),
        arch: text("arch"),
        pool: text("pool"),
        owner: text("owner"),
        ref_class: text("ref_class"),
        outcome: outcome.into(),
        cause: cause.into(),
        ..view.filter()
    })
}

fn unknown(field: &str, said: &str, known: impl IntoIterator<Item = &'static str>) -> Fault {
    let known: Vec<&str> = known.into_iter().filter(|value| !value.is_empty()).collect();
    Fault::new(field, format!("is {said:?}; it may be {}", known.join(", ")))
}

fn outcome_value(outcome: Outcome) -> &'static str {
    words::value(outcome.as_str_name(), "OUTCOME_")
}

fn order_value(order: AttemptOrder) -> &'static str {
    match order {
        AttemptOrder::Unspecified => "",
        order => words::value(order.as_str_name(), "ATTEMPT_ORDER_"),
    }
}

/// What of a query belongs to this page.
fn kept(query: &Query) -> Vec<(&'static str, &str)> {
    let names = FIELDS.iter().map(|(name, _)| *name).chain(["outcome", "cause", "order"]);
    names.map(|name| (name, query.get(name))).filter(|(_, value)| !value.is_empty()).collect()
}

fn form(query: &Query, view: &View) -> Markup {
    let choice = |name: &str, value: &str, text: &str| {
        html! {
            option value=(value) selected[words::wire_name("", query.get(name)) == value] { (text) }
        }
    };
    let more = FIELDS.iter().skip(1).any(|(name, _)| !query.get(name).is_empty());
    html! {
        form.search role="search" action="/attempts" method="get" data-quick {
            @for (name, words) in FIELDS.iter().take(1) { (field(name, words, query.get(name))) }
            label { "Outcome" select name="outcome" {
                (choice("outcome", "", "all"))
                @for one in OUTCOMES { (choice("outcome", outcome_value(one), words::outcome(one))) }
            } }
            label { "Cause" select name="cause" {
                (choice("cause", "", "all"))
                @for (value, one) in words::causes() { (choice("cause", value, words::cause(one))) }
            } }
            label { "Order" select name="order" { @for (order, text) in ORDERS { (choice("order", order_value(order), text)) } } }
            details open[more] {
                summary { "More filters" }
                div {
                    (field("project", "Project", &view.project))
                    (field("stack", "Stack", &view.stack))
                    @for (name, words) in FIELDS.iter().skip(1) { (field(name, words, query.get(name))) }
                }
            }
            @if view.range != super::view::Range::default() { input type="hidden" name="range" value=(view.range.as_str()); }
            button { "Show" }
        }
    }
}

fn field(name: &str, words: &str, value: &str) -> Markup {
    html! { label { (words) input name=(name) value=(value) maxlength="256"; } }
}

/// Attempts as rows.
pub(super) fn table(attempts: &[Summary], view: &View, name: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr {
                    th scope="col" { "Package" } th scope="col" { "Attempt" } th scope="col" { "Outcome" } th scope="col" { "Ended" } th.n scope="col" { "Took" }
                    th.n scope="col" { "Need" } th.n scope="col" { "Asked" } th.n scope="col" { "Limit" } th.n scope="col" { "Mean cores" } th.n scope="col" { "-j" }
                } }
                tbody { @for summary in attempts { (row(summary, view)) } }
            }
        }
    }
}

fn row(summary: &Summary, view: &View) -> Markup {
    let key = summary.key.clone().unwrap_or_default();
    let resources = summary.resources.unwrap_or_default();
    let jobs = key.hints.unwrap_or_default().build_jobs;
    html! {
        tr {
            th scope="row" { a href=(view.package(&key.package)) { (key.package) } " " span.quiet { (key.version) } }
            td { a.id href=(view.attempt(&summary.attempt)) { (summary.attempt) } }
            td { (words::badge(summary.outcome(), summary.cause())) }
            td { (times::time(summary.started_unix_ms.saturating_add(summary.wall_ms))) }
            td.n { (millis(summary.wall_ms)) }
            td.n { @if summary.censored { abbr title="It was stopped for memory: it needs more than this" { "> " } } (some_bytes(measured::need(summary))) }
            td.n { (some_bytes(measured::memory_asked(Some(&resources)).map(|asked| asked.bytes))) }
            td.n { (some_bytes(resources.memory_limit_bytes)) }
            td.n { (some_cores(measured::mean_cores(summary))) }
            td.n { @match jobs { Some(jobs) => (jobs), None => "–" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/attempts?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn words_of_a_form_become_a_question_and_unknown_ones_are_named() {
        let asked = query("outcome=FAILED&cause=OOM&order=WASTE&package=a%2Fb");
        let asked = question(&asked, &View::default(), 50).unwrap();
        let filter = asked.filter.clone().unwrap();
        assert_eq!(
            (filter.outcome(), filter.cause(), &*filter.package),
            (Outcome::Failed, Cause::Oom, "a/b")
        );
        assert_eq!(asked.order(), AttemptOrder::Waste);
        let small = query("outcome=failed&cause=tool-oom&order=waste");
        let asked = question(&small, &View::default(), 50).unwrap();
        let filter = asked.filter.clone().unwrap();
        assert_eq!(
            (filter.outcome(), filter.cause(), asked.order()),
            (Outcome::Failed, Cause::ToolOom, AttemptOrder::Waste)
        );
        let chosen = form(&small, &View::default()).into_string();
        for value in ["FAILED", "TOOL_OOM", "WASTE"] {
            assert!(chosen.contains(&format!("<option value=\"{value}\" selected>")), "{chosen}");
        }
        for (field, text) in [("outcome", "outcome=%3Cb%3E"), ("cause", "cause=X"), ("order", "order=UP")] {
            assert_eq!(question(&query(text), &View::default(), 50).unwrap_err().field, field);
        }
    }

    #[test]
    fn every_choice_of_the_form_is_understood() {
        for (order, _) in ORDERS {
            let asked = query(&format!("order={}", order_value(order)));
            assert_eq!(question(&asked, &View::default(), 1).unwrap().order(), order);
        }
        for (value, cause) in words::causes() {
            let asked = filter(&query(&format!("cause={value}")), &View::default()).unwrap();
            assert_eq!(asked.cause(), cause);
        }
    }
}
