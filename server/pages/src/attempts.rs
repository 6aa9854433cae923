//! The page of finished attempts: a table in pages, with filters.

use maud::{Markup, html};
use plimsoll_proto::{
    WireEnum as _, tables,
    v1::{AttemptOrder, Cause, ListAttemptsResponse, Outcome},
};

use super::{
    page::{empty_page, timed_page},
    table::fact_table,
    view::{Fields, ReaderChoice, TimeRange},
    words,
};

/// The fields of the filter form and their labels, in the order of the form.
const FORM_FIELDS: [(&str, &str); 7] = [
    ("package", "Package"),
    ("version", "Version"),
    ("compiler", "Compiler"),
    ("arch", "Architecture"),
    ("pool", "Pool"),
    ("owner", "Owner"),
    ("ref_class", "Class of ref"),
];

/// The outcomes in the filter form, besides [`CANCELED`].
pub const OUTCOMES: [Outcome; 4] = [Outcome::Succeeded, Outcome::Failed, Outcome::Lost, Outcome::Ended];

/// The form's value for canceled attempts; they do not count as failures.
pub const CANCELED: &str = "CANCELED";

/// The sort orders that the form offers, with their words.
pub const ORDERS: [(AttemptOrder, &str); 5] = [
    (AttemptOrder::Unspecified, "newest first"),
    (AttemptOrder::Waste, "most waste first"),
    (AttemptOrder::Need, "highest need first"),
    (AttemptOrder::Wall, "longest first"),
    (AttemptOrder::Oldest, "oldest first"),
];

/// What the page of finished attempts shows.
#[derive(Debug, Clone, Copy)]
pub struct AttemptsPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// The fields of the form that filters the table.
    pub fields: &'a Fields,
    /// The attempts on the current page of the table.
    pub answer: &'a ListAttemptsResponse,
}

impl AttemptsPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, fields, answer } = *self;
        let kept: Vec<(&str, &str)> = page_fields(fields);
        let next = [kept.as_slice(), &[("page_token", answer.next_page_token.as_str())]].concat();
        let body = html! {
            h1 { "Attempts" }
            (filter_form(fields, view))
            @if answer.attempts.is_empty() {
                @if kept.is_empty() { (empty_page(view, "/attempts", &kept)) } @else {
                    div.empty {
                        p { strong { "No attempt that ended " (view.range.words_in_sentence()) " is like this." } }
                        p { a href=(view.link("/attempts", &[])) { "Show all" } }
                    }
                }
            } @else {
                (fact_table("Attempts", &tables::attempts(&answer.attempts), usize::MAX, view))
                nav.pager aria-label="Pages of the table" {
                    @if !fields.get("page_token").is_empty() { a href=(view.link("/attempts", &kept)) { "← First page" } }
                    @if !answer.next_page_token.is_empty() { a rel="next" href=(view.link("/attempts", &next)) { "Next →" } }
                }
            }
        };
        timed_page("Attempts", "/attempts", view, &kept, &body)
    }
}

/// The value for an order in the address of the page.
pub fn order_value(order: AttemptOrder) -> &'static str {
    match order {
        AttemptOrder::Unspecified => "",
        order => order.short_name(),
    }
}

/// The pairs of the form that links of this page keep.
fn page_fields(fields: &Fields) -> Vec<(&'static str, &str)> {
    let names = FORM_FIELDS.iter().map(|(name, _)| *name).chain(["outcome", "cause", "signature", "order"]);
    names.map(|name| (name, fields.get(name))).filter(|(_, value)| !value.is_empty()).collect()
}

fn filter_form(fields: &Fields, view: &ReaderChoice) -> Markup {
    let choice = |name: &str, value: &str, text: &str| {
        let is_chosen = fields.get(name).replace('-', "_").eq_ignore_ascii_case(value);
        html! {
            option value=(value) selected[is_chosen] { (text) }
        }
    };
    let more = FORM_FIELDS.iter().skip(1).any(|(name, _)| !fields.get(name).is_empty());
    html! {
        form.search role="search" action="/attempts" method="get" data-quick {
            @for (name, words) in FORM_FIELDS.iter().take(1) { (form_field(name, words, fields.get(name))) }
            label { "Outcome" select name="outcome" {
                (choice("outcome", "", "all"))
                @for one in OUTCOMES { (choice("outcome", one.short_name(), words::outcome(one))) }
                (choice("outcome", CANCELED, "canceled"))
            } }
            label { "Cause" select name="cause" {
                (choice("cause", "", "all"))
                @for one in Cause::all() { (choice("cause", one.short_name(), words::cause(one))) }
            } }
            label { "Order" select name="order" { @for (order, text) in ORDERS { (choice("order", order_value(order), text)) } } }
            details open[more] {
                summary { "More filters" }
                div {
                    (form_field("project", "Project", &view.project))
                    (form_field("stack", "Stack", &view.stack))
                    @for (name, words) in FORM_FIELDS.iter().skip(1) { (form_field(name, words, fields.get(name))) }
                }
            }
            @if !fields.get("signature").is_empty() {
                label { "Failing line" select name="signature" {
                    (choice("signature", fields.get("signature"), "the one chosen")) (choice("signature", "", "all"))
                } }
            }
            @if view.range != TimeRange::default() { input type="hidden" name="range" value=(view.range.as_str()); }
            button { "Show" }
        }
    }
}

fn form_field(name: &str, words: &str, value: &str) -> Markup {
    html! { label { (words) input name=(name) value=(value) maxlength="256"; } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_filters_are_marked_in_any_spelling() {
        let pairs = [("outcome", "failed"), ("cause", "tool-oom"), ("order", "waste")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let chosen = filter_form(&Fields::new(pairs), &ReaderChoice::default()).into_string();
        for value in ["FAILED", "TOOL_OOM", "WASTE"] {
            assert!(chosen.contains(&format!("<option value=\"{value}\" selected>")), "{chosen}");
        }
    }
}
