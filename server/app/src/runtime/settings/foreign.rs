//! A settings file, as a fuzz target.

use super::{Config, InForce, Mistake, PrintedConfig, source};

fn loaded(text: &str) -> Result<Config, Vec<Mistake>> {
    let (mut entries, mut mistakes) = (Vec::new(), Vec::new());
    source::parse_file("settings.toml", text, &mut entries, &mut mistakes);
    Config::of_entries(&entries, mistakes)
}

/// Parses a file, then its printed form, which must give the same settings.
pub(crate) fn read(text: &str) {
    let Ok(first) = loaded(text) else { return };
    let printed = PrintedConfig(&first).to_string();
    let again = loaded(&printed);
    let value = |row: InForce| (row.name, row.value);
    let values = |config: &Config| config.in_force().into_iter().map(value).collect::<Vec<_>>();
    match again {
        Ok(again) => assert_eq!(values(&again), values(&first), "printed as {printed}"),
        Err(mistakes) => assert!(mistakes.is_empty(), "{mistakes:?} in {printed}"),
    }
}
