//! What wraps a log changes no verdict: time stamps, steps, containers and branches in front of every line.

use super::*;
use crate::retry::{log::line_wrappers::tests::FAMILIES, matching::log_rules};

fn class(log: &str) -> (Cause, Action) {
    let verdict = judged(&code(1, log));
    (verdict.cause, verdict.action)
}

fn examples() -> Vec<String> {
    log_rules::built_in()
        .unwrap()
        .into_iter()
        .flat_map(|rule| rule.matches.into_iter().chain(rule.spares))
        .collect()
}

fn wrapped(wrapper: &str, log: &str) -> String {
    log.lines().flat_map(|line| [wrapper, line, "\n"]).collect()
}

#[test]
fn no_wrapper_changes_what_a_line_means() {
    for example in examples().iter().map(String::as_str).chain(words::IN_PASSING.iter().copied()) {
        let log = format!("building\n{example}\n");
        let plain = class(&log);
        for wrapper in FAMILIES {
            assert_eq!(class(&wrapped(wrapper, &log)), plain, "{wrapper}{example}");
        }
    }
}

proptest! {
    #[test]
    fn nested_wrappers_do_not_change_the_verdict(
        lines in prop::collection::vec(prop::sample::select(examples()), 1..6),
        wrappers in prop::collection::vec(prop::sample::select(FAMILIES.to_vec()), 1..4),
    ) {
        let log = lines.join("\n");
        prop_assert_eq!(class(&wrapped(&wrappers.concat(), &log)), class(&log));
    }
}
