//! Reads the settings from the command line, the environment (`PLIMSOLL_*`), a TOML file and
//! defaults. A source takes precedence over those named after it.
//!
//! Every source is read completely, and every value is checked, even one that another source
//! overrides. All mistakes are reported at once, with their source. No other module reads the
//! environment.

mod args;
pub(crate) mod by_module;
mod checks;
mod contradictions;
pub(crate) mod foreign;
mod groups;
mod machine;
mod one_store;
mod parse;
#[cfg(test)]
mod reference;
mod setting;
mod source;
#[cfg(test)]
mod tests;
mod value;

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use plimsoll_base::with_defaults;
use plimsoll_core::{
    domain::{Bytes, HistoryLimits, RetentionPolicy},
    gantry, predict, retry, shadow, stats,
};

use crate::runtime::open_files::MAX_HTTP_CONNECTIONS;
pub use args::Args;
pub(crate) use args::options;
use by_module::{admission, gitlab, privacy};
pub use machine::MachineMemory;
pub(crate) use machine::{MemoryPlan, log_bytes};
pub(crate) use one_store::refuse_two_stores;
pub(crate) use parse::{on_off as parse_switch, share as parse_share, shares as parse_shares};
use setting::Setting;

/// Crates of the server that a log filter for the server also covers.
pub(crate) const CRATES: [&str; 3] = ["plimsoll_core", "plimsoll_store", "plimsoll_lab"];
/// Name of the server in a log filter.
pub(crate) const SERVER: &str = "plimsoll_server";

/// The mistake if traces are configured in a program without them.
pub(crate) const NO_TRACES: &str = "this program is built without traces; build it with `--features otlp`";

/// Default memory of a history of a million attempts, bytes. Measured on x86-64: 369 bytes for each
/// attempt of a million attempts with 20,000 keys, by the estimate and by the kernel's count. With
/// fewer attempts the keys weigh more: 446 bytes with 300,000 attempts, 600 with 100,000. A third
/// is added for longer names.
const HISTORY_MEMORY: usize = 480 << 20;
const MILLION: usize = 1_000_000;

with_defaults! {
    /// All settings in force.
    #[derive(Debug, Clone)]
    pub struct Config {
        /// Directory of the store.
        pub data_dir: PathBuf = PathBuf::from("plimsoll-data"),
        /// URL of the PostgreSQL database with the store; `None`: the store is in `data_dir`.
        pub store_url: Option<String>,
        /// File with the password of the database.
        pub store_password_file: Option<PathBuf>,
        /// File with the CA of the database.
        pub store_ca_file: Option<PathBuf>,
        /// Address of the gRPC listener.
        // loopback by default: other machines reach the server without encryption only if the
        // operator configures that
        pub grpc_listen: SocketAddr = (Ipv4Addr::LOCALHOST, 7410).into(),
        /// Address of the HTTP listener.
        pub http_listen: SocketAddr = (Ipv4Addr::LOCALHOST, 7411).into(),
        /// Certificates of the gRPC and HTTP listeners.
        pub tls: TlsFiles,
        /// Whether listeners without TLS may be reachable from other machines.
        pub plain_text: bool,
        /// Directory with the agent's binaries, which jobs download.
        pub agent_dir: Option<PathBuf>,
        /// The access file; without it every caller may do everything.
        pub access_file: Option<PathBuf>,
        /// Host names that the HTTP listener accepts without an access file, in lower case.
        pub http_hosts: Vec<String>,
        /// Most connections to the HTTP listener.
        pub http_connections: usize = MAX_HTTP_CONNECTIONS,
        /// Whether operators on other machines may take backups.
        pub backup_remote: bool,
        /// Which labels and log lines are private.
        pub private: privacy::PrivacySettings,
        /// Log filter, in the syntax of `tracing_subscriber::EnvFilter`.
        pub log: String = "info".to_owned(),
        /// Format of log lines.
        pub log_format: LogFormat = LogFormat::Text,
        /// Collector to which spans are sent, by OTLP over gRPC.
        pub otlp_endpoint: Option<String>,
        /// Memory for the cache of the storage engine.
        // a quarter of the memory of a small server, because sled uses more than its configured
        // cache
        pub store_cache: Bytes = Bytes(64 << 20),
        /// Most finished attempts in the history.
        // about 500 MB when the history is full
        pub history_attempts: usize = 1_000_000,
        /// Memory of the history; `None`: the default, which depends on `history_attempts` and
        /// `machine`.
        pub history_memory: Option<Bytes>,
        /// Memory that the process may use; measured, not a setting.
        pub machine: Option<MachineMemory>,
        /// Size of the store's log when the process starts, bytes; measured, not a setting.
        pub log_bytes: u64,
        /// Most open attempts.
        pub open_attempts: usize = 100_000,
        /// If the agent of an attempt is silent for this long, the attempt is closed as lost.
        // longer than common time-outs of jobs
        pub abandon_after: Duration = Duration::from_hours(24),
        /// Retention of samples, summaries and log lines.
        pub retain: RetentionPolicy,
        /// Time for running requests to end when the server stops.
        // less than the 30 s that Kubernetes gives a pod to stop
        pub drain_timeout: Duration = Duration::from_secs(20),
        /// Settings of predictions.
        pub predict: predict::Settings,
        /// Shadow mode: builds with predictions that are shown, but not applied.
        pub shadow: shadow::Settings,
        /// The file that replaces them; reloaded while the server runs.
        pub shadow_file: Option<PathBuf>,
        /// Settings for retries.
        pub retry: retry::RetryPolicy,
        /// The policy file with retry terms; reloaded while the server runs.
        pub retry_policy: Option<PathBuf>,
        /// Directory with the operator's log rules.
        pub rules_dir: Option<PathBuf>,
        /// File with pools and placement rules; reloaded while the server runs.
        pub pools_file: Option<PathBuf>,
        /// Settings of the answers to stock Spack clients.
        pub gantry: gantry::Settings,
        /// Access to GitLab.
        pub gitlab: gitlab::Settings,
        /// Settings of the admission webhook.
        pub admission: admission::Settings,
        /// Settings of statistics.
        pub stats: stats::Settings,
        /// Source of each setting, by name. Settings with their default are missing.
        pub places: BTreeMap<&'static str, String>,
    }
}

/// A setting in force, as it is shown to people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InForce {
    /// Name of the setting in the file.
    pub name: &'static str,
    /// Value of the setting as written in a file; empty if it is not set.
    pub value: String,
    /// Source of the value: an option, a variable, file and line, or "default".
    pub place: String,
    /// Meaning of the setting, as in `--help`.
    pub meaning: String,
}

/// Certificate files of the gRPC and HTTP listeners; reloaded after a change.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// The certificate with its chain.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
    /// CA certificates by which client certificates are checked.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub client_required: bool,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object in each line.
    Json,
}

/// A mistake in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Source of the value: an option, a variable, or file and line.
    pub place: String,
    /// What is wrong, and what would be valid.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl Config {
    /// Reads all sources. `env` returns the value of a variable.
    /// Errors: the settings have mistakes; the list has those of all sources.
    pub fn load(args: &Args, env: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let entries = source::gather(args, env, &mut mistakes);
        Self::of_entries(&entries, mistakes)
    }

    /// Applies the entries of all sources, ordered from the weakest to the strongest. Fails if
    /// there are `mistakes` already or new ones.
    fn of_entries(
        entries: &[source::SettingValue],
        mut mistakes: Vec<Mistake>,
    ) -> Result<Self, Vec<Mistake>> {
        let mut config = Self::default();
        for setting in groups::all() {
            let mut place = "default".to_owned();
            // the strongest source is applied last
            for entry in entries.iter().filter(|entry| entry.name == setting.name) {
                match (setting.set)(&mut config, &entry.text) {
                    Ok(()) => place.clone_from(&entry.set_at),
                    Err(text) => mistakes.push(Mistake { place: entry.set_at.clone(), text }),
                }
            }
            config.places.insert(setting.name, place);
        }
        mistakes.extend(config.contradictions());
        mistakes.extend(config.unsafe_listeners());
        if mistakes.is_empty() { Ok(config) } else { Err(mistakes) }
    }

    /// Least memory of the history, bytes: with less it would hold hardly any attempts.
    pub(crate) const MIN_HISTORY: u64 = 16 << 20;

    /// Default memory of the history on a machine with this much memory: 40 %, or on a small
    /// machine what the rest of the server leaves.
    fn share_of(&self, Bytes(machine): Bytes) -> Bytes {
        let left = machine::bytes_for_history(machine, self);
        Bytes((machine / 5 * 2).min(left).max(Self::MIN_HISTORY))
    }

    /// Limits of the history: number of attempts and bytes.
    pub(crate) fn history_room(&self) -> HistoryLimits {
        let attempts = self.history_attempts;
        let usual = Bytes(HISTORY_MEMORY.max(HISTORY_MEMORY / MILLION * attempts) as u64);
        let share = self.machine.as_ref().map(|machine| self.share_of(machine.bytes));
        let Bytes(bytes) =
            self.history_memory.unwrap_or_else(|| share.map_or(usual, |share| share.min(usual)));
        HistoryLimits { attempts, bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// Every setting with its value, its source and its meaning. Secrets are not included: settings name the files with them.
    pub fn in_force(&self) -> Vec<InForce> {
        let place = |name| self.places.get(name).map_or("default", String::as_str).to_owned();
        let defaults = Self::default();
        let row = |setting: &Setting| InForce {
            name: setting.name,
            value: (setting.get)(self),
            place: place(setting.name),
            meaning: setting.meaning(&defaults),
        };
        groups::all().map(row).collect()
    }
}

/// The settings for `--print-config`: a TOML file with exactly those in force, and the source of each value.
#[derive(Debug)]
pub(crate) struct PrintedConfig<'c>(pub(crate) &'c Config);

impl fmt::Display for PrintedConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for InForce { name, value, place, .. } in self.0.in_force() {
            if name == "history_memory" && value.is_empty() {
                let plan = MemoryPlan::of(self.0);
                writeln!(f, "# {name} is not set: {}, {}", plan.history, plan.reason)?;
            } else if value.is_empty() {
                writeln!(f, "# {name} is not set")?;
            } else {
                writeln!(f, "{name} = {}  # {place}", toml::Value::String(value))?;
            }
        }
        Ok(())
    }
}
