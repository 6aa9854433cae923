//! Generates the reference of settings for operators, `deploy/docs/settings.md`, from the
//! declarations.

use std::fmt::Write as _;

use plimsoll_proto::fixtures::assert_pinned;

use super::{Config, groups};

const HEAD: &str = "# Settings of the server

Every setting can be given as an option (`--grpc-listen`), as a variable (`PLIMSOLL_GRPC_LISTEN`) or in a TOML file (`grpc_listen`). An
option wins over a variable, a variable over the file. `--config FILE` or `PLIMSOLL_CONFIG` names the file.

`plimsoll-server --print-config` prints what is in force, and where each value comes from. A mistake in any of them stops the start; all
mistakes are reported at once, each with its place.

How values are written: sizes as `64MiB` or `2GiB`, times as `90s`, `10min` or `1day`, cores as `2`, `0.5` or `500m`, shares as `1%` or
`0.01`, lists with commas.
";

/// The text for a table cell: `|` is escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn reference_page() -> String {
    let (mut page, defaults) = (HEAD.to_owned(), Config::default());
    for group in groups::ALL {
        write!(page, "\n## {}\n\n| setting | value | default | meaning |\n|---|---|---|---|\n", group.title)
            .unwrap();
        for setting in group.settings {
            let bounds = setting.bounds.map(|bounds| format!(", {}", bounds().join(" to ")));
            let default = setting.default(&defaults);
            let is_value = setting.unset.is_none() && default != "none";
            let default = if is_value { format!("`{default}`") } else { default };
            let value = format!("{}{}", setting.value, bounds.unwrap_or_default());
            let row = [format!("`{}`", setting.name), value, default, setting.help().to_owned()];
            writeln!(page, "| {} |", row.map(|text| cell(&text)).join(" | ")).unwrap();
        }
    }
    page
}

#[test]
fn the_reference_of_settings_is_what_is_declared() {
    assert_pinned(&reference_page(), include_str!("../../../../../deploy/docs/settings.md"), "settings.md");
}
