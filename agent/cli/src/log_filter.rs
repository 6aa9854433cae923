//! The filter of log lines, for the crates that the agent is made of: what names the agent names them too.

/// The crates below the program's own.
const CRATES: [&str; 2] = ["plimsoll_client", "plimsoll_measure"];

/// What the agent is called in a filter.
const AGENT: &str = "plimsoll_agent";

/// Where log lines come from that came from a module of the agent before it was cut into crates.
const MOVED: [(&str, &str); 8] = [
    ("ask::client", "plimsoll_client::questions"),
    ("delivery", "plimsoll_client::delivery"),
    ("cgroup", "plimsoll_measure::cgroup"),
    ("kernel", "plimsoll_measure::kernel"),
    ("meter", "plimsoll_measure::meter"),
    ("proctree", "plimsoll_measure::proctree"),
    ("sampler", "plimsoll_measure::sampler"),
    ("cli", "plimsoll_agent::commands"),
];

/// A filter that takes the agent's name for all of its crates, and the former path of a module for the one where it is now. What names
/// a crate itself wins.
pub(crate) fn for_all_crates(filter: &str) -> String {
    let mut directives: Vec<String> = filter.split(',').flat_map(below).collect();
    directives.push(filter.to_owned());
    directives.join(",")
}

/// What a part of a filter says of the crates below.
fn below(directive: &str) -> Vec<String> {
    let Some(rest) = directive.trim().strip_prefix(AGENT) else { return Vec::new() };
    if rest.is_empty() || rest.starts_with('=') {
        return CRATES.map(|name| format!("{name}{rest}")).to_vec();
    }
    let moved = MOVED.into_iter().find_map(|(before, now)| {
        let rest = rest.strip_prefix("::")?.strip_prefix(before)?;
        (rest.is_empty() || rest.starts_with(['=', ':'])).then(|| format!("{now}{rest}"))
    });
    moved.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_agent_names_its_crates_and_what_names_one_of_them_wins() {
        for (written, used) in [
            ("info", "info"),
            (
                "warn,plimsoll_agent=debug",
                "plimsoll_client=debug,plimsoll_measure=debug,warn,plimsoll_agent=debug",
            ),
            (
                "plimsoll_client=warn, plimsoll_agent",
                "plimsoll_client,plimsoll_measure,plimsoll_client=warn, plimsoll_agent",
            ),
            (
                "plimsoll_agent::delivery::spool=off",
                "plimsoll_client::delivery::spool=off,plimsoll_agent::delivery::spool=off",
            ),
            ("plimsoll_agent::meter=off", "plimsoll_measure::meter=off,plimsoll_agent::meter=off"),
            ("plimsoll_agent::metering=off", "plimsoll_agent::metering=off"),
            ("plimsoll_agent::run=info", "plimsoll_agent::run=info"),
            ("plimsoll_agents=info", "plimsoll_agents=info"),
        ] {
            assert_eq!(for_all_crates(written), used, "{written}");
        }
    }
}
