//! The filter of log lines, for the crates that the server is made of: what names the server names them too.

/// The crates below the server's own.
pub(crate) const CRATES: [&str; 3] = ["plimsoll_core", "plimsoll_store", "plimsoll_lab"];

/// What the server is called in a filter.
pub(crate) const SERVER: &str = "plimsoll_server";

/// Where log lines come from that came from a module of the server before it was cut into crates.
const MOVED: [(&str, &str); 2] = [("store", "plimsoll_store"), ("threads", "plimsoll_store::threads")];

/// A filter that takes the server's name for all of its crates, and the former name of a module for the crate where it is now. What
/// names a crate itself wins.
pub(crate) fn for_all_crates(filter: &str) -> String {
    let mut directives: Vec<String> = filter.split(',').flat_map(below).collect();
    directives.push(filter.to_owned());
    directives.join(",")
}

/// What a part of a filter says of the crates below.
fn below(directive: &str) -> Vec<String> {
    let Some(rest) = directive.trim().strip_prefix(SERVER) else { return Vec::new() };
    if rest.is_empty() || rest.starts_with(['=', '[']) {
        return CRATES.map(|name| format!("{name}{rest}")).to_vec();
    }
    let Some(path) = rest.strip_prefix("::") else { return Vec::new() };
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(path.len());
    let (module, rest) = path.split_at(end);
    let moved = MOVED.into_iter().find(|(before, _)| *before == module);
    moved.map(|(_, now)| format!("{now}{rest}")).into_iter().collect()
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
            ("plimsoll_server::store=off", "plimsoll_store=off,plimsoll_server::store=off"),
            (
                "plimsoll_server::store::each=trace",
                "plimsoll_store::each=trace,plimsoll_server::store::each=trace",
            ),
            ("plimsoll_server::sessions=warn", "plimsoll_server::sessions=warn"),
            ("plimsoll_server::audit=info", "plimsoll_server::audit=info"),
            ("plimsoll_servers=info", "plimsoll_servers=info"),
        ] {
            assert_eq!(for_all_crates(written), used, "{written}");
        }
    }
}
