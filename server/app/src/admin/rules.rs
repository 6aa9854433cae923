//! `plimsoll-server rules test FILE`: which placement rule matches a key, and why; and which rules have no effect. Needs no server. The
//! commands for log rules are in `log_rules`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use plimsoll_base::quantity;
use plimsoll_core::{
    domain::{Bytes, Cores, History, Key, Millis},
    placement::{NodePlacement, Placement, ResourceNeeds, RuleSubject, RuleTrace},
    predict,
};
use plimsoll_proto::{job, key::KEY_TEXTS, limits, shown::escaped_lines};
use serde::Serialize;

use super::{Output, line::examples_text, log_rules, print, print_note};
use crate::{pools, runtime::settings::Config};

/// Looks at rules: those for pools, and those for lines of logs.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["rules test pools.toml --key package=llvm", "rules explain build.log"]))]
pub struct Rules {
    #[command(subcommand)]
    what: RulesCommand,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Checks a file of pools, and shows which rule applies to a key, and why the others do not.
    Test(Test),
    /// Shows which rules match lines of a log, where the lines are, and why one rule decides.
    Explain(log_rules::Explain),
    /// Checks a directory of rules for lines of logs: examples, sizes, names, and rules that never decide.
    Check(log_rules::Check),
}

#[derive(Debug, Args)]
#[command(after_help = examples_text(&["rules test pools.toml", "rules test pools.toml --key package=llvm"]))]
struct Test {
    /// The file [default: that of --pools-file].
    file: Option<PathBuf>,
    #[arg(long = "key", value_name = "NAME=VALUE", help = key_help())]
    keys: Vec<String>,
    /// Memory that the build is predicted to need [default: that of a build nothing is known of].
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    memory: Option<u64>,
    /// Cores that it is predicted to need.
    #[arg(long, value_name = "CORES", value_parser = quantity::parse_cores)]
    cores: Option<f64>,
    /// Wall time that half of its attempts are predicted to need.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    wall_p50: Option<u64>,
    /// Wall time that 95 % of them are.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    wall_p95: Option<u64>,
    /// Builds that run or wait in a pool.
    #[arg(long, value_name = "POOL=N", value_parser = parse_open)]
    open: Vec<(String, u32)>,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

fn key_help() -> String {
    let quoted = |name: &str| if name.contains('_') { format!("`{name}`") } else { name.to_owned() };
    let names = KEY_TEXTS.map(|(name, _)| quoted(name)).join(", ");
    format!("A part of the key: {names}, label.NAME. Without any only the file is checked")
}

fn parse_time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    u64::try_from(time.as_millis()).map_err(|error| error.to_string())
}

fn parse_open(text: &str) -> Result<(String, u32), String> {
    let (pool, count) = text.split_once('=').ok_or("expected POOL=N")?;
    Ok((pool.to_owned(), count.parse().map_err(|_no_number| "expected POOL=N".to_owned())?))
}

/// The answer as JSON, for programs.
#[derive(Debug, Serialize)]
struct PlacementAnswer<'a> {
    pool: Option<&'a str>,
    clamped: bool,
    reason: &'a str,
    kind: &'static str,
    node_selector: &'a std::collections::BTreeMap<String, String>,
    priority_class: &'a str,
    rules: Vec<RuleAnswer<'a>>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RuleAnswer<'a> {
    rule: &'a str,
    line: usize,
    takes: bool,
    why: &'a str,
}

impl Rules {
    /// Errors: the file is wrong, with all mistakes; or a part of the key is.
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        match self.what {
            RulesCommand::Test(test) => test.run(config),
            RulesCommand::Explain(explain) => explain.run(config),
            RulesCommand::Check(check) => check.run(config),
        }
    }
}

impl Test {
    fn run(self, config: &Config) -> anyhow::Result<()> {
        let file = self.file.as_deref().or(config.pools_file.as_deref());
        let placement = pools::read(file.context("name a file, or set pools_file")?)?;
        let mut warnings: Vec<String> = placement.warnings().iter().map(ToString::to_string).collect();
        warnings.iter().for_each(print_note);
        if let Some((unknown, _)) = self.open.iter().find(|(name, _)| placement.pool(name).is_none()) {
            let names: Vec<&str> = placement.pools().iter().map(|pool| pool.name.as_str()).collect();
            bail!("--open: pool {unknown:?} is not there; there are {}", names.join(", "));
        }
        if self.keys.is_empty() {
            print_note(format_args!("{} pools, {} rules", placement.pools().len(), placement.rules()));
            return Ok(());
        }
        let key = key(&self.keys)?;
        let unheeded = job::ignored_label_notes(|label| key.labels.get(label).map(String::as_str));
        unheeded.iter().for_each(print_note);
        warnings.extend(unheeded);
        let text = self.place_key(&placement, &key, &self.needs(config), warnings);
        print(&text?)
    }

    /// The needs of a build without history, with the options of the command line applied.
    fn needs(&self, config: &Config) -> ResourceNeeds {
        let unknown = predict::predict(&History::new(1), &Key::default(), &config.predict);
        let mut needs = ResourceNeeds::of(&unknown);
        if let Some(memory) = self.memory {
            (needs.memory_request, needs.memory_limit) = (Bytes(memory), Bytes(memory));
        }
        needs.cpu_request = self.cores.map_or(needs.cpu_request, Cores);
        needs.wall_p50 = self.wall_p50.map_or(needs.wall_p50, Millis);
        needs.wall_p95 = self.wall_p95.map_or(needs.wall_p95, Millis).max(needs.wall_p50);
        needs
    }

    fn place_key(
        &self,
        placement: &Placement,
        key: &Key,
        needs: &ResourceNeeds,
        warnings: Vec<String>,
    ) -> anyhow::Result<String> {
        let open =
            |pool: &str| self.open.iter().rfind(|(name, _)| name == pool).map_or(0, |(_, count)| *count);
        let subject = RuleSubject::of(key);
        let looked = placement.trace_rules(&subject, needs, &open);
        let choice = placement.choose(&subject, needs, &open);
        let place = placement.place(&subject, choice.pool);
        let pool = choice.pool.map(|pool| pool.name.as_str());
        match self.output {
            Output::Text => {
                Ok(escaped_lines(&answer_text(&looked, &choice.reason, choice.clamped, &place)).into_owned())
            }
            Output::Json => {
                let answers = looked.iter().map(|looked| RuleAnswer {
                    rule: &looked.rule,
                    line: looked.line,
                    takes: looked.decides,
                    why: &looked.why,
                });
                let answer = PlacementAnswer {
                    pool,
                    clamped: choice.clamped,
                    reason: &choice.reason,
                    kind: subject.kind.as_str(),
                    node_selector: &place.node_selector,
                    priority_class: &place.priority_class,
                    rules: answers.collect(),
                    warnings,
                };
                Ok(serde_json::to_string(&answer)? + "\n")
            }
        }
    }
}

fn answer_text(looked: &[RuleTrace], reason: &str, clamped: bool, place: &NodePlacement) -> String {
    let mut lines: Vec<String> = looked
        .iter()
        .map(|looked| {
            let mark = if looked.decides { "takes" } else { "  -  " };
            format!("{mark}  line {:>4}  {}: {}", looked.line, looked.rule, looked.why)
        })
        .collect();
    lines.push(format!("=> {reason}{}", if clamped { " (clamped)" } else { "" }));
    if !place.node_selector.is_empty() {
        let labels: Vec<String> =
            place.node_selector.iter().map(|(label, value)| format!("{label}={value}")).collect();
        lines.push(format!("   nodes with {}", labels.join(", ")));
    }
    if !place.priority_class.is_empty() {
        lines.push(format!("   priority class {}", place.priority_class));
    }
    lines.join("\n") + "\n"
}

/// A key with the fields of these `FIELD=VALUE` options.
fn key(assignments: &[String]) -> anyhow::Result<Key> {
    let mut key = Key::default();
    let mut named = std::collections::HashSet::new();
    for assignment in assignments {
        let (name, value) =
            assignment.split_once('=').with_context(|| format!("--key {assignment:?} is not name=value"))?;
        if !named.insert(name) {
            bail!("--key {name} is given twice; give it once");
        }
        if value.len() > limits::KEY_FIELD_BYTES {
            bail!("--key {name}: has {} bytes, at most {} are allowed", value.len(), limits::KEY_FIELD_BYTES);
        }
        let nth = KEY_TEXTS.iter().position(|(known, _)| *known == name);
        let field = match (nth, name.strip_prefix("label.").filter(|label| !label.is_empty())) {
            (Some(nth), _) => key.texts_mut().into_iter().nth(nth),
            (None, Some(label)) => Some(key.labels.entry(label.to_owned()).or_default()),
            (None, None) => None,
        };
        let field = field.with_context(|| format!("--key {name:?} is not a part of a key; see --help"))?;
        value.clone_into(field);
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_by_part_and_bounded() {
        let read = |parts: &[&str]| key(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        let key = read(&["project=a/b", "ref=develop", "label.kind=auto", "variants=x=1"]).unwrap();
        assert_eq!((key.project.as_str(), key.git_ref.as_str()), ("a/b", "develop"));
        assert_eq!((key.labels["kind"].as_str(), key.variants.as_str()), ("auto", "x=1"));
        let owner = format!("owner={}", "x".repeat(1 << 20));
        for wrong in ["package", "label.=x", "color=red", &owner] {
            assert!(read(&[wrong]).is_err());
        }
        let twice = read(&["package=a", "package=b"]).unwrap_err().to_string();
        assert!(twice.contains("package is given twice"));
    }
}
