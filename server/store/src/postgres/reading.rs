//! The statements that read entries. Each reads by ranges of the primary key, in byte order.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use crate::{
    bounds::MAX_KEY,
    kv::{KeyValue, PAGE_BYTES, PageLimit, ScanPage, VersionedValue},
    packed_page::PackedPage,
};

const GET: &str = "SELECT version, v FROM plimsoll.entry WHERE k = $1";
const SELECT_RANGE_HAS_ENTRY: &str = "SELECT EXISTS (SELECT 1 FROM plimsoll.entry AS e WHERE e.k >= r.first AND e.k < r.past) \
     FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS r (first, past, at) ORDER BY r.at";
const KEYS: &str = "SELECT k FROM plimsoll.entry WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3";
/// The entries of a page, and how many there were before the limit in bytes: the sum over those before an entry decides, as in the
/// other engines.
const PAGE: &str = "SELECT k, version, v, found FROM ( \
       SELECT k, version, v, count(*) OVER () AS found, \
         sum(length(k) + length(v)) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before \
       FROM (SELECT k, version, v FROM plimsoll.entry WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3) AS rows \
     ) AS page WHERE bytes_before IS NULL OR bytes_before < $4 ORDER BY k";

/// A read. Its rows are what [`value`], [`scan_page`] or [`packed_page`] take; those of `Holds` and `Keys` have one column.
pub(super) enum Query {
    /// One value.
    Get(Vec<u8>),
    /// For each prefix, whether any key starts with it.
    Holds(Vec<Vec<u8>>),
    /// The keys of a page, without a bound in bytes.
    Keys { first: Vec<u8>, end: Vec<u8>, items: i64 },
    /// The entries of a page.
    Page { first: Vec<u8>, end: Vec<u8>, items: i64, bytes: i64 },
}

impl Query {
    pub(super) fn keys(prefix: &[u8], after: Option<&[u8]>, limit: PageLimit) -> Self {
        Self::Keys { first: first_key(prefix, after), end: end_of(prefix), items: number(limit.rows()) }
    }

    pub(super) fn page(prefix: &[u8], after: Option<&[u8]>, limit: PageLimit) -> Self {
        let (first, end) = (first_key(prefix, after), end_of(prefix));
        let bytes = number(limit.bytes.clamp(1, PAGE_BYTES));
        Self::Page { first, end, items: number(limit.rows() + 1), bytes }
    }

    /// Sends it.
    pub(super) async fn rows(&self, client: &ClientWrapper) -> Result<Vec<Row>, Error> {
        match self {
            Self::Get(key) => client.query(&client.prepare_cached(GET).await?, &[key]).await,
            Self::Holds(prefixes) => {
                let past: Vec<Vec<u8>> = prefixes.iter().map(|prefix| end_of(prefix)).collect();
                let statement = client.prepare_cached(SELECT_RANGE_HAS_ENTRY).await?;
                client.query(&statement, &[prefixes, &past]).await
            }
            Self::Keys { first, end, items } => {
                client.query(&client.prepare_cached(KEYS).await?, &[first, end, items]).await
            }
            Self::Page { first, end, items, bytes } => {
                client.query(&client.prepare_cached(PAGE).await?, &[first, end, items, bytes]).await
            }
        }
    }
}

/// The first possible key of a page.
fn first_key(prefix: &[u8], after: Option<&[u8]>) -> Vec<u8> {
    match after {
        // the next possible key
        Some(after) if after >= prefix => [after, &[0]].concat(),
        _ => prefix.to_vec(),
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The value in the row of a key.
pub(super) fn value(rows: &[Row]) -> Option<VersionedValue> {
    rows.first().map(|row| VersionedValue { version: version(row, 0), value: bytes(row, 1).to_vec() })
}

/// The entries of the rows of a page.
pub(super) fn scan_page(mut rows: Vec<Row>, limit: PageLimit) -> ScanPage {
    let more = end_page(&mut rows, limit);
    let entry = |row: &Row| KeyValue {
        key: bytes(row, 0).to_vec(),
        value: VersionedValue { version: version(row, 1), value: bytes(row, 2).to_vec() },
    };
    ScanPage { entries: rows.iter().map(entry).collect(), more }
}

/// The entries of the rows of a page in one allocation.
pub(super) fn packed_page(mut rows: Vec<Row>, limit: PageLimit) -> PackedPage {
    let mut page = PackedPage::with_room(limit);
    page.more = end_page(&mut rows, limit);
    for row in &rows {
        page.push(bytes(row, 0), bytes(row, 2));
    }
    page
}

/// Removes the row behind a page; returns whether there are more.
fn end_page(rows: &mut Vec<Row>, limit: PageLimit) -> bool {
    let found: i64 = rows.first().map_or(0, |row| row.get("found"));
    rows.truncate(limit.rows());
    found > number(rows.len())
}

/// A key or a value. Where damage has taken it, it is empty, and so no record.
fn bytes(row: &Row, column: usize) -> &[u8] {
    row.try_get(column).unwrap_or_default()
}

fn version(row: &Row, column: usize) -> u64 {
    row.try_get::<_, i64>(column).unwrap_or_default().cast_unsigned()
}

/// The first possible key behind all keys that start with `prefix`.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |at| at + 1);
    let mut end = prefix.get(..kept).unwrap_or_default().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end = vec![u8::MAX; MAX_KEY + 1],
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_prefix_range_holds_exactly_its_keys(
            prefix in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..4),
            key in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..=MAX_KEY),
        ) {
            let within = key >= prefix && key < end_of(&prefix);
            prop_assert_eq!(within, key.starts_with(&prefix));
            let longer = [prefix.as_slice(), &key[..key.len().min(MAX_KEY - prefix.len())]].concat();
            prop_assert!(longer >= prefix && longer < end_of(&prefix));
        }
    }
}
