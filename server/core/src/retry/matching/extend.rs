//! Rules of the operator in addition to the built-in ones: files in the format of `rules/*.toml`, and Spack's taxonomy.
//!
//! All files are checked before any rule is used. If a pattern does not compile, or a rule does not match one of its own examples, the
//! error names file and rule, and the previous rules stay in force.

use std::collections::HashMap;

use crate::retry::{
    matching::log_rules::{self, LogRules},
    matching::rule::{Rule, RulePattern},
    matching::taxonomy,
};

/// Most rules in all of the operator's files together.
const MAX_RULES: usize = 1000;

impl LogRules {
    /// The built-in rules and those of `files`, which are pairs of name and text. A file is Spack's taxonomy if its name ends in `.yaml` or
    /// `.yml`; otherwise it has the format of `rules/*.toml`. A rule with the id of a built-in rule replaces it.
    /// Errors: all errors, each with file and rule.
    pub fn extended(files: &[(String, String)]) -> Result<Self, Vec<String>> {
        let (mut more, mut wrong): (Vec<Rule>, Vec<String>) = (Vec::new(), Vec::new());
        // maps each rule id to the file that defines it
        let mut named: HashMap<String, &str> = HashMap::new();
        for (name, text) in files {
            match parse_file(name, text) {
                Ok(rules) => {
                    wrong.extend(
                        rules.iter().filter_map(|rule| Some(format!("{name}: {}", rule_error(rule)?))),
                    );
                    wrong.extend(rules.iter().filter_map(|rule| named_twice(&mut named, name, rule)));
                    more.extend(rules);
                }
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
        if more.len() > MAX_RULES {
            wrong.push(format!("there are {} rules, at most {MAX_RULES} can be read", more.len()));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Self::with(more).map_err(|error| vec![format!("the rules together: {error}")])
    }
}

/// Records the file of a rule; returns an error if another file already defines the rule.
fn named_twice<'f>(named: &mut HashMap<String, &'f str>, file: &'f str, rule: &Rule) -> Option<String> {
    let (id, other) = (&rule.id, named.insert(rule.id.clone(), file)?);
    Some(format!("{file}: rule {id}: there are two of this name, the other in {other}"))
}

/// Parses the rules of a file, in the format that its extension names.
pub(in crate::retry) fn parse_file(name: &str, text: &str) -> Result<Vec<Rule>, String> {
    let yaml = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    if yaml { taxonomy::parse(text) } else { log_rules::parse(text) }
}

/// Returns the first error in a rule.
fn rule_error(rule: &Rule) -> Option<String> {
    let of_rule = |what: String| Some(format!("rule {}: {what}", rule.id));
    if rule.id.is_empty() {
        return of_rule("has no id".to_owned());
    }
    let pattern = match RulePattern::of(rule) {
        Ok(pattern) => pattern,
        Err(error) => return of_rule(error),
    };
    if pattern.is_match("") {
        return of_rule("pattern matches an empty line, and so every log".to_owned());
    }
    let missed = rule.matches.iter().find(|line| !pattern.is_match(line));
    if let Some(line) = missed {
        return of_rule(format!("does not match its example {line:?}"));
    }
    let caught = rule.spares.iter().find(|line| pattern.is_match(line));
    if let Some(line) = caught {
        return of_rule(format!("matches {line:?}, which it should spare"));
    }
    match (rule.cause.is_memory(), rule.sign) {
        (true, None) => of_rule("is about memory: sign must be kill, alloc or scheduler".to_owned()),
        (false, Some(_)) => of_rule("has a sign of memory, but another cause".to_owned()),
        _ => None,
    }
}
