//! The frame of every page: heading, navigation, choice of time, footer.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_proto::shown;

use super::{
    assets,
    view::{ReaderChoice, TimeRange},
};

const PAGES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/packages", "Packages"),
    ("/failures", "Failures"),
    ("/savings", "Savings"),
    ("/attempts", "Attempts"),
    ("/running", "Running"),
    ("/settings", "Settings"),
];

/// A page at `path` with a choice of time. The pairs in `kept` stay in the address when another time is chosen.
pub(super) fn timed_page(
    title: &str,
    path: &str,
    view: &ReaderChoice,
    kept: &[(&str, &str)],
    body: &Markup,
) -> Markup {
    let choice = html! {
        nav.range aria-label="Time" {
            @for range in TimeRange::ALL {
                a href=(view.with(range).link(path, kept)) aria-current=[(range == view.range).then_some("true")] {
                    (range.words())
                }
            }
        }
    };
    framed_page(title, path, view, (&Markup::default(), &choice), body)
}

/// A page about the present. Without scripts, the browser loads it again after `seconds`.
pub(super) fn reloading_page(
    title: &str,
    path: &str,
    view: &ReaderChoice,
    seconds: u32,
    body: &Markup,
) -> Markup {
    let again = html! { noscript { meta http-equiv="refresh" content=(seconds); } };
    framed_page(title, path, view, (&again, &Markup::default()), body)
}

/// A page without a choice of time; `path` is empty if it is none of the pages in the navigation.
pub(super) fn plain_page(title: &str, path: &str, view: &ReaderChoice, body: &Markup) -> Markup {
    framed_page(title, path, view, (&Markup::default(), &Markup::default()), body)
}

/// Puts `body` into the frame. `around` has what this page adds to the HTML head, and what it adds after the
/// navigation.
fn framed_page(
    title: &str,
    path: &str,
    view: &ReaderChoice,
    around: (&Markup, &Markup),
    body: &Markup,
) -> Markup {
    let current = |to: &str| to == path || (to != "/" && path.starts_with(&format!("{to}/")));
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Plimsoll" }
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("style.css"));
                (around.0)
                script src=(assets::path("page.js")) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    a.brand href=(view.link("/", &[])) { img src=(assets::path("icon.svg")) alt="" width="24" height="24"; "Plimsoll" }
                    nav.pages aria-label="Pages" {
                        @for (to, name) in PAGES {
                            a href=(view.link(to, &[])) aria-current=[current(to).then_some("page")] { (name) }
                        }
                    }
                    (around.1)
                }
                main #main tabindex="-1" {
                    (chosen_filter(path, view))
                    (body)
                }
                footer {
                    p {
                        "Plimsoll " (env!("CARGO_PKG_VERSION")) ". All times are UTC. Memory is the "
                        em { "need" } ": what cannot be reclaimed."
                    }
                }
            }
        }
    };
    // every page shows names from outside: write out characters that reorder or hide text
    PreEscaped(shown::escaped_lines(&whole.into_string()).into_owned())
}

/// The project and the stack that the reader chose, with links that remove the choice.
fn chosen_filter(path: &str, view: &ReaderChoice) -> Markup {
    let path = if path.is_empty() { "/" } else { path };
    let without_project = ReaderChoice { project: String::new(), ..view.clone() }.link(path, &[]);
    let without_stack = ReaderChoice { stack: String::new(), ..view.clone() }.link(path, &[]);
    html! {
        @if !view.project.is_empty() || !view.stack.is_empty() {
            p.chosen {
                "Only "
                @if !view.project.is_empty() {
                    span.chip { "project " strong { (view.project) } " " a href=(without_project) { "all projects" } }
                }
                @if !view.stack.is_empty() {
                    span.chip { "stack " strong { (view.stack) } " " a href=(without_stack) { "all stacks" } }
                }
            }
        }
    }
}

/// A number with its name and an explanation.
pub(super) fn card(name: &str, number: &str, note: &Markup) -> Markup {
    html! { div.card { dt { (name) } dd { span.number { (number) } span.note { (note) } } } }
}

/// The text for a page without content.
pub(super) fn empty_page(view: &ReaderChoice, path: &str, kept: &[(&str, &str)]) -> Markup {
    html! {
        div.empty {
            p { strong { "Nothing ended here " (view.range.words_in_sentence()) "." } }
            @if view.range != TimeRange::All {
                p { a href=(view.with(TimeRange::All).link(path, kept)) { "Look at all time" } }
            }
            @if !view.project.is_empty() || !view.stack.is_empty() {
                p { a href=(ReaderChoice { range: view.range, ..ReaderChoice::default() }.link(path, kept)) { "Look at all projects and stacks" } }
            }
            p { "To measure a build, put the agent in front of it:" }
            pre tabindex="0" role="region" aria-label="Command" { code { "plimsoll run --key package=zlib --key version=1.3 -- make -j8" } }
        }
    }
}
