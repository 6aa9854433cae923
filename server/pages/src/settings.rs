//! The page of the settings in force. Secrets are in files; the page shows the names of the files and never
//! their content.

use maud::{Markup, html};

use super::{
    page::plain_page,
    table::table,
    view::{Fields, ReaderChoice},
    words,
};
/// A setting in force, as a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct SettingRow<'a> {
    /// Name of the setting.
    pub name: &'a str,
    /// Value of the setting; empty if none is set.
    pub value: &'a str,
    /// Where the value was set: an option, a variable or a file.
    pub place: &'a str,
    /// The setting's text in `--help`.
    pub meaning: &'a str,
}

/// What the page of settings shows.
#[derive(Debug, Clone, Copy)]
pub struct SettingsPage<'a> {
    /// The reader's choice of time, project and stack.
    pub view: &'a ReaderChoice,
    /// The search text.
    pub fields: &'a Fields,
    /// All settings.
    pub rows: &'a [SettingRow<'a>],
}

impl SettingsPage<'_> {
    /// The whole page.
    pub fn draw(&self) -> Markup {
        let Self { view, fields, .. } = *self;
        let sought = fields.get("q").to_lowercase();
        let text =
            |row: &SettingRow<'_>| [row.name, row.value, row.place, row.meaning].join(" ").to_lowercase();
        let rows: Vec<_> = self.rows.iter().filter(|row| text(row).contains(&sought)).collect();
        let body = html! {
            h1 { "Settings in force" }
            p.lead {
                "An option wins over a variable, a variable over the file. " code { "plimsoll-server --print-config" }
                " prints the same as a file that can be read back."
            }
            form.search role="search" action="/settings" method="get" {
                label { "Show settings with" input type="search" name="q" value=(fields.get("q")) data-narrows="settings" autocomplete="off"; }
            }
            div #settings { (table("Settings in force", ["Setting", "Value", "From", "¶What it does"], rows.into_iter().map(cells))) }
        };
        plain_page("Settings in force", "/settings", view, &body)
    }
}

fn cells(row: &SettingRow<'_>) -> [Markup; 4] {
    [
        html! { code.keep { (row.name) } },
        html! { @if row.value.is_empty() { span.quiet { "not set" } } @else { code { (row.value) } } },
        html! { @if row.place == "default" { span.quiet { "default" } } @else { (row.place) } },
        meaning(row),
    ]
}

/// The text of `--help` for a setting, with commands and names marked. If the default is in force it is left
/// out, because the column of values shows it.
fn meaning(row: &SettingRow<'_>) -> Markup {
    let (text, default) = row.meaning.split_once(" [default: ").unwrap_or((row.meaning, ""));
    let default = default.strip_suffix(']').unwrap_or(default);
    let is_shown = default.is_empty() || default == "none" || default == row.value;
    html! {
        (words::marked_up(text)) @if !text.ends_with('.') { "." }
        @if !is_shown { " Default: " (words::marked_up(default)) "." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: &str, meaning: &str) -> String {
        let row = SettingRow { name: "x", value, place: "default", meaning };
        super::meaning(&row).into_string()
    }

    #[test]
    fn a_default_in_force_is_shown_once() {
        assert_eq!(row("1day", "Age of `x` [default: 1day]"), "Age of <code>x</code>.");
        assert_eq!(row("2days", "Age [default: 1day]"), "Age. Default: 1day.");
        assert_eq!(row("", "Age. [default: never]"), "Age. Default: never.");
        assert_eq!(row("", "Age. [default: none]"), "Age.");
    }
}
