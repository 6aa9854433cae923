//! The page of the settings in force. Secrets are in files; the page shows only the names of these
//! files.

use axum::{
    http::{StatusCode, Uri},
    response::Html,
};
use plimsoll_pages::settings::{SettingRow, SettingsPage};

use super::{
    asking::{Asking, Reader},
    query,
    trouble::Trouble,
};
use crate::runtime::settings::InForce;

/// Checks that the reader may see the settings: they name directories and addresses of the whole
/// server.
///
/// # Errors
/// The reader may see only some projects.
pub(super) fn allowed(reader: &Reader) -> Result<(), Trouble> {
    let text = "The settings are for readers of all projects.";
    if reader.is_for_all() { Ok(()) } else { Err(Trouble::new(StatusCode::FORBIDDEN, text)) }
}

pub(super) async fn show(Asking(parts): Asking, uri: Uri) -> Result<Html<String>, Trouble> {
    allowed(&parts)?;
    let (query, view) = query::asked(&uri)?;
    let rows: Vec<SettingRow<'_>> = parts.shown.iter().map(row).collect();
    let page = SettingsPage { view: &view, fields: query.fields(), rows: &rows };
    Ok(Html(page.draw().into_string()))
}

fn row(setting: &InForce) -> SettingRow<'_> {
    let InForce { name, value, place, meaning } = setting;
    SettingRow { name, value, place, meaning }
}
