//! What a reader has chosen: the time, the project and the stack. All links of a page carry it on.

use axum::http::Uri;
use form_urlencoded::Serializer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plimsoll_proto::{limits, v1 as pb};

use crate::domain::Fault;

/// Bytes of a query that are read at all.
const QUERY_BYTES: usize = 16 * 1024;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// What may stand in a path as it is: what RFC 3986 calls unreserved.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How far back a page looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Range {
    Day,
    Week,
    #[default]
    Month,
    All,
}

impl Range {
    pub(super) const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::All];

    /// As it stands in an address.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::All => "all",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
            Self::All => "all time",
        }
    }

    /// For people, within a sentence.
    pub(super) fn during(self) -> &'static str {
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

    /// Width of a step of its series. Without an end in sight the first try is a day, then [`Self::wider`].
    pub(super) fn step_ms(self) -> u64 {
        match self {
            Self::Day => HOUR,
            Self::Week => 6 * HOUR,
            Self::Month | Self::All => DAY,
        }
    }

    /// A step with which any time that a clock can tell has few enough steps: about a month.
    pub(super) const WIDER_MS: u64 = 30 * DAY;

    fn parse(text: &str) -> Result<Self, Fault> {
        let known = Self::ALL.into_iter().find(|range| range.as_str() == text);
        known.ok_or_else(|| Fault::new("range", format!("is {text:?}; it may be 24h, 7d, 30d or all")))
    }
}

/// Pairs of a query, as a browser writes them.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// It is too long, or one of its values is.
    pub(super) fn of(uri: &Uri) -> Result<Self, Fault> {
        let text = uri.query().unwrap_or_default();
        if text.len() > QUERY_BYTES {
            let rule = format!("has {} bytes, at most {QUERY_BYTES} are read", text.len());
            return Err(Fault::new("query", rule));
        }
        let pairs: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        let too_long =
            pairs.iter().find(|(name, value)| value.len() > limits::KEY_FIELD_BYTES && name != "page_token");
        match too_long {
            Some((name, value)) => {
                let name: String = name.chars().take(40).collect();
                let rule =
                    format!("has {} bytes, at most {} are allowed", value.len(), limits::KEY_FIELD_BYTES);
                Err(Fault::new(name, rule))
            }
            None => Ok(Self(pairs)),
        }
    }

    /// The first value of this name without white space around it; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    /// A whole number; `None` if it is not there.
    ///
    /// # Errors
    /// It is no number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Fault> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_no_number| {
                let said: String = text.chars().take(40).collect();
                Fault::new(name, format!("is {said:?}, which is no whole number"))
            }),
        }
    }
}

/// What a reader has chosen.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) range: Range,
    pub(super) project: String,
    pub(super) stack: String,
    /// Now, by the server's clock.
    pub(super) now_unix_ms: u64,
}

impl View {
    /// The choice that an address holds.
    ///
    /// # Errors
    /// A range that is not one of those that are offered.
    pub(super) fn of(query: &Query, now_unix_ms: u64) -> Result<Self, Fault> {
        let range = match query.get("range") {
            "" => Range::default(),
            text => Range::parse(text)?,
        };
        let (project, stack) = (query.get("project").to_owned(), query.get("stack").to_owned());
        Ok(Self { range, project, stack, now_unix_ms })
    }

    /// The same choice for the services.
    pub(super) fn filter(&self) -> pb::Filter {
        let from_unix_ms = self.range.length_ms().map(|length| self.now_unix_ms.saturating_sub(length));
        pb::Filter {
            project: self.project.clone(),
            stack: self.stack.clone(),
            from_unix_ms,
            ..pb::Filter::default()
        }
    }

    /// Where the choice begins; `None` for all time.
    pub(super) fn from_unix_ms(&self) -> Option<u64> {
        self.filter().from_unix_ms
    }

    /// The same choice with another range.
    pub(super) fn with(&self, range: Range) -> Self {
        Self { range, ..self.clone() }
    }

    /// What the choice adds to an address.
    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let range = if self.range == Range::default() { "" } else { self.range.as_str() };
        let pairs = [("range", range), ("project", &self.project), ("stack", &self.stack)];
        pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// An address that carries the choice on. Pairs without a value are left out.
    pub(super) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.extend_pairs(self.pairs());
        match query.finish().as_str() {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// The page of a package. A browser reads `.` and `..` in a path as something else: these are shown as a list of attempts.
    pub(super) fn package(&self, name: &str) -> String {
        match name {
            "." | ".." | "" => self.link("/attempts", &[("package", name)]),
            name => self.link(&format!("/packages/{}", utf8_percent_encode(name, PATH)), &[]),
        }
    }

    /// The page of an attempt.
    pub(super) fn attempt(&self, id: &str) -> String {
        self.link(&format!("/attempts/{}", utf8_percent_encode(id, PATH)), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, Fault> {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn a_choice_is_carried_on_in_every_link() {
        let view = View::of(&query("range=7d&project=a/b&stack=%3Cs%3E+t").unwrap(), 0).unwrap();
        let link = view.link("/packages", &[("sort", "waste"), ("q", "")]);
        assert_eq!(link, "/packages?sort=waste&range=7d&project=a%2Fb&stack=%3Cs%3E+t");
        let again = View::of(&Query::of(&link.parse().unwrap()).unwrap(), 0).unwrap();
        assert_eq!((again.range, again.stack.as_str()), (Range::Week, "<s> t"));
        assert_eq!(View::default().link("/", &[]), "/", "what is usual is not said");
    }

    #[test]
    fn names_with_slashes_and_percent_signs_stay_one_part_of_a_path() {
        let view = View::default();
        assert_eq!(view.attempt("gitlab.com:1/2%2F"), "/attempts/gitlab.com%3A1%2F2%252F");
        assert_eq!(view.package("a/../b"), "/packages/a%2F..%2Fb");
        assert_eq!(view.package(".."), "/attempts?package=..");
    }

    #[test]
    fn what_cannot_be_chosen_is_named() {
        let view = |text| View::of(&query(text)?, 0).map(|_| ());
        assert_eq!(view("range=never").unwrap_err().field, "range");
        let long = format!("project={}", "x".repeat(300));
        assert_eq!(view(&long).unwrap_err().field, "project");
        assert_eq!(view(&"y".repeat(20_000)).unwrap_err().field, "query");
        assert_eq!(query("page=-1").unwrap().number("page").unwrap_err().field, "page");
    }

    #[test]
    fn a_month_before_the_first_clock_is_the_beginning() {
        let early = View::of(&Query::default(), 5).unwrap();
        assert_eq!(early.filter().from_unix_ms, Some(0));
        assert_eq!(early.with(Range::All).filter().from_unix_ms, None);
    }
}
