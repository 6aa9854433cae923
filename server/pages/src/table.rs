//! Headings of tables that can be sorted, and links to the other pages of a table.

use maud::{Markup, html};

/// How rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort<'a> {
    /// Name of the column by which rows are sorted.
    pub(super) by: &'a str,
    pub(super) descending: bool,
}

impl<'a> Sort<'a> {
    /// The order in an address, or the usual one. If the direction is missing or unknown, it is the usual one
    /// of the column.
    pub(super) fn of(by: &'a str, order: &str, usual: &'a str) -> Self {
        let by = if by.is_empty() { usual } else { by };
        Self { by, descending: if order.is_empty() { by != "name" } else { order != "up" } }
    }
}

/// The heading of a column, with a link that sorts by it; `link` makes the address from the column and the
/// direction.
pub(super) fn head(name: &str, by: &str, sort: Sort<'_>, link: impl Fn(&str, &str) -> String) -> Markup {
    let here = sort.by == by;
    // a click on the current column reverses the order; otherwise names start with A, and numbers with the
    // largest
    let down = if here { !sort.descending } else { by != "name" };
    let state = here.then_some(if sort.descending { "descending" } else { "ascending" });
    let sign = if !here {
        ""
    } else if sort.descending {
        " ▼"
    } else {
        " ▲"
    };
    html! {
        th scope="col" class=[(by != "name").then_some("n")] aria-sort=[state] {
            a href=(link(by, if down { "down" } else { "up" })) { (name) span aria-hidden="true" { (sign) } }
        }
    }
}

/// The links below a table of several pages.
pub(super) fn pages(page: usize, count: usize, link: impl Fn(&str) -> String) -> Markup {
    html! {
        @if count > 1 {
            nav.pager aria-label="Pages of the table" {
                @if page > 1 { a rel="prev" href=(link(&(page - 1).to_string())) { "← Previous" } }
                span { "Page " (page) " of " (count) }
                @if page < count { a rel="next" href=(link(&(page + 1).to_string())) { "Next →" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_rows_are_sorted_and_turns_it_round() {
        let link = |by: &str, order: &str| format!("/x?sort={by}&order={order}");
        let sort = Sort::of("waste", "", "waste");
        let text = head("Waste", "waste", sort, link).into_string();
        assert!(text.contains("aria-sort=\"descending\"") && text.contains("order=up"), "{text}");
        let other = head("Package", "name", sort, link).into_string();
        assert!(!other.contains("aria-sort") && other.contains("order=up"), "{other}");
        assert!(Sort::of("", "", "waste").descending && !Sort::of("name", "", "waste").descending);
    }

    #[test]
    fn one_page_needs_no_links() {
        assert_eq!(pages(1, 1, |_| String::new()).into_string(), "");
        let middle = pages(2, 3, |page| format!("?page={page}")).into_string();
        assert!(middle.contains("?page=1") && middle.contains("?page=3"), "{middle}");
    }
}
