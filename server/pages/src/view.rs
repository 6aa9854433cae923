//! What a reader has chosen: the time, the project and the stack. All links of a page carry it on.

use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plimsoll_proto::v1 as pb;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// Characters that need no escape in a path: those that RFC 3986 calls unreserved.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How far back a page looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Range {
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    #[default]
    Month,
    /// All time.
    All,
}

impl Range {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::All];

    /// The range's value in an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::All => "all",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
            Self::All => "all time",
        }
    }

    /// For people, within a sentence.
    pub fn during(self) -> &'static str {
        match self {
            Self::Day => "in the last 24 hours",
            Self::Week => "in the last 7 days",
            Self::Month => "in the last 30 days",
            Self::All => "since the beginning",
        }
    }

    fn length_ms(self) -> Option<u64> {
        match self {
            Self::Day => Some(DAY),
            Self::Week => Some(7 * DAY),
            Self::Month => Some(30 * DAY),
            Self::All => None,
        }
    }

    /// Width of a step of its series. Without an end in sight the first try is a day, then [`Self::WIDER_MS`].
    pub fn step_ms(self) -> u64 {
        match self {
            Self::Day => HOUR,
            Self::Week => 6 * HOUR,
            Self::Month | Self::All => DAY,
        }
    }

    /// A step, ms, with which any possible range has few enough steps: about a month.
    pub const WIDER_MS: u64 = 30 * DAY;

    /// The range that an address names.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.as_str() == text)
    }
}

/// Pairs of a query, as a browser writes them.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// A query of these pairs of name and value.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The first value of this name without white space around it; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }
}

/// The choices of a reader: range, filter, units.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// How far back.
    pub range: Range,
    /// One project; empty for all.
    pub project: String,
    /// One stack; empty for all.
    pub stack: String,
    /// Now, by the server's clock.
    pub now_unix_ms: u64,
}

impl View {
    /// The choice as a filter for the services.
    pub fn filter(&self) -> pb::Filter {
        let from_unix_ms = self.range.length_ms().map(|length| self.now_unix_ms.saturating_sub(length));
        pb::Filter {
            project: self.project.clone(),
            stack: self.stack.clone(),
            from_unix_ms,
            ..pb::Filter::default()
        }
    }

    /// Where the choice begins; `None` for all time.
    pub fn since_unix_ms(&self) -> Option<u64> {
        self.filter().from_unix_ms
    }

    /// The choice with another range.
    #[must_use]
    pub fn with(&self, range: Range) -> Self {
        Self { range, ..self.clone() }
    }

    /// The pairs that the choice adds to an address.
    pub fn pairs(&self) -> Vec<(&'static str, &str)> {
        let range = if self.range == Range::default() { "" } else { self.range.as_str() };
        let pairs = [("range", range), ("project", &self.project), ("stack", &self.stack)];
        pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// An address that carries the choice on. Pairs without a value are left out.
    pub fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.extend_pairs(self.pairs());
        match query.finish().as_str() {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// The page of a package. A browser reads `.` and `..` in a path as something else: these are shown as a list of attempts.
    pub fn package(&self, name: &str) -> String {
        match name {
            "." | ".." | "" => self.link("/attempts", &[("package", name)]),
            name => self.link(&format!("/packages/{}", utf8_percent_encode(name, PATH)), &[]),
        }
    }

    /// The page of an attempt.
    pub fn attempt(&self, id: &str) -> String {
        self.link(&format!("/attempts/{}", utf8_percent_encode(id, PATH)), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_slashes_and_percent_signs_stay_one_part_of_a_path() {
        let view = View::default();
        assert_eq!(view.attempt("gitlab.com:1/2%2F"), "/attempts/gitlab.com%3A1%2F2%252F");
        assert_eq!(view.package("a/../b"), "/packages/a%2F..%2Fb");
        assert_eq!(view.package(".."), "/attempts?package=..");
    }

    #[test]
    fn a_month_before_the_first_clock_is_the_beginning() {
        let early = View { now_unix_ms: 5, ..View::default() };
        assert_eq!(early.filter().from_unix_ms, Some(0));
        assert_eq!(early.with(Range::All).filter().from_unix_ms, None);
    }
}
