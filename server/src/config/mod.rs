//! Settings: from the command line, the environment (`PLIMSOLL_*`), a TOML file and defaults, in this order of strength.
//!
//! Every source is read whole, every value is checked, also one that a stronger source overrides, and all mistakes are
//! reported at once, each with its place. The only module that reads the environment.

mod args;
mod parse;
mod source;
mod table;

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::{admission, gantry, gitlab, ingest::Retain, predict, privacy, retry, shadow, stats};
pub use args::Args;
pub(crate) use parse::share as parse_share;

/// Why no spans are sent.
pub(crate) const NO_TRACES: &str = "this program is built without traces; build it with `--features otlp`";

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
    /// Strangers may be served in plain text: something else keeps them out.
    pub plain_text: bool,
    /// File that says who may call; without one everybody may.
    pub access_file: Option<PathBuf>,
    /// What is not shown to everybody who may read.
    pub private: privacy::Private,
    /// What is logged, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log: String,
    /// How it is logged.
    pub log_format: LogFormat,
    /// Collector that spans are sent to, by OTLP over gRPC.
    pub otlp_endpoint: Option<String>,
    /// Memory that the storage engine may use as cache, bytes.
    pub store_cache: u64,
    /// Finished attempts kept in memory to learn from.
    pub history_attempts: usize,
    /// Attempts that may be open at once.
    pub open_attempts: usize,
    /// After this time without its agent, an attempt is closed as lost.
    pub abandon_after: Duration,
    /// How old the samples of an ended attempt may get before they become fewer and then go.
    pub retain: Retain,
    /// Time for running requests to end when the server stops.
    pub drain_timeout: Duration,
    /// How sizes are chosen.
    pub predict: predict::Settings,
    /// For which builds predictions are not put into force.
    pub shadow: shadow::Settings,
    /// What a failure is worth.
    pub retry: retry::Policy,
    /// File that the terms of retries came from; it is read again while the server runs.
    pub retry_policy: Option<PathBuf>,
    /// Directory with rules of the operator, beside those of the program.
    pub rules_dir: Option<PathBuf>,
    /// File with pools and the rules over them; it is read again while the server runs.
    pub pools_file: Option<PathBuf>,
    /// What stock Spack clients are told.
    pub gantry: gantry::Settings,
    /// Where GitLab is asked about jobs.
    pub gitlab: gitlab::Settings,
    /// What becomes of pods.
    pub admission: admission::Settings,
    /// How statistics count.
    pub stats: stats::Settings,
    /// Where each setting comes from, by its name; those that are not here are defaults.
    pub places: BTreeMap<&'static str, String>,
}

/// One setting as people are shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// Its name in the file.
    pub name: &'static str,
    /// Its value as it would be written; empty if it is not set.
    pub value: String,
    /// Where it comes from: an option, a variable, file and line, or "default".
    pub place: String,
    /// What it does, as `--help` says it.
    pub meaning: String,
}

/// Where the certificates of the listeners for gRPC and HTTP lie; read again when they change.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// The certificate and those that sign it.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// CA certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// A client without a certificate is sent away.
    pub client_required: bool,
}

/// How log lines look.
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
            // loopback: plain text leaves the machine only when the operator says so
            grpc_listen: (Ipv4Addr::LOCALHOST, 7410).into(),
            http_listen: (Ipv4Addr::LOCALHOST, 7411).into(),
            log: "info".to_owned(),
            tls: TlsFiles::default(),
            plain_text: false,
            access_file: None,
            private: privacy::Private::default(),
            log_format: LogFormat::Text,
            otlp_endpoint: None,
            // a quarter of a small server's memory budget; sled takes more than it is given
            store_cache: 64 << 20,
            // about 500 MB when it is full
            history_attempts: 1_000_000,
            open_attempts: 100_000,
            // longer than any job time-out that is common
            abandon_after: Duration::from_hours(24),
            retain: Retain::default(),
            // below the 30 s that Kubernetes gives a pod
            drain_timeout: Duration::from_secs(20),
            predict: predict::Settings::default(),
            shadow: shadow::Settings::default(),
            retry: retry::Policy::default(),
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
    /// Where it stands: an option, a variable, or file and line.
    pub place: String,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Settings, and where each of them comes from.
#[derive(Debug)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// Name, value as it would be written, place.
    rows: Vec<(&'static str, String, String)>,
}

impl Config {
    /// Reads all sources. `env` looks a variable up.
    ///
    /// # Errors
    /// All mistakes of all sources.
    pub fn load(args: &Args, env: impl Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let entries = source::gather(args, env, &mut mistakes);
        let mut config = Self::default();
        let mut rows = Vec::new();
        for setting in table::SETTINGS {
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

    /// Every setting with its value, its place and its meaning. Secrets are not among them: settings name the files that hold
    /// them.
    pub fn in_force(&self) -> Vec<InForce> {
        let place = |name| self.places.get(name).map_or("default", String::as_str).to_owned();
        let row = |setting: &table::Setting| InForce {
            name: setting.name,
            value: (setting.get)(self),
            place: place(setting.name),
            meaning: args::meaning(setting.name),
        };
        table::SETTINGS.iter().map(row).collect()
    }

    /// What is wrong with addresses and certificates.
    fn unsafe_listeners(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, place: &str, text: &str| {
            if wrong {
                found.push(Mistake { place: place.to_owned(), text: text.to_owned() });
            }
        };
        let same = self.grpc_listen == self.http_listen && self.grpc_listen.port() != 0;
        check(same, "http_listen", "is the same address as grpc_listen; each listener needs its own");
        let tls = &self.tls;
        check(
            tls.certificate.is_some() != tls.key.is_some(),
            "tls_cert_file",
            "and tls_key_file belong together",
        );
        let wrong = tls.certificate.is_none() && tls.client_ca.is_some();
        check(wrong, "tls_client_ca_file", "needs tls_cert_file: without TLS no client shows a certificate");
        let wrong = tls.client_ca.is_none() && tls.client_required;
        check(
            wrong,
            "tls_client_required",
            "needs tls_client_ca_file, which says whose certificates are good",
        );
        for (name, address) in [("grpc_listen", self.grpc_listen), ("http_listen", self.http_listen)] {
            let wrong = tls.certificate.is_none() && !self.plain_text && !address.ip().is_loopback();
            let text = "can be reached by others, who would be served in plain text: set tls_cert_file and tls_key_file, or \
                        plain_text = on where the network keeps strangers out";
            check(wrong, name, text);
        }
        found
    }

    fn contradictions(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, place: &str, text: &str| {
            if wrong {
                found.push(Mistake { place: place.to_owned(), text: text.to_owned() });
            }
        };
        let wrong = self.retain.full_for > self.retain.keep_for;
        check(
            wrong,
            "series_full_for",
            "is above series_keep_for: samples would go before they become fewer",
        );
        let wrong = self.retain.summaries_for.is_some_and(|time| time < self.retain.keep_for);
        check(
            wrong,
            "summaries_keep_for",
            "is below series_keep_for: an attempt would go before its samples",
        );
        let gitlab = &self.gitlab;
        let wrong = gitlab.url.is_some() != gitlab.token_file.is_some();
        check(wrong, "gitlab_url", "needs gitlab_token_file, and gitlab_token_file needs gitlab_url");
        let gantry = &self.gantry;
        let wrong =
            gantry.extras.contains(&gantry::Extra::EphemeralStorage) && gantry.ephemeral_storage.is_empty();
        check(
            wrong,
            "allocation_extras",
            "names ephemeral_storage, which nobody measures: say how much with allocation_ephemeral_storage",
        );
        let admission = &self.admission;
        let (certificate, key) = (admission.certificate.is_some(), admission.key.is_some());
        let wrong = admission.listen.is_some() && !(certificate && key);
        check(
            wrong,
            "admit_listen",
            "needs admit_cert_file and admit_key_file: the API server speaks only TLS",
        );
        let wrong = self.otlp_endpoint.is_some() && !cfg!(feature = "otlp");
        check(wrong, "otlp_endpoint", NO_TRACES);
        let wrong = !self.shadow.on && !self.shadow.apply.is_empty();
        check(wrong, "shadow_apply", "needs shadow = on: without it predictions are in force for all builds");
        let predict = &self.predict;
        let wrong = predict.memory_request > predict.memory_limit;
        check(wrong, "default_memory_request", "is above default_memory_limit");
        let wrong = predict.memory_cap.is_some_and(|cap| cap < predict.memory_limit);
        check(wrong, "memory_cap", "is below default_memory_limit");
        let wrong = self.stats.currency.is_empty() != self.stats.prices.is_free();
        check(wrong, "currency", "and prices belong together: set both, or none");
        found
    }
}

impl fmt::Display for Loaded {
    /// A TOML file that gives exactly what is in force, with the place of each value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value, place) in &self.rows {
            if value.is_empty() {
                writeln!(f, "# {name} is not set")?;
            } else {
                writeln!(f, "{name} = {}  # {place}", toml::Value::String(value.clone()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: Option<&str>, env: &[(&str, &str)], args: &[&str]) -> Result<Loaded, Vec<Mistake>> {
        use clap::Parser as _;
        let dir = tempfile::tempdir().unwrap();
        let mut line = vec!["plimsoll-server".to_owned()];
        if let Some(text) = file {
            let path = dir.path().join("p.toml");
            std::fs::write(&path, text).unwrap();
            line.extend(["--config".to_owned(), path.display().to_string()]);
        }
        line.extend(args.iter().map(ToString::to_string));
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::load(&Args::parse_from(line), env)
    }

    #[test]
    fn the_stronger_source_wins() {
        let file = "grpc_listen = \"127.0.0.1:1\"\nhttp_listen = \"127.0.0.1:2\"\nlog = \"warn\"\n";
        let env = [("PLIMSOLL_HTTP_LISTEN", "127.0.0.1:3"), ("PLIMSOLL_LOG", "debug")];
        let config = load(Some(file), &env, &["--log", "error"]).unwrap().config;
        assert_eq!(
            (config.grpc_listen.port(), config.http_listen.port(), config.log.as_str()),
            (1, 3, "error")
        );
    }

    #[test]
    fn all_mistakes_are_reported_at_once_each_with_its_place() {
        let file = "grpc_listen = \"nowhere\"\n\nunknown_thing = 1\nstore_cache = \"-5\"\n";
        let mistakes =
            load(Some(file), &[("PLIMSOLL_ABANDON_AFTER", "soon")], &["--http-listen", "7411"]).unwrap_err();
        let places: Vec<&str> = mistakes.iter().map(|m| m.place.rsplit('/').next().unwrap()).collect();
        for place in ["p.toml:1", "p.toml:3", "p.toml:4", "PLIMSOLL_ABANDON_AFTER", "--http-listen"] {
            assert!(places.contains(&place), "{place} is missing in {mistakes:?}");
        }
        assert_eq!(mistakes.len(), 5, "{mistakes:?}");
    }

    #[test]
    fn a_cache_that_the_engine_cannot_work_with_is_refused_by_its_name() {
        for size in ["1", "1023KiB", "2TiB", "18446744073709551615"] {
            let mistakes = load(None, &[], &["--store-cache", size]).unwrap_err();
            let text = format!("{mistakes:?}");
            assert!(text.contains("--store-cache") && text.contains("from 1MiB to 1TiB"), "{text}");
        }
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        let loaded = load(None, &[], &["--store-cache", "128MiB", "--memory-cap", "64GiB"]).unwrap();
        let again = load(Some(&loaded.to_string()), &[], &[]).unwrap();
        let values = |l: &Loaded| l.rows.iter().map(|(n, v, _)| (*n, v.clone())).collect::<Vec<_>>();
        assert_eq!(values(&loaded), values(&again));
        assert_eq!(again.config.store_cache, 128 << 20);
    }

    #[test]
    fn every_setting_in_force_is_shown_with_its_place_and_meaning() {
        let config = load(Some("log = \"warn\"\n"), &[], &["--memory-cap", "64GiB"]).unwrap().config;
        let rows = config.in_force();
        let row = |name| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!([&*row("log").value, &*row("memory_cap").place], ["warn", "--memory-cap"]);
        assert!(row("log").place.ends_with("p.toml:1") && row("store_cache").place == "default");
        let mute: Vec<_> = rows.iter().filter(|row| row.meaning.is_empty()).map(|row| row.name).collect();
        assert_eq!((rows.len(), mute), (table::SETTINGS.len(), Vec::<&str>::new()));
    }

    #[test]
    fn a_file_that_is_not_toml_is_named_with_its_line() {
        let mistakes = load(Some("log = \"info\"\nwhat is this\n"), &[], &[]).unwrap_err();
        assert!(mistakes[0].place.ends_with("p.toml:2"), "{mistakes:?}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_mistakes() {
        let args = ["--grpc-listen", "127.0.0.1:9", "--http-listen", "127.0.0.1:9", "--memory-cap", "1GiB"];
        assert_eq!(load(None, &[], &args).unwrap_err().len(), 2);
    }
}
