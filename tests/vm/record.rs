//! What the machine told of each scenario. It boots once for all tests.

use std::{collections::BTreeMap, env, sync::LazyLock};

use serde_json::Value;

use crate::{machine, packages::Packages};

/// Makes a missing package a failure. A check that counts on these tests sets it.
const REQUIRED: &str = "PLIMSOLL_VM_REQUIRED";

/// One scenario.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// By name: `exit`, the exit status of the agent; `line`, the last that it said; and what the kernel showed.
    facts: BTreeMap<String, String>,
    /// What the server knows of the attempt.
    shown: String,
}

static RECORDS: LazyLock<Result<BTreeMap<String, Record>, String>> =
    LazyLock::new(|| Packages::find().map(|packages| parse(&machine::boot(&packages))));

/// What is known of a scenario; `None` if there can be no virtual machine here, for a reason that is printed.
pub(crate) fn record(name: &str) -> Option<&'static Record> {
    match RECORDS.as_ref() {
        Ok(records) => {
            Some(records.get(name).unwrap_or_else(|| panic!("the machine told nothing of {name}")))
        }
        Err(reason) => {
            assert!(env::var_os(REQUIRED).is_none(), "no virtual machine: {reason}");
            eprintln!("skipped: no virtual machine: {reason}");
            None
        }
    }
}

/// What is known of a scenario, and the summary of its attempt.
pub(crate) fn record_and_summary(name: &str) -> Option<(&'static Record, Value)> {
    record(name).map(|record| (record, record.summary()))
}

impl Record {
    /// A fact as text.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// A fact as a number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.fact(name).trim().parse().unwrap_or_else(|error| panic!("{name}: {error} in {self:?}"))
    }

    /// The summary of the attempt.
    pub(crate) fn summary(&self) -> Value {
        self.attempt()["summary"].clone()
    }

    /// The samples of the attempt.
    pub(crate) fn series(&self) -> Vec<Value> {
        self.attempt()["series"].as_array().unwrap().clone()
    }

    fn attempt(&self) -> Value {
        serde_json::from_str(&self.shown).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// See `guest/scenarios.sh` for the words.
fn parse(text: &str) -> BTreeMap<String, Record> {
    let mut records = BTreeMap::new();
    let (mut name, mut within) = (String::new(), false);
    for line in text.lines() {
        if let Some(scenario) = line.strip_prefix("@scenario ") {
            scenario.clone_into(&mut name);
        }
        let record: &mut Record = records.entry(name.clone()).or_default();
        match line.strip_prefix("@fact ").map(|fact| fact.split_once(' ').unwrap_or((fact, ""))) {
            Some((fact, value)) => drop(record.facts.insert(fact.to_owned(), value.to_owned())),
            None if line == "@shown" || line == "@end" => within = line == "@shown",
            None if within => record.shown.push_str(line),
            None => {}
        }
    }
    records
}

#[test]
fn facts_belong_to_the_preceding_scenario() {
    let text = "noise\n@scenario one\n@fact exit 2\n@shown\n{\n\"a\": 1}\n@end\n@fact late x y\n@scenario two\n@fact empty\n@done\n";
    let records = parse(text);
    assert_eq!((records["one"].number("exit"), records["one"].fact("late")), (2, "x y"));
    assert_eq!(records["one"].attempt()["a"], 1);
    assert_eq!((records["two"].fact("empty"), records["two"].shown.as_str()), ("", ""));
}
