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

const HEADS: [&str; 9] = [
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
                    (table("Running attempts", HEADS, self.attempts.iter().map(|one| row(one, view))))
                    @if self.attempts.iter().any(|one| !measured::mark(one.source()).is_empty()) { p.quiet { (measured::MARK_NOTE) } }
                }
            }
        };
        reloading_page("Running", "/running", view, RELOAD_WHOLE_SECONDS, &body)
    }
}

fn row(one: &pb::Running, view: &ReaderChoice) -> [Markup; 9] {
    let key = one.key.clone().unwrap_or_default();
    [
        html! { a href=(view.package(&key.package)) { (key.package) } " " span.quiet { (key.version) } },
        html! { a.id href=(view.attempt(&one.attempt)) { (one.attempt) } },
        html! { (millis(one.elapsed_ms)) },
        html! { (bytes(one.need_bytes)) },
        html! {
            (bytes(one.need_peak_bytes)) (measured::mark(one.source()))
            @if let Some(limit) = one.memory_limit_bytes.filter(|limit| *limit > 0) {
                meter min="0" max=(limit) value=(one.need_peak_bytes.min(limit)) aria-hidden="true" {}
            }
        },
        html! { (bytes(measured::running_memory(one))) },
        html! { (cell(one.memory_limit_bytes, bytes)) },
        html! { (cell(measured::running_cores(one), cores)) },
        html! {
            @if one.starved { span.badge.bad { span aria-hidden="true" { "! " } "starved" } }
            @else { (words::badge(pb::Outcome::Running, pb::Cause::Unspecified)) }
        },
    ]
}
