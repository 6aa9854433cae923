//! `plimsoll-server pools suggest`: which packages should use the powerful builders.

use std::{io, path::PathBuf};

use clap::{Args, ValueEnum};
use plimsoll_lab::suggest::{json, new_list, suggest, text};

use super::{
    super::{line::examples_text, print, print_note, terminal::wrapped_except_tables},
    list::{ListInputs, PowerfulListArgs},
};
use crate::runtime::settings::Config;

/// Tells from recorded history which packages deserve a powerful builder, which of the list do not profit from it, and the hours and money
/// of both. Time on a builder is measured, or worked out from build jobs and CPU time.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["pools suggest --normal x86 --powerful powerful builds.jsonl"]))]
pub(super) struct Suggest {
    /// CSV or JSON lines, as `export` writes them; required columns: package, `wall_ms`, `peak_bytes`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    list: PowerfulListArgs,
    /// Form of the result; `copr` is the new list as `EXTRA_BUILDCHROOT_TAGS`.
    #[arg(short, long, value_enum, default_value = "text")]
    output: SuggestOutput,
}

// no doc comments on the variants: `--help` would show them
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SuggestOutput {
    Text,
    Json,
    Copr,
}

impl Suggest {
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let inputs = self.list.read(config, &self.file)?;
        let ListInputs { builds, list, tag, terms, currency } = &inputs;
        let all = suggest(builds, list, tag, terms);
        let new = || new_list(list, &all, tag).map_err(anyhow::Error::msg);
        let printed = match self.output {
            SuggestOutput::Text => wrapped_except_tables(&text(&all, terms, currency), io::stdout()),
            SuggestOutput::Json => json(&all, terms, currency, &new()?),
            SuggestOutput::Copr => new()?.to_string(),
        };
        print(&printed)?;
        if builds.refusals.count > 0 {
            print_note(&builds.refusals);
        }
        Ok(())
    }
}
