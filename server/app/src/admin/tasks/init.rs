//! Creates a configuration for a first try: a CA, a server certificate, two tokens, the access file, the settings.
//!
//! | file | content |
//! |---|---|
//! | `plimsoll.toml` | the settings, which name the others |
//! | `access.toml` | the callers: an agent and an operator, by hashes of their tokens |
//! | `ca.crt`, `ca.key` | the CA; agents need the certificate; the key is only for signing other certificates |
//! | `server.crt`, `server.key` | the server's certificate |
//! | `data` | created by the server when it starts |
//!
//! The directory is created completely or not at all. Only its owner may read it.

use std::{
    fs::{self, DirBuilder, Permissions},
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use plimsoll_base::own_files;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{access::identity::hash, runtime::settings::Config};

/// Validity of the CA: ten years.
const CA_VALIDITY: Duration = Duration::from_hours(24 * 3650);
/// Validity of the certificate: the most that clients accept (CA/Browser Forum, until 2020; Apple still).
const CERTIFICATE_VALIDITY: Duration = Duration::from_hours(24 * 825);
/// How long before now certificates become valid, because the clocks of two machines may differ.
const BACKDATED_BY: Duration = Duration::from_hours(1);
/// Bytes of a token: too many to guess.
const TOKEN_BYTES: usize = 32;
/// Names that every certificate has.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// File mode: readable and writable by its owner only.
const OWNERS_FILE: u32 = 0o600;
const OWNERS_DIRECTORY: u32 = 0o700;

/// The created configuration.
pub(crate) struct CreatedConfig {
    /// Directory of the files.
    pub(crate) dir: PathBuf,
    /// Tokens in plain text; the files have only their hashes.
    pub(crate) agent_token: String,
    pub(crate) operator_token: String,
}

/// Addresses for the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddresses {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl ListenAddresses {
    /// The addresses that an option, a variable or a file sets; for the others the addresses that a
    /// server with these `names` needs.
    pub(crate) fn of(config: &Config, names: &[String]) -> Self {
        let named = |name: &str, address: SocketAddr| {
            let is_set = config.places.get(name).is_some_and(|place| place != "default");
            if is_set { address } else { SocketAddr::new(host_for(names), address.port()) }
        };
        Self {
            grpc: named("grpc_listen", config.grpc_listen),
            http: named("http_listen", config.http_listen),
        }
    }
}

/// Writes a configuration into `dir`. `names` are further names under which agents reach the
/// server. `now` is the time since 1970.
/// Errors: the directory is not empty, a name is invalid, or a file cannot be written: then nothing was created.
pub(crate) fn init(
    dir: &Path,
    server_names: &[String],
    listen: ListenAddresses,
    since_1970: Duration,
) -> anyhow::Result<CreatedConfig> {
    let dir = check_free(dir)?;
    let random = SystemRandom::new();
    let made =
        CreatedConfig { dir, agent_token: random_token(&random)?, operator_token: random_token(&random)? };
    let files = files(&made, server_names, listen, since_1970)?;
    let mut part = made.dir.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let shown = part.display();
    // everything in this new directory was written here, so it may be removed after an error
    DirBuilder::new()
        .mode(OWNERS_DIRECTORY)
        .create(&part)
        .with_context(|| format!("cannot make {shown}; if it is left over, remove it"))?;
    let written = write(&part, &files).and_then(|()| {
        // a rename replaces an empty directory, but nothing else
        fs::rename(&part, &made.dir).with_context(|| format!("cannot make {}", made.dir.display()))
    });
    if let Err(error) = written {
        // the original error is reported, whether or not the files can be removed
        let _gone = fs::remove_dir_all(&part);
        return Err(error);
    }
    Ok(made)
}

/// The absolute path of `dir`, which must be empty or not exist.
fn check_free(dir: &Path) -> anyhow::Result<PathBuf> {
    let shown = dir.display();
    let name = dir.file_name().with_context(|| format!("{shown} is no name for a new directory"))?;
    let parent =
        dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let dir = parent.canonicalize().with_context(|| format!("cannot read {}", parent.display()))?.join(name);
    ensure!(dir.to_str().is_some(), "{shown} is no UTF-8; the settings could not name it");
    match fs::read_dir(&dir) {
        Ok(mut entries) => match entries.next() {
            Some(_entry) => bail!("{shown} is not empty; nothing is overwritten: name a new directory"),
            None => Ok(dir),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(dir),
        Err(error) => Err(anyhow!(error).context(format!("cannot use {shown}"))),
    }
}

/// The name and the content of each file.
fn files(
    created: &CreatedConfig,
    server_names: &[String],
    listen: ListenAddresses,
    since_1970: Duration,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let ca_key = KeyPair::generate()?;
    let ca_key_text = ca_key.serialize_pem();
    let ca = CertifiedIssuer::self_signed(ca_params(since_1970), ca_key)?;
    let key = KeyPair::generate()?;
    let certificate = certificate_params(server_names, since_1970)?.signed_by(&key, &ca)?;
    Ok(vec![
        ("ca.crt", ca.pem()),
        ("ca.key", ca_key_text),
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
        ("access.toml", access_file_text(created)),
        ("plimsoll.toml", settings_text(&created.dir, listen)),
    ])
}

fn ca_params(now: Duration) -> CertificateParams {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "plimsoll-server init");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    ca.not_before = (UNIX_EPOCH + now.saturating_sub(BACKDATED_BY)).into();
    ca.not_after = (UNIX_EPOCH + now.saturating_add(CA_VALIDITY)).into();
    ca
}

fn certificate_params(names: &[String], now: Duration) -> anyhow::Result<CertificateParams> {
    for name in names {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-.:*_".contains(c);
        ensure!(
            !name.is_empty() && name.len() < 254 && name.chars().all(allowed),
            "--name {name:?} is neither the name of a host nor an address"
        );
    }
    let all: Vec<String> = LOCAL_NAMES.into_iter().map(str::to_owned).chain(names.iter().cloned()).collect();
    let mut server = CertificateParams::new(all)?;
    server.distinguished_name.push(DnType::CommonName, "plimsoll-server");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    server.not_before = (UNIX_EPOCH + now.saturating_sub(BACKDATED_BY)).into();
    server.not_after = (UNIX_EPOCH + now.saturating_add(CERTIFICATE_VALIDITY)).into();
    Ok(server)
}

fn random_token(random: &SystemRandom) -> anyhow::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    random.fill(&mut bytes).map_err(|_unspecified| anyhow!("the system gives no random numbers"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn access_file_text(made: &CreatedConfig) -> String {
    format!(
        "# Who may do what. Taken over when it changes. Another token: printf %s TOKEN | sha256sum\n\
         \n\
         [[token]]\n\
         name = \"agent\"\n\
         sha256 = \"{}\"\n\
         roles = [\"agent\", \"caller\"]\n\
         # its builds may lower predictions for others: for builds of trusted authors only\n\
         trusted = true\n\
         \n\
         [[token]]\n\
         name = \"operator\"\n\
         sha256 = \"{}\"\n\
         roles = [\"operator\", \"reader\", \"caller\"]\n",
        hash(&made.agent_token),
        hash(&made.operator_token)
    )
}

/// The address on which a server with these names listens. An IPv6 socket also serves IPv4, but
/// some machines have no IPv6.
fn host_for(names: &[String]) -> IpAddr {
    match names {
        [] => Ipv4Addr::LOCALHOST.into(),
        _ if names.iter().any(|name| name.contains(':')) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn settings_text(dir: &Path, listen: ListenAddresses) -> String {
    let ListenAddresses { grpc, http } = listen;
    let path = |name: &str| toml::Value::String(dir.join(name).display().to_string()).to_string();
    format!(
        "# Settings of the server; `plimsoll-server --print-config` lists all of them.\n\
         data_dir = {}\n\
         grpc_listen = \"{grpc}\"\n\
         http_listen = \"{http}\"\n\
         tls_cert_file = {}\n\
         tls_key_file = {}\n\
         access_file = {}\n",
        path("data"),
        path("server.crt"),
        path("server.key"),
        path("access.toml")
    )
}

fn write(part: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    for (name, text) in files {
        let path = part.join(name);
        let write = || {
            let mut file = own_files::create_new(&path)?;
            // independent of the umask
            file.set_permissions(Permissions::from_mode(OWNERS_FILE))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{
        access::{guard::Guard, identity::Role},
        runtime::{
            metrics::Metrics,
            settings::{Args, Config},
        },
    };

    const NOW: Duration = Duration::from_hours(24 * 365 * 50);

    /// Without options.
    fn init(dir: &Path, names: &[String]) -> anyhow::Result<CreatedConfig> {
        let args = Args::parse_from(["plimsoll-server"]);
        let config = Config::load(&args, |_name| None).unwrap();
        super::init(dir, names, ListenAddresses::of(&config, names), NOW)
    }

    #[test]
    fn created_files_are_private_and_hold_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let made = init(&dir.path().join("new/one"), &["plimsoll.example".into()]).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&made.dir), OWNERS_DIRECTORY);
        let mut names = Vec::new();
        for entry in fs::read_dir(&made.dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), OWNERS_FILE, "{}", path.display());
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains(&made.agent_token) && !text.contains(&made.operator_token));
            names.push(path.file_name().unwrap().to_owned());
        }
        names.sort();
        assert_eq!(names, ["access.toml", "ca.crt", "ca.key", "plimsoll.toml", "server.crt", "server.key"]);
        assert_ne!(made.agent_token, made.operator_token);
        assert_eq!(made.agent_token.len(), 43);
    }

    #[test]
    fn created_settings_and_access_file_are_valid() {
        let dir = tempfile::tempdir().unwrap();
        let made = init(&dir.path().join("a \"quoted\" name"), &[]).unwrap();
        let args = Args::parse_from([
            "plimsoll-server",
            "--config",
            made.dir.join("plimsoll.toml").to_str().unwrap(),
        ]);
        let config = Config::load(&args, |_name| None).unwrap();
        assert_eq!(config.data_dir, made.dir.join("data"));
        assert!(config.grpc_listen.ip().is_loopback());
        let guard = Guard::open(config.access_file, std::sync::Arc::new(Metrics::new())).unwrap();
        let may =
            |token: &str, role| guard.check(Some(&format!("Bearer {token}")), &[], role, "test").is_ok();
        assert!(may(&made.agent_token, Role::Agent) && !may(&made.agent_token, Role::Reader));
        assert!(may(&made.operator_token, Role::Operator) && may(&made.operator_token, Role::Reader));
        assert!(!may(&made.operator_token, Role::Agent) && !may("", Role::Caller));
    }

    #[test]
    fn it_listens_where_its_names_lead() {
        let host = |names: &[&str]| {
            host_for(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).to_string()
        };
        assert_eq!(host(&[]), "127.0.0.1");
        assert_eq!(host(&["plimsoll.example", "192.0.2.1"]), "0.0.0.0");
        assert_eq!(host(&["plimsoll.example", "2001:db8::1"]), "::");
    }

    #[test]
    fn the_server_listens_only_at_given_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let listen = |options: &[&str], names: &[&str]| {
            let args = Args::parse_from([&["plimsoll-server"], options].concat());
            let config = Config::load(&args, |_name| None).unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let listen = ListenAddresses::of(&config, &names);
            let made =
                super::init(&dir.path().join(format!("{options:?}{names:?}")), &names, listen, NOW).unwrap();
            let text = fs::read_to_string(made.dir.join("plimsoll.toml")).unwrap();
            let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            [of("grpc_listen = "), of("http_listen = ")]
        };
        let name = ["plimsoll.example"];
        assert_eq!(listen(&[], &name), ["\"0.0.0.0:7410\"", "\"0.0.0.0:7411\""]);
        // also the default, if a person names it
        let both = ["--grpc-listen", "127.0.0.1:7410", "--http-listen", "[::1]:9"];
        assert_eq!(listen(&both, &name), ["\"127.0.0.1:7410\"", "\"[::1]:9\""]);
        assert_eq!(listen(&both[..2], &[]), ["\"127.0.0.1:7410\"", "\"127.0.0.1:7411\""]);
    }

    #[test]
    fn a_foreign_directory_stays_unchanged() {
        let (dir, other) = plimsoll_support::temporary::file_name("one.part");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("precious"), "kept").unwrap();
        let error = init(&dir.path().join("one"), &[]).map(|_made| ()).unwrap_err();
        assert!(error.to_string().contains("left over"), "{error}");
        assert_eq!(fs::read_to_string(other.join("precious")).unwrap(), "kept");
        assert!(!dir.path().join("one").try_exists().unwrap());
    }

    #[test]
    fn init_overwrites_nothing_and_leaves_no_partial_result() {
        let (dir, place) = plimsoll_support::temporary::file_name("one");
        init(&place, &[]).unwrap();
        let before = fs::read(place.join("server.key")).unwrap();
        let error = init(&place, &[]).map(|_made| ()).unwrap_err();
        assert!(error.to_string().contains("is not empty"), "{error}");
        assert_eq!(fs::read(place.join("server.key")).unwrap(), before);
        let error = init(&dir.path().join("two"), &["no name".into()]).map(|_made| ()).unwrap_err();
        assert!(error.to_string().contains("--name"), "{error}");
        let there: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(there, ["one"]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        init(&dir.path().join("empty"), &[]).unwrap();
    }
}
