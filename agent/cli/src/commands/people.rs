//! The commands that only people use. The container's binary leaves them out.

use clap::Subcommand;
use plimsoll_client::questions::QuestionFailure;

use super::{fleet, gitlab_ci, shell, verdict};
use crate::ask::CommandOutput;

// no doc comment: clap would show it as the description of the program
#[derive(Debug, Subcommand)]
pub(super) enum PeopleCommand {
    Verdict(verdict::VerdictArgs),
    Stats(Box<fleet::StatsArgs>),
    Attempts(Box<fleet::AttemptsArgs>),
    Show(fleet::ShowArgs),
    Watch(fleet::WatchArgs),
    Recommend(Box<fleet::RecommendArgs>),
    GitlabCi(gitlab_ci::GitlabCiArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

impl PeopleCommand {
    pub(super) async fn execute(self) -> Result<CommandOutput, QuestionFailure> {
        match self {
            Self::Verdict(args) => args.ask().await,
            Self::Stats(args) => args.ask().await,
            Self::Attempts(args) => args.ask().await,
            Self::Show(args) => args.ask().await,
            Self::Watch(args) => args.ask().await,
            Self::Recommend(args) => args.ask().await,
            Self::GitlabCi(args) => args.print(),
            Self::Completions(args) => Ok(args.print()),
            Self::Man(args) => args.write(),
        }
    }
}
