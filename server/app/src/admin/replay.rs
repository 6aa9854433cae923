//! `plimsoll-server replay`.

use std::{io, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use plimsoll_base::quantity;
use plimsoll_core::{domain::Bytes, predict::Settings};
use plimsoll_lab::{
    import::Reader,
    replay::{self, FailureTarget, PolicyKind, ReplayTape, TuneGoal},
};
use plimsoll_proto::figures::counted;

use super::{Output, line::examples_text, print, print_note, progress, terminal::wrapped_except_tables};
use crate::runtime::settings::{Config, parse_share};

/// Runs policies over recorded history.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["replay builds.csv", "replay --by-package builds.csv"]))]
pub struct Replay {
    /// CSV or JSON lines, plain or gzip; required columns: package, `wall_ms`, `peak_bytes`.
    #[arg(value_name = "FILE", required_unless_present = "stdio")]
    file: Option<PathBuf>,
    /// Policies to run, or all. `preset` is what the builds asked for, `requested_bytes` in the file.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// What one lost build costs, in GiB·h [default: what an average build of the history holds].
    #[arg(long, value_name = "NUMBER", value_parser = parse_price)]
    failure_price: Option<f64>,
    /// Turns each policy's knob until at most this share of the builds is too small at first.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, conflicts_with = "match_failures")]
    max_failures: Option<f64>,
    /// Turns each policy's knob until this share of the builds is too small at first, so that surplus compares.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    match_failures: Option<f64>,
    /// What a build asks for by hand where the file does not name it, for `preset`.
    #[arg(long, value_name = "SIZE", value_parser = quantity::memory)]
    memory: Option<u64>,
    /// Learns the first share of the rows without counting them.
    #[arg(long, value_name = "SHARE", value_parser = parse_warmup, default_value = "0%")]
    warmup: f64,
    /// Surplus for each package too.
    #[arg(long)]
    by_package: bool,
    /// Answers evaluation programs in JSON lines on standard input and output.
    #[arg(long, conflicts_with_all = ["file", "max_failures", "match_failures", "by_package", "memory"])]
    stdio: bool,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

fn parse_price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if (0.0..=1e6).contains(&price) => Ok(price),
        _ => Err("must be a number from 0 to 1000000".to_owned()),
    }
}

fn parse_warmup(text: &str) -> Result<f64, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 0.01));
    match digits.parse::<f64>() {
        Ok(number) if (0.0..1.0).contains(&(number * unit)) => Ok(number * unit),
        _ => Err("must be a share below 100%, for example 60%".to_owned()),
    }
}

impl Replay {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let settings = Settings {
            failure_price: self.failure_price.or(config.predict.failure_price),
            ..config.predict.clone()
        };
        if self.stdio {
            return replay::serve_stdio(&settings, io::stdin().lock(), io::stdout().lock())
                .context("standard input or output");
        }
        let Some(file) = &self.file else { anyhow::bail!("name a file") };
        let kinds = policies_named(&self.policy)?;
        let mut tape = ReplayTape::read(Reader::open(file)?, progress::shares("reading"))?;
        if let Some(memory) = self.memory {
            tape.fill_presets(Bytes(memory));
        }
        let without_presets = kinds.contains(&PolicyKind::Preset) && !tape.has_presets;
        if without_presets && kinds.len() == 1 {
            anyhow::bail!(
                "--policy preset needs the column requested_bytes, what each build asked for; {} has none: give a size with --memory",
                file.display()
            );
        }
        let mut results = Vec::new();
        for kind in kinds {
            let goal = TuneGoal { target: self.target(), warmup: self.warmup };
            if let Some(tally) = replay::run(&tape, kind, &settings, goal, progress::shares(kind.as_str())) {
                results.push((kind, tally));
            }
        }
        let comparing = progress::shares("comparing");
        let gain = replay::gain_threshold(&tape, &results, &settings, self.warmup, comparing);
        let text = match self.output {
            Output::Json => replay::json(&tape, &results, gain, self.by_package) + "\n",
            Output::Text => {
                let packages = self.by_package.then(|| "\n".to_owned() + &replay::packages_table(&results));
                let text = replay::text(&results, gain) + &packages.unwrap_or_default();
                wrapped_except_tables(&text, io::stdout())
            }
        };
        print(&text)?;
        if without_presets {
            print_note(
                "no row for preset: the file has no requested_bytes, what each build asked for (--memory gives one size for all)",
            );
        }
        print_skipped_rows(&tape);
        Ok(())
    }

    fn target(&self) -> FailureTarget {
        match (self.max_failures, self.match_failures) {
            (Some(most), _) => FailureTarget::AtMost(most),
            (_, Some(rate)) => FailureTarget::Match(rate),
            _ => FailureTarget::AsItIs,
        }
    }
}

/// Names the rows that were not replayed, with the reason.
fn print_skipped_rows(tape: &ReplayTape) {
    if tape.skipped > 0 {
        print_note(format_args!(
            "{} left out: failed for another reason than memory",
            counted(tape.skipped, "row")
        ));
    }
    if tape.refusals.count > 0 {
        print_note(&tape.refusals);
    }
}

/// The policies with these names.
fn policies_named(names: &[String]) -> anyhow::Result<Vec<PolicyKind>> {
    if names.iter().any(|name| name == "all") {
        return Ok(PolicyKind::ALL.to_vec());
    }
    let named = |name: &String| {
        PolicyKind::ALL.into_iter().find(|kind| kind.as_str() == name).with_context(|| {
            let all: Vec<&str> = PolicyKind::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("--policy: {name:?} is not a policy; choose all, {}", all.join(", "))
        })
    };
    names.iter().map(named).collect()
}
