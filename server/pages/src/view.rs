//! The reader's choice of time, project and stack. All links of a page keep it.

use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plimsoll_base::named_enum;
use plimsoll_proto::v1 as pb;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// Characters that are not escaped in a path: those that RFC 3986 calls unreserved.
const PATH_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

named_enum! {
    /// The period of time that a page covers, up to now.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum TimeRange {
        /// 24 hours.
        Day => "24h",
        /// 7 days.
        Week => "7d",
        /// 30 days.
        #[default]
        Month => "30d",
        /// All time.
        All => "all",
    }
}

impl TimeRange {
    /// The range in words, for a link and for a sentence; its length, and the time of one step of statistics, milliseconds.
    fn traits(self) -> (&'static str, &'static str, Option<u64>, u64) {
        match self {
            Self::Day => ("24 hours", "in the last 24 hours", Some(DAY), HOUR),
            Self::Week => ("7 days", "in the last 7 days", Some(7 * DAY), 6 * HOUR),
            Self::Month => ("30 days", "in the last 30 days", Some(30 * DAY), DAY),
            Self::All => ("all time", "since the beginning", None, DAY),
        }
    }

    /// The range in words, for a link.
    pub fn words(self) -> &'static str {
        self.traits().0
    }

    /// The range in words, for a sentence.
    pub fn words_in_sentence(self) -> &'static str {
        self.traits().1
    }

    /// Time that one step of statistics covers, milliseconds. For all time a day is tried first; if that gives
    /// too many steps, [`Self::WIDER_MS`].
    pub fn step_ms(self) -> u64 {
        self.traits().3
    }

    /// Time of a step, milliseconds, with which even the longest range has few enough steps: about a month.
    pub const WIDER_MS: u64 = 30 * DAY;

    /// The range with this value in an address.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.as_str() == text)
    }
}

/// The pairs of name and value in a query.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// A query with these pairs of name and value.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The first value with this name, without white space around it; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }
}

/// The reader's choice: range, project, stack, and the current time.
#[derive(Debug, Clone, Default)]
pub struct ReaderChoice {
    /// The period of time.
    pub range: TimeRange,
    /// One project; empty for all.
    pub project: String,
    /// One stack; empty for all.
    pub stack: String,
    /// The current time by the server's clock, milliseconds since 1970.
    pub now_unix_ms: u64,
}

impl ReaderChoice {
    /// The choice as a filter in a request.
    pub fn filter(&self) -> pb::Filter {
        let from_unix_ms = self.range.traits().2.map(|length| self.now_unix_ms.saturating_sub(length));
        pb::Filter {
            project: self.project.clone(),
            stack: self.stack.clone(),
            from_unix_ms,
            ..pb::Filter::default()
        }
    }

    /// Start of the chosen range, milliseconds since 1970; `None` for all time.
    pub fn since_unix_ms(&self) -> Option<u64> {
        self.filter().from_unix_ms
    }

    /// The same choice with another range.
    #[must_use]
    pub fn with(&self, range: TimeRange) -> Self {
        Self { range, ..self.clone() }
    }

    /// The pairs of name and value for this choice in an address.
    pub fn pairs(&self) -> Vec<(&'static str, &str)> {
        let range = if self.range == TimeRange::default() { "" } else { self.range.as_str() };
        let pairs = [("range", range), ("project", &self.project), ("stack", &self.stack)];
        pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// An address with this choice in it. Pairs without a value are left out.
    pub fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.extend_pairs(self.pairs());
        match query.finish().as_str() {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// The address of a package's page. For a package named `.` or `..` it is a list of its attempts, because a
    /// browser would change such a path.
    pub fn package(&self, name: &str) -> String {
        match name {
            "." | ".." | "" => self.link("/attempts", &[("package", name)]),
            name => self.link(&format!("/packages/{}", utf8_percent_encode(name, PATH_ESCAPES)), &[]),
        }
    }

    /// The address of an attempt's page.
    pub fn attempt(&self, id: &str) -> String {
        self.link(&format!("/attempts/{}", utf8_percent_encode(id, PATH_ESCAPES)), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_and_percent_signs_are_escaped_in_paths() {
        let view = ReaderChoice::default();
        assert_eq!(view.attempt("gitlab.com:1/2%2F"), "/attempts/gitlab.com%3A1%2F2%252F");
        assert_eq!(view.package("a/../b"), "/packages/a%2F..%2Fb");
        assert_eq!(view.package(".."), "/attempts?package=..");
    }

    #[test]
    fn a_range_before_the_epoch_starts_at_zero() {
        let early = ReaderChoice { now_unix_ms: 5, ..ReaderChoice::default() };
        assert_eq!(early.filter().from_unix_ms, Some(0));
        assert_eq!(early.with(TimeRange::All).filter().from_unix_ms, None);
    }
}
