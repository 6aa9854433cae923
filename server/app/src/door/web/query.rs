//! The query of a page's address: its parameters, and the chosen time range, project and stack.

use axum::http::Uri;
use plimsoll_core::domain::FieldViolation;
use plimsoll_pages::view::{Fields, ReaderChoice, TimeRange};
use plimsoll_proto::limits;

use crate::runtime::clock::Clock;

/// Most bytes of a query.
const QUERY_BYTES: usize = 16 * 1024;

/// The names of all parameters of pages and their JSON. A page accepts the parameters of other
/// pages, because links carry them along.
const PARAMETER_NAMES: [&str; 25] = [
    "range",
    "project",
    "stack",
    "package",
    "version",
    "compiler",
    "arch",
    "pool",
    "owner",
    "ref_class",
    "outcome",
    "cause",
    "signature",
    "order",
    "sort",
    "q",
    "page",
    "page_size",
    "page_token",
    "group_by",
    "group_label",
    "step_ms",
    "from_unix_ms",
    "to_unix_ms",
    "max_samples",
];
/// Least similarity (Jaro-Winkler, 0 to 1) at which an unknown name is taken for a misspelt known
/// one.
const MIN_NAME_SIMILARITY: f64 = 0.8;

/// The error for an unknown name; it suggests the most similar known name.
fn unknown(name: &str) -> FieldViolation {
    let alike = PARAMETER_NAMES.iter().map(|known| (strsim::jaro_winkler(name, known), *known));
    let nearest = alike.filter(|(alike, _)| *alike >= MIN_NAME_SIMILARITY).max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = nearest.map_or(String::new(), |(_, known)| format!(" (did you mean {known}?)"));
    let known = PARAMETER_NAMES.join(", ");
    FieldViolation::new(name, format!("is not known here{hint}; there are {known}"))
}

/// Parses the query of an address.
/// Errors: the query is invalid.
pub(super) fn asked(uri: &Uri) -> Result<(Query, ReaderChoice), FieldViolation> {
    let query = Query::of(uri)?;
    let view = view_of(&query, Clock.now_unix_ms())?;
    Ok((query, view))
}

/// The parameters of a query, within their bounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Fields);

impl Query {
    /// Parses the query of an address.
    /// Errors: the query or one of its values is too long, or a name is unknown.
    pub(super) fn of(uri: &Uri) -> Result<Self, FieldViolation> {
        let text = uri.query().unwrap_or_default();
        if text.len() > QUERY_BYTES {
            let rule = format!("has {} bytes, at most {QUERY_BYTES} are read", text.len());
            return Err(FieldViolation::new("query", rule));
        }
        let pairs: Vec<(String, String)> = form_urlencoded::parse(text.as_bytes()).into_owned().collect();
        let too_long =
            pairs.iter().find(|(name, value)| value.len() > limits::KEY_FIELD_BYTES && name != "page_token");
        match too_long {
            Some((name, value)) => {
                let name: String = name.chars().take(40).collect();
                let rule =
                    format!("has {} bytes, at most {} are allowed", value.len(), limits::KEY_FIELD_BYTES);
                Err(FieldViolation::new(name, rule))
            }
            None => match pairs.iter().find(|(name, _)| !PARAMETER_NAMES.contains(&name.as_str())) {
                Some((name, _)) => Err(unknown(&name.chars().take(40).collect::<String>())),
                None => Ok(Self(Fields::new(pairs))),
            },
        }
    }

    /// All parameters, for links of the page.
    pub(super) fn fields(&self) -> &Fields {
        &self.0
    }

    /// The first value of this name, trimmed; empty if there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name)
    }

    /// A whole number; `None` if it is missing.
    /// Errors: the value is not a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, FieldViolation> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_no_number| {
                let shown: String = text.chars().take(40).collect();
                FieldViolation::new(name, format!("is {shown:?}, which is no whole number"))
            }),
        }
    }
}

/// The chosen range, project and stack.
/// Errors: the time range is none of those offered.
fn view_of(query: &Query, now_unix_ms: u64) -> Result<ReaderChoice, FieldViolation> {
    let range = match query.get("range") {
        "" => TimeRange::default(),
        text => TimeRange::parse(text).ok_or_else(|| {
            FieldViolation::new("range", format!("is {text:?}; it may be 24h, 7d, 30d or all"))
        })?,
    };
    let (project, stack) = (query.get("project").to_owned(), query.get("stack").to_owned());
    Ok(ReaderChoice { range, project, stack, now_unix_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, FieldViolation> {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn a_choice_is_carried_on_in_every_link() {
        let view = view_of(&query("range=7d&project=a/b&stack=%3Cs%3E+t").unwrap(), 0).unwrap();
        let link = view.link("/packages", &[("sort", "waste"), ("q", "")]);
        assert_eq!(link, "/packages?sort=waste&range=7d&project=a%2Fb&stack=%3Cs%3E+t");
        let again = view_of(&Query::of(&link.parse().unwrap()).unwrap(), 0).unwrap();
        assert_eq!((again.range, again.stack.as_str()), (TimeRange::Week, "<s> t"));
        assert_eq!(ReaderChoice::default().link("/", &[]), "/", "a default is left out");
    }

    #[test]
    fn what_cannot_be_chosen_is_named() {
        let view = |text| view_of(&query(text)?, 0).map(|_| ());
        assert_eq!(view("range=never").unwrap_err().field, "range");
        let long = format!("project={}", "x".repeat(300));
        assert_eq!(view(&long).unwrap_err().field, "project");
        assert_eq!(view(&"y".repeat(20_000)).unwrap_err().field, "query");
        let typo = query("range=7d&packge=zlib").unwrap_err();
        assert_eq!(typo.field, "packge");
        let typo = typo.description;
        assert!(typo.starts_with("is not known here (did you mean package?); there are range, "), "{typo}");
        assert_eq!(query("limit=-1").unwrap_err().field, "limit");
        assert_eq!(query("page=-1").unwrap().number("page").unwrap_err().field, "page");
    }
}
