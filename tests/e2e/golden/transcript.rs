//! A program on a terminal of 80 columns, and all that it prints there.

use std::{
    fmt::Write as _,
    fs::File,
    io::Read as _,
    process::{Command, Stdio},
};

use nix::pty::{Winsize, openpty};
use regex::Regex;

/// Width of the terminal.
const COLUMNS: u16 = 80;

/// Commands and what they printed, with placeholders for what differs from run to run.
pub(super) struct Transcript {
    text: String,
    placeholders: Vec<(Regex, String)>,
}

/// What a program printed on its terminal, and its exit status.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) status: Option<i32>,
}

/// Runs a program on a terminal; both of its streams go there.
fn on_a_terminal(command: &mut Command) -> Shown {
    let size = Winsize { ws_row: 40, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let ends = openpty(Some(&size), None).unwrap();
    command.stdin(Stdio::null()).stdout(ends.slave.try_clone().unwrap()).stderr(ends.slave);
    let mut child = command.spawn().unwrap();
    // else this process would hold the terminal open, and it would never end
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut terminal, mut bytes) = (File::from(ends.master), Vec::new());
    // a terminal whose programs have all ended is an error to read
    let _gone = terminal.read_to_end(&mut bytes);
    let status = child.wait().unwrap().code();
    Shown { text: String::from_utf8(bytes).unwrap().replace("\r\n", "\n"), status }
}

impl Transcript {
    /// Nothing yet. `placeholders`: a pattern, and what stands in its place.
    pub(super) fn new(placeholders: &[(&str, &str)]) -> Self {
        let compiled = |(pattern, name): &(&str, &str)| (Regex::new(pattern).unwrap(), (*name).to_owned());
        Self { text: String::new(), placeholders: placeholders.iter().map(compiled).collect() }
    }

    /// A head above the commands that follow.
    pub(super) fn head(&mut self, words: &str) {
        let _written = write!(self.text, "{}# {words}\n\n", if self.text.is_empty() { "" } else { "\n" });
    }

    /// A remark on the commands that follow.
    pub(super) fn note(&mut self, words: &str) {
        let _written = write!(self.text, "{words}\n\n");
    }

    /// Runs a command and writes down its line and what it printed. `line`: what stands for the command.
    pub(super) fn run(&mut self, line: &str, command: &mut Command) {
        let shown = on_a_terminal(command.env("NO_COLOR", "1").env("TERM", "xterm"));
        self.write(line, &shown);
    }

    /// Writes down what a command printed.
    pub(super) fn write(&mut self, line: &str, shown: &Shown) {
        let mut text = shown.text.clone();
        for (pattern, name) in &self.placeholders {
            text = pattern.replace_all(&text, name.as_str()).into_owned();
        }
        let status = match shown.status {
            Some(0) => String::new(),
            Some(code) => format!("[exit status {code}]\n"),
            None => "[ended by a signal]\n".to_owned(),
        };
        let _written = writeln!(self.text, "$ {line}\n{text}{status}");
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
