//! `plimsoll-server pools suggest`: which packages should use the powerful builders.

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use plimsoll_core::{
    domain::Millis,
    placement::{CoprTable, Placement},
};
use plimsoll_lab::{
    import::Reader,
    suggest::{Builder, RecordedBuilds, SuggestTerms, json, new_list, suggest, text},
};

use super::super::{line::examples_text, print, print_note, progress, terminal::wrapped_except_tables};
use crate::{pools, runtime::settings::Config};

/// Tells from recorded history which packages deserve a powerful builder, which of the list do not profit from it, and the hours and money
/// of both. Time on a builder is measured, or worked out from build jobs and CPU time.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["pools suggest --normal x86 --powerful powerful builds.jsonl"]))]
pub(super) struct Suggest {
    /// CSV or JSON lines, as `export` writes them; required columns: package, `wall_ms`, `peak_bytes`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
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
    #[arg(long, value_name = "TIMES", value_parser = parse_speedup, default_value = "2")]
    speedup: f64,
    /// What an hour sooner may cost more at most [default: any price].
    #[arg(long, value_name = "PRICE", value_parser = parse_price)]
    hour_worth: Option<f64>,
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

fn parse_speedup(text: &str) -> Result<f64, String> {
    parse_within(text, 1.0, 1000.0)
}

fn parse_price(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0, 1e9)
}

fn parse_within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        // a value that is not a number (NaN) is in no range
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {least} to {most}")),
    }
}

/// The values of the options, and the recorded history.
struct ListInputs {
    builds: RecordedBuilds,
    list: CoprTable,
    tag: String,
    terms: SuggestTerms,
    currency: String,
}

impl Suggest {
    pub(super) fn run(&self, config: &Config) -> anyhow::Result<()> {
        let ListInputs { builds, list, tag, terms, currency } = &self.read(config)?;
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

    /// Reads the pools, the list and the history.
    fn read(&self, config: &Config) -> anyhow::Result<ListInputs> {
        let file = config
            .pools_file
            .as_deref()
            .context("set pools_file: it names cores and price of the builders")?;
        let placement = pools::read(file)?;
        let (normal, powerful) = self.builders(&placement)?;
        let list = self.list_in_force()?;
        let builds = RecordedBuilds::read(Reader::open(&self.file)?, progress::shares("reading"))?;
        if builds.groups.is_empty() {
            let refusals = &builds.refusals;
            let why = if refusals.count > 0 { format!("\n{refusals}") } else { String::new() };
            bail!("{}: has no build of a package that can be used{why}", self.file.display());
        }
        let at_least = Millis(u64::try_from(self.at_least.as_millis()).unwrap_or(u64::MAX));
        let terms =
            SuggestTerms { normal, powerful, at_least, speedup: self.speedup, hour_worth: self.hour_worth };
        let stats = &config.stats.currency;
        let currency =
            if placement.currency().is_empty() { stats.clone() } else { placement.currency().to_owned() };
        Ok(ListInputs { builds, list, tag: self.tag.clone(), terms, currency })
    }

    /// The builders of both pools.
    fn builders(&self, placement: &Placement) -> anyhow::Result<(Builder, Builder)> {
        let pool = |name: &Option<String>, option: &str| {
            let name = name.as_deref().with_context(|| format!("name two pools: {option} is missing"))?;
            let names: Vec<&str> = placement.pools().iter().map(|pool| pool.name.as_str()).collect();
            let unknown = || format!("{option}: pool {name:?} is not there; there are {}", names.join(", "));
            placement.pool(name).with_context(unknown)
        };
        let (normal, powerful) = (pool(&self.normal, "--normal")?, pool(&self.powerful, "--powerful")?);
        if !normal.arch.is_empty() && !powerful.arch.is_empty() && normal.arch != powerful.arch {
            bail!(
                "pool {} has architecture {}, and pool {} has {}: name two pools of one architecture",
                normal.name,
                normal.arch,
                powerful.name,
                powerful.arch
            );
        }
        if !powerful.tags.contains(&self.tag) {
            let tags = if powerful.tags.is_empty() { "none".to_owned() } else { powerful.tags.join(", ") };
            bail!("--tag {}: pool {} does not have this tag; its tags: {tags}", self.tag, powerful.name);
        }
        let builder = |pool| Builder::of(pool).map_err(anyhow::Error::msg);
        let (normal, powerful) = (builder(normal)?, builder(powerful)?);
        if powerful.cores <= normal.cores {
            bail!("pool {} has no more cores than pool {}", powerful.name, normal.name);
        }
        Ok((normal, powerful))
    }

    /// The list in force; empty if the options name none.
    fn list_in_force(&self) -> anyhow::Result<CoprTable> {
        let Some(path) = &self.list else { return Ok(CoprTable::default()) };
        let shown = || path.display().to_string();
        let list = CoprTable::parse(&fs::read_to_string(path).with_context(shown)?).with_context(shown)?;
        list.check_backtracking().with_context(shown)?;
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const HEADER: &str = "attempt,owner,project,package,submitted_ms,wall_ms,peak_bytes\n";

    fn given(powerful: &str, tag: &str, list: Option<PathBuf>) -> Suggest {
        Suggest {
            file: PathBuf::new(),
            normal: Some("x86".to_owned()),
            powerful: Some(powerful.to_owned()),
            list,
            tag: tag.to_owned(),
            at_least: std::time::Duration::from_hours(2),
            speedup: 2.0,
            hour_worth: None,
            output: SuggestOutput::Text,
        }
    }

    /// Reads a history with pools of two architectures, one of them with tags, and a list; the error with its causes.
    fn read(given: impl Fn(&Path) -> Suggest, history: &str) -> Result<ListInputs, String> {
        let pool =
            |name: &str, rest: &str| format!("[[pool]]\nname = \"{name}\"\nmemory = \"16GiB\"\n{rest}\n");
        let pools = pool("x86", "arch = \"x86_64\"\ncores = 4")
            + &pool(
                "powerful",
                "arch = \"x86_64\"\ncores = 64\ntags = [\"copr_builder\"]\ntags_on_demand = [\"extra_powerful\"]",
            )
            + &pool("graviton", "arch = \"aarch64\"\ncores = 64\ntags = [\"extra_powerful\"]");
        let dir = tempfile::tempdir().unwrap();
        let [pools_file, list, builds] =
            ["pools.toml", "list.py", "builds.csv"].map(|name| dir.path().join(name));
        fs::write(&pools_file, pools).unwrap();
        fs::write(&list, "[{'pattern': '@a/', 'tags': ['x']},\n {'pattern': '(a+)+$', 'tags': ['x']}]")
            .unwrap();
        fs::write(&builds, history).unwrap();
        let config = Config { pools_file: Some(pools_file), ..Config::default() };
        Suggest { file: builds, ..given(&list) }.read(&config).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn invalid_pool_inputs_are_refused_with_alternatives() {
        let build = format!("{HEADER}b1,@a,b,gcc,1767225600000,1000,1000000\n");
        let inputs = read(|_| given("powerful", "extra_powerful", None), &build).ok().unwrap();
        assert_eq!((inputs.builds.groups.len(), inputs.terms.arch()), (1, "x86_64"));
        let refused = |given: &dyn Fn(&Path) -> Suggest, history: &str| read(given, history).err().unwrap();
        let error = refused(&|_| given("graviton", "extra_powerful", None), &build);
        for part in ["x86 has architecture x86_64", "graviton has aarch64"] {
            assert!(error.contains(part), "{error}");
        }
        let error = refused(&|_| given("powerful", "fast", None), &build);
        for part in ["--tag fast", "pool powerful", "copr_builder, extra_powerful"] {
            assert!(error.contains(part), "{error}");
        }
        let error = refused(&|list| given("powerful", "extra_powerful", Some(list.to_owned())), &build);
        for part in ["list.py: line 2: ", "'(a+)+$'", "split it into several entries"] {
            assert!(error.contains(part), "{error}");
        }
        let error = refused(&|_| given("powerful", "extra_powerful", None), HEADER);
        assert!(error.ends_with("builds.csv: has no build of a package that can be used"), "{error}");
    }
}
