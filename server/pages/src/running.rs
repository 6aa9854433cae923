//! The page of running attempts.

use maud::{Markup, html};
use plimsoll_proto::{figures::count, measured, tables, v1 as pb};

use super::{page::reloading_page, table::fact_table, view::ReaderChoice};

/// Most attempts on the page.
pub const SHOWN_ATTEMPTS: usize = 200;

/// Seconds between two updates of the page by its script.
const RELOAD_SECONDS: u32 = 3;

/// Seconds after which a browser without scripts loads the page again.
const RELOAD_WHOLE_SECONDS: u32 = 15;

/// What the page of running attempts shows.
#[derive(Debug, Clone, Copy)]
pub struct RunningPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// The attempts with the highest need, at most [`SHOWN_ATTEMPTS`].
    pub attempts: &'a [pb::Running],
    /// Number of running attempts.
    pub running: usize,
}

impl RunningPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, running, .. } = *self;
        let attempts = self.attempts.iter().map(|one| (one, measured::running_cores(one)));
        let body = html! {
            h1 { "Running" }
            p { button type="button" data-pause aria-pressed="false" hidden { "Pause" } }
            div data-live=(RELOAD_SECONDS) {
                @if running == 0 {
                    div.empty {
                        p { strong { "Nothing runs now." } " What an agent measures appears here from its first seconds on:" }
                        pre tabindex="0" role="region" aria-label="Command" { code { "plimsoll run --key package=zlib --key version=1.3 -- make -j8" } }
                    }
                } @else {
                    p.quiet {
                        (count(running as u64)) " running"
                        @if running > SHOWN_ATTEMPTS { ", of which the " (SHOWN_ATTEMPTS) " with the highest need are shown" } "."
                    }
                    (fact_table("Running attempts", &tables::running("mean cores", attempts), usize::MAX, view))
                }
            }
        };
        reloading_page("Running", "/running", view, RELOAD_WHOLE_SECONDS, &body)
    }
}
