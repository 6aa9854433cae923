//! `plimsoll gitlab-ci`: prints a job to paste into `.gitlab-ci.yml`.

use std::fmt::Write as _;

use clap::Args;
use plimsoll_client::questions::QuestionFailure;

use super::{DEFAULT_SERVER, help};
use crate::ask::CommandOutput;

/// Exit codes by which a printed job reports verdicts. They are above the codes that programs use, and below
/// 126, where the shell's own codes begin.
const VERDICT_CODES: [(&str, u8); 4] = [("bigger", 82), ("as-is", 83), ("longer", 84), ("elsewhere", 85)];

/// Print a GitLab job that runs a command with the agent, and is retried only when that can help.
///
/// Verdicts become exit codes, and GitLab retries only those that another attempt can mend. The report of the build becomes an
/// artifact.
#[derive(Debug, Args)]
#[command(after_help = help::end("Exit status: 0 printed, 2 wrong usage.", &["gitlab-ci --job build -- make -j4"]))]
pub(super) struct GitlabCiArgs {
    /// Name of the job.
    #[arg(long, value_name = "NAME", default_value = "build")]
    job: String,
    /// Address of the server, as the job reaches it; of several servers over one store, all of them, separated by commas.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    /// Also retry after a verdict that memory was short. Needs something that gives the next pod more, such as the admission webhook.
    #[arg(long)]
    bigger_pods: bool,
    /// Retries that GitLab may make, at most 2.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    max: u8,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl GitlabCiArgs {
    /// Prints the job.
    pub(super) fn print(&self) -> Result<CommandOutput, QuestionFailure> {
        let one_line = |name: &str, text: &str| {
            let wrong = text.chars().any(char::is_control);
            let why = || format!("{name} {text:?} holds a line break or another control character");
            if wrong { Err(QuestionFailure::Question(why())) } else { Ok(()) }
        };
        one_line("--job", &self.job)?;
        one_line("--server", &self.server)?;
        self.command.iter().try_for_each(|word| one_line("COMMAND", word))?;
        let command = shlex::try_join(self.command.iter().map(String::as_str))
            .map_err(|error| QuestionFailure::Question(format!("COMMAND: {error}")))?;
        let codes: Vec<String> =
            VERDICT_CODES.iter().map(|(verdict, code)| format!("{verdict}={code}")).collect();
        let retried = VERDICT_CODES.iter().filter(|(verdict, _)| match *verdict {
            "bigger" => self.bigger_pods,
            // a retry has the same time limit, so it does not help
            "longer" => false,
            _ => true,
        });
        let retried: Vec<String> = retried.map(|(_, code)| code.to_string()).collect();
        let mut text = format!("{}:\n  variables:\n", yaml_quoted(&self.job));
        let _written = writeln!(text, "    PLIMSOLL_SERVER: {}", yaml_quoted(&self.server));
        let _written = writeln!(text, "    PLIMSOLL_EXIT_CODE_FOR: {}", yaml_quoted(&codes.join(",")));
        let _written = writeln!(text, "    PLIMSOLL_REPORT_FILE: plimsoll.json");
        // without this setting, GitLab's runner reports exit code 1 for every failure of bash
        let _written = writeln!(text, "    FF_USE_NEW_BASH_EVAL_STRATEGY: 'true'");
        // the job already runs the agent, so the admission webhook must not add another one
        let _written = writeln!(text, "    KUBERNETES_POD_ANNOTATIONS_PLIMSOLL: plimsoll/agent=off");
        let _written =
            writeln!(text, "  script:\n    - {}", yaml_quoted(&format!("plimsoll run -- {command}")));
        let _written = writeln!(text, "  artifacts:\n    when: always\n    paths: [plimsoll.json]");
        let _written = writeln!(text, "  retry:\n    max: {}", self.max);
        let _written = writeln!(text, "    when: [runner_system_failure, scheduler_failure]");
        let _written = writeln!(text, "    exit_codes: [{}]", retried.join(", "));
        Ok(CommandOutput::data(text))
    }
}

/// A YAML string with exactly these characters.
fn yaml_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command, people::PeopleCommand};

    fn printed(words: &[&str]) -> Result<String, String> {
        let line = ["plimsoll", "gitlab-ci", "--server", "http://p:7410"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::People(PeopleCommand::GitlabCi(args)) => {
                args.print().map(|answer| answer.output).map_err(|failure| failure.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_generated_job_runs_and_retries_the_command() {
        let text = printed(&["--job", "zlib 'x'", "--", "make", "-j8", "CFLAGS=-O2 -g"]).unwrap();
        let expected = "'zlib ''x''':
  variables:
    PLIMSOLL_SERVER: 'http://p:7410'
    PLIMSOLL_EXIT_CODE_FOR: 'bigger=82,as-is=83,longer=84,elsewhere=85'
    PLIMSOLL_REPORT_FILE: plimsoll.json
    FF_USE_NEW_BASH_EVAL_STRATEGY: 'true'
    KUBERNETES_POD_ANNOTATIONS_PLIMSOLL: plimsoll/agent=off
  script:
    - 'plimsoll run -- make -j8 ''CFLAGS=-O2 -g'''
  artifacts:
    when: always
    paths: [plimsoll.json]
  retry:
    max: 2
    when: [runner_system_failure, scheduler_failure]
    exit_codes: [83, 85]
";
        assert_eq!(text, expected);
        assert!(printed(&["--bigger-pods", "--", "make"]).unwrap().contains("exit_codes: [82, 83, 85]"));
    }

    #[test]
    fn its_codes_are_codes_that_run_takes() {
        let codes: Vec<String> =
            VERDICT_CODES.iter().map(|(verdict, code)| format!("{verdict}={code}")).collect();
        super::super::verdict_args::check_exit_codes(&codes.join(",")).unwrap();
    }

    #[test]
    fn wrong_usage_is_refused() {
        assert!(printed(&["--", "a\nb"]).unwrap_err().contains("line break"));
        assert!(printed(&["--job", "a\nb", "--", "make"]).unwrap_err().contains("--job"));
        assert!(printed(&["--max", "3", "--", "make"]).is_err());
        assert!(printed(&[]).is_err());
    }
}
