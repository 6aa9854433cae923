//! Lines of CSV: rows of packages without a proposal, rows whose last cell is `keep`, and comments stay as they are.

use std::collections::BTreeMap;

use plimsoll_proto::{
    recommendations::{COLUMN_NAMES, csv_line, memory_limit, memory_request},
    v1::RecommendResponse,
};

use super::{MemorySizes, change, report::Report};

/// Project and package.
type RowKey = (String, String);

/// The columns of a proposal that a raise never lowers.
const PROPOSED: [&str; 3] =
    ["proposed_memory_request_bytes", "proposed_memory_limit_bytes", "proposed_cpu_request_cores"];

/// The file with the sizes of this answer. Each line keeps its own end.
/// Errors: the columns are others, a row is there twice, or a cell goes on in the next line.
pub(super) fn updated(old: &str, answer: &RecommendResponse, report: &mut Report) -> Result<String, String> {
    let end = if old.is_empty() || old.contains("\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<(String, &str)> = old.split_inclusive('\n').map(with_end).collect();
    if lines.is_empty() {
        lines.push((COLUMN_NAMES.to_owned(), end));
    }
    if !lines.first().is_some_and(|(line, _)| line.starts_with(COLUMN_NAMES)) {
        return Err(format!("line 1: the columns must begin with {COLUMN_NAMES}"));
    }
    let mut known: BTreeMap<RowKey, usize> = BTreeMap::new();
    for (at, (line, _)) in lines.iter().enumerate().skip(1) {
        let Some(key) = key_of(line) else { continue };
        if line.matches('"').count() % 2 == 1 {
            return Err(format!("line {}: a quote has no end: write each row in one line", at + 1));
        }
        if let Some(before) = known.insert(key, at) {
            return Err(format!("line {}: the same package as in line {}: delete one", at + 1, before + 1));
        }
    }
    let mut new: BTreeMap<RowKey, String> = BTreeMap::new();
    let proposed = answer.recommendations.iter().filter_map(|row| Some((row, memory_request(row).proposed?)));
    for (row, request) in proposed {
        let line = csv_line(row, false).trim_end().to_owned();
        let Some(key) = key_of(&line) else { continue };
        let had = known.get(&key).copied();
        let had = had.and_then(|at| lines.get_mut(at));
        let old = had.as_ref().map(|(line, _)| sizes_of(line));
        let new_sizes = (request, memory_limit(row).proposed);
        let Some(change) = change(&row.package, old, new_sizes, &[row], report) else { continue };
        match had {
            Some((old, _)) => *old = updated_row(old, &line, change.is_raise),
            None => drop(new.insert(key, line)),
        }
        report.changes.push(change);
    }
    if report.changes.is_empty() {
        return Ok(old.to_owned());
    }
    for (key, line) in new {
        let is_later = |(line, _): &(String, &str)| key_of(line).is_some_and(|other| other > key);
        let at = lines.iter().skip(1).position(is_later).map_or(lines.len(), |at| at + 1);
        if let Some((_, last)) = lines.get_mut(at - 1).filter(|(_, last)| last.is_empty()) {
            *last = end;
        }
        lines.insert(at, (line, end));
    }
    Ok(lines.into_iter().map(|(line, end)| line + end).collect())
}

/// A line, and its end.
fn with_end(line: &str) -> (String, &str) {
    let content = line.trim_end_matches(['\r', '\n']);
    (content.to_owned(), line.strip_prefix(content).unwrap_or_default())
}

/// The new row, with the cells of people behind its columns. A raise keeps what is larger in the old one.
fn updated_row(old: &str, new: &str, is_raise: bool) -> String {
    let (had, mut row) = (cells(old), cells(new));
    for at in PROPOSED.into_iter().filter(|_| is_raise).filter_map(place) {
        let (Some(had), Some(cell)) = (had.get(at), row.get_mut(at)) else { continue };
        let number = |cell: &str| unquoted(cell).parse::<f64>().unwrap_or_default();
        if number(had) > number(cell) {
            cell.clone_from(had);
        }
    }
    row.extend(had.into_iter().skip(columns()));
    row.join(",")
}

fn place(name: &str) -> Option<usize> {
    COLUMN_NAMES.split(',').position(|column| column == name)
}

fn columns() -> usize {
    COLUMN_NAMES.split(',').count()
}

/// The sizes that a row proposes, and whether its last cell marks it.
fn sizes_of(line: &str) -> (MemorySizes, bool) {
    let cells = cells(line);
    let size = |name: &str| unquoted(cells.get(place(name)?)?).parse::<u64>().ok();
    let is_kept = cells.len() > columns() && cells.last().is_some_and(|cell| unquoted(cell) == "keep");
    let [request, limit, _] = PROPOSED;
    ((size(request).unwrap_or_default(), size(limit)), is_kept)
}

/// Project and package of a row; `None` for a comment or an empty line.
fn key_of(line: &str) -> Option<RowKey> {
    if line.starts_with('#') || line.trim().is_empty() {
        return None;
    }
    let mut cells = cells(line).into_iter().map(|cell| unquoted(&cell));
    Some((cells.next()?, cells.next()?))
}

/// The text of a cell (RFC 4180).
fn unquoted(cell: &str) -> String {
    let cell = cell.trim();
    let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
    inner.map_or_else(|| cell.to_owned(), |inner| inner.replace("\"\"", "\""))
}

/// The cells of a line, as they are written: with their quotes (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        is_quoted ^= letter == '"';
        match cells.last_mut() {
            Some(cell) if letter != ',' || is_quoted => cell.push(letter),
            _ => cells.push(String::new()),
        }
    }
    cells
}
