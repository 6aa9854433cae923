//! The list of finished attempts, in pages, with filters.

use axum::{http::Uri, response::Html};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::{
    attempts::{AttemptsPage, CANCELED, ORDERS, OUTCOMES, order_value},
    view::ReaderChoice,
};
use plimsoll_proto::{
    WireEnum as _,
    v1::{AttemptOrder, Cause, Filter, ListAttemptsRequest, Outcome},
};

use super::{
    asking::RequestReader,
    query::{self, Query},
    trouble::PageResult,
};

/// Attempts on one page.
const PAGE_ROWS: u32 = 50;

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    let (query, view) = query::asked(&uri)?;
    let answer = parts.list_attempts(question(&query, &view, PAGE_ROWS)?).await?;
    let page = AttemptsPage { view: &view, fields: query.fields(), answer: &answer };
    Ok(Html(page.draw().into_string()))
}

/// The request `ListAttempts` for the query of an address.
/// Errors: A value of the query is unknown.
pub(super) fn question(
    query: &Query,
    view: &ReaderChoice,
    page_size: u32,
) -> Result<ListAttemptsRequest, FieldViolation> {
    let order = match query.get("order") {
        "" => AttemptOrder::Unspecified,
        text => AttemptOrder::parse(text)
            .ok_or_else(|| unknown_value("order", text, ORDERS.map(|(order, _)| order_value(order))))?,
    };
    Ok(ListAttemptsRequest {
        filter: Some(filter(query, view)?),
        page_size,
        page_token: query.get("page_token").to_owned(),
        order: order.into(),
    })
}

/// The filter in the query of an address.
/// Errors: A value of the query is unknown.
pub(super) fn filter(query: &Query, view: &ReaderChoice) -> Result<Filter, FieldViolation> {
    let outcome = query.get("outcome");
    let canceled = outcome.eq_ignore_ascii_case(CANCELED);
    let outcome = match outcome {
        "" => Outcome::Unspecified,
        // the wire has no outcome "canceled": a canceled attempt is a failed one with that cause
        _ if canceled => Outcome::Failed,
        text => Outcome::parse(text).ok_or_else(|| {
            unknown_value("outcome", text, OUTCOMES.map(Outcome::short_name).into_iter().chain([CANCELED]))
        })?,
    };
    let cause = match query.get("cause") {
        "" => Cause::Unspecified,
        text => Cause::parse(text)
            .ok_or_else(|| unknown_value("cause", text, Cause::all().map(Cause::short_name)))?,
    };
    let cause = match cause {
        Cause::Unspecified | Cause::Canceled if canceled => Cause::Canceled,
        _ if canceled => {
            return Err(FieldViolation::new("outcome", "is canceled, which goes with no other cause"));
        }
        cause => cause,
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
        signature: text("signature"),
        ..view.filter()
    })
}

fn unknown_value(field: &str, given: &str, known: impl IntoIterator<Item = &'static str>) -> FieldViolation {
    let known: Vec<&str> = known.into_iter().filter(|value| !value.is_empty()).collect();
    FieldViolation::new(field, format!("is {given:?}; it may be {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/attempts?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn form_fields_become_a_filter_unknown_are_refused() {
        let asked = query("outcome=FAILED&cause=OOM&order=WASTE&package=a%2Fb");
        let asked = question(&asked, &ReaderChoice::default(), 50).unwrap();
        let filter = asked.filter.clone().unwrap();
        assert_eq!(filter.outcome(), Outcome::Failed);
        assert_eq!(filter.cause(), Cause::Oom);
        assert_eq!(&*filter.package, "a/b");
        assert_eq!(asked.order(), AttemptOrder::Waste);
        let small = query("outcome=failed&cause=tool-oom&order=waste");
        let asked = question(&small, &ReaderChoice::default(), 50).unwrap();
        let filter = asked.filter.clone().unwrap();
        assert_eq!(filter.outcome(), Outcome::Failed);
        assert_eq!(filter.cause(), Cause::ToolOom);
        assert_eq!(asked.order(), AttemptOrder::Waste);
        for (field, text) in [("outcome", "outcome=%3Cb%3E"), ("cause", "cause=X"), ("order", "order=UP")] {
            assert_eq!(question(&query(text), &ReaderChoice::default(), 50).unwrap_err().field, field);
        }
    }

    #[test]
    fn canceled_is_an_outcome_of_its_own() {
        let canceled = filter(&query("outcome=canceled"), &ReaderChoice::default()).unwrap();
        assert_eq!((canceled.outcome(), canceled.cause()), (Outcome::Failed, Cause::Canceled));
        assert!(filter(&query("outcome=canceled&cause=OOM"), &ReaderChoice::default()).is_err());
    }

    #[test]
    fn every_choice_of_the_form_is_understood() {
        for (order, _) in ORDERS {
            let asked = query(&format!("order={}", order_value(order)));
            assert_eq!(question(&asked, &ReaderChoice::default(), 1).unwrap().order(), order);
        }
        for cause in Cause::all() {
            let asked = query(&format!("cause={}", cause.short_name()));
            let asked = filter(&asked, &ReaderChoice::default()).unwrap();
            assert_eq!(asked.cause(), cause);
        }
    }
}
