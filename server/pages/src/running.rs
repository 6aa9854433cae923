//! The page of running attempts.

use maud::{Markup, html};
use plimsoll_proto::{measured, v1 as pb};

use super::{
    figures::{bytes, cell, cores, count, millis},
    page::reloading_page,
    table::table,
    view::ReaderChoice,
    words,
};

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
                    (running_table(self.attempts, view))
                    @if self.attempts.iter().any(|one| !measured::mark(one.source()).is_empty()) { p.quiet { (measured::MARK_NOTE) } }
                }
            }
        };
        reloading_page("Running", "/running", view, RELOAD_WHOLE_SECONDS, &body)
    }
}

fn running_table(running: &[pb::Running], view: &ReaderChoice) -> Markup {
    let heads = [
        "Package",
        "Attempt",
        "#For",
        "#Need now",
        "#Highest need",
        "#With page cache",
        "#Limit",
        "#Mean cores",
        "State",
    ];
    table("Running attempts", &heads, running.iter().map(|one| row(one, view)))
}

fn row(one: &pb::Running, view: &ReaderChoice) -> Markup {
    let key = one.key.clone().unwrap_or_default();
    html! {
        tr {
            th scope="row" { a href=(view.package(&key.package)) { (key.package) } " " span.quiet { (key.version) } }
            td { a.id href=(view.attempt(&one.attempt)) { (one.attempt) } }
            td.n { (millis(one.elapsed_ms)) }
            td.n { (bytes(one.need_bytes)) }
            td.n {
                (bytes(one.need_peak_bytes)) (measured::mark(one.source()))
                @if let Some(limit) = one.memory_limit_bytes.filter(|limit| *limit > 0) {
                    meter min="0" max=(limit) value=(one.need_peak_bytes.min(limit)) aria-hidden="true" {}
                }
            }
            td.n { (bytes(measured::running_memory(one))) }
            td.n { (cell(one.memory_limit_bytes, bytes)) }
            td.n { (cell(measured::running_cores(one), cores)) }
            td {
                @if one.starved { span.badge.bad { span aria-hidden="true" { "! " } "starved" } }
                @else { (words::badge(pb::Outcome::Running, pb::Cause::Unspecified)) }
            }
        }
    }
}
