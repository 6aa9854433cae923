//! The options of a list of powerful builders, and what follows from them.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use plimsoll_core::{domain::Millis, placement::CoprTable};
use plimsoll_lab::{
    import::Reader,
    suggest::{Builder, ListEffect, RecordedBuilds, SuggestTerms, effect, effect_text, new_list, suggest},
};

use super::super::progress::Progress;
use crate::{runtime::settings::Config, state::pools};

/// Two pools, and the list that decides between them.
#[derive(Debug, Args)]
pub(crate) struct PowerfulList {
    /// Pool of the usual builders; the pools file names their cores, memory and price.
    #[arg(long, value_name = "POOL", requires = "powerful")]
    normal: Option<String>,
    /// Pool of the powerful builders.
    #[arg(long, value_name = "POOL", requires = "normal")]
    powerful: Option<String>,
    /// Copr's `EXTRA_BUILDCHROOT_TAGS` in force, in a file of its own [default: an empty list].
    #[arg(long, value_name = "FILE", requires = "powerful")]
    list: Option<PathBuf>,
    /// The tag that the list gives.
    #[arg(long, value_name = "TAG", default_value = "extra_powerful")]
    tag: String,
    /// Shortest median time on a usual builder for which a powerful one pays.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2h")]
    at_least: std::time::Duration,
    /// Least speed-up for which it pays.
    #[arg(long, value_name = "TIMES", value_parser = speedup, default_value = "2")]
    speedup: f64,
    /// What an hour sooner may cost more at most [default: any price].
    #[arg(long, value_name = "PRICE", value_parser = price)]
    hour_worth: Option<f64>,
}

fn speedup(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1000.0)
}

fn price(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e9)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        // not a number is in no range
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {least} to {most}")),
    }
}

/// What the options and the recorded history say.
pub(super) struct ListInputs {
    pub(super) builds: RecordedBuilds,
    pub(super) list: CoprTable,
    pub(super) tag: String,
    pub(super) terms: SuggestTerms,
    pub(super) currency: String,
}

impl PowerfulList {
    /// Whether the command line names the two pools.
    pub(crate) fn is_given(&self) -> bool {
        self.powerful.is_some()
    }

    /// Reads the pools, the list and the history.
    pub(super) fn read(&self, config: &Config, reader: Reader) -> anyhow::Result<ListInputs> {
        let file = config
            .pools_file
            .as_deref()
            .context("set pools_file: it names cores and price of the builders")?;
        let placement = pools::read(file)?;
        let builder = |name: &Option<String>, option: &str| {
            let name = name.as_deref().with_context(|| format!("name two pools: {option} is missing"))?;
            let names: Vec<&str> = placement.pools().iter().map(|pool| pool.name.as_str()).collect();
            let unknown = || format!("{option}: pool {name:?} is not there; there are {}", names.join(", "));
            Builder::of(placement.pool(name).with_context(unknown)?).map_err(anyhow::Error::msg)
        };
        let (normal, powerful) = (builder(&self.normal, "--normal")?, builder(&self.powerful, "--powerful")?);
        if powerful.cores <= normal.cores {
            bail!("pool {} has no more cores than pool {}", powerful.name, normal.name);
        }
        let list = match &self.list {
            None => CoprTable::default(),
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                CoprTable::parse(&text).with_context(|| path.display().to_string())?
            }
        };
        let mut progress = Progress::new();
        let builds = RecordedBuilds::read(reader, |share| progress.show_share("reading", share))?;
        progress.end();
        let at_least = Millis(u64::try_from(self.at_least.as_millis()).unwrap_or(u64::MAX));
        let terms =
            SuggestTerms { normal, powerful, at_least, speedup: self.speedup, hour_worth: self.hour_worth };
        let stats = &config.stats.currency;
        let currency =
            if placement.currency().is_empty() { stats.clone() } else { placement.currency().to_owned() };
        Ok(ListInputs { builds, list, tag: self.tag.clone(), terms, currency })
    }

    /// The table of `simulate`: queue and cost without a list, with the one in force, and with the suggested one.
    pub(crate) fn effects(&self, config: &Config, reader: Reader) -> anyhow::Result<String> {
        let ListInputs { builds, list, tag, terms, currency } = self.read(config, reader)?;
        if !builds.timed {
            bail!("the file has no submitted_ms, so the queue is not known");
        }
        let suggestions = suggest(&builds, &list, &tag, &terms);
        let new = new_list(&list, &suggestions, &tag).map_err(anyhow::Error::msg)?;
        let of = |list: &CoprTable| -> ListEffect { effect(&builds, list, &tag, &terms) };
        let mut rows = vec![("no list", of(&CoprTable::default()))];
        if self.list.is_some() {
            rows.push(("in force", of(&list)));
        }
        rows.push(("suggested", of(&new)));
        Ok(effect_text(&rows, &currency))
    }
}
