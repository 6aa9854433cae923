//! The error page: what went wrong, and what the reader can do.

use maud::{Markup, html};

use super::{page::plain_page, view::ReaderChoice};

/// An error page.
#[derive(Debug, Clone, Copy)]
pub struct TroublePage<'a> {
    /// What went wrong, in two or three words.
    pub title: &'a str,
    /// What went wrong, in a sentence.
    pub text: &'a str,
    /// Projects to which the same page can be restricted; may be empty.
    pub projects: &'a [String],
}

impl TroublePage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let view = ReaderChoice::default();
        let body = html! {
            h1 { (self.title) }
            p.lead { (self.text) }
            @if !self.projects.is_empty() {
                p { "Choose one of your projects:" }
                ul {
                    @for project in self.projects {
                        // the link leads to the same page, for this project
                        li { a href=(ReaderChoice { project: project.clone(), ..ReaderChoice::default() }.link("", &[])) { (project) } }
                    }
                }
            }
            p {
                "Go to the " a href=(view.link("/", &[])) { "overview" } ", look for a "
                a href=(view.link("/packages", &[])) { "package" } " or for an "
                a href=(view.link("/attempts", &[])) { "attempt" } "."
            }
        };
        plain_page(self.title, "", &view, &body)
    }
}
