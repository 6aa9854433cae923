//! The command line of `plimsoll`.
//!
//! This module turns the command line into settings and requests; the modules `run`, `attach` and `ask`
//! (questions to the server, and their answers) do the work. Scripts rely on the exit statuses, which the help text of each command lists.

mod ask;
mod attach;
mod common_options;
mod config_file;
mod delivery_args;
mod doctor;
#[cfg(feature = "people")]
mod fleet;
#[cfg(feature = "people")]
mod gitlab_ci;
mod help;
mod log;
mod output;
#[cfg(feature = "people")]
mod people;
mod rescue_args;
mod retried;
mod run;
#[cfg(feature = "people")]
mod shell;
mod variables;
#[cfg(feature = "people")]
mod verdict;
mod verdict_args;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{Args, FromArgMatches as _, Parser, Subcommand};
use plimsoll_client::{
    channel::is_read_by_others,
    questions::{Client, QuestionFailure},
    token::Token,
    trust::Trust,
};

use crate::{
    ask::CommandOutput,
    key::{self, CiJob, key_names},
    terminal_width::wrapped_for,
};

/// Default address of the server.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7410";

/// Help text: the exit statuses of the commands that ask the server.
const EXIT_STATUSES: &str = "Exit status: 0 answered, 2 wrong usage or a question that the server refused, \
3 no answer from the server (nothing on standard output then: keep your default).";

/// Measures builds, predicts what they need, and judges retries.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version = env!("PLIMSOLL_VERSION"),
    arg_required_else_help = true,
    max_term_width = help::COLUMNS,
    styles = help::STYLES,
    after_help = help::end("", &["run --key package=zlib -- make -j4", "predict --key package=zlib"])
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Attach(Box<attach::AttachArgs>),
    Predict(ask::PredictArgs),
    Explain(ask::ExplainArgs),
    ShouldRetry(Box<ask::ShouldRetryArgs>),
    Doctor(doctor::DoctorArgs),
    #[cfg(feature = "people")]
    #[command(flatten)]
    People(people::PeopleCommand),
}

/// Options for the server to ask.
#[derive(Debug, Args)]
struct ServerArgs {
    /// Address of the server, or of several servers over one store, separated by commas.
    ///
    /// Of several, the one that serves is found within 10 s, or the command ends; while standbys answer, it waits so long for a takeover.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_SERVER", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Options for TLS and the token.
#[derive(Debug, Args)]
struct TrustArgs {
    /// CA certificates (PEM) to trust instead of the system's, for an https:// address.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, env = "PLIMSOLL_CA")]
    ca: Option<OsString>,
    /// Client certificate (PEM) for a server that requires one; needs --client-key.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, env = "PLIMSOLL_CLIENT_CERT")]
    client_cert: Option<OsString>,
    /// Private key (PEM) of the client certificate.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, env = "PLIMSOLL_CLIENT_KEY")]
    client_key: Option<OsString>,
    /// File with the token for a server that requires one; read again when it is renewed. `PLIMSOLL_TOKEN` can hold the token
    /// instead; it is not passed on to the build. There is no option for the token itself: all users of the machine can read options.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, env = "PLIMSOLL_TOKEN_FILE")]
    token_file: Option<OsString>,
}

/// The option that sets fields of the key.
#[derive(Debug, Args)]
struct KeyArgs {
    /// Assignments, in their order.
    #[arg(long = "key", value_name = "NAME=VALUE", help = format!("A part of the key; wins over the environment; in a question, an arch that is empty or `any` matches all. Names: {}", key_names()))]
    keys: Vec<String>,
}

impl ServerArgs {
    async fn connect(&self) -> Result<Client, QuestionFailure> {
        Client::connect(&self.server, &self.trust.trust_for(Some(&self.server))).await
    }
}

impl TrustArgs {
    /// Credentials for this server, and which certificates to trust. A token file takes precedence over the
    /// variable. Warns if other users can read the token.
    fn trust_for(&self, server: Option<&str>) -> Trust {
        let trust = self.trust_without_warning();
        if let Some(server) = server.filter(|server| trust.token.is_some() && is_read_by_others(server)) {
            tracing::warn!(
                "the token goes to {server} in plain text, where others can read it: use https://"
            );
        }
        trust
    }

    /// Credentials and trusted certificates for any server, without a warning.
    fn trust_without_warning(&self) -> Trust {
        // a variable that is set to an empty text counts as not set
        let file = |path: &Option<OsString>| path.clone().filter(|path| !path.is_empty()).map(PathBuf::from);
        let token = file(&self.token_file).map(Token::File).or_else(|| key::token().map(Token::Text));
        let certificate = file(&self.client_cert);
        // a certificate proves enough
        let issued = || key::id_tokens().filter(|_source| certificate.is_none()).map(Token::Issued);
        let token = token.or_else(issued);
        Trust { ca: file(&self.ca), certificate, key: file(&self.client_key), token }
    }
}

impl Cli {
    /// Parses the command line and the environment variables. Ends the process if the usage is wrong.
    pub fn from_process() -> Self {
        let lookup = |name: &OsStr| env::var_os(name);
        let warn = |problem| tracing::warn!("{problem}");
        let line = config_file::with_defaults(common_options::command_line(), &config_file::files(), warn);
        let read = |lookup: &dyn Fn(&OsStr) -> Option<OsString>| {
            variables::without_unusable(line.clone(), lookup, warn).get_matches()
        };
        let mut matches = read(&lookup);
        if variables::pattern_overrules(&matches) {
            let hidden = |name: &OsStr| {
                lookup(name).filter(|_value| name != "PLIMSOLL_PHASES").or(Some(OsString::new()))
            };
            matches = read(&hidden);
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command, and returns the exit status.
    pub async fn execute(self) -> u8 {
        let job = CiJob::from_process();
        let answer = match self.command {
            Command::Run(args) => match args.settings(&job) {
                Ok(settings) => return Box::pin(crate::run::run(settings)).await,
                Err(error) => Err(QuestionFailure::Question(error)),
            },
            Command::Attach(args) => match args.settings(&job) {
                Ok(settings) => return Box::pin(crate::attach::attach(settings)).await,
                Err(error) => Err(QuestionFailure::Question(error)),
            },
            Command::Predict(args) => args.ask(&job).await,
            Command::Explain(args) => args.ask(&job).await,
            Command::ShouldRetry(args) => Box::pin(args.ask(&job)).await,
            Command::Doctor(args) => Box::pin(args.check(&job)).await,
            #[cfg(feature = "people")]
            Command::People(command) => Box::pin(command.execute()).await,
        };
        print_answer(answer)
    }
}

/// Prints an answer or an error. A closed output (`| head`) is not an error.
fn print_answer(answer: Result<CommandOutput, QuestionFailure>) -> u8 {
    match answer {
        Ok(CommandOutput { output, status, is_prose }) => {
            let output = if is_prose { wrapped_for(&output, io::stdout()) } else { output.into() };
            match io::stdout().lock().write_all(output.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    print_problem(&error.to_string(), 3)
                }
                _ => status,
            }
        }
        Err(failure) => print_problem(&failure.to_string(), failure.status()),
    }
}

fn print_problem(problem: &str, status: u8) -> u8 {
    // if standard error is closed, the problem cannot be reported
    drop(writeln!(io::stderr(), "{}", wrapped_for(&format!("plimsoll: {problem}"), io::stderr())));
    status
}
