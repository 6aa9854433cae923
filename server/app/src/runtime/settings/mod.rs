//! Settings from the command line, the environment (`PLIMSOLL_*`), a TOML file and defaults; earlier ones take precedence.
//!
//! Every source is read completely, every value is checked, even one that another source overrides, and all mistakes are reported at once
//! with their source. The only module that reads the environment.

mod args;
pub(crate) mod by_module;
mod checks;
mod contradictions;
pub(crate) mod foreign;
mod groups;
mod machine;
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

use plimsoll_core::{
    domain::{Bytes, HistoryLimits, RetentionPolicy},
    gantry, predict, retry, shadow, stats,
};

use crate::runtime::net::files::MOST_HTTP;
pub use args::Args;
pub(crate) use args::options;
use by_module::{admission, gitlab, privacy};
pub use machine::MachineMemory;
pub(crate) use machine::{MemoryPlan, log_bytes};
pub(crate) use parse::share as parse_share;
use setting::Setting;

/// The crates that the server is made of, as a filter of the log names them.
pub(crate) const CRATES: [&str; 3] = ["plimsoll_core", "plimsoll_store", "plimsoll_lab"];
/// The server's name in a filter of the log.
pub(crate) const SERVER: &str = "plimsoll_server";

/// Why no spans are sent.
pub(crate) const NO_TRACES: &str = "this program is built without traces; build it with `--features otlp`";

/// Default memory of a history with a million attempts: with the engine's cache and the program it stays below 600 MB. Measured on x86-64:
/// 369 bytes an attempt in a history of a million of 20,000 keys, both estimated and in the kernel's view (446 with 300,000 attempts, 600
/// with 100,000, where keys weigh more). A third is added for longer names (`cargo bench --bench open`).
const HISTORY_MEMORY: usize = 480 << 20;
const MILLION: usize = 1_000_000;

/// Everything that is in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the store.
    pub data_dir: PathBuf,
    /// Address of the gRPC listener.
    pub grpc_listen: SocketAddr,
    /// Address of the HTTP listener.
    pub http_listen: SocketAddr,
    /// Certificates of both listeners.
    pub tls: TlsFiles,
    /// Whether listeners without TLS may be reachable from other machines.
    pub plain_text: bool,
    /// Folder with the agent's binaries, which jobs fetch.
    pub agent_dir: Option<PathBuf>,
    /// The access file; without it every caller may do everything.
    pub access_file: Option<PathBuf>,
    /// Names of the server that HTTP answers to without an access file, in lower case.
    pub http_hosts: Vec<String>,
    /// Connections to the HTTP listener.
    pub http_connections: usize,
    /// Whether operators on other machines may take backups.
    pub backup_remote: bool,
    /// Labels and logs that are not shown to every reader.
    pub private: privacy::Private,
    /// Log filter, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Collector that spans are sent to, by OTLP over gRPC.
    pub otlp_endpoint: Option<String>,
    /// Memory that the storage engine may use as cache.
    pub store_cache: Bytes,
    /// Finished attempts kept in the history.
    pub history_attempts: usize,
    /// Memory of the history; `None`: that of a million attempts, more if `history_attempts` is higher.
    pub history_memory: Option<Bytes>,
    /// Memory that the process may use; not a setting.
    pub machine: Option<MachineMemory>,
    /// Bytes of the store's log as the process starts; not a setting.
    pub log_bytes: u64,
    /// Most open attempts.
    pub open_attempts: usize,
    /// After this time without its agent an attempt is closed as lost.
    pub abandon_after: Duration,
    /// Retention of samples, summaries and log lines.
    pub retain: RetentionPolicy,
    /// Time for running requests to end when the server stops.
    pub drain_timeout: Duration,
    /// How sizes are chosen.
    pub predict: predict::Settings,
    /// Builds whose predictions are only shown.
    pub shadow: shadow::Settings,
    /// Settings for retries.
    pub retry: retry::RetryPolicy,
    /// The policy file with retry terms; reloaded while the server runs.
    pub retry_policy: Option<PathBuf>,
    /// Directory with the operator's log rules.
    pub rules_dir: Option<PathBuf>,
    /// File with pools and rules; reloaded while the server runs.
    pub pools_file: Option<PathBuf>,
    /// Settings of the answers to stock Spack clients.
    pub gantry: gantry::Settings,
    /// Access to GitLab.
    pub gitlab: gitlab::Settings,
    /// Settings of the admission webhook.
    pub admission: admission::Settings,
    /// How statistics count.
    pub stats: stats::Settings,
    /// Source of each setting, by name; missing ones have their default.
    pub places: BTreeMap<&'static str, String>,
}

/// A setting in force, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// CA certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is sent away.
    pub client_required: bool,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("plimsoll-data"),
            // loopback: unencrypted listeners are reachable from other machines only if the operator configures that
            grpc_listen: (Ipv4Addr::LOCALHOST, 7410).into(),
            http_listen: (Ipv4Addr::LOCALHOST, 7411).into(),
            log: "info".to_owned(),
            tls: TlsFiles::default(),
            plain_text: false,
            agent_dir: None,
            access_file: None,
            http_hosts: Vec::new(),
            http_connections: MOST_HTTP,
            backup_remote: false,
            private: privacy::Private::default(),
            log_format: LogFormat::Text,
            otlp_endpoint: None,
            // a quarter of a small server's memory; sled uses more than it is given
            store_cache: Bytes(64 << 20),
            // about 500 MB when it is full
            history_attempts: 1_000_000,
            history_memory: None,
            machine: None,
            log_bytes: 0,
            open_attempts: 100_000,
            // longer than any job time-out that is common
            abandon_after: Duration::from_hours(24),
            retain: RetentionPolicy::default(),
            // below the 30 s that Kubernetes gives a pod
            drain_timeout: Duration::from_secs(20),
            predict: predict::Settings::default(),
            shadow: shadow::Settings::default(),
            retry: retry::RetryPolicy::default(),
            retry_policy: None,
            rules_dir: None,
            pools_file: None,
            gantry: gantry::Settings::default(),
            gitlab: gitlab::Settings::default(),
            admission: admission::Settings::default(),
            stats: stats::Settings::default(),
            places: BTreeMap::new(),
        }
    }
}

/// One thing that is wrong with the settings.
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

/// Settings with their sources.
#[derive(Debug)]
pub struct Loaded {
    /// The settings in force.
    pub config: Config,
    /// Name, value as written, source.
    rows: Vec<(&'static str, String, String)>,
}

impl Config {
    /// Reads all sources. `env` returns the value of a variable.
    ///
    /// # Errors
    /// All mistakes of all sources.
    pub fn load(args: &Args, env: impl Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let entries = source::gather(args, env, &mut mistakes);
        Self::of_entries(&entries, mistakes)
    }

    /// Settings from these entries, weakest source first, unless there are `mistakes` already or in them.
    fn of_entries(
        entries: &[source::SettingValue],
        mut mistakes: Vec<Mistake>,
    ) -> Result<Loaded, Vec<Mistake>> {
        let mut config = Self::default();
        let mut rows = Vec::new();
        for setting in groups::all() {
            let mut place = "default".to_owned();
            // weakest first, so that the strongest is applied last
            for entry in entries.iter().filter(|entry| entry.name == setting.name) {
                match (setting.set)(&mut config, &entry.text) {
                    Ok(()) => place.clone_from(&entry.place),
                    Err(text) => mistakes.push(Mistake { place: entry.place.clone(), text }),
                }
            }
            rows.push((setting.name, (setting.get)(&config), place.clone()));
            config.places.insert(setting.name, place);
        }
        mistakes.extend(config.contradictions());
        mistakes.extend(config.unsafe_listeners());
        if mistakes.is_empty() { Ok(Loaded { config, rows }) } else { Err(mistakes) }
    }

    /// Least memory of the history, bytes: with less it would hold hardly any attempts.
    pub(crate) const LEAST_HISTORY: u64 = 16 << 20;

    /// Default share of a machine's memory for the history: 40 %, or what the rest leaves on a small one.
    fn share_of(&self, Bytes(machine): Bytes) -> Bytes {
        let left = machine::left(machine, self);
        Bytes((machine / 5 * 2).min(left).max(Self::LEAST_HISTORY))
    }

    /// How many ended attempts may be in memory.
    pub(crate) fn history_room(&self) -> HistoryLimits {
        let attempts = self.history_attempts;
        let usual = Bytes(HISTORY_MEMORY.max(HISTORY_MEMORY / MILLION * attempts) as u64);
        let share = self.machine.as_ref().map(|machine| self.share_of(machine.bytes));
        let Bytes(bytes) =
            self.history_memory.unwrap_or_else(|| share.map_or(usual, |share| share.min(usual)));
        HistoryLimits { attempts, bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// Capacity of the history in attempts, and memory of one, bytes, on a machine with enough memory.
    pub(crate) fn memory_of_history(&self) -> (f64, f64) {
        let float = |number: usize| Bytes(number as u64).as_f64();
        (float(self.history_attempts), float(HISTORY_MEMORY) / float(MILLION))
    }

    /// Memory of the program and its caches with an empty store, bytes; and the increase for each byte of the store's files.
    pub(crate) fn memory_beside_history(&self) -> (f64, f64) {
        machine::beside_an_empty_store(self)
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

impl fmt::Display for Loaded {
    /// A TOML file with exactly the settings in force, and the source of each value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value, place) in &self.rows {
            if *name == "history_memory" && value.is_empty() {
                let plan = MemoryPlan::of(&self.config);
                writeln!(f, "# {name} is not set: {}, {}", plan.history, plan.reason)?;
            } else if value.is_empty() {
                writeln!(f, "# {name} is not set")?;
            } else {
                writeln!(f, "{name} = {}  # {place}", toml::Value::String(value.clone()))?;
            }
        }
        Ok(())
    }
}
