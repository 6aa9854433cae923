//! The agent's program, run to its end.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::programs::Programs;

/// How to call the agent's program: with which server and which spool.
#[derive(Debug, Clone)]
pub struct Agent {
    program: PathBuf,
    server: String,
    spool: PathBuf,
    environment: Vec<(String, String)>,
}

/// What a program said, and how it ended.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Answer {
    /// Runs a program to its end.
    #[expect(clippy::expect_used, reason = "without the program no test can run")]
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program must start");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs a program that writes only UTF-8 to its end.
    #[expect(clippy::expect_used, reason = "a test whose program writes no text has failed")]
    pub fn of_text(command: &mut Command) -> Self {
        let output = command.output().expect("the program must start");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program must write UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What a program that has succeeded wrote to stdout.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// What it wrote to both of its streams.
    pub fn printed(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Agent {
    /// The agent for the server at this URL, with its spool in this directory.
    pub fn new(programs: &Programs, server: impl Into<String>, spool: &Path) -> Self {
        let (program, spool) = (programs.agent.clone(), spool.to_owned());
        Self { program, server: server.into(), spool, environment: Vec::new() }
    }

    /// The agent without a server, with its spool in `dir`.
    pub fn alone(dir: &Path) -> Self {
        Self::new(Programs::for_tests(), "none", &dir.join("spool"))
    }

    /// The same agent with one more variable in its environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where it keeps samples that the server does not have yet.
    pub fn spool(&self) -> &Path {
        &self.spool
    }

    /// The command, for tests that want to watch it run. Its environment holds only `PATH` and what was added. What measures waits for a
    /// slow server longer than a build does.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME"));
        command.env("PLIMSOLL_SERVER", &self.server).env("PLIMSOLL_SPOOL_DIR", &self.spool);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let (words, rest) = arguments.split_at(arguments.len().min(1));
        command.args(words).stdin(Stdio::null());
        if matches!(words, ["run" | "attach"]) && !rest.contains(&"--patience") {
            command.args(["--patience", "2m"]);
        }
        command.args(rest);
        command
    }

    /// Runs it to its end.
    pub fn call(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    /// Measures a shell script with `run` and these options, which hold no blanks.
    pub fn run(&self, options: &str, script: &str) -> Answer {
        let options: Vec<&str> = options.split_whitespace().collect();
        self.call(&[&["run"], &options[..], &["--", "sh", "-c", script]].concat())
    }

    /// Runs it to its end and reads its JSON.
    #[expect(clippy::panic, reason = "a test that gets no JSON has failed")]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let answer = self.call(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error} in {answer:?}"))
    }
}
