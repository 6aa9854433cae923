//! The list after the suggestions: entries in force without those from which no package profits, and one for each package that would.

use plimsoll_core::placement::{CoprEntry, CoprTable};

use super::{BuildGroup, ListVerdict, Suggestion};

/// The new list of patterns and tags. An old entry loses `tag` if it matches packages and none of them profits. An entry without tags is
/// removed.
/// Errors: an entry has a pattern for which Python may take exponential time, a pattern cannot be read, or the list has more entries than
/// [`CoprTable::parse`] reads back.
pub fn new_list(old: &CoprTable, suggestions: &[Suggestion<'_>], tag: &str) -> Result<CoprTable, String> {
    old.check_backtracking().map_err(|error| error.to_string())?;
    let useless = |entry: &CoprEntry| {
        let matched = |one: &&Suggestion<'_>| one.group.names.iter().any(|name| entry.matches(name));
        let mut matched = suggestions.iter().filter(matched).peekable();
        let is_of_tag = entry.tags.iter().any(|of_entry| of_entry == tag);
        is_of_tag && matched.peek().is_some() && matched.all(|one| one.verdict == ListVerdict::Remove)
    };
    let kept = old.entries().iter().map(|entry| {
        let mut kept = entry.clone();
        if useless(entry) {
            kept.tags.retain(|of_entry| of_entry != tag);
        }
        kept
    });
    let kept = kept.filter(|entry| !entry.tags.is_empty());
    let added = suggestions.iter().filter(|one| one.verdict == ListVerdict::Add);
    let added = added.map(|one| CoprEntry::new(&pattern(one.group), vec![tag.to_owned()]));
    let entries: Vec<CoprEntry> = kept.chain(added.collect::<Result<Vec<_>, _>>()?).collect();
    if entries.len() > CoprTable::MAX_ENTRIES {
        let most = CoprTable::MAX_ENTRIES;
        return Err(format!(
            "the new list has {} entries, at most {most} are allowed: ask for a higher --speedup",
            entries.len()
        ));
    }
    Ok(CoprTable::of(entries))
}

/// The pattern of a package: its project with all its directories, chroots of its architecture, and the whole name. No part repeats another
/// repetition, so matching takes linear time for each slash.
fn pattern(group: &BuildGroup) -> String {
    let is_in_all = !group.family.is_empty() && group.archs.iter().all(|arch| arch.contains(group.family));
    let chroot = if is_in_all {
        format!("[^/]*{}[^/]*", escaped(group.family))
    } else if group.archs.iter().all(String::is_empty) {
        "[^/]*".to_owned()
    } else {
        let archs: Vec<String> = group.archs.iter().map(|arch| escaped(arch)).collect();
        format!("({})", archs.join("|"))
    };
    format!("{}(:[^/]*)?/{chroot}/{}$", escaped(&group.owner_project), escaped(&group.package))
}

/// A regular expression of Python that matches only this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
