//! Where the database is, and how to connect to it.

use std::{error::Error as _, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio_postgres::{
    Client, Config, Connection, Error, Socket,
    config::{ChannelBinding, Host, SslMode},
};

use super::{
    credentials::{CredentialFiles, Credentials},
    errors::{PostgresError, PostgresResult},
    kept_position::KeptPosition,
    primary::LastPrimary,
    tls::DatabaseStream,
};

/// How long a connection to one address may take to be made. A host may have several.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long sent bytes may go unacknowledged before a connection counts as lost.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// Settings of every session. They take precedence over those of the role and of the database: a time limit there would end a commit, and a
/// level of messages would hide the warning that a commit is not replicated. The session of a machine that is gone ends after 16 s. All statements go by the primary key: plans that sort or read
/// whole tables are off, because a new table has no statistics to choose by.
const SESSION: &str = "-c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 \
    -c idle_in_transaction_session_timeout=10s -c client_connection_check_interval=2s \
    -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 \
    -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off \
    -c default_transaction_deferrable=off -c search_path=pg_catalog -c client_min_messages=warning \
    -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off";

/// Where the database of a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// URL of the database: `postgres://USER@HOST:PORT/DATABASE?sslmode=..`, without a password.
    pub url: String,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// File with certificates of further CAs, in PEM.
    pub ca_file: Option<PathBuf>,
    /// File that keeps how far the database had come, so that an older one is refused. `None` for commands.
    pub position_file: Option<PathBuf>,
}

impl PostgresSettings {
    /// Name of the position file in the data directory of a server.
    pub const POSITION_FILE: &str = "plimsoll.database";

    /// Checks a URL without connecting.
    /// Errors: the text says what is wrong. It never repeats the URL, which may have a password in it.
    pub fn check_url(url: &str) -> Result<(), String> {
        parse_url(url).map(drop)
    }
}

/// What is needed to connect.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// One for each host, without the password.
    pub(super) hosts: Vec<Config>,
    credentials: CredentialFiles,
    pub(super) last_primary: Arc<LastPrimary>,
    pub(super) kept_position: Arc<KeptPosition>,
    /// `HOST:PORT/DATABASE`, for texts.
    pub(super) name: String,
}

impl Target {
    /// Reads the URL and the files.
    pub(super) fn read(settings: &PostgresSettings) -> PostgresResult<Self> {
        let config =
            parse_url(&settings.url).map_err(|wrong| PostgresError::Lasting(format!("store_url {wrong}")))?;
        if settings.ca_file.is_some() && config.get_ssl_mode() == SslMode::Disable {
            return Err(PostgresError::lasting(
                "store_ca_file is set, and store_url is without TLS: add sslmode=verify-full to the URL, or remove store_ca_file",
            ));
        }
        let files = (settings.password_file.clone(), settings.ca_file.clone());
        let credentials = CredentialFiles::open(files.0, files.1, config.get_ssl_mode())?;
        let hosts = one_for_each_host(&config);
        let kept_position = Arc::new(KeptPosition::read(settings.position_file.clone())?);
        Ok(Self { name: name(&hosts), hosts, credentials, last_primary: Arc::default(), kept_position })
    }

    /// Connects to one of the hosts, with the password and the CAs that the files have now.
    pub(super) async fn connect(
        &self,
        host: usize,
    ) -> Result<(Client, Connection<Socket, DatabaseStream>), Error> {
        let mut config = self.hosts.get(host).cloned().unwrap_or_default();
        let Credentials { password, tls } = self.credentials.now().await;
        if let Some(password) = password {
            config.password(password);
        }
        config.connect(tls).await
    }

    /// The error with the name of the database.
    pub(super) fn named(&self, error: PostgresError) -> PostgresError {
        error.map_text(|text| format!("PostgreSQL at {}: {text}", self.name))
    }
}

/// The same for each host alone.
fn one_for_each_host(config: &Config) -> Vec<Config> {
    let (addresses, ports) = (config.get_hostaddrs(), config.get_ports());
    let one = |(at, host): (usize, &Host)| {
        let mut one = Config::new();
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        if let Some(user) = config.get_user() {
            one.user(user);
        }
        one.port(ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432));
        one.dbname(config.get_dbname().unwrap_or_default());
        one.application_name(config.get_application_name().unwrap_or_default());
        one.options(config.get_options().unwrap_or_default());
        one.ssl_mode(config.get_ssl_mode()).channel_binding(config.get_channel_binding());
        limit_waits(&mut one);
        one
    };
    config.get_hosts().iter().enumerate().map(one).collect()
}

/// `HOST:PORT/DATABASE`; several hosts are separated by commas.
fn name(hosts: &[Config]) -> String {
    let database = hosts.first().and_then(Config::get_dbname).unwrap_or_default();
    format!("{}/{database}", hosts.iter().map(host_name).collect::<Vec<_>>().join(","))
}

/// `HOST:PORT` of a target's host.
pub(super) fn host_name(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("{name}:{port}"),
        Some(Host::Unix(path)) => format!("{}:{port}", path.display()),
        None => String::new(),
    }
}

const PASSWORD_IN_URL: &str = "has a password in it, which others could read; put it into a file and name that with store_password_file";

fn parse_url(url: &str) -> Result<Config, String> {
    const STORE_URL_FORM: &str = "postgres://USER@HOST:PORT/DATABASE?sslmode=require";
    let known = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = known else {
        return Err(format!("is no URL of PostgreSQL; write it as {STORE_URL_FORM}"));
    };
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let (mut mode, mut kept) = (None, Vec::new());
    let mut has_password = user.is_some_and(|user| user.contains(':'));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("password", _)) => has_password = true,
            _ => kept.push(pair),
        }
    }
    if has_password {
        return Err(PASSWORD_IN_URL.to_owned());
    }
    let text = format!("{base}?{}", kept.join("&"));
    let unreadable = |error: Error| {
        // the cause names the option, and never its value
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!("cannot be read ({cause}); write it as {STORE_URL_FORM}")
    };
    let mut config: Config = text.parse().map_err(unreadable)?;
    if config.get_password().is_some() {
        return Err(PASSWORD_IN_URL.to_owned());
    }
    if config.get_hosts().is_empty() {
        return Err(format!("names no host; write it as {STORE_URL_FORM}"));
    }
    if config.get_dbname().is_none_or(str::is_empty) {
        return Err(format!("names no database; write it as {STORE_URL_FORM}"));
    }
    config.ssl_mode(tls_mode(mode, &config)?);
    if config.get_channel_binding() == ChannelBinding::Require && config.get_ssl_mode() == SslMode::Disable {
        return Err("has channel_binding=require, which needs TLS: add sslmode=verify-full, or remove channel_binding".to_owned());
    }
    complete(&mut config);
    Ok(config)
}

/// Whether connections use TLS. With it, certificate and name are always checked, so `require` is `verify-full` of libpq.
fn tls_mode(mode: Option<&str>, config: &Config) -> Result<SslMode, String> {
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
    };
    let is_all_local =
        config.get_hosts().iter().all(is_local) && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
    match mode {
        None if is_all_local => Ok(SslMode::Disable),
        None | Some("require" | "verify-full") => Ok(SslMode::Require),
        Some("disable") => Ok(SslMode::Disable),
        Some(_) => Err("has an sslmode that is not supported; disable is without TLS, require and verify-full check the certificate and \
                        the host's name in it"
            .to_owned()),
    }
}

/// Adds what a URL need not say.
fn complete(config: &mut Config) {
    let options = config.get_options().unwrap_or_default();
    config.options(format!("{options} {SESSION}"));
    if config.get_application_name().is_none() {
        config.application_name("plimsoll-server");
    }
}

fn limit_waits(config: &mut Config) {
    config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(SILENT_FOR);
    config.keepalives_idle(SILENT_FOR).keepalives_interval(Duration::from_secs(2)).keepalives_retries(3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_errors_name_the_fix_and_hide_passwords() {
        let modes = [
            ("postgres://u@db.example/p", SslMode::Require),
            ("postgresql://u@db.example:5433/p?sslmode=verify-full", SslMode::Require),
            ("postgres://u@db.example/p?sslmode=disable", SslMode::Disable),
            ("postgres://u@127.0.0.1/p", SslMode::Disable),
            ("postgres://u@127.0.0.1,db.example/p", SslMode::Require),
            ("postgres://u@localhost/p?hostaddr=203.0.113.5", SslMode::Require),
            ("postgres://u@%2Frun%2Fpostgresql/p", SslMode::Disable),
        ];
        for (url, mode) in modes {
            assert_eq!(parse_url(url).unwrap().get_ssl_mode(), mode, "{url}");
        }
        let wrong = [
            ("mysql://u:s3cret@h/p", "write it as postgres://"),
            ("host=h password=s3cret", "write it as postgres://"),
            ("postgres://u:s3cret@h/p", "store_password_file"),
            ("postgres://u@h/p?password=s3cret", "store_password_file"),
            ("postgres://u:s3cret/x@h/p", "store_password_file"),
            ("postgres://u:s3cret?x@h/p", "store_password_file"),
            ("postgres://u@h/p?p%61ssword=s3cret", "store_password_file"),
            ("postgres://u@h", "names no database"),
            ("postgres:///p?user=u", "names no host"),
            ("postgres://u@h:port/p", "write it as postgres://"),
            ("postgres://u@h/p?sslmode=prefer", "require and verify-full"),
            ("postgres://u@h/p?sslmode=verify-ca", "require and verify-full"),
            ("postgres://u@h/p?sslmode=disable&channel_binding=require", "channel_binding"),
            ("postgres://u@h/p?channel_binding=always", "channel_binding"),
            ("postgres://u@h/p?sslrootcert=x", "sslrootcert"),
        ];
        for (url, way) in wrong {
            let text = PostgresSettings::check_url(url).unwrap_err();
            assert!(text.contains(way) && !text.contains("s3cret"), "{url}: {text}");
        }
    }
}
