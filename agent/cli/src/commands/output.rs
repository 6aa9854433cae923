//! Options for reading the build's output, and for the report at the end.

use std::{io, path::PathBuf};

use clap::Args;

use crate::{
    job_summary::{self, Style},
    key::CiJob,
    output::{BUILD_TOOLS, PATTERNS, PHASE_TOOLS, Pattern, PhaseMarks},
    terminal_width::terminal_columns,
};

/// Options for finding the phases of a build in its output.
#[derive(Debug, Args)]
pub(super) struct PhaseArgs {
    /// Where phases of the build come from: `auto`, `off`, or a list of `gitlab`, `github`, `buildkite`, `jenkins`, `spack` and `rpm`. `auto`
    /// reads the output in a CI job (`CI` is set, or its system is known) or if there is a pattern, for the CI system, `spack` and `rpm`. On
    /// a terminal, `auto` without a pattern does not read the output; any other value gives the build a terminal of its own.
    #[arg(
        long,
        value_name = "WHICH",
        env = "PLIMSOLL_PHASES",
        default_value = "auto",
        value_delimiter = ','
    )]
    phases: Vec<String>,
    /// A line of the output that matches this begins a phase; its first named group, or its first group, is the name. May be
    /// given 16 times.
    #[arg(long = "phase-pattern", value_name = "REGEX", value_parser = Pattern::new)]
    patterns: Vec<Pattern>,
}

impl PhaseArgs {
    /// Which markers to look for in the output; `None` if the output is not read.
    pub(super) fn phase_marks(self, job: &CiJob) -> Result<Option<PhaseMarks>, String> {
        let Self { phases, patterns } = self;
        if patterns.len() > PATTERNS {
            return Err(format!("--phase-pattern may be given {PATTERNS} times"));
        }
        let words: Vec<&str> =
            phases.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["off"] if patterns.is_empty() => Ok(None),
            ["off"] => Err("--phases off and --phase-pattern exclude each other".to_owned()),
            [] | ["auto"] => {
                let wanted = job.ci || !patterns.is_empty();
                let terminals = !patterns.is_empty();
                let tools = job.system().phases.into_iter().chain(&BUILD_TOOLS).collect();
                Ok(wanted.then_some(PhaseMarks { tools, patterns, terminals }))
            }
            names => {
                if let Some(other) =
                    names.iter().find(|name| PHASE_TOOLS.iter().all(|tool| tool.name != **name))
                {
                    let known: Vec<&str> = PHASE_TOOLS.iter().map(|tool| tool.name).collect();
                    return Err(format!(
                        "--phases {other:?}: expected auto, off, or a list of {}",
                        known.join(", ")
                    ));
                }
                let tools = PHASE_TOOLS.iter().copied().filter(|tool| names.contains(&tool.name)).collect();
                Ok(Some(PhaseMarks { tools, patterns, terminals: true }))
            }
        }
    }
}

/// Checks a value of `--phases`.
pub(super) fn check_phases(words: &str) -> Result<(), String> {
    let phases = words.split(',').map(str::to_owned).collect();
    PhaseArgs { phases, patterns: Vec::new() }.phase_marks(&CiJob::default()).map(drop)
}

/// Checks a value of `--report`.
pub(super) fn check_report(words: &str) -> Result<(), String> {
    let report = words.split(',').map(str::to_owned).collect();
    ReportArgs { report, report_file: None, quiet: false }.settings(&CiJob::default()).map(drop)
}

/// Options for the report at the end of the build.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Report at the end: `text`, `line` or `none`, and `json=FILE` besides [default: text in a CI job; else line, and on a terminal the
    /// verdict on a build that failed].
    #[arg(long, value_name = "STYLE", env = "PLIMSOLL_REPORT", value_delimiter = ',')]
    report: Vec<String>,
    /// Write the report to this file too, as JSON.
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_REPORT_FILE")]
    report_file: Option<PathBuf>,
    /// Print errors only, as `--report none`.
    #[arg(long)]
    quiet: bool,
}

impl ReportArgs {
    /// Settings of the report at the end of the build.
    pub(super) fn settings(self, job: &CiJob) -> Result<job_summary::Settings, String> {
        let columns = terminal_columns(io::stderr());
        Ok(job_summary::Settings { columns, ..self.settings_on(job, columns.is_some())? })
    }

    /// Settings of the report. `is_terminal` is true if standard error is a terminal.
    fn settings_on(self, job: &CiJob, is_terminal: bool) -> Result<job_summary::Settings, String> {
        let mut style = if job.ci { Style::Text } else { Style::Line };
        let mut is_chosen = false;
        let mut file = self.report_file.filter(|path| !path.as_os_str().is_empty());
        for word in self.report.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
            match (word, word.strip_prefix("json=")) {
                ("text", _) => (style, is_chosen) = (Style::Text, true),
                ("line", _) => (style, is_chosen) = (Style::Line, true),
                ("none", _) => (style, is_chosen) = (Style::None, true),
                (_, Some(path)) if !path.is_empty() => file = Some(PathBuf::from(path)),
                _ => return Err(format!("--report {word:?}: expected text, line, none or json=FILE")),
            }
        }
        if self.quiet {
            style = Style::None;
        }
        let short_verdict = is_terminal && style == Style::Line && !is_chosen;
        let (fold, utf8) = (job.recognized, job.utf8);
        Ok(job_summary::Settings { style, fold, utf8, columns: None, file, short_verdict })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use plimsoll_base::ci::GITLAB;

    use super::*;
    use crate::output::PhaseTool;

    #[derive(Debug, clap::Parser)]
    struct TestArgs {
        #[command(flatten)]
        phases: PhaseArgs,
        #[command(flatten)]
        report: ReportArgs,
    }

    fn job(variables: &[(&str, &str)]) -> CiJob {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        CiJob::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn line(words: &[&str]) -> Result<TestArgs, String> {
        TestArgs::try_parse_from(["x"].iter().chain(words)).map_err(|error| error.to_string())
    }

    fn marks(words: &[&str], job: &CiJob) -> Result<Option<(String, usize)>, String> {
        let marks = line(words)?.phases.phase_marks(job)?;
        let names = |tools: Vec<&'static PhaseTool>| {
            tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(" ")
        };
        Ok(marks.map(|marks| (names(marks.tools), marks.patterns.len())))
    }

    #[test]
    fn output_is_scanned_in_ci_or_on_request() {
        let (here, ci) = (job(&[("CI", "")]), job(&[("CI", "true")]));
        let found = |names: &str, patterns| Ok(Some((names.to_owned(), patterns)));
        assert_eq!(marks(&[], &here), Ok(None));
        assert_eq!(marks(&[], &ci), found("gitlab spack rpm", 0));
        assert_eq!(marks(&["--phases", "off"], &ci), Ok(None));
        assert_eq!(marks(&["--phases", "spack"], &here), found("spack", 0));
        assert_eq!(marks(&["--phases", "rpm"], &here), found("rpm", 0));
        assert_eq!(marks(&["--phases", "spack,gitlab"], &here), found("gitlab spack", 0));
        assert_eq!(marks(&["--phase-pattern", "^In (.*)"], &here), found("gitlab spack rpm", 1));
        assert!(marks(&["--phases", "make"], &here).unwrap_err().contains("expected auto, off"));
        assert!(marks(&["--phases", "gitlab,off"], &here).unwrap_err().contains("\"off\""));
        assert!(marks(&["--phases", "off", "--phase-pattern", "(x)"], &ci).unwrap_err().contains("exclude"));
        assert!(marks(&["--phase-pattern", "x"], &ci).unwrap_err().contains("needs a group"));
        let many = ["--phase-pattern", "(x)"].repeat(17);
        assert!(marks(&many, &ci).unwrap_err().contains("16 times"));
    }

    #[test]
    fn a_terminal_shows_the_verdict_by_default() {
        let shows = |words: &[&str], job: &CiJob, is_terminal| {
            line(words).unwrap().report.settings_on(job, is_terminal).unwrap().short_verdict
        };
        let (here, ci) = (job(&[]), job(&[("CI", "1")]));
        assert!(shows(&[], &here, true) && shows(&["--report", "json=a.json"], &here, true));
        assert!(!shows(&[], &here, false), "a file is read by no person at once");
        assert!(!shows(&[], &ci, true), "the page has it already");
        for chosen in [&["--quiet"][..], &["--report", "line"], &["--report", "none"], &["--report", "text"]]
        {
            assert!(!shows(chosen, &here, true), "{chosen:?}");
        }
    }

    #[test]
    fn the_report_is_multiline_only_in_ci() {
        let settings = |words: &[&str], job: &CiJob| line(words)?.report.settings_on(job, false);
        let (here, ci) =
            (job(&[]), job(&[("CI", "1"), ("GITLAB_CI", "true"), ("LANG", "C"), ("LC_CTYPE", "de_DE.utf8")]));
        assert_eq!(settings(&[], &here), Ok(job_summary::Settings::default()));
        let folded = job_summary::Settings {
            style: Style::Text,
            fold: Some(&GITLAB),
            utf8: true,
            ..job_summary::Settings::default()
        };
        assert_eq!(settings(&[], &ci), Ok(folded.clone()));
        assert_eq!(settings(&["--report", "text,json=a.json"], &ci).unwrap().file, Some("a.json".into()));
        assert_eq!(settings(&["--report", "json=a.json"], &ci).unwrap().style, Style::Text);
        let alone = settings(&["--report-file", "b", "--report", "none"], &ci).unwrap();
        assert_eq!(alone.file, Some("b".into()));
        assert_eq!(settings(&["--quiet"], &ci), Ok(job_summary::Settings { style: Style::None, ..folded }));
        assert!(settings(&["--report", "loud"], &ci).unwrap_err().contains("expected text, line, none"));
        assert!(settings(&["--report", "json="], &ci).unwrap_err().contains("expected text, line, none"));
    }
}
