//! Log filters in which the name of a program applies to all its crates.

/// Replaces the name of a program in a filter by the names of its crates. Directives for a single crate take precedence.
#[must_use]
pub fn for_all_crates(filter: &str, program: &str, crates: &[&str]) -> String {
    let below = |directive: &str| {
        let rest = directive.trim().strip_prefix(program)?;
        let is_whole = rest.is_empty() || rest.starts_with(['=', '[']);
        is_whole.then(|| crates.iter().map(|name| format!("{name}{rest}")).collect::<Vec<_>>())
    };
    let mut directives: Vec<String> = filter.split(',').filter_map(below).flatten().collect();
    directives.push(filter.to_owned());
    directives.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_filter_applies_to_its_crates() {
        for (written, used) in [
            ("info", "info"),
            (
                "warn,plimsoll_server=debug",
                "plimsoll_core=debug,plimsoll_store=debug,warn,plimsoll_server=debug",
            ),
            (
                "plimsoll_store=warn, plimsoll_server",
                "plimsoll_core,plimsoll_store,plimsoll_store=warn, plimsoll_server",
            ),
            ("plimsoll_server::ingest=warn", "plimsoll_server::ingest=warn"),
            ("plimsoll_servers=info", "plimsoll_servers=info"),
        ] {
            let crates = ["plimsoll_core", "plimsoll_store"];
            assert_eq!(for_all_crates(written, "plimsoll_server", &crates), used, "{written}");
        }
    }
}
