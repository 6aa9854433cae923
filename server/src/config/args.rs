//! Settings as options of the command line, a field for each.

use std::path::PathBuf;

use clap::{ArgMatches, Command, CommandFactory as _, Parser};

use super::{Config, table::SETTINGS};

/// Keeps what CI builds used, predicts what the next one needs, and judges failed ones.
///
/// Every setting can be given as an option (--grpc-listen), as a variable (PLIMSOLL_GRPC_LISTEN) or in the file
/// (`grpc_listen`): the option wins over the variable, the variable over the file. --print-config lists them all.
#[derive(Debug, Clone, Parser)]
#[command(name = "plimsoll-server", version)]
pub struct Args {
    /// Settings file (TOML); also PLIMSOLL_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Prints what is in force, with the place of each value, and ends.
    #[arg(long)]
    pub print_config: bool,
    /// Directory of the store; made if it is missing.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Address for gRPC.
    #[arg(long, value_name = "IP:PORT")]
    grpc_listen: Option<String>,
    /// Address for HTTP: the web page, /v1/allocation, /v1/collect, /metrics, /livez, /readyz.
    #[arg(long, value_name = "IP:PORT")]
    http_listen: Option<String>,
    /// PEM file of the certificate for gRPC and HTTP, with those that sign it; read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<String>,
    /// PEM file of its private key.
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<String>,
    /// PEM file of the CA certificates whose clients are believed to be who their certificate says.
    #[arg(long, value_name = "FILE")]
    tls_client_ca_file: Option<String>,
    /// on: a client without such a certificate is sent away.
    #[arg(long, value_name = "ON|OFF")]
    tls_client_required: Option<String>,
    /// on: addresses that others can reach may be served without TLS, because the network keeps strangers out.
    #[arg(long, value_name = "ON|OFF")]
    plain_text: Option<String>,
    /// File that says who may call what (tokens, issuers of tokens, certificates); changes are taken over. Without it everybody may
    /// call everything.
    #[arg(long, value_name = "FILE")]
    access_file: Option<String>,
    /// Names of labels whose values only those readers see whose `projects` name the attempt's, and operators. Commas between;
    /// `customer*` stands for all that begin so.
    #[arg(long, value_name = "NAMES")]
    private_labels: Option<String>,
    /// on: the same for lines of logs in verdicts.
    #[arg(long, value_name = "on|off")]
    private_logs: Option<String>,
    /// What is logged, for example info or `plimsoll_server=debug`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Collector that spans are sent to by OTLP over gRPC, for example <http://127.0.0.1:4317> (only if built with `--features otlp`).
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Memory for the storage engine's cache.
    #[arg(long, value_name = "SIZE")]
    store_cache: Option<String>,
    /// Finished attempts kept in memory to learn from.
    #[arg(long, value_name = "N")]
    history_attempts: Option<String>,
    /// Memory that they may take; when it is full the oldest are left on disk alone [default: 480MiB for each million].
    #[arg(long, value_name = "SIZE")]
    history_memory: Option<String>,
    /// Attempts that may be open at once.
    #[arg(long, value_name = "N")]
    open_attempts: Option<String>,
    /// An attempt whose agent is silent for this long is closed as lost.
    #[arg(long, value_name = "TIME")]
    abandon_after: Option<String>,
    /// Age after which the samples of an ended attempt become one row for 15 seconds, peaks kept.
    #[arg(long, value_name = "TIME")]
    series_full_for: Option<String>,
    /// Age after which only the summary of an ended attempt is left.
    #[arg(long, value_name = "TIME")]
    series_keep_for: Option<String>,
    /// Age after which an ended attempt goes as a whole [default: never].
    #[arg(long, value_name = "TIME")]
    summaries_keep_for: Option<String>,
    /// Age after which lines of logs go from verdicts, which stay without them [default: as long as the verdict].
    #[arg(long, value_name = "TIME")]
    log_lines_keep_for: Option<String>,
    /// Most bytes of samples of ended attempts; the oldest go first [default: no bound].
    #[arg(long, value_name = "SIZE")]
    series_max_bytes: Option<String>,
    /// Time for running requests to end when the server stops.
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,
    /// Memory request for a key that nothing is known of.
    #[arg(long, value_name = "SIZE")]
    default_memory_request: Option<String>,
    /// Memory limit for a key that nothing is known of.
    #[arg(long, value_name = "SIZE")]
    default_memory_limit: Option<String>,
    /// Largest memory that a prediction may ask for, for example the runner's maximum.
    #[arg(long, value_name = "SIZE")]
    memory_cap: Option<String>,
    /// Price of one attempt lost for memory, in GiB x h of held memory [default: what an average build holds].
    #[arg(long, value_name = "NUMBER")]
    failure_price: Option<String>,
    /// Largest share of attempts that may need more than their limit, for example 1%.
    #[arg(long, value_name = "SHARE")]
    max_failures: Option<String>,
    /// Largest share of the last size by which a predicted memory size may go down at once, for example 25%; less than 5% is
    /// left as it is [default: sizes follow at once].
    #[arg(long, value_name = "SHARE")]
    max_decrease: Option<String>,
    /// Attempts of one job, the first included, that verdicts allow.
    #[arg(long, value_name = "N")]
    max_attempts: Option<String>,
    /// on: predict and show it, but put it into force only for the builds of --shadow-apply.
    #[arg(long, value_name = "SWITCH")]
    shadow: Option<String>,
    /// Shares of the builds, by stack, for which predictions are in force in shadow mode, for example `e4s=10%,*=1%`.
    #[arg(long, value_name = "LIST")]
    shadow_apply: Option<String>,
    /// Directory with more rules for lines of logs (*.toml, or Spack's taxonomy as *.yaml); changes are taken over, at once
    /// with SIGHUP.
    #[arg(long, value_name = "DIR")]
    rules_dir: Option<String>,
    /// File with other terms of retries for some projects, stacks or causes ([[terms]] tables); changes are taken over as those
    /// of --rules-dir.
    #[arg(long, value_name = "FILE")]
    retry_policy: Option<String>,
    /// File with the pools that builds run in, and the rules that put them there ([[pool]], [[rule]] and [kind.NAME] tables);
    /// changes are taken over as those of --rules-dir.
    #[arg(long, value_name = "FILE")]
    pools_file: Option<String>,
    /// Project of the specs that stock Spack asks for [default: that of the newest attempt].
    #[arg(long, value_name = "PATH")]
    allocation_project: Option<String>,
    /// What stock Spack is sent beside the two requests: any of `memory_limit,cpu_limit,build_jobs,ephemeral_storage`.
    #[arg(long, value_name = "LIST")]
    allocation_extras: Option<String>,
    /// The runner's `memory_request_overwrite_max_allowed`; a job that asks for more fails.
    #[arg(long, value_name = "SIZE")]
    allocation_max_memory_request: Option<String>,
    /// The runner's `memory_limit_overwrite_max_allowed`.
    #[arg(long, value_name = "SIZE")]
    allocation_max_memory_limit: Option<String>,
    /// The runner's `cpu_request_overwrite_max_allowed`.
    #[arg(long, value_name = "CORES")]
    allocation_max_cpu_request: Option<String>,
    /// The runner's `cpu_limit_overwrite_max_allowed`.
    #[arg(long, value_name = "CORES")]
    allocation_max_cpu_limit: Option<String>,
    /// Disk that jobs of a stack shall ask for, which nobody measures: `e4s=40GiB,*=20GiB`, `*` for all others. Needed for
    /// `ephemeral_storage` among `allocation_extras`.
    #[arg(long, value_name = "LIST")]
    allocation_ephemeral_storage: Option<String>,
    /// The runner's `ephemeral_storage_request_overwrite_max_allowed`.
    #[arg(long, value_name = "SIZE")]
    allocation_max_ephemeral_storage: Option<String>,
    /// Exit codes at which GitLab shall try a job again: sent as `retry`.
    #[arg(long, value_name = "LIST")]
    allocation_retry_exit_codes: Option<String>,
    /// Stock Spack is sent the defaults where a prediction has less confidence.
    #[arg(long, value_name = "SHARE")]
    allocation_confidence: Option<String>,
    /// After this time stock Spack is sent the defaults.
    #[arg(long, value_name = "TIME")]
    allocation_within: Option<String>,
    /// File that holds the secret token of GitLab's job hook; without it every hook is taken.
    #[arg(long, value_name = "FILE")]
    collect_token_file: Option<String>,
    /// File that holds the signing token of GitLab's job hook (`whsec_..`); with it every hook must be signed.
    #[arg(long, value_name = "FILE")]
    collect_signing_file: Option<String>,
    /// Where GitLab is, to be asked for the logs of failed jobs (<https://gitlab.example>); needs `gitlab_token_file`.
    #[arg(long, value_name = "URL")]
    gitlab_url: Option<String>,
    /// File that holds a token of GitLab with the scope `read_api`.
    #[arg(long, value_name = "FILE")]
    gitlab_token_file: Option<String>,
    /// PEM file of the CA that signs GitLab's certificate, beside those that the system trusts.
    #[arg(long, value_name = "FILE")]
    gitlab_ca_file: Option<String>,
    /// Address for the admission webhook of Kubernetes, with TLS; without it there is none.
    #[arg(long, value_name = "IP:PORT")]
    admit_listen: Option<String>,
    /// PEM file of the webhook's certificate; read again when it changes.
    #[arg(long, value_name = "FILE")]
    admit_cert_file: Option<String>,
    /// PEM file of its private key; read again when it changes.
    #[arg(long, value_name = "FILE")]
    admit_key_file: Option<String>,
    /// PEM file of the CA that signs the API server's certificate; without it every client is heard.
    #[arg(long, value_name = "FILE")]
    admit_client_ca_file: Option<String>,
    /// What becomes of a job's pod: dry-run (logged and counted only) or on.
    #[arg(long, value_name = "MODE")]
    admit_mode: Option<String>,
    /// Namespaces whose pods are looked at [default: all that the cluster asks about].
    #[arg(long, value_name = "LIST")]
    admit_namespaces: Option<String>,
    /// What is set: any of `memory_request,memory_limit,cpu_request,cpu_limit`.
    #[arg(long, value_name = "LIST")]
    admit_sizes: Option<String>,
    /// Largest memory of a build's container, for example that of the namespace's `LimitRange`.
    #[arg(long, value_name = "SIZE")]
    admit_max_memory: Option<String>,
    /// Most CPU of a build's container.
    #[arg(long, value_name = "CORES")]
    admit_max_cpu: Option<String>,
    /// A prediction with less confidence sets nothing.
    #[arg(long, value_name = "SHARE")]
    admit_confidence: Option<String>,
    /// Lets a job's variables say its project, owner, kind and whether it mends a hole, for its pool and priority: on or off.
    #[arg(long, value_name = "ON")]
    admit_trust_variables: Option<String>,
    /// Tells Kueue to end a build after this many times the wall time that 95 % of its like need (label
    /// kueue.x-k8s.io/max-exec-time-seconds); without it Kueue is told nothing.
    #[arg(long, value_name = "NUMBER")]
    admit_max_time: Option<String>,
    /// Builds whose like need longer than this (95 % of them) prefer nodes with others of that sort, and those that do not, too (label
    /// plimsoll/length); without it no pod says how long it is.
    #[arg(long, value_name = "TIME")]
    admit_long_from: Option<String>,
    /// After this time a pod is admitted as it is.
    #[arg(long, value_name = "TIME")]
    admit_within: Option<String>,
    /// Image of the agent that is put beside builds; without it none is.
    #[arg(long, value_name = "IMAGE")]
    admit_agent_image: Option<String>,
    /// CPU of that agent, request and limit.
    #[arg(long, value_name = "CORES")]
    admit_agent_cpu: Option<String>,
    /// Memory of that agent, request and limit.
    #[arg(long, value_name = "SIZE")]
    admit_agent_memory: Option<String>,
    /// Address at which that agent finds this server.
    #[arg(long, value_name = "URL")]
    admit_agent_server: Option<String>,
    /// Audience of a service account's token that the agent beside a build shows to this server, as `access_file` names it for an
    /// issuer of the kind kubernetes; without it the agent shows none.
    #[arg(long, value_name = "WORD")]
    admit_agent_audience: Option<String>,
    /// What a GiB and a core cost for an hour, as 0.005/0.04; of single pools after it, as 0.005/0.04, big=0.006/0.05.
    #[arg(long, value_name = "PRICES")]
    prices: Option<String>,
    /// Currency of the prices, for example EUR.
    #[arg(long, value_name = "NAME")]
    currency: Option<String>,
    /// Classes of branches and tags for statistics, NAME=PATTERN with spaces between; the first that takes a ref counts, and
    /// "other" is what none takes.
    #[arg(long, value_name = "CLASSES")]
    ref_classes: Option<String>,
}

/// The options as `--help` shows them: each with its default.
pub(crate) fn options() -> Command {
    let defaults = Config::default();
    Args::command().mut_args(|option| {
        let Some(setting) = SETTINGS.iter().find(|setting| option.get_id() == setting.name) else {
            return option;
        };
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let default = match (setting.get)(&defaults) {
            // what happens without a value is written in the text
            _ if help.contains("[default: ") => return option,
            none if none.is_empty() => "none".to_owned(),
            value => value,
        };
        option.help(format!("{help} [default: {default}]"))
    })
}

/// What `--help` says of a setting; empty if it is not an option.
pub(super) fn meaning(name: &str) -> String {
    let command = options();
    let option = command.get_arguments().find(|option| option.get_id() == name);
    option.and_then(clap::Arg::get_help).map(ToString::to_string).unwrap_or_default()
}

impl Args {
    /// What the command line says of each setting.
    pub(super) fn values(&self) -> Vec<(&'static str, Option<String>)> {
        let mut args = self.clone();
        args.fields().into_iter().map(|(name, value)| (name, value.take())).collect()
    }

    /// Adds what stands behind a command on the line.
    ///
    /// # Errors
    /// The name of an option that stands before the command too.
    pub(crate) fn add(&mut self, behind: &ArgMatches) -> Result<(), &'static str> {
        // an option that the command has itself, of another type, is not a setting there
        if let Ok(Some(file)) = behind.try_get_one::<PathBuf>("config")
            && self.config.replace(file.clone()).is_some()
        {
            return Err("config");
        }
        self.print_config |= behind.try_get_one("print_config").is_ok_and(|on| on == Some(&true));
        for (name, value) in self.fields() {
            if let Ok(Some(text)) = behind.try_get_one::<String>(name)
                && value.replace(text.clone()).is_some()
            {
                return Err(name);
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
    fn fields(&mut self) -> Vec<(&'static str, &mut Option<String>)> {
        vec![
            ("data_dir", &mut self.data_dir),
            ("grpc_listen", &mut self.grpc_listen),
            ("http_listen", &mut self.http_listen),
            ("log", &mut self.log),
            ("tls_cert_file", &mut self.tls_cert_file),
            ("tls_key_file", &mut self.tls_key_file),
            ("tls_client_ca_file", &mut self.tls_client_ca_file),
            ("tls_client_required", &mut self.tls_client_required),
            ("plain_text", &mut self.plain_text),
            ("access_file", &mut self.access_file),
            ("private_labels", &mut self.private_labels),
            ("private_logs", &mut self.private_logs),
            ("log_format", &mut self.log_format),
            ("otlp_endpoint", &mut self.otlp_endpoint),
            ("store_cache", &mut self.store_cache),
            ("history_attempts", &mut self.history_attempts),
            ("history_memory", &mut self.history_memory),
            ("open_attempts", &mut self.open_attempts),
            ("abandon_after", &mut self.abandon_after),
            ("series_full_for", &mut self.series_full_for),
            ("series_keep_for", &mut self.series_keep_for),
            ("summaries_keep_for", &mut self.summaries_keep_for),
            ("log_lines_keep_for", &mut self.log_lines_keep_for),
            ("series_max_bytes", &mut self.series_max_bytes),
            ("drain_timeout", &mut self.drain_timeout),
            ("default_memory_request", &mut self.default_memory_request),
            ("default_memory_limit", &mut self.default_memory_limit),
            ("memory_cap", &mut self.memory_cap),
            ("failure_price", &mut self.failure_price),
            ("max_failures", &mut self.max_failures),
            ("max_decrease", &mut self.max_decrease),
            ("max_attempts", &mut self.max_attempts),
            ("shadow", &mut self.shadow),
            ("shadow_apply", &mut self.shadow_apply),
            ("rules_dir", &mut self.rules_dir),
            ("retry_policy", &mut self.retry_policy),
            ("pools_file", &mut self.pools_file),
            ("allocation_project", &mut self.allocation_project),
            ("allocation_extras", &mut self.allocation_extras),
            ("allocation_max_memory_request", &mut self.allocation_max_memory_request),
            ("allocation_max_memory_limit", &mut self.allocation_max_memory_limit),
            ("allocation_max_cpu_request", &mut self.allocation_max_cpu_request),
            ("allocation_max_cpu_limit", &mut self.allocation_max_cpu_limit),
            ("allocation_ephemeral_storage", &mut self.allocation_ephemeral_storage),
            ("allocation_max_ephemeral_storage", &mut self.allocation_max_ephemeral_storage),
            ("allocation_retry_exit_codes", &mut self.allocation_retry_exit_codes),
            ("allocation_confidence", &mut self.allocation_confidence),
            ("allocation_within", &mut self.allocation_within),
            ("collect_token_file", &mut self.collect_token_file),
            ("collect_signing_file", &mut self.collect_signing_file),
            ("gitlab_url", &mut self.gitlab_url),
            ("gitlab_token_file", &mut self.gitlab_token_file),
            ("gitlab_ca_file", &mut self.gitlab_ca_file),
            ("admit_listen", &mut self.admit_listen),
            ("admit_cert_file", &mut self.admit_cert_file),
            ("admit_key_file", &mut self.admit_key_file),
            ("admit_client_ca_file", &mut self.admit_client_ca_file),
            ("admit_mode", &mut self.admit_mode),
            ("admit_namespaces", &mut self.admit_namespaces),
            ("admit_sizes", &mut self.admit_sizes),
            ("admit_max_memory", &mut self.admit_max_memory),
            ("admit_max_cpu", &mut self.admit_max_cpu),
            ("admit_confidence", &mut self.admit_confidence),
            ("admit_trust_variables", &mut self.admit_trust_variables),
            ("admit_max_time", &mut self.admit_max_time),
            ("admit_long_from", &mut self.admit_long_from),
            ("admit_within", &mut self.admit_within),
            ("admit_agent_image", &mut self.admit_agent_image),
            ("admit_agent_cpu", &mut self.admit_agent_cpu),
            ("admit_agent_memory", &mut self.admit_agent_memory),
            ("admit_agent_server", &mut self.admit_agent_server),
            ("admit_agent_audience", &mut self.admit_agent_audience),
            ("prices", &mut self.prices),
            ("currency", &mut self.currency),
            ("ref_classes", &mut self.ref_classes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_arrives_as_the_setting_of_its_name() {
        let command = Args::command();
        let names: Vec<&str> = command
            .get_arguments()
            .map(|option| option.get_id().as_str())
            .filter(|name| !["config", "print_config"].contains(name))
            .collect();
        let line =
            names.iter().flat_map(|name| [format!("--{}", name.replace('_', "-")), (*name).to_owned()]);
        let args = Args::parse_from(std::iter::once("plimsoll-server".to_owned()).chain(line));
        let mut arrived = args.values();
        for (name, value) in &arrived {
            assert_eq!(value.as_deref(), Some(*name));
        }
        let mut settings: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        settings.sort_unstable();
        arrived.sort_unstable();
        assert_eq!(arrived.iter().map(|(name, _value)| *name).collect::<Vec<_>>(), settings);
        assert_eq!(names.len(), settings.len(), "there is an option without a setting");
    }

    #[test]
    fn help_shows_the_default_of_every_setting_once() {
        let defaults = Config::default();
        for setting in SETTINGS {
            let (help, value) = (meaning(setting.name), (setting.get)(&defaults));
            assert_eq!(help.matches("[default: ").count(), 1, "{}: {help}", setting.name);
            let shown = format!("[default: {value}]");
            assert!(value.is_empty() || help.ends_with(&shown), "{}: {help} is not {shown}", setting.name);
        }
    }
}
