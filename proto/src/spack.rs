//! Converts Spack's spellings to those of a key. The agent reads them in the job, the server in the request of the generate job; both must
//! derive the same key, whatever the release of Spack.

/// Returns the variants in the spelling that all releases of Spack share, and the build system, which is a variant in Spack and a field of
/// the key here. Spack 1.x writes `name:=a,b` for what 0.23 writes as `name=a,b`.
pub fn variants(text: &str) -> (String, String) {
    let mut build_system = String::new();
    let mut kept: Vec<String> = Vec::new();
    for word in words(text) {
        let word = match word.split_once(":=") {
            Some((name, values)) if is_name(name) => format!("{name}={values}"),
            _ => word.to_owned(),
        };
        match word.strip_prefix("build_system=") {
            Some(system) => system.clone_into(&mut build_system),
            None => kept.push(word),
        }
    }
    (kept.join(" "), build_system)
}

/// The name or version of a compiler. Spack 1.x writes `none` if a package has no compiler; the result is then empty, which means not
/// known.
pub fn compiler(text: &str) -> &str {
    if text == "none" { "" } else { text }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Splits a text at spaces that are not in quotes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let between = move |c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c.is_whitespace()
    };
    text.split(between).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_normalized_without_the_build_system() {
        let (rest, system) =
            variants("~cxx+shared api=default build_system=cmake build_type=Release generator=make");
        assert_eq!(rest.as_str(), "~cxx+shared api=default build_type=Release generator=make");
        assert_eq!(system.as_str(), "cmake");
        let (rest, system) = variants("build_system:=generic languages:='c,c++,fortran'  x:='a b:=c'");
        assert_eq!((rest.as_str(), system.as_str()), ("languages='c,c++,fortran' x='a b:=c'", "generic"));
        assert_eq!(variants(""), (String::new(), String::new()));
    }
}
