//! A report as one file for a browser or a printer: no script, no request to anybody, light or dark as the reader likes.

use plimsoll_proto::v1::{ChangeKind, MixedNeed, Regression};

use super::{
    Digest, NAMED,
    figures::{self, Figure},
    markup::Markup,
    next,
};
use crate::ask::{
    asked,
    numbers::{self, amount, count},
    text::{calibration, would_have_been},
};

/// Everything before the title. The policy keeps a browser from asking anybody for anything, whatever the file says.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

/// The head of a column of bars, which draw the number before them.
const DRAWN: &str = "drawn";

/// How it looks.
const STYLE: &str = include_str!("style.css");

/// The whole file.
pub(super) fn render(digest: &Digest) -> String {
    let (from, to) = (numbers::date(digest.from_unix_ms), numbers::date(digest.to_unix_ms));
    let title = format!("Builds from {from} to {to}");
    let mut page = Markup::default();
    page.raw(HEAD).within("<title>", &title, "</title>\n<style>\n").raw(STYLE);
    page.raw("</style>\n</head>\n<body>\n<main>\n").within("<h1>", &title, "</h1>\n");
    let (from, to) = (numbers::date_time(digest.from_unix_ms), numbers::date_time(digest.to_unix_ms));
    let long = numbers::long(digest.to_unix_ms.saturating_sub(digest.from_unix_ms));
    let about = format!("{}; {from} to {to} UTC, against the {long} before", asked::filter(&digest.filter));
    page.within("<p class=\"faint\">", &about, "</p>\n");
    sentences(&mut page, digest);
    if digest.now.attempts > 0 || digest.before.attempts > 0 {
        table(&mut page, "Figures", "figure", &figures::figures(digest));
        table(&mut page, "Failures by cause", "cause", &figures::causes(digest));
    }
    steps(&mut page, digest);
    wasters(&mut page, digest);
    regressions(&mut page, &digest.stats.regressions);
    mixed(&mut page, &digest.stats.mixed);
    predictions(&mut page, digest);
    for note in &digest.stats.notes {
        page.within("<p class=\"faint\">Note: ", note, "</p>\n");
    }
    page.raw("</main>\n</body>\n</html>\n");
    page.into_string()
}

fn sentences(page: &mut Markup, digest: &Digest) {
    page.raw("<section>\n<h2>What to do next</h2>\n<ol>\n");
    for sentence in next::next(digest) {
        page.raw("<li>");
        for (nth, piece) in sentence.split('`').enumerate() {
            // between two marks stands a command
            if nth % 2 == 0 {
                page.text(piece)
            } else {
                page.within("<code>", piece, "</code>")
            };
        }
        page.raw("</li>\n");
    }
    page.raw("</ol>\n</section>\n");
}

/// The beginning of a part with a table: its name and its heads.
fn heads(page: &mut Markup, name: &str, heads: &[&str]) {
    page.within("<section>\n<h2>", name, "</h2>\n");
    // on a narrow screen it scrolls, also for who has no mouse
    let open = "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"";
    page.within(open, name, "\"><table>\n<thead><tr>");
    for head in heads {
        let open = if *head == DRAWN { "<th scope=\"col\" class=\"drawn\">" } else { "<th scope=\"col\">" };
        page.within(open, head, "</th>");
    }
    page.raw("</tr></thead>\n<tbody>\n");
}

fn end(page: &mut Markup) {
    page.raw("</tbody>\n</table></div>\n</section>\n");
}

/// A table of figures, of which the first column holds the names: of a figure, or of a cause.
fn table(page: &mut Markup, name: &str, of: &str, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    heads(page, name, &[of, "now", "before", "change"]);
    for figure in figures {
        page.within("<tr><th scope=\"row\">", &figure.name, "</th>");
        page.within("<td>", &figure.now, "</td>").within("<td>", &figure.before, "</td>");
        let open = match figure.better {
            Some(true) => "<td class=\"better\">",
            Some(false) => "<td class=\"worse\">",
            None => "<td>",
        };
        page.within(open, &figure.change, "</td></tr>\n");
    }
    end(page);
}

#[expect(clippy::cast_precision_loss, reason = "drawn as bars of some hundred dots")]
fn steps(page: &mut Markup, digest: &Digest) {
    let sums: Vec<_> = digest
        .stats
        .steps
        .iter()
        .map(|step| (step.from_unix_ms, step.totals.clone().unwrap_or_default()))
        .collect();
    if sums.is_empty() {
        return;
    }
    let most = sums.iter().map(|(_, sums)| sums.failed).max().unwrap_or(0).max(1) as f64;
    heads(page, "Over time", &["from (UTC)", "attempts", "wasted GiB·h", "failed", DRAWN]);
    for (from, sums) in sums {
        page.within("<tr><th scope=\"row\">", &numbers::date(from), "</th>");
        page.within("<td>", &count(sums.attempts), "</td>");
        page.within("<td>", &amount(sums.memory_wasted_gib_hours), "</td>");
        page.within("<td>", &count(sums.failed), "</td><td class=\"drawn\">");
        page.bar(sums.failed as f64 / most).raw("</td></tr>\n");
    }
    end(page);
}

fn wasters(page: &mut Markup, digest: &Digest) {
    if digest.wasters().next().is_none() {
        return;
    }
    let all = digest.now.memory_wasted_gib_hours;
    let most =
        digest.wasters().map(|(_, sums)| sums.memory_wasted_gib_hours).fold(f64::MIN_POSITIVE, f64::max);
    heads(
        page,
        "Packages that waste most",
        &["package", "of all", "used of asked", "attempts", "failed", "wasted GiB·h", DRAWN],
    );
    for (group, sums) in digest.wasters() {
        let wasted = sums.memory_wasted_gib_hours;
        page.within("<tr><th scope=\"row\">", &group.name, "</th>");
        let used = numbers::share(sums.memory_used_of_asked_gib_hours, sums.memory_asked_gib_hours);
        page.within("<td>", &numbers::share(wasted, all), "</td>").within("<td>", &used, "</td>");
        page.within("<td>", &count(sums.attempts), "</td>").within("<td>", &count(sums.failed), "</td>");
        page.within("<td>", &amount(wasted), "</td><td class=\"drawn\">");
        page.bar(wasted / most).raw("</td></tr>\n");
    }
    end(page);
}

fn regressions(page: &mut Markup, regressions: &[Regression]) {
    if regressions.is_empty() {
        return;
    }
    heads(
        page,
        "Needs that have moved",
        &["build", "factor", "before", "now", "extra GiB·h", "since", "with it changed"],
    );
    for moved in regressions.iter().take(NAMED) {
        let since = match moved.kind() {
            ChangeKind::Drift => format!("little by little, {}", moved.attempt),
            ChangeKind::Back => format!("back at {}", moved.attempt),
            ChangeKind::Step | ChangeKind::Unspecified => moved.attempt.clone(),
        };
        page.within("<tr><th scope=\"row\">", &moved.key, "</th>");
        let open = if moved.factor > 1.0 { "<td class=\"worse\">" } else { "<td class=\"better\">" };
        page.within(open, &format!("{:.2} x", moved.factor), "</td>");
        page.within("<td>", &numbers::bytes(moved.before_bytes), "</td>");
        page.within("<td>", &numbers::bytes(moved.now_bytes), "</td>");
        page.within("<td>", &amount(moved.extra_gib_hours), "</td>");
        page.within("<td>", &since, "</td>").within("<td>", &moved.changed, "</td></tr>\n");
    }
    end(page);
}

fn mixed(page: &mut Markup, builds: &[MixedNeed]) {
    if builds.is_empty() {
        return;
    }
    heads(page, "Builds that hide groups with different needs", &["build", "extra GiB h", "groups"]);
    for build in builds.iter().take(NAMED) {
        page.within("<tr><th scope=\"row\">", &build.key, "</th>");
        page.within("<td>", &amount(build.extra_gib_hours), "</td>");
        let reason = build.groups.as_ref().map(|groups| groups.reason.as_str()).unwrap_or_default();
        page.within("<td>", reason, "</td></tr>\n");
    }
    end(page);
}

fn predictions(page: &mut Markup, digest: &Digest) {
    let held = digest.now.calibration.as_ref().and_then(calibration);
    let would = digest.now.would_have_been.as_ref();
    let would = would.and_then(|would| would_have_been(would, &digest.stats.currency));
    if held.is_none() && would.is_none() {
        return;
    }
    page.raw("<section>\n<h2>Predictions</h2>\n");
    for line in held.into_iter().chain(would) {
        page.within("<p>", &line, "</p>\n");
    }
    page.raw("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{empty, full},
        *,
    };

    #[test]
    fn a_report_is_one_file_that_asks_nobody_and_runs_nothing() {
        let html = render(&full());
        for never in ["<script", "http://", "https://", "url(", "@import", "src=", "href=", "\u{1b}", "<b>"] {
            assert!(!html.contains(never), "{never} in {html}");
        }
        assert!(html.contains("llvm&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(html.contains("owner team a&amp;b; 2025-11-15 00:00 to 2025-11-22 00:00 UTC"), "{html}");
        assert!(html.contains("default-src 'none'"));
        assert!(html.contains("what <code>plimsoll predict</code> says"), "{html}");
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        for html in [render(&full()), render(&empty())] {
            for name in [
                "html", "head", "body", "main", "section", "table", "thead", "tbody", "tr", "td", "ol", "li",
                "h2", "div", "p", "code",
            ] {
                let opened =
                    html.matches(&format!("<{name}>")).count() + html.matches(&format!("<{name} ")).count();
                assert_eq!(opened, html.matches(&format!("</{name}>")).count(), "{name}");
            }
        }
    }

    #[test]
    fn every_column_has_a_name_and_what_scrolls_is_reached_without_a_mouse() {
        let html = render(&full());
        assert!(html.contains("<th scope=\"col\">") && !html.contains("<th scope=\"col\"></th>"), "{html}");
        let reached =
            html.matches("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"").count();
        assert_eq!((reached > 2, reached), (true, html.matches("class=\"wide\"").count()));
    }

    #[test]
    fn a_week_without_builds_is_a_page_that_says_so() {
        let html = render(&empty());
        assert!(html.contains("<li>Nothing was measured in this time") && !html.contains("<table"), "{html}");
    }
}
