//! The page of all packages, sortable, searchable, in parts.

use axum::{http::Uri, response::Html};
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::{
    packages::{PackagesPage, columns},
    view::ReaderChoice,
};
use plimsoll_proto::{
    sums::OTHERS_GROUP,
    v1::{self as pb, Group, GroupBy},
};

use super::{
    asking::{Reader, RequestReader},
    query,
    trouble::PageResult,
};

pub(super) async fn show(RequestReader(parts): RequestReader, uri: Uri) -> PageResult<Html<String>> {
    let (query, view) = query::asked(&uri)?;
    let number = query.number("page")?.unwrap_or(1);
    let groups = groups(&parts, &view, query.get("q")).await?;
    check_column(query.get("sort"))?;
    let page = PackagesPage { view: &view, fields: query.fields(), number, groups };
    Ok(Html(page.draw().into_string()))
}

/// The packages that waste most. If none of them has the name that is searched for, but another
/// package has exactly this name, it is added.
async fn groups(parts: &Reader, view: &ReaderChoice, sought: &str) -> PageResult<Vec<Group>> {
    let ask = |filter| {
        let group_by = GroupBy::Package.into();
        pb::GetStatsRequest { filter: Some(filter), group_by, ..pb::GetStatsRequest::default() }
    };
    let mut groups = parts.get_stats(ask(view.filter())).await?.groups;
    let known = groups.iter().any(|group| group.name == sought);
    if !known && !sought.is_empty() && groups.iter().any(|group| group.name == OTHERS_GROUP) {
        let exact = pb::Filter { package: sought.to_owned(), ..view.filter() };
        groups.extend(parts.get_stats(ask(exact)).await?.groups);
    }
    Ok(groups)
}

/// Refuses to sort by an unknown column. An empty name means the default column.
fn check_column(by: &str) -> Result<(), FieldViolation> {
    if by.is_empty() || columns().any(|name| name == by) {
        return Ok(());
    }
    let names: Vec<&str> = columns().collect();
    Err(FieldViolation::new("sort", format!("is {by:?}; it may be {}", names.join(", "))))
}
