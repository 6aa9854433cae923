//! The statements that read entries. Each reads by ranges of the primary key, in byte order.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use crate::{
    bounds::MAX_KEY,
    kv::{KeyValue, PAGE_BYTES, PAGE_ITEMS, PageLimit, ScanPage, VersionedValue},
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

/// Reads one value.
pub(super) async fn get(client: &ClientWrapper, key: &[u8]) -> Result<Option<VersionedValue>, Error> {
    let statement = client.prepare_cached(GET).await?;
    let row = client.query_opt(&statement, &[&key]).await?;
    Ok(row.map(|row| VersionedValue { version: version(&row, 0), value: row.get(1) }))
}

/// For each prefix, whether any key starts with it.
pub(super) async fn holds(client: &ClientWrapper, prefixes: &[Vec<u8>]) -> Result<Vec<bool>, Error> {
    let past: Vec<Vec<u8>> = prefixes.iter().map(|prefix| end_of(prefix)).collect();
    let statement = client.prepare_cached(SELECT_RANGE_HAS_ENTRY).await?;
    let rows = client.query(&statement, &[&prefixes, &past]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The keys of a page, without a bound in bytes, and whether there are more.
pub(super) async fn page_keys(
    client: &ClientWrapper,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: PageLimit,
) -> Result<(Vec<Vec<u8>>, bool), Error> {
    let items = limit.items.clamp(1, PAGE_ITEMS);
    let statement = client.prepare_cached(KEYS).await?;
    let (first, end) = (first_key(prefix, after), end_of(prefix));
    let rows = client.query(&statement, &[&first, &end, &number(items)]).await?;
    Ok((rows.iter().map(|row| row.get(0)).collect(), rows.len() == items))
}

/// The rows of a page, and whether there are more.
pub(super) async fn page_rows(
    client: &ClientWrapper,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: PageLimit,
) -> Result<(Vec<Row>, bool), Error> {
    let first = first_key(prefix, after);
    let items = limit.items.clamp(1, PAGE_ITEMS);
    let statement = client.prepare_cached(PAGE).await?;
    let bytes = number(limit.bytes.clamp(1, PAGE_BYTES));
    let mut rows = client.query(&statement, &[&first, &end_of(prefix), &number(items + 1), &bytes]).await?;
    let found: i64 = rows.first().map_or(0, |row| row.get("found"));
    rows.truncate(items);
    let more = found > number(rows.len());
    Ok((rows, more))
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

/// The entries of rows.
pub(super) fn scan_page((rows, more): (Vec<Row>, bool)) -> ScanPage {
    ScanPage { entries: rows.iter().map(entry).collect(), more }
}

fn entry(row: &Row) -> KeyValue {
    KeyValue { key: row.get(0), value: VersionedValue { version: version(row, 1), value: row.get(2) } }
}

/// The entries of rows in one allocation.
pub(super) fn packed_page((rows, more): (Vec<Row>, bool), limit: PageLimit) -> PackedPage {
    let mut page = PackedPage::with_room(limit);
    for row in &rows {
        page.push(row.get(0), row.get(2));
    }
    page.more = more;
    page
}

fn version(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).cast_unsigned()
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
        fn a_key_lies_before_the_end_of_a_prefix_if_it_starts_with_it(
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
