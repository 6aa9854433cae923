//! `plimsoll-server simulate`.

use std::{io, path::PathBuf, time::UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;
use plimsoll_core::{
    domain::{Bytes, Millis},
    placement::{Placement, PoolPrice},
};
use plimsoll_lab::{
    import::Reader,
    replay::{PolicyKind, ReplayTape},
    simulate::{
        self, CpuRule, Fleet, FleetReport, RowWindow, SimulatedCores, SimulatedRows, SimulatedSizes,
        SimulationTerms,
    },
};
use plimsoll_proto::quantity;

use super::{
    Output, line::examples_text, pools::PowerfulListArgs, print, progress::Progress, replay,
    terminal::wrapped_except_tables,
};
use crate::{runtime::settings::Config, sizing::pools};

/// A day, milliseconds.
const DAY_MS: u64 = 24 * 3600 * 1000;
/// Most fleets of one command.
const MAX_FLEETS: usize = 16;

/// Packs a day of recorded history on nodes.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["simulate --nodes 16x64GiB:8,64x256GiB --memory 4GiB builds.csv"]))]
pub struct Simulate {
    /// CSV or JSON lines, plain or gzip; required columns: package, `wall_ms`, `peak_bytes`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Kinds of nodes, filled in this order: `CORESxMEMORY` or a pool of --pools-file, then :COUNT where there are only so many,
    /// then @PRICE of a node for an hour; for example 16x64GiB:8,64x256GiB. Given several times: several fleets.
    #[arg(long, value_name = "KINDS", required_unless_present = "powerful", conflicts_with = "powerful")]
    nodes: Vec<String>,
    /// Whose sizes: policies of `replay`; `preset` is what was asked for by hand, `plimsoll-pod` has request and limit in force together.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "preset,plimsoll,plimsoll-pod",
        conflicts_with = "powerful"
    )]
    policy: Vec<String>,
    /// Only what arrived on this day, as 2026-11-21 (UTC); what came before is history to predict from.
    #[arg(long, value_name = "DATE", value_parser = parse_day, conflicts_with_all = ["warmup", "powerful"])]
    day: Option<u64>,
    /// The first share of the rows is history to predict from, and is not simulated.
    #[arg(long, value_name = "SHARE", value_parser = replay::parse_warmup, default_value = "0%", conflicts_with = "powerful")]
    warmup: f64,
    /// Builds that arrive in an hour, one after the other, in a file without times.
    #[arg(long, value_name = "NUMBER", value_parser = parse_rate, conflicts_with = "powerful")]
    per_hour: Option<f64>,
    /// What a build asks for by hand where the file does not name it.
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory, conflicts_with = "powerful")]
    memory: Option<u64>,
    /// The same of cores.
    #[arg(long, value_name = "CORES", value_parser = quantity::parse_cores, default_value = "1", conflicts_with = "powerful")]
    cores: f64,
    /// Cores that every build holds, whatever the policy: `asked` for by hand, or `predicted`. With fewer than it used a build takes longer.
    #[arg(
        long,
        value_name = "RULE",
        value_enum,
        hide_possible_values = true,
        default_value = "asked",
        conflicts_with = "powerful"
    )]
    cpu: CpuRule,
    /// Time until a new node takes builds.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "0s", conflicts_with = "powerful")]
    boot: std::time::Duration,
    /// Time after which an empty node is closed; `never` keeps it to the end.
    #[arg(long, value_name = "TIME", value_parser = parse_idle, default_value = "10min", conflicts_with = "powerful")]
    idle: IdleNodeTimeout,
    /// Also with the spread hint: builds predicted to need longer than this (p95) are kept together.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "powerful")]
    spread: Option<std::time::Duration>,
    /// Instead of nodes: each build on a builder of one of two pools, without a list of powerful builders and with the suggested one.
    #[command(flatten)]
    list: PowerfulListArgs,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

/// When an empty node is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdleNodeTimeout {
    After(std::time::Duration),
    Never,
}

fn parse_idle(text: &str) -> Result<IdleNodeTimeout, humantime::DurationError> {
    if text == "never" {
        Ok(IdleNodeTimeout::Never)
    } else {
        humantime::parse_duration(text).map(IdleNodeTimeout::After)
    }
}

fn parse_day(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a day such as 2026-11-21");
    let midnight = humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).map_err(|_unhelpful| wrong())?;
    let since = midnight.duration_since(UNIX_EPOCH).map_err(|_before| wrong())?;
    u64::try_from(since.as_millis()).map_err(|_far| wrong())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("must be a number from 0.001 to 1000000000".to_owned()),
    }
}

fn to_millis(time: std::time::Duration) -> Millis {
    Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl Simulate {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        if self.list.is_given() {
            let text = self.list.effects(config, &self.file, self.output)?;
            return print(&text);
        }
        let pools = config.pools_file.as_deref().map(pools::read).transpose()?.unwrap_or_default();
        let kinds = replay::policies_named(&self.policy)?;
        let fleets = self.parse_fleets(&pools, config)?;
        let mut progress = Progress::new();
        let tape =
            ReplayTape::read(Reader::open(&self.file)?, |share| progress.show_share("reading", share))?;
        let (tape, window) = self.window(tape)?;
        if kinds.contains(&PolicyKind::Preset) && !tape.has_presets && self.memory.is_none() {
            bail!(
                "the file has no requested_bytes: say with --memory what was asked for, or leave preset out of --policy"
            );
        }
        let terms = SimulationTerms {
            memory: self.memory.map(Bytes),
            boot: to_millis(self.boot),
            idle: match self.idle {
                IdleNodeTimeout::After(time) => Some(to_millis(time)),
                IdleNodeTimeout::Never => None,
            },
            settings: config.predict.clone(),
        };
        let spread = self.spread.map(to_millis);
        let cores = self.held_cores(&tape, config, |share| progress.show_share("predicting cores", share))?;
        let rows = SimulatedRows { tape: &tape, window, cores: &cores };
        let mut all = Vec::new();
        for fleet in &fleets {
            let mut outcomes = Vec::new();
            for (kind, spread) in policy_runs(&kinds, spread) {
                let on_progress = |share| progress.show_share(kind.as_str(), share);
                let outcome =
                    simulate::run(rows, fleet, SimulatedSizes { kind, spread }, &terms, on_progress);
                outcomes.push((run_name(kind, spread), outcome));
            }
            all.push(FleetReport { fleet, cpu: self.cpu, outcomes });
        }
        progress.end();
        let currency =
            if pools.currency().is_empty() { config.stats.currency.as_str() } else { pools.currency() };
        let text = match self.output {
            Output::Json => simulate::json(&all, currency) + "\n",
            Output::Text => simulate::text(&all, currency),
        };
        let text = match self.output {
            Output::Json => text,
            Output::Text => wrapped_except_tables(&text, io::stdout()),
        };
        print(&text)?;
        replay::print_skipped_rows(&tape);
        Ok(())
    }

    fn held_cores(
        &self,
        tape: &ReplayTape,
        config: &Config,
        on_progress: impl FnMut(f64),
    ) -> anyhow::Result<SimulatedCores> {
        match self.cpu {
            CpuRule::Asked => {
                Ok(SimulatedCores::asked(tape, quantity::rounded_millicores(self.cores).max(1)))
            }
            CpuRule::Predicted if tape.without_cpu > 0 => bail!(
                "--cpu predicted: {} of {} rows have no cpu_usec, so their cores cannot be predicted",
                tape.without_cpu,
                tape.rows.len()
            ),
            CpuRule::Predicted => Ok(SimulatedCores::predicted(tape, &config.predict, on_progress)),
        }
    }

    fn parse_fleets(&self, pools: &Placement, config: &Config) -> anyhow::Result<Vec<Fleet>> {
        if self.nodes.len() > MAX_FLEETS {
            bail!("--nodes is given {} times, at most {MAX_FLEETS} are allowed", self.nodes.len());
        }
        let price = config.stats.prices.of("");
        let price = PoolPrice { gib_hour: price.gib_hour, core_hour: price.core_hour };
        let read = |text: &String| Fleet::parse(text, pools, price).map_err(anyhow::Error::msg);
        self.nodes.iter().map(read).collect::<Result<Vec<_>, _>>().context("--nodes")
    }

    /// The rows of the file, and the range of those that are simulated.
    fn window(&self, mut tape: ReplayTape) -> anyhow::Result<(ReplayTape, RowWindow)> {
        match (tape.timed, self.per_hour) {
            (true, Some(_)) => bail!("--per-hour: the file tells when each build came; leave it out"),
            (false, None) => bail!("the file has no submitted_ms: say with --per-hour how many builds come"),
            (false, Some(_)) if self.day.is_some() => bail!("--day: the file has no submitted_ms"),
            (false, Some(per_hour)) => tape.add_start_times(per_hour),
            (true, None) => {}
        }
        let time = |at: usize| tape.rows.get(at).map(|row| row.start_ms);
        let (Some(first), Some(last)) = (time(0), time(tape.rows.len().saturating_sub(1))) else {
            let refusals = &tape.refusals;
            let why = if refusals.count > 0 { format!(":\n{refusals}") } else { String::new() };
            bail!("{}: has no row that can be simulated{why}", self.file.display());
        };
        let rows = Bytes(u64::try_from(tape.rows.len()).unwrap_or(u64::MAX)).as_f64();
        let warm = usize::try_from(Bytes::from_f64(rows * self.warmup).0).unwrap_or(usize::MAX);
        let window = match self.day {
            Some(day) => RowWindow { from_ms: day, until_ms: day.saturating_add(DAY_MS) },
            None => RowWindow { from_ms: time(warm).unwrap_or(first), until_ms: u64::MAX },
        };
        let falls_in = |start: u64| (window.from_ms..window.until_ms).contains(&start);
        if !tape.rows.iter().any(|row| falls_in(row.start_ms) && !row.stopped) {
            let shown = |ms: u64| {
                humantime::format_rfc3339_seconds(UNIX_EPOCH + std::time::Duration::from_millis(ms))
            };
            let (from, to) = (shown(first), shown(last));
            match self.day {
                Some(_) => bail!("--day: no build came on it; the file goes from {from} to {to}"),
                None => bail!(
                    "--warmup: no build is left that can be simulated; the file goes from {from} to {to}"
                ),
            }
        }
        Ok((tape, window))
    }
}

/// The policies. Each policy that predicts times is also run with the spread hint.
fn policy_runs(kinds: &[PolicyKind], spread: Option<Millis>) -> Vec<(PolicyKind, Option<Millis>)> {
    let ways = kinds.iter().flat_map(|kind| {
        let spread = spread.filter(|_| kind.predicts_time());
        [Some((*kind, None)), spread.map(|spread| (*kind, Some(spread)))]
    });
    ways.flatten().collect()
}

fn run_name(kind: PolicyKind, spread: Option<Millis>) -> String {
    spread.map_or_else(|| kind.as_str().to_owned(), |_| format!("{}, spread", kind.as_str()))
}

#[cfg(test)]
mod tests {
    use clap::{Parser, error::ErrorKind};

    use super::*;

    #[derive(Debug, Parser)]
    struct SimulateLine {
        #[command(flatten)]
        _simulate: Simulate,
    }

    #[test]
    fn options_of_nodes_are_refused_with_two_pools() {
        let pools = ["simulate", "--normal", "x86", "--powerful", "big", "builds.csv"];
        assert!(SimulateLine::try_parse_from(pools).is_ok());
        for option in [
            "--nodes=4x8GiB",
            "--policy=preset",
            "--day=2026-11-21",
            "--warmup=10%",
            "--per-hour=10",
            "--memory=4GiB",
            "--cores=2",
            "--cpu=asked",
            "--boot=1min",
            "--idle=1min",
            "--spread=1h",
        ] {
            let error = SimulateLine::try_parse_from(pools.into_iter().chain([option])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "{option}: {error}");
        }
    }
}
