//! `plimsoll-server pools capacity`: how many builds of some kinds run at once.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use clap::Args;
use plimsoll_core::placement::{BuildKind, KindsCapacity};
use plimsoll_proto::{figures::counted, job, shown::escaped_lines};
use serde::Serialize;

use super::super::{Output, line::examples_text, print};
use crate::{pools, runtime::settings::Config};

/// Tells how many builds of some kinds run at once: on nodes that have the labels which these kinds select, under the limits of tickets.
/// Koji's builders should have this capacity in all, for the kinds that have a task in Koji.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["pools capacity --kinds scratch,explicit"]))]
pub(super) struct Capacity {
    /// Kinds of builds: scratch, explicit, auto, isolated, orchestrator.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', required = true, value_parser = parse_kind)]
    kinds: Vec<BuildKind>,
    /// Name of Koji's builder.
    #[arg(long, value_name = "NAME", default_value = "HOST", value_parser = parse_host)]
    host: String,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

fn parse_kind(text: &str) -> Result<BuildKind, String> {
    BuildKind::parse(text).ok_or_else(|| format!("must be some of {}", job::BUILD_KINDS.join(", ")))
}

/// A name that needs no quotes in a shell.
fn parse_host(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.starts_with('-') || !text.bytes().all(is_plain) {
        return Err("must be a host name: A-Z a-z 0-9 . _ -".to_owned());
    }
    Ok(text.to_owned())
}

/// The answer as JSON, for programs.
#[derive(Debug, Serialize)]
struct CapacityAnswer<'a> {
    kinds: Vec<&'static str>,
    capacity: u64,
    on_nodes: u64,
    nodes: &'a [&'a str],
    command: String,
}

impl Capacity {
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let file = config.pools_file.as_deref().context("set pools_file: it names the nodes")?;
        let placement = pools::read(file)?;
        ensure!(
            !placement.nodes().is_empty(),
            "{}: has no [[node]], so the nodes are not known",
            file.display()
        );
        let mut kinds: Vec<BuildKind> = self.kinds.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let text = self.capacity_answer(&kinds, &placement.capacity(&kinds))?;
        print(&escaped_lines(&text))
    }

    fn capacity_answer(&self, kinds: &[BuildKind], capacity: &KindsCapacity<'_>) -> anyhow::Result<String> {
        let KindsCapacity { builds, on_nodes, nodes } = capacity;
        let command = format!("koji edit-host --capacity={builds} {}", self.host);
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let of_kinds = kinds.join(", ");
        ensure!(
            *builds > 0,
            "no node takes builds of {of_kinds}: see [[node]] and [kind.NAME] in the pools file"
        );
        if matches!(self.output, Output::Json) {
            let answer = CapacityAnswer { kinds, capacity: *builds, on_nodes: *on_nodes, nodes, command };
            return Ok(serde_json::to_string(&answer)? + "\n");
        }
        let mut text = format!("{builds}\n");
        let places = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        writeln!(text, "{} of {of_kinds} at once{places}", counted(*builds, "build"))?;
        if on_nodes > builds {
            writeln!(text, "these nodes take {on_nodes}; at_once of the kinds or of all tickets is lower")?;
        }
        writeln!(text, "{command}")?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn koji_capacity_output_names_a_valid_host() {
        let capacity = KindsCapacity { builds: 4, on_nodes: 5, nodes: vec!["node-1", "node-2"] };
        let kinds = [BuildKind::Scratch, BuildKind::Explicit];
        let asked = |output| Capacity { kinds: kinds.to_vec(), host: "builder-1.example".to_owned(), output };
        assert_eq!(
            asked(Output::Text).capacity_answer(&kinds, &capacity).unwrap(),
            "4\n4 builds of scratch, explicit at once on node-1, node-2\n\
             these nodes take 5; at_once of the kinds or of all tickets is lower\n\
             koji edit-host --capacity=4 builder-1.example\n"
        );
        assert_eq!(
            asked(Output::Json).capacity_answer(&kinds, &capacity).unwrap(),
            "{\"kinds\":[\"scratch\",\"explicit\"],\"capacity\":4,\"on_nodes\":5,\"nodes\":[\"node-1\",\"node-2\"],\
             \"command\":\"koji edit-host --capacity=4 builder-1.example\"}\n"
        );
        let none = KindsCapacity { builds: 0, on_nodes: 0, nodes: Vec::new() };
        for output in [Output::Text, Output::Json] {
            let error = asked(output).capacity_answer(&kinds[..1], &none).unwrap_err().to_string();
            assert!(error.starts_with("no node takes builds of scratch"), "{error}");
        }
        for wrong in ["", "a;b", "-x", "$(id)"] {
            assert!(parse_host(wrong).is_err(), "{wrong}");
        }
        assert!(parse_kind("lazy").is_err() && parse_kind("AUTO") == Ok(BuildKind::Auto));
    }
}
