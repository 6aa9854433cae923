//! `plimsoll-server gitlab check FILE`: which jobs of a `.gitlab-ci.yml` the include for GitLab measures, and why not the others. Reads
//! the file alone: what its own `include` adds is not seen. A `!reference` is read as its list, because the reader drops tags.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use plimsoll_proto::shown::escaped_lines;
use yaml_rust2::{Event, Yaml, YamlLoader, parser::Parser};

use super::{line::examples_text, print, print_note};

/// The job of the include whose `before_script` measures.
const TEMPLATE: &str = ".plimsoll-measure";

/// Deepest nesting of a pipeline (GitLab's `max_yaml_depth`).
const MAX_DEPTH: usize = 100;

/// Most values of a pipeline with what its aliases repeat: some 100 bytes each in memory. GitLab takes files of at most 2 MiB.
const MAX_VALUES: usize = 1_000_000;

/// Keys at the top of a file that are no jobs (GitLab's reference of CI/CD YAML).
const NO_JOBS: [&str; 11] = [
    "after_script",
    "before_script",
    "cache",
    "default",
    "image",
    "include",
    "services",
    "spec",
    "stages",
    "variables",
    "workflow",
];

/// Looks at pipelines of GitLab.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&["gitlab check .gitlab-ci.yml"]))]
pub struct Gitlab {
    #[command(subcommand)]
    what: GitlabCommand,
}

#[derive(Debug, Subcommand)]
enum GitlabCommand {
    /// Shows which jobs of a pipeline the include for GitLab measures, and fails if GitLab would refuse the pipeline.
    Check(Check),
}

#[derive(Debug, Args)]
#[command(after_help = examples_text(&["gitlab check .gitlab-ci.yml"]))]
struct Check {
    /// The project's file. Files that it includes are not read.
    file: PathBuf,
}

impl Gitlab {
    /// Errors: the file cannot be read, or GitLab would refuse it together with the include.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let GitlabCommand::Check(Check { file }) = self.what;
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        check_bounds(&text).with_context(|| file.display().to_string())?;
        let documents = YamlLoader::load_from_str(&text).with_context(|| file.display().to_string())?;
        // a component has a header before its jobs
        let pipeline = documents.last().context("the file is empty")?;
        if pipeline.as_hash().is_none() {
            bail!("{}: is no pipeline: its top level has no keys", file.display());
        }
        if !format!("{:?}", pipeline["include"]).contains("plimsoll") {
            print_note(
                "the file does not include plimsoll.gitlab-ci.yml: this is what its jobs get once it does",
            );
        }
        print(&jobs(pipeline))?;
        if find(pipeline, pipeline, "before_script").is_some() {
            bail!(
                "GitLab refuses the pipeline: before_script is at the top level, and the include has it in `default:`. Move it below \
                 `default:`, and begin it with `- !reference [{TEMPLATE}, before_script]`"
            );
        }
        Ok(())
    }
}

/// Refuses what would use up the stack or the memory of its reader.
fn check_bounds(text: &str) -> anyhow::Result<()> {
    let mut parser = Parser::new_from_str(text);
    let (mut values_of, mut open) = (HashMap::new(), vec![(0, 0_usize)]);
    loop {
        let (anchor, values) = match parser.next_token()?.0 {
            Event::StreamEnd => return Ok(()),
            Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                open.push((anchor, 1));
                (0, 0)
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().unwrap_or_default(),
            Event::Scalar(_, _, anchor, _) => (anchor, 1),
            Event::Alias(anchor) => (0, values_of.get(&anchor).copied().unwrap_or(1)),
            _ => (0, 0),
        };
        values_of.insert(anchor, values);
        if let Some((_, all)) = open.last_mut() {
            *all = all.saturating_add(values);
            ensure!(
                *all <= MAX_VALUES,
                "has more than {MAX_VALUES} values, with those that its aliases repeat"
            );
        }
        ensure!(open.len() <= MAX_DEPTH, "has values that are nested more than {MAX_DEPTH} deep");
    }
}

/// A line for each job.
fn jobs(pipeline: &Yaml) -> String {
    let mut text = String::new();
    for (name, job) in pipeline.as_hash().into_iter().flatten() {
        let Some(name) = name.as_str().filter(|name| !name.starts_with('.') && !NO_JOBS.contains(name))
        else {
            continue;
        };
        let result = match unmeasured_reason(pipeline, job) {
            Some(why) => format!("not measured: {why}"),
            None => "measured".to_owned(),
        };
        let _infallible = writeln!(text, "{}: {result}", escaped_lines(name));
    }
    text
}

fn unmeasured_reason(pipeline: &Yaml, job: &Yaml) -> Option<&'static str> {
    let own = |key| find(pipeline, job, key);
    if own("trigger").is_some() {
        return Some("it starts another pipeline, and runs nothing");
    }
    let is_off = |variables: Option<&Yaml>| {
        variables.map(|all| &all["PLIMSOLL_MEASURE"]).filter(|value| !value.is_badvalue()).map(is_off_value)
    };
    let globally = is_off(find(pipeline, pipeline, "variables"));
    if is_off(own("variables")).or(globally).unwrap_or(false) {
        return Some("PLIMSOLL_MEASURE is off");
    }
    if let Some(lines) = own("before_script") {
        let why = "its before_script does not begin with !reference [.plimsoll-measure, before_script]";
        return (!begins_with_reference(lines)).then_some(why);
    }
    let inherited = own("inherit").map_or(&Yaml::BadValue, |inherit| &inherit["default"]);
    let inherits = match inherited {
        Yaml::Array(keys) => keys.iter().any(|key| key.as_str() == Some("before_script")),
        other => other.as_bool().unwrap_or(true),
    };
    if !inherits {
        return Some("it inherits no before_script from `default:`");
    }
    let lines = find(pipeline, &pipeline["default"], "before_script")?;
    let why = "before_script of `default:` does not begin with !reference [.plimsoll-measure, before_script]";
    (!begins_with_reference(lines)).then_some(why)
}

/// `off` with or without quotes: YAML 1.2 reads both as text.
fn is_off_value(value: &Yaml) -> bool {
    let value = if value.is_hash() { &value["value"] } else { value };
    value.as_str() == Some("off")
}

fn begins_with_reference(lines: &Yaml) -> bool {
    let is_reference =
        |lines: &Yaml| lines[0].as_str() == Some(TEMPLATE) && lines[1].as_str() == Some("before_script");
    is_reference(lines) || is_reference(&lines[0])
}

/// A key of a job: its own, or that of a merge (`<<`), or of what it extends; of several the last.
fn find<'a>(pipeline: &'a Yaml, job: &'a Yaml, key: &str) -> Option<&'a Yaml> {
    find_new(pipeline, job, key, &mut HashSet::new())
}

/// [`find`] without the jobs that were looked at before: a job may extend itself, and the same job many times.
fn find_new<'a>(
    pipeline: &'a Yaml,
    job: &'a Yaml,
    key: &str,
    seen: &mut HashSet<&'a str>,
) -> Option<&'a Yaml> {
    let list = |parents: &'a Yaml| match parents {
        Yaml::Array(parents) => parents.iter().rev().collect(),
        Yaml::BadValue => vec![],
        parent => vec![parent],
    };
    if !job[key].is_badvalue() {
        return Some(&job[key]);
    }
    let merged = list(&job["<<"]).into_iter().find_map(|parent| find_new(pipeline, parent, key, seen));
    merged.or_else(|| {
        let mut names = list(&job["extends"]).into_iter().filter_map(Yaml::as_str);
        names.find_map(|name| seen.insert(name).then(|| find_new(pipeline, &pipeline[name], key, seen))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPELINE: &str = r#"
include: [{ project: infra/plimsoll, file: plimsoll.gitlab-ci.yml }]
.own: &own { before_script: [echo own] }
.measured: { before_script: [!reference [.plimsoll-measure, before_script], echo own] }
plain: { script: [make] }
own: { extends: .own, script: [make] }
merged: { <<: *own, script: [make] }
last wins: { extends: [.own, .measured], script: [make] }
whole: { before_script: !reference [.plimsoll-measure, before_script], script: [make] }
off: { variables: { PLIMSOLL_MEASURE: "off" }, script: [make] }
nothing inherited: { inherit: { default: false }, script: [make] }
image inherited: { inherit: { default: [image] }, script: [make] }
script inherited: { inherit: { default: [before_script] }, script: [make] }
other: { trigger: group/other }
circle: { extends: [circle, circle, circle], script: [make] }
"#;

    fn measured(text: &str) -> Vec<String> {
        let pipeline = YamlLoader::load_from_str(text).unwrap().remove(0);
        let lines = jobs(&pipeline);
        lines.lines().filter_map(|line| line.strip_suffix(": measured").map(str::to_owned)).collect()
    }

    #[test]
    fn each_job_says_whether_it_is_measured() {
        assert_eq!(measured(PIPELINE), ["plain", "last wins", "whole", "script inherited", "circle"]);
        let elsewhere = format!("{PIPELINE}default: {{ before_script: [echo all] }}\n");
        assert_eq!(measured(&elsewhere), ["last wins", "whole"]);
        let off = format!("{PIPELINE}variables: {{ PLIMSOLL_MEASURE: {{ value: off }} }}\n");
        assert_eq!(measured(&off), [""; 0]);
    }

    #[test]
    fn what_would_use_up_the_reader_is_refused() {
        let nested: Vec<String> = (0..3000).map(|level| " ".repeat(level) + "k:\n").collect();
        let doubling = |level| format!("k{level}: &a{level} [*a{before}, *a{before}]\n", before = level - 1);
        let aliases = format!("k0: &a0 x\n{}", (1..60).map(doubling).collect::<String>());
        for (text, why) in
            [(nested.concat(), "100 deep"), ("- ".repeat(100_000), "100 deep"), (aliases, "values")]
        {
            assert!(check_bounds(&text).unwrap_err().to_string().contains(why), "{why}");
        }
        check_bounds(PIPELINE).unwrap();
    }

    #[test]
    fn a_pipeline_that_gitlab_refuses_fails() {
        let dir = tempfile::tempdir().unwrap();
        for (more, refused) in [("", false), ("before_script: [echo all]\n", true)] {
            let file = dir.path().join("ci.yml");
            fs::write(&file, format!("{PIPELINE}{more}")).unwrap();
            let result = Gitlab { what: GitlabCommand::Check(Check { file }) }.run();
            assert_eq!(result.is_err_and(|error| error.to_string().contains("Move it below")), refused);
        }
    }
}
