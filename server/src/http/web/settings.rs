//! The settings in force. Secrets are in files of their own, which are named and never shown.

use axum::http::{StatusCode, Uri};
use maud::html;

use super::{
    asking::Asking,
    flow,
    page::{Page, plain},
    trouble::Trouble,
};
use crate::{config::InForce, grpc::Inside};

/// The settings name places and addresses of the whole server.
///
/// # Errors
/// The reader may see only some projects.
pub(super) fn allowed(inside: &Inside) -> Result<(), Trouble> {
    let text = "The settings are for readers of all projects.";
    if inside.is_for_all() { Ok(()) } else { Err(Trouble::new(StatusCode::FORBIDDEN, text)) }
}

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Page, Trouble> {
    allowed(&parts.inside)?;
    let (query, view) = flow::asked(&uri)?;
    let sought = query.get("q").to_lowercase();
    let text = |row: &InForce| [row.name, &row.value, &row.place, &row.meaning].join(" ").to_lowercase();
    let rows: Vec<&InForce> = parts.shown.iter().filter(|row| text(row).contains(&sought)).collect();
    let body = html! {
        h1 { "Settings in force" }
        p.lead {
            "An option wins over a variable, a variable over the file. " code { "plimsoll-server --print-config" }
            " prints the same as a file that can be read back."
        }
        form.search role="search" action="/settings" method="get" {
            label { "Show settings with" input type="search" name="q" value=(query.get("q")) data-narrows="settings" autocomplete="off"; }
        }
        div.scroll tabindex="0" role="region" aria-label="Settings in force" {
            table #settings {
                thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "From" } th scope="col" { "What it does" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th.keep scope="row" { code { (row.name) } }
                            td { @if row.value.is_empty() { span.quiet { "not set" } } @else { code { (row.value) } } }
                            td { @if row.place == "default" { span.quiet { "default" } } @else { (row.place) } }
                            td.text { (row.meaning) }
                        }
                    }
                }
            }
        }
    };
    Ok(plain("Settings in force", "/settings", &view, &body))
}
