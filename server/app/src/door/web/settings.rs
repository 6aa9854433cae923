//! The page of the settings in force. Secrets are in files; the page shows only the names of these
//! files.

use axum::{
    http::{StatusCode, Uri},
    response::Html,
};
use plimsoll_pages::settings::{SettingRow, SettingsPage};

use super::{
    asking::{Reader, RequestReader},
    query,
    trouble::{PageError, PageResult},
};
use crate::runtime::settings::InForce;

/// Checks that the reader may see the settings: they name directories and addresses of the whole
/// server.
/// Errors: the reader may see only some projects.
pub(super) fn allowed(reader: &Reader) -> PageResult<()> {
    let text = "The settings are for readers of all projects.";
    if reader.is_for_all() { Ok(()) } else { Err(PageError::new(StatusCode::FORBIDDEN, text)) }
}

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    allowed(&parts)?;
    let (query, view) = query::asked(&uri)?;
    let rows: Vec<SettingRow<'_>> = parts.settings_in_force.iter().map(row).collect();
    let page = SettingsPage { view: &view, fields: query.fields(), rows: &rows };
    Ok(Html(page.draw().into_string()))
}

fn row(setting: &InForce) -> SettingRow<'_> {
    let InForce { name, value, place, meaning } = setting;
    SettingRow { name, value, place, meaning }
}
