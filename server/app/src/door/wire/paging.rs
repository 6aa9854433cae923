//! `ListAttempts`: a page of ended attempts, and the token for the next page.
//!
//! A token contains a hash of filter and order, and the position where the page ended. The server
//! stores nothing for a token, so tokens never expire, not even when the server restarts.

use super::known;
use crate::fleet::statistics::ListedAttempts;
use plimsoll_core::{
    domain::{AttemptId, FieldViolation},
    stats::{AttemptOrder, ListCursor, PageBuilder},
};
use plimsoll_proto::{limits, v1 as pb};
use prost::Message as _;

/// Attempts on a page, if the request sets no number.
const PAGE_SIZE: usize = 100;

/// Most bytes of the attempts on a page; the rest of the answer is for the token and field tags.
const PAGE_BYTES: usize = limits::ANSWER_BYTES - 64 * 1024;

/// Bytes that a page needs for each summary in addition: field tag and length.
const SUMMARY_FRAME: usize = 8;

/// First letter of a token. A later format of tokens would use another letter.
const TOKEN_PREFIX: &str = "a";

/// A page: what is asked, and the attempts on it while it is filled.
#[derive(Debug)]
pub(crate) struct Page {
    order: AttemptOrder,
    size: usize,
    after_cursor: Option<ListCursor>,
    /// Hash of the filter and the order.
    query: u32,
    attempts: Vec<pb::Summary>,
    last_cursor: Option<ListCursor>,
    bytes: usize,
}

impl Page {
    /// The page that the service is asked for.
    pub(crate) fn builder(&self) -> PageBuilder {
        PageBuilder::new(self.order, self.size, self.after_cursor.clone())
    }

    /// Checks a request, apart from its filter.
    /// Errors: A field is invalid; the error names it.
    pub(crate) fn read(request: &pb::ListAttemptsRequest) -> Result<Self, FieldViolation> {
        let order = known("order", request.order)?;
        let size = match request.page_size {
            0 => PAGE_SIZE,
            size if size <= limits::PAGE_SIZE => size as usize,
            size => {
                let description = format!("is {size}, at most {} is allowed", limits::PAGE_SIZE);
                return Err(FieldViolation::new("page_size", description));
            }
        };
        let query = query_hash(request);
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(cursor_of(token, query)?),
        };
        let (attempts, last_cursor) = (Vec::new(), None);
        Ok(Self { order, size, after_cursor: after, query, attempts, last_cursor, bytes: 0 })
    }

    /// Adds an attempt if there is space; returns whether it was added. The first attempt is always
    /// added, so that every page makes progress; its size was bounded when it was received.
    pub(crate) fn add_if_room(&mut self, place: &ListCursor, summary: pb::Summary) -> bool {
        self.bytes += summary.encoded_len() + SUMMARY_FRAME;
        let room = self.attempts.is_empty() || self.bytes <= PAGE_BYTES;
        if room {
            self.attempts.push(summary);
            self.last_cursor = Some(place.clone());
        }
        room
    }

    /// The answer, with a token if there are more attempts.
    pub(crate) fn end(self, listed: &ListedAttempts) -> pb::ListAttemptsResponse {
        let last = if listed.is_cut {
            self.last_cursor.as_ref()
        } else {
            listed.page.cursors.last().filter(|_| listed.page.has_more)
        };
        let next_page_token = last.map(|last| page_token(self.query, last)).unwrap_or_default();
        pb::ListAttemptsResponse { attempts: self.attempts, next_page_token }
    }
}

/// Hash of a request's filter and order. It is the same for equal requests, also after a restart.
fn query_hash(request: &pb::ListAttemptsRequest) -> u32 {
    let mut filter = request.filter.clone().unwrap_or_default();
    // sorted, because a map has no fixed order
    let mut labels: Vec<_> = std::mem::take(&mut filter.labels).into_iter().collect();
    labels.sort_unstable();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&request.order.to_le_bytes());
    hasher.update(&filter.encode_length_delimited_to_vec());
    for text in labels.iter().flat_map(|(name, value)| [name, value]) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize()
}

fn page_token(query: u32, place: &ListCursor) -> String {
    format!("{TOKEN_PREFIX}{query:x}.{:x}.{:x}.{}", place.rank, place.ended_unix_ms, place.attempt)
}

/// The position in a token: where the page before ended.
fn cursor_of(token: &str, query: u32) -> Result<ListCursor, FieldViolation> {
    let unknown = || {
        FieldViolation::new("page_token", "is not from an answer of this server; start from the first page")
    };
    let parts: Vec<&str> =
        token.strip_prefix(TOKEN_PREFIX).map(|rest| rest.splitn(4, '.').collect()).unwrap_or_default();
    let [of, rank, ended, id] = parts.as_slice() else { return Err(unknown()) };
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let place = number(rank).zip(number(ended)).zip(AttemptId::parse(id).ok());
    let (((rank, ended_unix_ms), attempt), of) = place.zip(number(of)).ok_or_else(unknown)?;
    if of != u64::from(query) {
        return Err(FieldViolation::new(
            "page_token",
            "belongs to another filter or order; repeat those of its page, its times included, or start from the first page",
        ));
    }
    Ok(ListCursor { rank, ended_unix_ms, attempt })
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use plimsoll_core::domain::{AttemptBrief, test_summary as summary};

    use plimsoll_core::stats::AttemptPage;

    use super::*;
    use crate::door::wire::attempts::summary as shown;

    fn attempts(count: u32) -> Vec<Arc<AttemptBrief>> {
        (0..count).map(|n| Arc::new((&summary(&n.to_string(), "zlib", "1", 10)).into())).collect()
    }

    /// All pages of `request` over `attempts`, each filled by `fill`.
    fn pages(
        attempts: &[Arc<AttemptBrief>],
        mut request: pb::ListAttemptsRequest,
        fill: impl Fn(&mut Page, &AttemptPage) -> bool,
    ) -> Vec<pb::ListAttemptsResponse> {
        let mut pages = Vec::new();
        loop {
            let mut page = Page::read(&request).unwrap();
            let mut listing = page.builder();
            for brief in attempts {
                listing.consider(brief);
            }
            let chosen = listing.finish();
            let is_cut = !fill(&mut page, &chosen);
            let answer = page.end(&ListedAttempts { page: chosen, is_cut });
            request.page_token.clone_from(&answer.next_page_token);
            pages.push(answer);
            if request.page_token.is_empty() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_cover_all_attempts_once_despite_removals() {
        let request = pb::ListAttemptsRequest { page_size: 10, ..Default::default() };
        let pages = pages(&attempts(25), request, |page, chosen| {
            let found = chosen.cursors.iter().filter(|place| place.attempt.as_str() != "4");
            found.for_each(|place| {
                let summary = summary(place.attempt.as_str(), "zlib", "1", 10);
                assert!(page.add_if_room(place, shown(&summary)));
            });
            true
        });
        let mut seen: Vec<u32> =
            pages.iter().flat_map(|page| &page.attempts).map(|s| s.attempt.parse().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..25).filter(|n| *n != 4).collect::<Vec<_>>());
    }

    #[test]
    fn pages_stay_below_the_answer_size_limit() {
        let long = |id: &AttemptId| {
            let mut summary = summary(id.as_str(), "zlib", "1", 10);
            summary.key.variants = "v".repeat(limits::VARIANTS_BYTES);
            let label = |n| (format!("{n:0>128}"), "x".repeat(limits::LABEL_BYTES));
            summary.key.labels = (0..limits::LABELS).map(label).collect();
            shown(&summary)
        };
        let request = pb::ListAttemptsRequest { page_size: 1000, ..Default::default() };
        let pages = pages(&attempts(1000), request, |page, chosen| {
            chosen.cursors.iter().all(|place| page.add_if_room(place, long(&place.attempt)))
        });
        assert!(pages.iter().all(|page| page.encoded_len() < limits::ANSWER_BYTES));
        let seen: usize = pages.iter().map(|page| page.attempts.len()).sum();
        assert_eq!((seen, pages.len() > 2), (1000, true), "{} pages", pages.len());
    }

    #[test]
    fn page_tokens_of_other_queries_are_refused() {
        let filter = |package: &str, labels: &[(&str, &str)]| {
            let labels: HashMap<String, String> =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Some(pb::Filter { package: package.into(), labels, ..pb::Filter::default() })
        };
        let request = pb::ListAttemptsRequest {
            filter: filter("zlib", &[("a", "1"), ("b", "2")]),
            ..pb::ListAttemptsRequest::default()
        };
        let place =
            ListCursor { rank: 7, ended_unix_ms: 8, attempt: AttemptId::parse("gitlab.com:1.2").unwrap() };
        let page_token = page_token(query_hash(&request), &place);
        let with = |other: pb::ListAttemptsRequest| {
            Page::read(&pb::ListAttemptsRequest { page_token: page_token.clone(), ..other })
        };
        let again = pb::ListAttemptsRequest {
            filter: filter("zlib", &[("b", "2"), ("a", "1")]),
            page_size: 7,
            ..request.clone()
        };
        assert_eq!(with(again).unwrap().after_cursor, Some(place), "the size of a page may change");
        let others = [
            pb::ListAttemptsRequest { filter: filter("hdf5", &[("a", "1"), ("b", "2")]), ..request.clone() },
            pb::ListAttemptsRequest { filter: filter("zlib", &[("a", "12"), ("b", "")]), ..request.clone() },
            pb::ListAttemptsRequest { order: AttemptOrder::Waste.into(), ..request },
            pb::ListAttemptsRequest::default(),
        ];
        for other in others {
            let fault = with(other).unwrap_err();
            assert_eq!(fault.field, "page_token");
            assert!(fault.description.contains("another filter or order"), "{fault:?}");
        }
    }

    #[test]
    fn invalid_page_parameters_are_refused_by_field() {
        let asked = |page_token: &str, page_size, order| {
            Page::read(&pb::ListAttemptsRequest {
                page_token: page_token.into(),
                page_size,
                order,
                filter: None,
            })
            .map(|asked| asked.size)
            .map_err(|fault| fault.field)
        };
        for token in ["zzz", "a", "a1.2.3", "a1.x.3.id", "a1.2.3.", "a1.2.3.not an id", "b0.0.0.a"] {
            assert_eq!(asked(token, 0, 0), Err("page_token".into()), "{token}");
        }
        assert_eq!(asked("", 1001, 0), Err("page_size".into()));
        assert_eq!(asked("", 0, 99), Err("order".into()));
        assert_eq!((asked("", 0, 0), asked("", 1000, 4)), (Ok(100), Ok(1000)));
    }
}
