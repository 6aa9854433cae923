//! The log filter: the server's name in it applies to all crates of the server.

/// The crates that the server is made of.
pub(crate) const CRATES: [&str; 3] = ["plimsoll_core", "plimsoll_store", "plimsoll_lab"];

/// The server's name in a filter.
pub(crate) const SERVER: &str = "plimsoll_server";

/// Extends the server's name in a filter to all its crates. Directives for a single crate take precedence.
pub(crate) fn for_all_crates(filter: &str) -> String {
    let mut directives: Vec<String> = filter.split(',').filter_map(below).flatten().collect();
    directives.push(filter.to_owned());
    directives.join(",")
}

/// The directives for the crates below that follow from one for the server.
fn below(directive: &str) -> Option<[String; CRATES.len()]> {
    let rest = directive.trim().strip_prefix(SERVER)?;
    let is_whole = rest.is_empty() || rest.starts_with(['=', '[']);
    is_whole.then(|| CRATES.map(|name| format!("{name}{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_server_names_its_crates_and_what_names_one_of_them_wins() {
        for (written, used) in [
            ("info", "info"),
            (
                "warn,plimsoll_server=debug",
                "plimsoll_core=debug,plimsoll_store=debug,plimsoll_lab=debug,warn,plimsoll_server=debug",
            ),
            (
                "plimsoll_store=warn, plimsoll_server",
                "plimsoll_core,plimsoll_store,plimsoll_lab,plimsoll_store=warn, plimsoll_server",
            ),
            ("plimsoll_server::sessions=warn", "plimsoll_server::sessions=warn"),
            ("plimsoll_server::audit=info", "plimsoll_server::audit=info"),
            ("plimsoll_servers=info", "plimsoll_servers=info"),
        ] {
            assert_eq!(for_all_crates(written), used, "{written}");
        }
    }
}
