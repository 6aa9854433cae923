//! The options that describe a list of powerful builders, and the comparison of builds with and
//! without the list.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use plimsoll_core::{
    domain::Millis,
    placement::{CoprTable, Placement},
};
use plimsoll_lab::{
    import::Reader,
    suggest::{
        Builder, ListEffect, ListVerdict, RecordedBuilds, SuggestTerms, effect, effect_json, effect_text,
        new_list, suggest,
    },
};
use plimsoll_proto::figures::counted;

use super::super::{Output, print_note, progress::Progress};
use crate::{runtime::settings::Config, sizing::pools};

/// The normal and the powerful pool, and the list of packages that build in the powerful one.
#[derive(Debug, Args)]
pub(crate) struct PowerfulListArgs {
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
pub(super) struct ListInputs {
    pub(super) builds: RecordedBuilds,
    pub(super) list: CoprTable,
    pub(super) tag: String,
    pub(super) terms: SuggestTerms,
    pub(super) currency: String,
}

impl PowerfulListArgs {
    /// Whether the command line names the two pools.
    pub(crate) fn is_given(&self) -> bool {
        self.powerful.is_some()
    }

    /// Reads the pools, the list and the history.
    pub(super) fn read(&self, config: &Config, history: &Path) -> anyhow::Result<ListInputs> {
        let file = config
            .pools_file
            .as_deref()
            .context("set pools_file: it names cores and price of the builders")?;
        let placement = pools::read(file)?;
        let (normal, powerful) = self.builders(&placement)?;
        let list = self.list_in_force()?;
        let mut progress = Progress::new();
        let reader = Reader::open(history)?;
        let builds = RecordedBuilds::read(reader, |share| progress.show_share("reading", share))?;
        progress.end();
        if builds.groups.is_empty() {
            let refusals = &builds.refusals;
            let why = if refusals.count > 0 { format!("\n{refusals}") } else { String::new() };
            bail!("{}: has no build of a package that can be used{why}", history.display());
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

    /// What `simulate` prints: queue and cost without a list, with the list in force, and with the
    /// suggested list. A note names what is left out.
    pub(crate) fn effects(&self, config: &Config, history: &Path, output: Output) -> anyhow::Result<String> {
        let ListInputs { builds, list, tag, terms, currency } = self.read(config, history)?;
        if !builds.timed {
            bail!("the file has no submitted_ms, so the queue is not known");
        }
        let suggestions = suggest(&builds, &list, &tag, &terms);
        let others = suggestions.iter().filter(|one| one.verdict == ListVerdict::OtherArch);
        let others = u64::try_from(others.count()).unwrap_or(u64::MAX);
        if others > 0 {
            let others = counted(others, "package");
            print_note(format_args!("{others} left out: of another architecture than {}", terms.arch()));
        }
        if builds.refusals.count > 0 {
            print_note(&builds.refusals);
        }
        let new = new_list(&list, &suggestions, &tag).map_err(anyhow::Error::msg)?;
        let of = |list: &CoprTable| -> ListEffect { effect(&builds, list, &tag, &terms) };
        let mut rows = vec![("no list", of(&CoprTable::default()))];
        if self.list.is_some() {
            rows.push(("in force", of(&list)));
        }
        rows.push(("suggested", of(&new)));
        Ok(match output {
            Output::Text => effect_text(&rows, &currency),
            Output::Json => effect_json(&rows, &currency),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const HEADER: &str = "attempt,owner,project,package,submitted_ms,wall_ms,peak_bytes\n";

    fn given(powerful: &str, tag: &str, list: Option<PathBuf>) -> PowerfulListArgs {
        PowerfulListArgs {
            normal: Some("x86".to_owned()),
            powerful: Some(powerful.to_owned()),
            list,
            tag: tag.to_owned(),
            at_least: std::time::Duration::from_hours(2),
            speedup: 2.0,
            hour_worth: None,
        }
    }

    /// Reads a history with pools of two architectures, one of them with tags, and a list; the error with its causes.
    fn read(given: impl Fn(&Path) -> PowerfulListArgs, history: &str) -> Result<ListInputs, String> {
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
        given(&list).read(&config, &builds).map_err(|error| format!("{error:#}"))
    }

    /// What `simulate` prints of a history, with the pools and the list of [`read`].
    fn simulated(history: &str, output: Output) -> anyhow::Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let [pools_file, builds] = ["pools.toml", "builds.csv"].map(|name| dir.path().join(name));
        fs::write(
            &pools_file,
            "[[pool]]\nname = \"x86\"\ncores = 4\nmemory = \"16GiB\"\nprice_core_hour = 0.05\n\
             [[pool]]\nname = \"powerful\"\ncores = 64\nmemory = \"64GiB\"\ntags = [\"extra_powerful\"]\n",
        )
        .unwrap();
        fs::write(&builds, history).unwrap();
        let config = Config { pools_file: Some(pools_file), ..Config::default() };
        given("powerful", "extra_powerful", None).effects(&config, &builds, output)
    }

    #[test]
    fn the_effect_of_a_list_is_shown_as_text_and_as_json_without_the_rows_that_are_refused() {
        let mut history =
            "attempt,owner,project,package,arch,build_jobs,submitted_ms,wall_ms,peak_bytes,cpu_usec,pool\n"
                .to_owned();
        for n in 0..16 {
            let (pool, wall) = if n % 2 == 0 { ("x86", 6) } else { ("powerful", 1) };
            let (start, wall) = (1_767_225_600_000_u64 + n * 86_400_000, wall * 3_600_000);
            writeln!(history, "b{n},@a,b,gcc,fedora-42-x86_64,4,{start},{wall},1000000,0,{pool}").unwrap();
        }
        history += "w1,@a,b,gcc,fedora-42-x86_64,4,1767225600000,no,1000000,0,x86\n";
        let value: serde_json::Value =
            serde_json::from_str(&simulated(&history, Output::Json).unwrap()).unwrap();
        let lists = value["lists"].as_array().unwrap();
        let of = |at: usize| {
            (
                lists[at]["list"].as_str().unwrap(),
                lists[at]["builds"].as_u64(),
                lists[at]["powerful"].as_u64(),
            )
        };
        assert_eq!(
            (of(0), of(1)),
            (("no list", Some(16), Some(0)), ("suggested", Some(16), Some(16))),
            "{value}"
        );
        // measured in both pools: six hours become one
        assert_eq!(
            (lists[0]["time_p50_ms"].as_u64(), lists[1]["time_p50_ms"].as_u64()),
            (Some(21_600_000), Some(3_600_000))
        );
        let text = simulated(&history, Output::Text).unwrap();
        assert!(text.starts_with("list ") && text.contains("suggested      16        16 "), "{text}");
        let untimed = history.replace(",submitted_ms", ",ref");
        assert!(simulated(&untimed, Output::Json).unwrap_err().to_string().contains("no submitted_ms"));
    }

    #[test]
    fn pools_tags_lists_and_files_that_cannot_be_right_are_refused_with_what_is_there() {
        let build = format!("{HEADER}b1,@a,b,gcc,1767225600000,1000,1000000\n");
        let inputs = read(|_| given("powerful", "extra_powerful", None), &build).ok().unwrap();
        assert_eq!((inputs.builds.groups.len(), inputs.terms.arch()), (1, "x86_64"));
        let refused =
            |given: &dyn Fn(&Path) -> PowerfulListArgs, history: &str| read(given, history).err().unwrap();
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
