//! Parses the table `[tickets]` of the operator's file, and the limits that pools and kinds set.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    time::Duration,
};

use toml::Spanned;

use super::{PlacementReader, pools::is_name, shortened, tables::TicketsTable};
use crate::placement::{
    Placement, subject,
    tickets::{LimitKey, TicketLimits, TicketTerms, TicketTimeouts},
};

/// Highest value of `most_open`: with more open tickets, memory and the time of a restart become a problem.
const MAX_OPEN: u32 = 1_000_000;
/// Most tags with a limit in a file; one ticket may have all of them.
const MAX_TAGS: usize = 16;
/// Longest name of an owner or tag that has a limit, bytes.
const NAME_BYTES: usize = 256;
/// Allowed range of the settings for how long a ticket stays open without a sign of life.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// Allowed range of the setting for how long an agent may be silent. An agent sends something every few seconds, and reconnects after a
/// restart of the server.
const SILENCE_RANGE: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(24);

impl PlacementReader<'_> {
    pub(super) fn read_terms(&mut self, table: TicketsTable, placement: &Placement) -> TicketTerms {
        let mut most = HashMap::new();
        let mut name = |what: LimitKey, limit: Option<u32>| most.extend(limit.map(|limit| (what, limit)));
        name(LimitKey::All, self.read_limit("at_once", table.at_once));
        for (owner, limit) in self.read_named_limits("owner", table.owner) {
            name(LimitKey::Owner(owner), Some(limit));
        }
        for (tag, limit) in self.read_tag_limits(table.tag) {
            name(LimitKey::Tag(tag), Some(limit));
        }
        for (arch, limit) in self.read_arch_limits(table.arch) {
            name(LimitKey::Arch(arch), Some(limit));
        }
        for pool in &placement.pools {
            name(LimitKey::Pool(pool.name.clone()), pool.at_once);
        }
        for (kind, policy) in &placement.kinds {
            name(LimitKey::Kind(kind.as_str().to_owned()), policy.at_once);
        }
        let TicketTerms { timeouts: usual, most_open, .. } = TicketTerms::default();
        let mut time = |field: &str, text, range, usual| self.time(field, text, range, usual);
        let timeouts = TicketTimeouts {
            ask_within_ms: time("ask_within", table.ask_within, &TIMEOUT_RANGE, usual.ask_within_ms),
            start_within_ms: time("start_within", table.start_within, &TIMEOUT_RANGE, usual.start_within_ms),
            silent_within_ms: time(
                "silent_within",
                table.silent_within,
                &SILENCE_RANGE,
                usual.silent_within_ms,
            ),
        };
        TicketTerms {
            limits: TicketLimits {
                each_owner: self.read_limit("each_owner", table.each_owner),
                other_limits: most,
                pools: placement.pools.iter().map(|pool| pool.name.clone()).collect(),
            },
            timeouts,
            most_open: self.read_most_open(table.most_open).unwrap_or(most_open),
        }
    }

    fn read_limit(&mut self, field: &str, number: Option<Spanned<u32>>) -> Option<u32> {
        let number = number?;
        if *number.get_ref() == 0 {
            let line = self.line_of(&number);
            self.add_mistake(
                line,
                format!("tickets: {field} is 0, so nothing could run; leave it out for no limit"),
            );
        }
        Some(number.into_inner())
    }

    fn read_named_limits(
        &mut self,
        table: &str,
        limits: BTreeMap<String, Spanned<u32>>,
    ) -> Vec<(String, u32)> {
        let mut named = Vec::new();
        for (name, number) in limits {
            let line = self.line_of(&number);
            if name.is_empty() || name.len() > NAME_BYTES {
                self.add_mistake(line, format!("tickets.{table}: a name has 1 to {NAME_BYTES} bytes"));
            }
            let limit = self.read_limit(&format!("{table}.{}", shortened(&name)), Some(number));
            named.extend(limit.map(|limit| (name, limit)));
        }
        named
    }

    fn read_tag_limits(&mut self, limits: BTreeMap<String, Spanned<u32>>) -> Vec<(String, u32)> {
        for (n, (tag, number)) in limits.iter().enumerate() {
            let line = self.line_of(number);
            if !is_name(tag) {
                self.add_mistake(
                    line,
                    format!("tickets.tag: {:?} is not 1 to 63 of A-Z a-z 0-9 . _ -", shortened(tag)),
                );
            }
            if n == MAX_TAGS {
                self.add_mistake(line, format!("tickets.tag: at most {MAX_TAGS} tags can be limited"));
            }
        }
        self.read_named_limits("tag", limits)
    }

    fn read_arch_limits(&mut self, limits: BTreeMap<String, Spanned<u32>>) -> Vec<(String, u32)> {
        let lines: BTreeMap<String, usize> =
            limits.iter().map(|(name, number)| (name.clone(), self.line_of(number))).collect();
        let mut archs = Vec::new();
        for (name, limit) in self.read_named_limits("arch", limits) {
            let family = subject::family_of_arch(&name);
            if family.is_empty() {
                let line = lines.get(&name).copied().unwrap_or(1);
                let text = format!(
                    "tickets: arch {:?} is not known; write it as x86_64 or aarch64",
                    shortened(&name)
                );
                self.add_mistake(line, text);
            }
            archs.push((family.to_owned(), limit));
        }
        archs
    }

    fn read_most_open(&mut self, number: Option<Spanned<u32>>) -> Option<usize> {
        let number = number?;
        if !(1..=MAX_OPEN).contains(number.get_ref()) {
            let text = format!("tickets: most_open is {}; it must be 1 to {MAX_OPEN}", number.get_ref());
            self.add_mistake(self.line_of(&number), text);
        }
        usize::try_from(number.into_inner()).ok()
    }

    /// Parses a time; the result is in milliseconds.
    fn time(
        &mut self,
        field: &str,
        text: Option<Spanned<String>>,
        times: &RangeInclusive<Duration>,
        otherwise: u64,
    ) -> u64 {
        let Some(text) = text else { return otherwise };
        match humantime::parse_duration(text.get_ref()) {
            Ok(time) if times.contains(&time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            _ => {
                let why = format!(
                    "tickets: {field}: {:?} is not a time of {} s to 24 h, such as 15m",
                    shortened(text.get_ref()),
                    times.start().as_secs()
                );
                self.add_mistake(self.line_of(&text), why);
                otherwise
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_limits_come_from_table_pools_and_kinds() {
        let text = "[[pool]]\nname = \"big\"\nat_once = 4\n[kind.auto]\nat_once = 2\n[tickets]\nat_once = 9\n\
                    each_owner = 3\nmost_open = 7\nask_within = \"30s\"\nstart_within = \"1h\"\n[tickets.owner]\n\
                    \"a b\" = 5\n[tickets.tag]\nlicence = 1\n[tickets.arch]\narm64 = 6\n";
        let TicketTerms { limits, timeouts: patience, most_open } = Placement::parse(text).unwrap().terms;
        let named = |text: &str| text.to_owned();
        for (what, most) in [
            (LimitKey::All, Some(9)),
            (LimitKey::Pool(named("big")), Some(4)),
            (LimitKey::Pool(named("gone")), Some(0)),
            (LimitKey::Kind(named("auto")), Some(2)),
            (LimitKey::Kind(named("explicit")), None),
            (LimitKey::Owner(named("a b")), Some(5)),
            (LimitKey::Owner(named("c")), Some(3)),
            (LimitKey::Tag(named("licence")), Some(1)),
            (LimitKey::Arch(named("aarch64")), Some(6)),
        ] {
            assert_eq!(limits.limit_of(&what), most, "{what}");
        }
        assert_eq!((patience.ask_within_ms, patience.start_within_ms, most_open), (30_000, 3_600_000, 7));
        assert_eq!(Placement::parse("").unwrap().terms, TicketTerms::default());
    }

    #[test]
    fn ticket_table_mistakes_are_reported_with_their_line() {
        let text = "[tickets]\nat_once = 0\neach_owner = 0\nmost_open = 0\nask_within = \"soon\"\n\
                    start_within = \"1ms\"\nsilent_within = \"9s\"\n[tickets.owner]\na = 0\n[tickets.tag]\n\"x y\" = 1\n[tickets.arch]\n\
                    mars = 1\n";
        let wrong = Placement::parse(text).unwrap_err();
        for part in [
            "line 2: tickets: at_once is 0, so nothing could run",
            "line 3: tickets: each_owner is 0",
            "line 4: tickets: most_open is 0",
            "line 5: tickets: ask_within: \"soon\" is not a time",
            "line 6: tickets: start_within: \"1ms\"",
            "line 7: tickets: silent_within: \"9s\" is not a time of 10 s to 24 h",
            "line 9: tickets: owner.a is 0",
            "line 11: tickets.tag: \"x y\" is not 1 to 63",
            "line 13: tickets: arch \"mars\" is not known",
        ] {
            assert!(wrong.contains(part), "{part} is missing in\n{wrong}");
        }
        assert!(Placement::parse("[tickets]\nat_onc = 1\n").unwrap_err().contains("at_onc"));
    }
}
