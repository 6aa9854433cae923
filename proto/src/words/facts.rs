//! The facts of an attempt, each declared once, in one row: the line to which it belongs, its name, its clause in a sentence, its value with
//! unit, and whether it is named when it is not known. Terminal, page and the reports of a run show lists of facts, and a comparison shows
//! two of them. A new fact is a row in `FACTS`.

use crate::{
    evidence, figures, measured,
    shown::clean,
    times,
    v1::{OomOrigin, Outcome, Source, Summary},
};

plimsoll_base::named_enum! {
    /// The lines of an attempt, in the order in which it is described. All facts of one line are one sentence.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Line {
        /// Where it ran, and for whom.
        Where => "where",
        /// How it ended.
        Result => "result",
        /// When, and how long.
        Time => "time",
        /// CPU used and requested.
        Cpu => "cpu",
        /// Memory needed and requested.
        Memory => "memory",
        /// Sentences about what was not measured. Each fact is a line of its own, without a title.
        Notes => "",
        /// What the kernel killed for memory.
        Killed => "killed",
        /// Time that the build lost because of limits.
        HeldBack => "held back",
        /// What was measured, and by which source.
        Samples => "samples",
        /// What was predicted at its start, against what came.
        Predicted => "predicted",
        /// Numbers without a place in a sentence: only lists of facts show them.
        Evidence => "evidence",
    }
}

/// How the value of a fact is read and formatted.
#[derive(Debug, Clone, Copy)]
enum Value {
    Bytes(fn(&Summary) -> Option<u64>),
    Millis(fn(&Summary) -> Option<u64>),
    Micros(fn(&Summary) -> Option<u64>),
    /// A number without a unit.
    Count(fn(&Summary) -> Option<u64>),
    Cores(fn(&Summary) -> Option<f64>),
    /// A point in time, milliseconds since 1970; shown in UTC.
    Time(fn(&Summary) -> Option<u64>),
    /// A value that is more than a number.
    Words(fn(&Summary) -> Option<String>),
}

/// One fact of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    line: Line,
    /// The name in a list of facts.
    pub name: &'static str,
    /// The clause with `{}` for the value; it begins with what separates it from the clause before.
    clause: &'static str,
    value: Value,
    /// Whether a value that is not known is shown as such. Other facts are left out.
    is_always_named: bool,
    /// Whether the fact has a card of its own, with the facts after it in its line as a note.
    has_card: bool,
}

use Value::{Bytes, Cores, Count, Micros, Millis, Time, Words};

/// All facts, in the order in which they are shown.
#[rustfmt::skip]
const FACTS: &[Fact] = &[
    fact(Line::Where, "pool", "pool {}", Words(|of| named(&of.pool))),
    fact(Line::Where, "trust", "; {}", Words(|of| of.untrusted.then(|| measured::NOT_TRUSTED.to_owned()))),
    fact(Line::Result, "result", "{}", Words(|of| Some(evidence::result(of)))),
    fact(Line::Result, "cause from", ", cause from the {}", Words(|of| named(evidence::source_in_words(&of.cause_source)))),
    fact(Line::Time, "ended", "{} UTC", Time(|of| (!is_running(of)).then(|| measured::ended_unix_ms(of)))),
    fact(Line::Time, "took", ", after {}", Millis(|of| (!is_running(of)).then_some(of.wall_ms))).card(),
    fact(Line::Time, "running since", "since {} UTC", Time(|of| is_running(of).then_some(of.started_unix_ms))),
    fact(Line::Time, "measured for", ", measured for {}", Millis(|of| is_running(of).then_some(of.wall_ms))),
    fact(Line::Cpu, "CPU time", "{}", Micros(measured::cpu_usec)).always_named().card(),
    fact(Line::Cpu, "CPU use", ", {}", Words(|of| measured::cpu_usec(of).map(|_| measured::cpu_words(of)))),
    fact(Line::Cpu, "CPU request", ", asked for {}", Cores(|of| of.resources?.cpu_request_cores)),
    fact(Line::Cpu, "CPU limit", ", limit {}", Cores(|of| of.resources?.cpu_limit_cores)),
    fact(Line::Memory, "need", "needed {}", Words(|of| measured::proven_need(of).map(|_| measured::noted_need_words(of)))).always_named().card(),
    fact(Line::Memory, "mean need", ", mean {}", Bytes(measured::mean_need)),
    fact(Line::Memory, "peak phase", ", most in {}", Words(|of| measured::proven_need(of).and_then(|_| named(&of.peak_phase)))),
    fact(Line::Memory, "with page cache", ", {} with page cache", Bytes(|of| Some(measured::memory_peak(of)?.max(measured::proven_need(of).unwrap_or(0))))),
    fact(Line::Memory, "asked for", "; asked for {}", Words(|of| Some(measured::memory_asked_words(of.resources.as_ref())))).card(),
    fact(Line::Memory, "need of that", " ({})", Words(measured::need_of_ask_words)),
    fact(Line::Killed, "killed for memory", "the kernel killed {}", Words(killed)),
    fact(Line::Killed, "whole group killed", ", the whole group {}", Words(|of| times_of(of.oom_group_kill))),
    fact(Line::HeldBack, "starved for", ", starved for {}", Millis(|of| measured::above_zero(of.starved_ms))),
    fact(Line::HeldBack, "stalled for memory for", ", stalled for memory for {}", Micros(|of| measured::above_zero(of.memory_stall_usec))),
    // the kernel adds up the time of all processors, so it may be longer than the attempt
    fact(Line::HeldBack, "throttled for", ", throttled for {} over all processors", Micros(|of| measured::above_zero(of.throttled_usec))),
    fact(Line::Samples, "samples", "{}", Words(samples)),
    fact(Line::Samples, "samples lost", ", {} lost", Count(|of| measured::above_zero(Some(of.samples_lost)))),
    fact(Line::Samples, "read from", ", from {}", Words(|of| measured::source_words(of.source()).map(str::to_owned))),
    fact(Line::Predicted, "predicted limit", "limit {}", Words(predicted_limit)).card(),
    fact(Line::Predicted, "predicted request", "; request {}", Words(predicted_request)),
    fact(Line::Predicted, "predicted time", "; time for 95 % {}", Words(predicted_time)),
    fact(Line::Predicted, "predicted CPU", "; CPU request {}", Words(predicted_cpu)),
    fact(Line::Notes, "done elsewhere", "{}", Words(measured::offloaded_sentence)),
    fact(Line::Notes, "not seen", "{}", Words(|of| measured::unseen_note(of).map(str::to_owned))),
    fact(Line::Notes, "need and page cache", "{}", Words(|of| measured::need_below_mark(of).map(str::to_owned))),
    fact(Line::Evidence, "began", "{}", Time(|of| Some(of.started_unix_ms))),
    fact(Line::Evidence, "exit code", "{}", Words(|of| Some(of.exit?.code?.to_string()))),
    fact(Line::Evidence, "killed for memory", "{}", Words(|of| (of.oom_kill == Some(0)).then(|| "no process".to_owned()))),
    fact(Line::Evidence, "failed charges", "{}", Count(|of| of.reclaim_failures)),
    fact(Line::Evidence, "pages read again", "{}", Count(|of| measured::above_zero(of.refaults))),
];

const fn fact(line: Line, name: &'static str, clause: &'static str, value: Value) -> Fact {
    Fact { line, name, clause, value, is_always_named: false, has_card: false }
}

impl Fact {
    const fn always_named(self) -> Self {
        Self { is_always_named: true, ..self }
    }

    const fn card(self) -> Self {
        Self { has_card: true, ..self }
    }

    /// The value as text; `None` if the fact is left out.
    pub fn value(&self, of: &Summary) -> Option<String> {
        let value = match self.value {
            Bytes(read) => read(of).map(figures::bytes),
            Millis(read) => read(of).map(figures::millis),
            Micros(read) => read(of).map(figures::micros),
            Count(read) => read(of).map(figures::count),
            Cores(read) => read(of).filter(|cores| *cores > 0.0).map(figures::cores),
            Time(read) => read(of).map(times::date_time),
            Words(read) => read(of),
        };
        value.or_else(|| self.is_always_named.then(|| figures::NOT_KNOWN.to_owned()))
    }
}

/// The facts of these lines with their values, in the order of declaration.
pub fn listed(of: &Summary, lines: &[Line]) -> Vec<(&'static Fact, String)> {
    let facts = FACTS.iter().filter(|fact| lines.contains(&fact.line));
    facts.filter_map(|fact| Some((fact, fact.value(of)?))).collect()
}

/// The facts of one line as a sentence; empty if none is known.
pub fn sentence(of: &Summary, line: Line) -> String {
    let clauses = listed(of, &[line]).into_iter().map(|(fact, value)| match value.as_str() {
        figures::NOT_KNOWN if fact.clause != "{}" => format!("; {} {value}", fact.name),
        value => fact.clause.replace("{}", value),
    });
    clauses.collect::<String>().trim_start_matches([',', ';', ' ']).to_owned()
}

/// A title and a sentence for each of these lines of which something is known.
pub fn sentences(of: &Summary, lines: &[Line]) -> Vec<(&'static str, String)> {
    let sentences = lines.iter().flat_map(|line| match line {
        Line::Evidence => Vec::new(),
        Line::Notes => listed(of, &[Line::Notes]).into_iter().map(|(_, note)| ("", note)).collect(),
        line => vec![(line.as_str(), sentence(of, *line))],
    });
    sentences.filter(|(_, text)| !text.is_empty()).collect()
}

/// The most important facts of a line: name, number, and the rest of the sentence up to the next card.
pub fn cards(of: &Summary, line: Line) -> Vec<(&'static str, String, String)> {
    let mut cards: Vec<(&str, String, String)> = Vec::new();
    for (fact, value) in listed(of, &[line]) {
        // without a predicted limit, the first of the other sizes has the card
        if fact.has_card || (line == Line::Predicted && cards.is_empty()) {
            let parts = value.split_once(": ").or_else(|| value.split_once(", "));
            let (number, note) = parts.unwrap_or((&value, ""));
            cards.push((fact.name, number.to_owned(), note.to_owned()));
        } else if let Some((_, _, note)) = cards.last_mut() {
            note.push_str(&fact.clause.replace("{}", &value));
        }
    }
    for (_, _, note) in &mut cards {
        *note = note.trim_start_matches([',', ';', ' ']).to_owned();
    }
    cards
}

fn is_running(of: &Summary) -> bool {
    of.outcome() == Outcome::Running
}

fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| clean(text))
}

fn times_of(number: Option<u64>) -> Option<String> {
    measured::above_zero(number).map(|number| figures::counted_as(number, "time", "times"))
}

fn samples(of: &Summary) -> Option<String> {
    let is_imported = of.source() == Source::Unspecified && of.samples == 0;
    Some(if is_imported { "none: the attempt was imported".to_owned() } else { figures::count(of.samples) })
}

fn predicted_limit(of: &Summary) -> Option<String> {
    let limit = measured::predicted_limit(of)?;
    let Some(need) = measured::proven_need(of) else { return Some(figures::bytes(limit)) };
    let held = measured::limit_sufficed(of).map(|held| format!("{}, ", held_words(of, held)));
    let (needed, share) = (measured::need_words(of), figures::share_of(need, limit));
    let held = held.unwrap_or_default();
    Some(format!("{}: {held}it needed {needed} ({share} of it)", figures::bytes(limit)))
}

fn predicted_request(of: &Summary) -> Option<String> {
    let request = measured::above_zero(measured::predicted(of).map(|sizes| sizes.memory_request_bytes))?;
    let share = measured::proven_need(of).map(|need| format!(": {} of it", figures::share_of(need, request)));
    Some(figures::bytes(request) + &share.unwrap_or_default())
}

/// Only of attempts that succeeded or still run: a failed attempt may have ended early.
fn predicted_time(of: &Summary) -> Option<String> {
    let is_comparable = is_running(of) || of.outcome() == Outcome::Succeeded;
    let most =
        measured::predicted(of).map(|sizes| sizes.wall_p95_ms).filter(|most| *most > 0 && is_comparable)?;
    let held = held_words(of, of.wall_ms <= most);
    Some(format!("{}: {held}, it took {}", figures::millis(most), figures::millis(of.wall_ms)))
}

fn predicted_cpu(of: &Summary) -> Option<String> {
    let request =
        measured::predicted(of).map(|sizes| sizes.cpu_request_cores).filter(|cores| *cores > 0.0)?;
    let used = measured::mean_cores(of).map(|used| format!(": it used {} on average", figures::cores(used)));
    Some(figures::cores_named(request) + &used.unwrap_or_default())
}

/// Words for whether a predicted size was enough.
fn held_words(of: &Summary, held: bool) -> &'static str {
    match held {
        true if is_running(of) => "held so far",
        true => "held",
        false => "too small",
    }
}

/// A need counts as having reached a limit if the limit exceeds it by at most this part (one eighth) of the limit.
const NEAR_LIMIT_PART: u64 = 8;

/// How many processes the kernel killed, and at which limit. If the need did not come close to the build's own limit, a part of the build
/// may have reached a lower limit that the build itself had set: the kernel's counters do not show which of the two it was.
fn killed(of: &Summary) -> Option<String> {
    let processes = figures::counted_as(measured::above_zero(of.oom_kill)?, "process", "processes");
    let limit = of.resources.and_then(|resources| resources.memory_limit_bytes);
    let is_near = |limit| of.need_peak_bytes.is_none_or(|need| need >= limit - limit / NEAR_LIMIT_PART);
    let place = match of.oom_origin() {
        OomOrigin::Unspecified => "for memory",
        OomOrigin::OwnLimit if !limit.is_some_and(is_near) => {
            "at the build's own limit, or at one that the build set itself"
        }
        OomOrigin::OwnLimit => "at the build's own limit",
        OomOrigin::LimitAbove => "at a limit above the build's own, which others may share",
        OomOrigin::Host => "because the whole machine had no memory left",
    };
    Some(format!("{processes} {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Resources;

    fn build() -> Summary {
        Summary {
            need_peak_bytes: Some(1 << 30),
            resources: Some(Resources { memory_request_bytes: Some(2 << 30), ..Resources::default() }),
            wall_ms: 61_000,
            ..Summary::default()
        }
    }

    #[test]
    fn sentence_list_and_cards_show_the_same_facts() {
        let killed = Summary { oom_kill: Some(2), oom_origin: OomOrigin::OwnLimit.into(), ..build() };
        let memory = "needed 1.00 GiB; asked for 2.00 GiB, no limit (50 % of it needed)";
        assert_eq!(sentence(&killed, Line::Memory), memory);
        let values: Vec<String> =
            listed(&killed, &[Line::Memory]).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["1.00 GiB", "2.00 GiB, no limit", "50 % of it needed"]);
        let card = |name, number: &str, note: &str| (name, number.to_owned(), note.to_owned());
        let expected =
            [card("need", "1.00 GiB", ""), card("asked for", "2.00 GiB", "no limit (50 % of it needed)")];
        assert_eq!(cards(&killed, Line::Memory), expected);
        assert_eq!(sentence(&build(), Line::Killed), "");
        assert_eq!(cards(&build(), Line::Time), [card("took", "1 min 1 s", "")]);
        for (limit, place) in [(None, ", or at one that the build set itself"), (Some(9 << 27), "")] {
            let resources = Some(Resources { memory_limit_bytes: limit, ..Resources::default() });
            let sentence = sentence(&Summary { resources, ..killed.clone() }, Line::Killed);
            assert_eq!(sentence, format!("the kernel killed 2 processes at the build's own limit{place}"));
        }
    }

    #[test]
    fn unknown_facts_are_left_out_or_named() {
        let nothing = Summary::default();
        let of =
            |lines: &[Line]| sentences(&nothing, lines).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(of(&[Line::Memory, Line::Cpu]), ["need not known; asked for nothing", "not known"]);
        assert_eq!(of(&[Line::Where, Line::Notes, Line::Killed, Line::HeldBack]), [""; 0]);
    }
}
