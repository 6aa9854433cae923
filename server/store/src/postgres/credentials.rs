//! Password and CAs for connections to the database. The files are read again for each connection, so that both can be renewed while
//! servers run. A file that cannot be read meanwhile leaves what it had in force.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_rustls::rustls::RootCertStore;

use super::{
    errors::{PostgresError, PostgresResult},
    tls::{self, Tls},
};

/// How long a reading may take, a few files of some KiB, before the connection is tried with what they had last.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// Longest password file, bytes.
const PASSWORD_BYTES: usize = 4096;

/// What a connection needs besides its host.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) password: Option<String>,
    pub(super) tls: Tls,
}

/// Where they are.
#[derive(Debug)]
struct Sources {
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    mode: SslMode,
}

impl Sources {
    /// Errors: the text names the setting and the file.
    fn read(&self) -> Result<Credentials, String> {
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        let roots = match self.mode {
            SslMode::Disable => RootCertStore::empty(),
            _ => tls::roots(self.ca_file.as_deref())?,
        };
        Ok(Credentials { password, tls: Tls::with_roots(roots)? })
    }
}

fn read_password(file: &Path) -> Result<String, String> {
    let wrong = |reason: String| format!("store_password_file {}: {reason}", file.display());
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.len() > PASSWORD_BYTES || password.contains('\n') {
        return Err(wrong("it must have the password as its only line".to_owned()));
    }
    Ok(password.to_owned())
}

/// The files, and what they had when they were last read. Cheap to clone.
#[derive(Clone)]
pub(super) struct CredentialFiles(Arc<FilesState>);

struct FilesState {
    sources: Sources,
    /// Held while the files are read.
    alone: Arc<Semaphore>,
    last: Mutex<LastRead>,
}

struct LastRead {
    credentials: Credentials,
    /// Why the files could not be read the last time; empty if they were.
    wrong: String,
}

impl fmt::Debug for CredentialFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialFiles").field(&self.0.sources).finish()
    }
}

impl CredentialFiles {
    /// Reads the files for the first time.
    pub(super) fn open(
        password_file: Option<PathBuf>,
        ca_file: Option<PathBuf>,
        mode: SslMode,
    ) -> PostgresResult<Self> {
        let sources = Sources { password_file, ca_file, mode };
        let credentials = sources.read().map_err(PostgresError::Lasting)?;
        let last = Mutex::new(LastRead { credentials, wrong: String::new() });
        Ok(Self(Arc::new(FilesState { sources, alone: Arc::new(Semaphore::new(1)), last })))
    }

    /// What the files have now, else what they had last. They are read on another thread: a network file system may hang.
    pub(super) async fn now(&self) -> Credentials {
        let files = Arc::clone(&self.0);
        let read = async move {
            // a reading that hangs keeps its thread: one is enough
            let alone = Arc::clone(&files.alone).acquire_owned().await;
            let read =
                move || alone.map_err(|closed| closed.to_string()).and_then(|_alone| files.sources.read());
            tokio::task::spawn_blocking(read).await.unwrap_or_else(|ended| Err(ended.to_string()))
        };
        let read = match tokio::time::timeout(READ_WITHIN, read).await {
            Ok(read) => read,
            Err(_late) => Err(format!(
                "the files of store_password_file and store_ca_file cannot be read within {READ_WITHIN:?}"
            )),
        };
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(credentials) => *last = LastRead { credentials, wrong: String::new() },
            Err(wrong) if last.wrong != wrong => {
                tracing::warn!(wrong, "the connection to the database uses what the file had before");
                last.wrong = wrong;
            }
            Err(_known) => {}
        }
        last.credentials.clone()
    }
}
