//! `plimsoll-server size`: estimates what a server needs.

use std::io;

use clap::Args;
use plimsoll_lab::size::{self, FleetLoad, MAX_AGENTS, MAX_BUILDS, MAX_MINUTES, MemoryTerms};

use super::{Output, line::examples_text, print, terminal::wrapped_except_tables};
use crate::runtime::settings::Config;

/// Tells what CPU, memory, disk and network a server needs for a number of builds.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["size --builds-per-day 5000 --mean-minutes 20"]))]
pub struct Size {
    /// Builds in a day.
    #[arg(long, value_name = "N", value_parser = parse_builds)]
    builds_per_day: f64,
    /// Mean wall time of a build, minutes.
    #[arg(long, value_name = "N", value_parser = parse_minutes)]
    mean_minutes: f64,
    /// Agents that run at once at the busiest time [default: three times the mean of the day].
    #[arg(long, value_name = "NUMBER", value_parser = parse_agents)]
    agents: Option<f64>,
    /// Form of the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

fn parse_builds(text: &str) -> Result<f64, String> {
    parse_above_zero(text, MAX_BUILDS)
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    parse_above_zero(text, MAX_MINUTES)
}

fn parse_agents(text: &str) -> Result<f64, String> {
    match text.parse::<u32>() {
        Ok(number) if number > 0 && f64::from(number) <= MAX_AGENTS => Ok(f64::from(number)),
        _ => Err(format!("must be a whole number from 1 to {MAX_AGENTS}")),
    }
}

fn parse_above_zero(text: &str, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        // a value that is not a number (NaN) is in no range
        Ok(number) if (0.001..=most).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from 0.001 to {most}, without a unit")),
    }
}

impl Size {
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let load = FleetLoad {
            builds_per_day: self.builds_per_day,
            mean_minutes: self.mean_minutes,
            agents: self.agents,
        };
        let needs = size::size(&load, &memory_terms(config));
        let text = match self.output {
            Output::Json => size::json(&load, &needs) + "\n",
            Output::Text => wrapped_except_tables(&size::text(&load, &needs), io::stdout()),
        };
        print(&text)
    }
}

/// The amounts of memory in the memory plan of a server with these settings.
fn memory_terms(config: &Config) -> MemoryTerms {
    let (program_bytes, file_share) = config.memory_without_history();
    let (history_attempts, attempt_bytes) = config.memory_of_history();
    MemoryTerms { history_attempts, attempt_bytes, program_bytes, file_share }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../deploy/docs/operate.md");

    /// Builds a day, of 20 minutes.
    const ROWS: [f64; 4] = [1000.0, 5000.0, 20_000.0, 100_000.0];

    #[test]
    fn the_table_of_the_guide_is_what_the_model_says() {
        let terms = memory_terms(&Config::default());
        let rows = ROWS.map(|builds_per_day| {
            let load = FleetLoad { builds_per_day, mean_minutes: 20.0, agents: None };
            format!("| {} |\n", size::cells(&load, &size::size(&load, &terms)).join(" | "))
        });
        assert!(GUIDE.contains(&rows.concat()), "write this into the guide:\n{}", rows.concat());
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_with_their_bounds() {
        for wrong in ["0", "-1", "NaN", "inf", "1e300", "many", ""] {
            assert!(parse_builds(wrong).unwrap_err().contains("from 0.001 to 100000000"), "{wrong}");
            assert!(parse_minutes(wrong).unwrap_err().contains("from 0.001 to 10080"), "{wrong}");
            assert!(parse_agents(wrong).unwrap_err().contains("from 1 to 1000000"), "{wrong}");
        }
        assert_eq!(
            (parse_builds("5000").unwrap(), parse_minutes("0.5").unwrap(), parse_agents("7").unwrap()),
            (5000.0, 0.5, 7.0)
        );
    }
}
