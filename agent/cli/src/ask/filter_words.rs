//! Describes a filter in words, for the heading of an answer.

use plimsoll_proto::{
    WireEnum as _,
    shown::clean,
    times,
    v1::{Cause, Filter, Outcome},
};

/// For example `package zlib, since 2026-11-14 10:00 UTC`; `all attempts` without a filter.
pub(super) fn filter_words(filter: &Filter) -> String {
    let names = [
        ("project", &filter.project),
        ("stack", &filter.stack),
        ("package", &filter.package),
        ("version", &filter.version),
        ("compiler", &filter.compiler),
        ("arch", &filter.arch),
        ("pool", &filter.pool),
        ("refs of class", &filter.ref_class),
        ("owner", &filter.owner),
    ];
    let given = names.into_iter().filter(|(_, value)| !value.is_empty());
    let mut parts: Vec<String> = given.map(|(name, value)| format!("{name} {}", clean(value))).collect();
    let mut labels: Vec<_> = filter.labels.iter().collect();
    labels.sort_unstable();
    parts.extend(labels.into_iter().map(|(name, value)| format!("label {}={}", clean(name), clean(value))));
    let canceled = filter.outcome() == Outcome::Failed && filter.cause() == Cause::Canceled;
    if canceled {
        parts.push("outcome canceled".to_owned());
    } else if filter.outcome() != Outcome::Unspecified {
        parts.push(format!("outcome {}", filter.outcome().word()));
    }
    if filter.cause() != Cause::Unspecified && !canceled {
        parts.push(format!("cause {}", filter.cause().word()));
    }
    let times = [("since", filter.from_unix_ms), ("until", filter.to_unix_ms)];
    let times = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
    parts.extend(times.map(|(name, time)| format!("{name} {} UTC", times::date_time(time))));
    if parts.is_empty() { "all attempts".to_owned() } else { parts.join(", ") }
}
