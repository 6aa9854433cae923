//! The log filter: the agent's name in it applies to all crates of the agent.

/// The crates that the agent is made of.
const CRATES: [&str; 2] = ["plimsoll_client", "plimsoll_measure"];

/// The agent's name in a filter.
const AGENT: &str = "plimsoll_agent";

/// Extends the agent's name in a filter to all its crates. Directives for a single crate take precedence.
pub(crate) fn for_all_crates(filter: &str) -> String {
    let mut directives: Vec<String> = filter.split(',').filter_map(below).flatten().collect();
    directives.push(filter.to_owned());
    directives.join(",")
}

/// The directives for the crates below that follow from one for the agent.
fn below(directive: &str) -> Option<[String; CRATES.len()]> {
    let rest = directive.trim().strip_prefix(AGENT)?;
    let is_whole = rest.is_empty() || rest.starts_with('=');
    is_whole.then(|| CRATES.map(|name| format!("{name}{rest}")))
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
            ("plimsoll_agent::run=info", "plimsoll_agent::run=info"),
            ("plimsoll_agents=info", "plimsoll_agents=info"),
        ] {
            assert_eq!(for_all_crates(written), used, "{written}");
        }
    }
}
