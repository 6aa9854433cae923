//! Checks rule files before a server loads them: errors, and rules that can never decide.

use crate::retry::{
    known::rule_records::no_records,
    matching::explain::explain,
    matching::extend::parse_file,
    matching::log_rules::{self, LogRules},
    matching::rule::Rule,
};

/// Result of the check.
#[derive(Debug, Default)]
pub struct RuleReport {
    /// Errors, each with file and rule: the server refuses these files, or the rule never decides.
    pub errors: Vec<String>,
    /// Remarks on rules that are valid and may be a mistake.
    pub notes: Vec<String>,
    /// Number of rules.
    pub rule_count: usize,
}

/// Checks rule files. Each has a name and a text, in the formats that [`LogRules::extended`] reads.
pub fn check_files(files: &[(String, String)]) -> RuleReport {
    let mut report = RuleReport::default();
    let all = match LogRules::extended(files) {
        Ok(all) => all,
        Err(wrong) => return RuleReport { errors: wrong, ..report },
    };
    let built_in = log_rules::built_in().unwrap_or_default();
    for (name, text) in files {
        for rule in parse_file(name, text).unwrap_or_default() {
            report.rule_count += 1;
            let id = &rule.id;
            if let Some(others) = decided_by_others(&rule, &all) {
                report.errors.push(format!(
                    "{name}: rule {id}: other rules decide on all of its examples ({}), so it counts for nothing: make a pattern narrower",
                    others.join(", ")
                ));
            }
            if built_in.iter().any(|known| known.id == *id) {
                report
                    .notes
                    .push(format!("{name}: rule {id}: takes the place of the program's rule of this name"));
            }
            if rule.matches.is_empty() && !id.starts_with("spack/") {
                report
                    .notes
                    .push(format!("{name}: rule {id}: has no examples; add lines to `matches` and `spares`"));
            }
        }
    }
    report
}

/// The rules that decide on a rule's own examples instead of it. `None` if the rule decides on at least one, or has no examples.
fn decided_by_others(rule: &Rule, all: &LogRules) -> Option<Vec<String>> {
    let decider =
        |line: &String| explain(line, all, &no_records).rules.into_iter().find(|fired| fired.decides);
    let mut others: Vec<String> = Vec::new();
    for line in &rule.matches {
        let decider = decider(line)?;
        if decider.rule == rule.id {
            return None;
        }
        others.push(decider.rule);
    }
    others.sort_unstable();
    others.dedup();
    (!others.is_empty()).then_some(others)
}
