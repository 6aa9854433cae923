//! Checks the variants of a spec, as Spack writes those of one build: switches without spaces between them, then one value for each name.
//!
//! | form | meaning |
//! |---|---|
//! | `+name`, `~name` | a switch; doubled where dependencies inherit it |
//! | `name=value`, `name:=a,b`, `name==value` | a value: a word, or a text in quotes |

use std::collections::HashSet;

/// Characters that a value without quotes may contain, besides letters and digits.
const VALUE_CHARACTERS: &str = "_-+*.,:=%^~/\\";
/// Names that are part of the architecture, and are not variants.
const ARCH_NAMES: [&str; 5] = ["arch", "architecture", "platform", "os", "target"];

/// Checks that the text lists variants of one build.
/// Errors: Names the part that is invalid and the expected form.
pub(super) fn check_variants(text: &str) -> Result<(), String> {
    let (mut rest, mut known) = (text.trim_start_matches(' '), HashSet::new());
    while !rest.is_empty() {
        let (name, behind) = match rest.chars().next() {
            Some(sign @ ('+' | '~')) => split_switch(rest, sign)?,
            Some('-') => {
                let word = first_word(rest);
                return Err(format!("its variant {word:?} is off; write ~{}", word.trim_start_matches('-')));
            }
            Some('%') => return Err("has a compiler among the variants; write it behind the arch".to_owned()),
            Some('^') => return Err(format!("has a dependency ({}); ask for one package", first_word(rest))),
            Some('@') => return Err(format!("has a second version ({}); write one", first_word(rest))),
            Some('/') => return Err(format!("has a hash ({}); leave it out", first_word(rest))),
            _ => split_value(rest)?,
        };
        if ARCH_NAMES.contains(&name) {
            return Err(format!(
                "has {name}= among the variants; write arch=PLATFORM-OS-TARGET once, at the end"
            ));
        }
        if !known.insert(name) {
            return Err(format!("its variant {name:?} is given twice; write it once"));
        }
        rest = behind.trim_start_matches(' ');
    }
    Ok(())
}

/// Splits the text after the name of the switch that it starts with.
fn split_switch(text: &str, sign: char) -> Result<(&str, &str), String> {
    let named = text.strip_prefix(sign).unwrap_or(text);
    let (name, behind) = split_name(named.strip_prefix(sign).unwrap_or(named));
    let ends = behind.is_empty() || behind.starts_with([' ', '+', '~']);
    if name.is_empty() || !ends {
        return Err(format!(
            "its variant {:?} is not understood; write {sign}NAME or NAME=VALUE",
            first_word(text)
        ));
    }
    Ok((name, behind))
}

/// Splits the text after the name of the `name=value` that it starts with.
fn split_value(text: &str) -> Result<(&str, &str), String> {
    let wrong =
        || format!("its variant {:?} is not understood; write +NAME, ~NAME or NAME=VALUE", first_word(text));
    let (name, behind) = split_name(text);
    let behind = behind.strip_prefix(':').unwrap_or(behind);
    let behind = behind.strip_prefix('=').filter(|_| !name.is_empty()).ok_or_else(wrong)?;
    let behind = behind.strip_prefix('=').unwrap_or(behind);
    if let Some(quote) = behind.chars().next().filter(|c| ['\'', '"'].contains(c)) {
        let inside = behind.strip_prefix(quote).unwrap_or(behind);
        let (_, after) = inside.split_once(quote).ok_or_else(|| {
            format!("its variant {name:?} has a quote that does not end; write {quote} behind the value")
        })?;
        return if after.is_empty() || after.starts_with(' ') { Ok((name, after)) } else { Err(wrong()) };
    }
    let end = behind.find(' ').unwrap_or(behind.len());
    let (value, after) = behind.split_at(end);
    if value.is_empty() {
        return Err(format!("its variant {name:?} has no value; write {name}=VALUE"));
    }
    match value.chars().find(|c| !c.is_ascii_alphanumeric() && !VALUE_CHARACTERS.contains(*c)) {
        Some(c) => Err(format!("its variant {name:?} holds {c:?}; put the value in quotes")),
        None => Ok((name, after)),
    }
}

/// Splits the text after the name that it starts with.
fn split_name(text: &str) -> (&str, &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    if name.starts_with(['-', '.']) { ("", text) } else { (name, behind) }
}

/// The first word of the text, for error messages.
fn first_word(text: &str) -> String {
    text.split(' ').next().unwrap_or_default().chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_spack_writes_is_taken() {
        for text in [
            "",
            "+a",
            "~a+b~c-d+e_f~X build_system=cmake",
            "++a~~b c==d e:==f,g",
            "languages:='c,c++,for tran' x=\"a 'b' arch=c\" y=''",
            "patches:=26090f4,b231fcc a=b=c dev_path=/home/x/y commit=0123456789abcdef",
            "cflags=='-O2 -g'   cuda_arch=80,90 v=1.2:1.4",
        ] {
            assert_eq!(check_variants(text), Ok(()), "{text}");
        }
    }
}
