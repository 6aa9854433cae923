//! The facts of an attempt and of statistics, each declared once, in one row: the line to which it belongs, its name, its clause in a
//! sentence, its value with unit, and whether it is named when it is not known. Terminal, page and the reports of a run show lists of facts,
//! and a comparison shows two of them. A new fact is a row in `FACTS` of `attempt` or `statistics`.

mod attempt;
mod statistics;

use crate::{figures, times};

plimsoll_base::named_enum! {
    /// The lines of an attempt or of statistics, in the order in which they are described. All facts of one line are one sentence.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Line {
        /// How many attempts there are, and how they ended.
        Attempts => "attempts",
        /// What failed, by cause.
        Failures => "failures",
        /// What was retried, and what that helped.
        Retries => "retries",
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
        /// The largest process, and how many ran at once.
        Processes => "processes",
        /// Money for what was requested.
        Money => "money",
        /// Time that the build lost because of limits.
        HeldBack => "held back",
        /// What rescue did at the memory limit, or would have done; of many attempts: what it saved, and what that cost.
        Rescue => "rescue",
        /// What was measured, and by which source.
        Samples => "samples",
        /// What was predicted at its start, against what came.
        Predicted => "predicted",
        /// What predicted sizes would have changed.
        WouldBe => "would be",
        /// Numbers without a place in a sentence: only lists of facts show them.
        Evidence => "evidence",
    }
}

/// How the value of a fact is read and formatted.
#[derive(Debug)]
enum Value<T> {
    Bytes(fn(&T) -> Option<u64>),
    Millis(fn(&T) -> Option<u64>),
    Micros(fn(&T) -> Option<u64>),
    /// A number without a unit.
    Count(fn(&T) -> Option<u64>),
    Cores(fn(&T) -> Option<f64>),
    /// A point in time, milliseconds since 1970; shown in UTC.
    Time(fn(&T) -> Option<u64>),
    /// A value that is more than a number.
    Words(fn(&T) -> Option<String>),
}

/// What is described by facts.
pub trait Described: Sized + 'static {
    /// All facts, in the order in which they are shown.
    const FACTS: &'static [Fact<Self>];
}

/// One fact.
#[derive(Debug)]
pub struct Fact<T> {
    line: Line,
    /// The name in a list of facts.
    pub name: &'static str,
    /// The clause with `{}` for the value; it begins with what separates it from the clause before.
    clause: &'static str,
    value: Value<T>,
    /// Whether a value that is not known is shown as such. Other facts are left out.
    is_always_named: bool,
    /// Whether the fact has a card of its own, with the facts after it in its line as a note.
    has_card: bool,
}

use Value::{Bytes, Cores, Count, Micros, Millis, Time, Words};

const fn fact<T>(line: Line, name: &'static str, clause: &'static str, value: Value<T>) -> Fact<T> {
    Fact { line, name, clause, value, is_always_named: false, has_card: false }
}

const fn always_named<T>(fact: Fact<T>) -> Fact<T> {
    Fact { is_always_named: true, ..fact }
}

const fn card<T>(fact: Fact<T>) -> Fact<T> {
    Fact { has_card: true, ..fact }
}

impl<T> Fact<T> {
    /// The value as text; `None` if the fact is left out.
    pub fn value(&self, of: &T) -> Option<String> {
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

/// What separates the first clause from nothing before it.
const SEPARATORS: [char; 4] = [',', ';', ':', ' '];

/// The facts of these lines with their values, in the order of declaration.
pub fn listed<T: Described>(of: &T, lines: &[Line]) -> Vec<(&'static Fact<T>, String)> {
    let facts = T::FACTS.iter().filter(|fact| lines.contains(&fact.line));
    facts.filter_map(|fact| Some((fact, fact.value(of)?))).collect()
}

/// The facts of one line as a sentence; empty if none is known.
pub fn sentence<T: Described>(of: &T, line: Line) -> String {
    let clauses = listed(of, &[line]).into_iter().map(|(fact, value)| match value.as_str() {
        figures::NOT_KNOWN if fact.clause != "{}" => format!("; {} {value}", fact.name),
        value => fact.clause.replace("{}", value),
    });
    clauses.collect::<String>().trim_start_matches(SEPARATORS).to_owned()
}

/// A title and a sentence for each of these lines of which something is known.
pub fn sentences<T: Described>(of: &T, lines: &[Line]) -> Vec<(&'static str, String)> {
    let sentences = lines.iter().flat_map(|line| match line {
        Line::Evidence => Vec::new(),
        Line::Notes => listed(of, &[Line::Notes]).into_iter().map(|(_, note)| ("", note)).collect(),
        line => vec![(line.as_str(), sentence(of, *line))],
    });
    sentences.filter(|(_, text)| !text.is_empty()).collect()
}

/// The most important facts of a line: name, number, and the rest of the sentence up to the next card.
pub fn cards<T: Described>(of: &T, line: Line) -> Vec<(&'static str, String, String)> {
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
        *note = note.trim_start_matches(SEPARATORS).to_owned();
    }
    cards
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{OomOrigin, Resources, Summary};

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
