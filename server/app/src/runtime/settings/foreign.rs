//! A settings file, as a fuzz target.

use super::{Config, Loaded, Mistake, source};

fn loaded(text: &str) -> Result<Loaded, Vec<Mistake>> {
    let (mut entries, mut mistakes) = (Vec::new(), Vec::new());
    source::parse_file("settings.toml", text, &mut entries, &mut mistakes);
    Config::of_entries(&entries, mistakes)
}

/// Parses a file, then its printed form, which must give the same settings.
pub(crate) fn read(text: &str) {
    let Ok(first) = loaded(text) else { return };
    let printed = first.to_string();
    let again = loaded(&printed);
    let values = |loaded: &Loaded| {
        loaded.rows.iter().map(|(name, value, _place)| (*name, value.clone())).collect::<Vec<_>>()
    };
    match again {
        Ok(again) => assert_eq!(values(&again), values(&first), "printed as {printed}"),
        Err(mistakes) => assert!(mistakes.is_empty(), "{mistakes:?} in {printed}"),
    }
}
