//! ListAttempts: a page of ended attempts, and the token that leads to the next one.
//!
//! A token says which filter and order it belongs to, and where the page ended. Nothing is kept of it here, so it is good for
//! ever, also after a restart.

use plimsoll_proto::{limits, v1 as pb};
use prost::Message as _;
use tonic::Status;

use super::{Counting, filter};
use crate::{
    domain::{AttemptId, Fault},
    grpc::{convert, reply, status},
    ingest::Ingest,
    learned::Learned,
    stats::{Chosen, Listing, Order, Place},
};

/// Attempts of a page, if nobody says how many.
const PAGE_SIZE: usize = 100;

/// Bytes of a page's attempts; what is left of an answer is for the token and the tags.
const PAGE_BYTES: usize = limits::ANSWER_BYTES - 64 * 1024;

/// Bytes around a summary in a page: its tag and its length.
const SUMMARY_FRAME: usize = 8;

/// What a token begins with: its kind. Another kind is another letter.
const TOKEN: &str = "a";

/// The page that `request` asks for.
pub(super) async fn list(
    learned: &Learned,
    ingest: &Ingest,
    counting: &Counting,
    request: pb::ListAttemptsRequest,
) -> Result<pb::ListAttemptsResponse, Status> {
    let asked = Asked::read(&request).map_err(|fault| status::of_fault(&fault))?;
    let filter = filter(request.filter).map_err(|fault| status::of_fault(&fault))?;
    let (counted, query) = (learned.clone(), asked.query);
    // a look at a million attempts takes its time
    let chosen = counting.run(move || {
        let listing = Listing::new(asked.order, asked.size, asked.after);
        counted.stats().list(&filter, listing)
    });
    let chosen = chosen.await?;
    let mut page = Page::new(query);
    for place in &chosen.places {
        let summary = ingest.listed(&place.attempt).await.map_err(|refusal| status::of_refusal(&refusal))?;
        // one that is gone meanwhile is left out
        if summary.is_some_and(|summary| !page.takes(place, reply::summary(&learned.related(&summary)))) {
            return Ok(page.cut());
        }
    }
    Ok(page.end(&chosen))
}

/// Whether a request makes sense.
///
/// # Errors
/// Names the field that does not.
pub(super) fn understood(request: &pb::ListAttemptsRequest) -> Result<(), Fault> {
    Asked::read(request)?;
    filter(request.filter.clone()).map(|_filter| ())
}

/// A request that makes sense, but for its filter.
#[derive(Debug)]
struct Asked {
    order: Order,
    size: usize,
    after: Option<Place>,
    /// Stands for the filter and the order.
    query: u32,
}

impl Asked {
    fn read(request: &pb::ListAttemptsRequest) -> Result<Self, Fault> {
        let order = match convert::known("order", request.order)? {
            pb::AttemptOrder::Unspecified => Order::Newest,
            pb::AttemptOrder::Oldest => Order::Oldest,
            pb::AttemptOrder::Waste => Order::Waste,
            pb::AttemptOrder::Need => Order::Need,
            pb::AttemptOrder::Wall => Order::Wall,
        };
        let size = match request.page_size {
            0 => PAGE_SIZE,
            size if size <= limits::PAGE_SIZE => size as usize,
            size => {
                let description = format!("is {size}, at most {} is allowed", limits::PAGE_SIZE);
                return Err(Fault::new("page_size", description));
            }
        };
        let query = query(request);
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(place(token, query)?),
        };
        Ok(Self { order, size, after, query })
    }
}

/// A number that stands for the filter and the order of a request: the same for the same ones, also on another day.
fn query(request: &pb::ListAttemptsRequest) -> u32 {
    let mut filter = request.filter.clone().unwrap_or_default();
    // a map has no order of its own
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

fn token(query: u32, place: &Place) -> String {
    format!("{TOKEN}{query:x}.{:x}.{:x}.{}", place.rank, place.ended_unix_ms, place.attempt)
}

/// The place where the page of a token ended.
fn place(token: &str, query: u32) -> Result<Place, Fault> {
    let unknown =
        || Fault::new("page_token", "is not from an answer of this server; start from the first page");
    let parts: Vec<&str> =
        token.strip_prefix(TOKEN).map(|rest| rest.splitn(4, '.').collect()).unwrap_or_default();
    let [of, rank, ended, id] = parts.as_slice() else { return Err(unknown()) };
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let place = number(rank).zip(number(ended)).zip(AttemptId::parse(id).ok());
    let (((rank, ended_unix_ms), attempt), of) = place.zip(number(of)).ok_or_else(unknown)?;
    if of != u64::from(query) {
        return Err(Fault::new(
            "page_token",
            "belongs to another filter or order; repeat those of its page, its times included, or start from the first page",
        ));
    }
    Ok(Place { rank, ended_unix_ms, attempt })
}

/// A page that is being filled.
#[derive(Debug)]
struct Page {
    query: u32,
    attempts: Vec<pb::Summary>,
    last: Option<Place>,
    bytes: usize,
}

impl Page {
    fn new(query: u32) -> Self {
        Self { query, attempts: Vec::new(), last: None, bytes: 0 }
    }

    /// Adds an attempt, if there is room. One is always shown, so that the pages come to an end; its parts are bounded when
    /// they come in.
    fn takes(&mut self, place: &Place, summary: pb::Summary) -> bool {
        self.bytes += summary.encoded_len() + SUMMARY_FRAME;
        let room = self.attempts.is_empty() || self.bytes <= PAGE_BYTES;
        if room {
            self.attempts.push(summary);
            self.last = Some(place.clone());
        }
        room
    }

    /// The answer, if not all that was chosen found room.
    fn cut(self) -> pb::ListAttemptsResponse {
        let next_page_token = self.last.map(|last| token(self.query, &last)).unwrap_or_default();
        pb::ListAttemptsResponse { attempts: self.attempts, next_page_token }
    }

    /// The answer with all that was chosen.
    fn end(self, chosen: &Chosen) -> pb::ListAttemptsResponse {
        let last = chosen.places.last().filter(|_| chosen.more);
        let next_page_token = last.map(|last| token(self.query, last)).unwrap_or_default();
        pb::ListAttemptsResponse { attempts: self.attempts, next_page_token }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use super::*;
    use crate::domain::{Brief, test_summary as summary};

    fn attempts(count: u32) -> Vec<Arc<Brief>> {
        (0..count).map(|n| Arc::new((&summary(&n.to_string(), "zlib", "1", 10)).into())).collect()
    }

    /// All pages of `request` over `attempts`, each filled by `fill`.
    fn pages(
        attempts: &[Arc<Brief>],
        mut request: pb::ListAttemptsRequest,
        fill: impl Fn(&mut Page, &Chosen) -> bool,
    ) -> Vec<pb::ListAttemptsResponse> {
        let mut pages = Vec::new();
        loop {
            let asked = Asked::read(&request).unwrap();
            let mut listing = Listing::new(asked.order, asked.size, asked.after);
            for brief in attempts {
                listing.look(brief);
            }
            let chosen = listing.choose();
            let mut page = Page::new(asked.query);
            let whole = fill(&mut page, &chosen);
            let answer = if whole { page.end(&chosen) } else { page.cut() };
            request.page_token.clone_from(&answer.next_page_token);
            pages.push(answer);
            if request.page_token.is_empty() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_cover_everything_once_also_if_one_was_removed_meanwhile() {
        let request = pb::ListAttemptsRequest { page_size: 10, ..Default::default() };
        let pages = pages(&attempts(25), request, |page, chosen| {
            let found = chosen.places.iter().filter(|place| place.attempt.as_str() != "4");
            found.for_each(|place| {
                let shown = reply::summary(&summary(place.attempt.as_str(), "zlib", "1", 10));
                assert!(page.takes(place, shown));
            });
            true
        });
        let mut seen: Vec<u32> =
            pages.iter().flat_map(|page| &page.attempts).map(|s| s.attempt.parse().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..25).filter(|n| *n != 4).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_of_long_summaries_ends_before_it_is_too_large_for_a_client() {
        let long = |id: &AttemptId| {
            let mut summary = summary(id.as_str(), "zlib", "1", 10);
            summary.key.variants = "v".repeat(limits::VARIANTS_BYTES);
            let label = |n| (format!("{n:0>128}"), "x".repeat(limits::LABEL_BYTES));
            summary.key.labels = (0..limits::LABELS).map(label).collect();
            reply::summary(&summary)
        };
        let request = pb::ListAttemptsRequest { page_size: 1000, ..Default::default() };
        let pages = pages(&attempts(1000), request, |page, chosen| {
            chosen.places.iter().all(|place| page.takes(place, long(&place.attempt)))
        });
        assert!(pages.iter().all(|page| page.encoded_len() < limits::ANSWER_BYTES));
        let seen: usize = pages.iter().map(|page| page.attempts.len()).sum();
        assert_eq!((seen, pages.len() > 2), (1000, true), "{} pages", pages.len());
    }

    #[test]
    fn a_token_of_another_query_is_refused_with_the_way_out() {
        let filter = |package: &str, labels: &[(&str, &str)]| {
            let labels: HashMap<String, String> =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Some(pb::Filter { package: package.into(), labels, ..pb::Filter::default() })
        };
        let request = pb::ListAttemptsRequest {
            filter: filter("zlib", &[("a", "1"), ("b", "2")]),
            ..pb::ListAttemptsRequest::default()
        };
        let place = Place { rank: 7, ended_unix_ms: 8, attempt: AttemptId::parse("gitlab.com:1.2").unwrap() };
        let page_token = token(query(&request), &place);
        let with = |other: pb::ListAttemptsRequest| {
            Asked::read(&pb::ListAttemptsRequest { page_token: page_token.clone(), ..other })
        };
        let again = pb::ListAttemptsRequest {
            filter: filter("zlib", &[("b", "2"), ("a", "1")]),
            page_size: 7,
            ..request.clone()
        };
        assert_eq!(with(again).unwrap().after, Some(place), "the size of a page may change");
        let others = [
            pb::ListAttemptsRequest { filter: filter("hdf5", &[("a", "1"), ("b", "2")]), ..request.clone() },
            pb::ListAttemptsRequest { filter: filter("zlib", &[("a", "12"), ("b", "")]), ..request.clone() },
            pb::ListAttemptsRequest { order: pb::AttemptOrder::Waste.into(), ..request },
            pb::ListAttemptsRequest::default(),
        ];
        for other in others {
            let fault = with(other).unwrap_err();
            assert_eq!(fault.field, "page_token");
            assert!(fault.description.contains("another filter or order"), "{fault:?}");
        }
    }

    #[test]
    fn a_token_size_or_order_that_makes_no_sense_is_named() {
        let asked = |page_token: &str, page_size, order| {
            Asked::read(&pb::ListAttemptsRequest {
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
