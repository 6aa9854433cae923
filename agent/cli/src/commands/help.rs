//! The last part of each command's `--help`: exit statuses, then examples. A test parses every example.

use clap::builder::styling::{AnsiColor, Styles};

/// Most columns of a help text, even on a wider terminal.
pub(super) const COLUMNS: usize = 80;

/// Colours of help texts and of errors in options. clap uses them only on a terminal, and not if `NO_COLOR` is
/// set.
pub(super) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Yellow.on_default());

/// `statuses`, followed by examples; each starts with the command's name.
pub(super) fn end(statuses: &str, examples: &[&str]) -> String {
    let head = if examples.len() == 1 { "Example:" } else { "Examples:" };
    let gap = if statuses.is_empty() { "" } else { "\n\n" };
    let lines: Vec<String> = examples.iter().map(|example| format!("  plimsoll {example}")).collect();
    format!("{statuses}{gap}{head}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::super::common_options;

    /// Each command that a person types, and the program itself.
    fn walk(command: &Command, visit: &mut impl FnMut(&Command)) {
        visit(command);
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            walk(inner, visit);
        }
    }

    fn all(mut visit: impl FnMut(&Command)) {
        let mut line = common_options::command_line();
        line.build();
        walk(&line, &mut visit);
    }

    #[test]
    fn every_help_ends_with_valid_examples() {
        all(|command| {
            let name = command.get_name();
            let help = command.clone().render_long_help().to_string();
            let (_, examples) = help.rsplit_once("Example").unwrap_or_else(|| unreachable!("{name}: {help}"));
            let examples: Vec<&str> = examples.lines().skip(1).collect();
            assert!((1..=2).contains(&examples.len()), "{name}: {examples:?}");
            for example in examples {
                // the shell handles the redirection after ">"
                let typed = example.split(" > ").next().unwrap_or_default();
                let read = common_options::command_line().try_get_matches_from(typed.split_whitespace());
                assert!(read.is_ok(), "{example}: {read:?}");
                let is_own = name == "plimsoll" || typed.split_whitespace().nth(1) == Some(name);
                assert!(is_own, "{name}: {example}");
            }
        });
    }
}
