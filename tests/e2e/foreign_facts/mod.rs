//! What one project says of another project's attempts: it is kept with who said it, and counts for nothing there, whichever came first.
//!
//! | module | |
//! |---|---|
//! | this one | the generated attacks: every rpc and path x every kind of token x before, while and after the attempt exists |
//! | `reported_before` | a hook and a question that came before the attempt that they name, of another project |
//! | `site` | a server that authenticates callers |
//! | `tokens` | kinds of callers who may not speak of the attempt |
//! | `twins` | the attempt that is attacked, and its twin that no caller speaks of |
//! | `rpcs`, `paths` | what is said of it by each rpc and each path |
//! | `served` | all rpcs and paths, as the product lists them |

mod paths;
mod reported_before;
mod rpcs;
mod served;
mod site;
mod tokens;
mod twins;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use served::{paths, rpcs};
use site::Site;
pub(crate) use tokens::GRANTS;
use tokens::KINDS;
use twins::Twins;

/// When something is said of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Nothing is known of it.
    Before,
    /// It runs.
    While,
    /// It has ended, and how is not known.
    Ended,
    /// Its own project has told all there is.
    Judged,
}

/// A caller who may not speak of an attempt, and does.
struct Attack<'s> {
    site: &'s Site,
    kind: &'static str,
    token: &'s str,
    /// The attempt that is spoken of, one that no agent measures, and their project.
    victim: &'s twins::Job,
    moment: Moment,
    /// Different for each kind and moment.
    number: u64,
}

/// What was said, and what came of it: a code of gRPC or of HTTP.
type AttackOutcome = (&'static str, String);

impl Attack<'_> {
    /// The attacker's own job, which its token proves if it is one of a job.
    fn own_job(&self) -> String {
        format!("{}:{}", site::HOST, tokens::own_number(self.kind, self.number))
    }

    /// The project that the attacker may speak of.
    fn own_project(&self) -> &str {
        match self.kind {
            "a pull request's job of the same project" => &self.victim.project,
            "a fork's job" => "evil/fork",
            _ => "a/one",
        }
    }

    /// Says all there is to say by all that is served; gives each with what came of it.
    async fn everything(&self) -> Vec<(String, AttackOutcome)> {
        let mut attacks = Vec::new();
        for rpc in rpcs() {
            attacks.extend(self.by_rpc(&rpc).await.into_iter().map(|one| (rpc.clone(), one)));
        }
        for path in paths() {
            attacks.extend(self.by_path(&path).await.into_iter().map(|one| (path.clone(), one)));
        }
        attacks
    }
}

/// All that was said: by what, by whom, when and what; and how often each answer was given.
#[derive(Default)]
struct AttackLog {
    attacks: BTreeSet<(String, &'static str, Moment, &'static str)>,
    answers: BTreeMap<String, u32>,
}

impl AttackLog {
    /// All callers of a kind say all there is to say, and the server answers each.
    async fn add(&mut self, attack: Attack<'_>) {
        for (by, (what, came)) in attack.everything().await {
            let Attack { kind, moment, .. } = attack;
            assert!(!is_fault_of_server(&came), "{kind} {moment:?} {by}: {what}: {came}");
            *self.answers.entry(came).or_default() += 1;
            self.attacks.insert((by, kind, moment, what));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_reports_never_affect_an_attempt() {
    let (site, mut log) = (Site::start().await, AttackLog::default());
    for (kind, number) in KINDS.into_iter().zip(1..) {
        let mut twins = Twins::new(&site, number).await;
        for (moment, at) in
            [Moment::Before, Moment::While, Moment::Ended, Moment::Judged].into_iter().zip(0..)
        {
            let number = number * 10 + at;
            let token = tokens::token(&site, kind, &twins.victim, number);
            log.add(Attack { site: &site, kind, token: &token, victim: &twins.victim, moment, number }).await;
            twins.compare(&format!("{kind}, {moment:?}")).await;
            twins.go_on(moment).await;
            twins.compare(&format!("{kind}, after {moment:?}")).await;
        }
    }
    let AttackLog { attacks, answers } = log;
    eprintln!(
        "{} different foreign facts, none changed another caller's answer; answers: {answers:?}",
        attacks.len()
    );
    assert!(attacks.len() >= 400, "{}", attacks.len());
}

/// An attack may be refused or left aside, but the server must know what it does.
fn is_fault_of_server(came: &str) -> bool {
    let faults =
        ["Internal", "Unknown", "Unavailable", "DataLoss", "DeadlineExceeded", "500", "502", "503", "0"];
    faults.contains(&came)
}
