//! The caller that reported a fact about an attempt. It is stored with the fact, because many facts arrive before their attempt: only when
//! the attempt is known can its project be compared with what the reporter may report on.
//!
//! Facts that the server stores about attempts which it does not know yet, or from callers other than the attempt's agent:
//!
//! | fact | module | where it is stored | who may report it | when it is checked against the attempt's project | when it is removed | most that are stored |
//! |---|---|---|---|---|---|---|
//! | how a job ended (hook) | `ingest::ci_outcomes::early_reports`, `gitlab::stored_hooks` | memory, store | role `hook`, or the hook's own secret; it must be allowed to report on the project that it names | when it ends an attempt, and when one opens | the oldest of the busiest reporter; in the store after an hour | 10,000 |
//! | that a hook was received before | `gitlab::waiting` | memory | the same; hooks of two reporters are different | not needed: only a hook of the same reporter is a repetition | the oldest | 20,000 |
//! | verdicts, with their evidence | `verdicts::known` | store | a trusted caller of the project, or the job itself | when the next one is given, at the end of the attempt, when shown, at a start | those of others when the attempt ends; all with the attempt, or as one of 100,000 strays | 64 of a project, 1,024 of an attempt |
//! | failures of a key | `causes` | memory | as verdicts | by the project in the key | the oldest | 50,000 |
//! | jobs that memory ended | `causes::jobs_short_of_memory` | memory, from verdicts | as verdicts | by the project in the name of the job | the oldest | 10,000 |
//! | refused retries | `crate::stats` | memory | as verdicts | when the attempt gets its row | the oldest | see `stats` |
//! | sizes of pods | `ingest::job_pods` | memory, store | the API server, about pods in the webhook's namespaces | when a verdict or the next pod asks | the oldest; all after a week | 10,000 |
//! | which attempt is retried | `domain::attempt` | record of the retry | agent of the retry | when it is followed: only to attempts of the same project | with the attempt | one |
//! | the slot of a ticket | `placement::tickets` | store | who opened it | when an attempt names it: of the same project | with the ticket | `each_owner`, `most_open` |
//! | the id of an attempt | `ingest::takeover` | store | the attempt's first agent; for a job, the agent that presents the job's ID token | at each opening | with the attempt | `open_attempts` |
//! | attempts that wait for their end to be counted | `ingest::ended_counters::awaited` | memory | no one: taken from their own summaries | not needed | after an hour | 10,000 |
//!
//! The owner in a key is what its agent sent, unless a token proves it: statistics by owner over all projects trust the agents. An import
//! counts as reported by the operator. `/v1/allocation` stores nothing.

use serde::{Deserialize, Serialize};

use super::stored_record::stored_record;

/// Longest stored name of a reporter, in characters; longer names are cut.
const NAME_CHARS: usize = 64;

stored_record! {
    /// A caller that reported a fact, and the projects that it may report on; none by default.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct Reporter {
        name: String = default,
        /// Whether the caller may report on every project, and on attempts without a project.
        all: bool = default,
        /// Names of projects, or of groups (`group/*`).
        projects: Vec<String> = default,
    }
}

impl Reporter {
    /// A reporter for all projects.
    pub fn of_all(name: &str) -> Self {
        Self { all: true, ..Self::of(name, Vec::new()) }
    }

    /// A reporter for these projects only. An empty list means no project.
    pub fn of(name: &str, projects: Vec<String>) -> Self {
        Self { name: name.chars().take(NAME_CHARS).collect(), all: false, projects }
    }

    /// The server itself or the operator; it has no name.
    pub const fn server() -> Self {
        Self { name: String::new(), all: true, projects: Vec::new() }
    }

    /// The reporter's name, for logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets the reporter report on this project too, which had another name when it reported.
    pub fn also_reports_on(&mut self, project: String) {
        self.projects.push(project);
    }

    /// Whether the reporter may report on every project.
    pub fn reports_on_all(&self) -> bool {
        self.all
    }

    /// Whether the reporter's reports apply to an attempt of this project (empty: an attempt without one).
    pub fn may_report_on(&self, project: &str) -> bool {
        self.all
            || (!project.is_empty() && self.projects.iter().any(|pattern| matches_pattern(pattern, project)))
    }
}

/// Whether `text` equals `pattern`. If the pattern ends in `*`: whether the text starts with the rest of the pattern.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_reporter_reports_only_on_its_projects() {
        let one = Reporter::of("a", vec!["a/*".into(), "b".into()]);
        let spoken = ["a/x", "b", "b/x", "", "c"].map(|project| one.may_report_on(project));
        assert_eq!(spoken, [true, true, false, false, false]);
        assert!(Reporter::server().may_report_on("") && Reporter::server().may_report_on("c"));
        assert!(!Reporter::of("a", Vec::new()).may_report_on("a"));
        assert!(!Reporter::of("a", vec!["*".into()]).may_report_on(""));
    }

    #[test]
    fn a_reporter_without_projects_reports_on_nothing() {
        let read: Reporter = serde_json::from_str(r#"{"name":"a"}"#).unwrap();
        assert!(!read.may_report_on("a") && !read.may_report_on(""));
        for speaker in [Reporter::server(), Reporter::of(&"x".repeat(100), vec!["a/*".into()])] {
            let text = serde_json::to_string(&speaker).unwrap();
            assert_eq!(serde_json::from_str::<Reporter>(&text).unwrap(), speaker, "{text}");
        }
    }
}
