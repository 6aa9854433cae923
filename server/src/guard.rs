//! Who may call, in force: the file of access. It is read again when it changes, or a key set that it names, and at each SIGHUP; a
//! file that is wrong is named, and what was in force stays.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, anyhow};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    identity::{Access, AccessFile, Denied, Identity, Role, bearer},
    metrics::{Kind, Metrics},
    reload::{self, Stamp},
};

/// Refusals that are logged in one second; all of them are counted.
const LOGGED: u64 = 10;

/// A file and how it looked.
type Look = (PathBuf, Option<Stamp>);

/// A handle on who may call. Without a file everybody may do everything.
#[derive(Debug, Clone)]
pub(crate) struct Guard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Option<PathBuf>,
    in_force: RwLock<Option<Arc<Access>>>,
    /// Of the files as they were read last, right or wrong.
    stamps: Mutex<Vec<Look>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// Refusals in the second that the upper half names.
    logged: AtomicU64,
}

impl Guard {
    /// With what the file says.
    ///
    /// # Errors
    /// The file, or one that it names, cannot be read or is wrong.
    pub(crate) fn open(file: Option<PathBuf>, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let (access, stamps) = match &file {
            Some(path) => {
                let (access, stamps) = read(path);
                (Some(Arc::new(access.context("access_file")?)), stamps)
            }
            None => (None, Vec::new()),
        };
        Ok(Self(Arc::new(Shared {
            file,
            in_force: RwLock::new(access),
            stamps: Mutex::new(stamps),
            metrics,
            clock: Clock,
            logged: AtomicU64::new(0),
        })))
    }

    /// Whether nobody has to say who he is.
    pub(crate) fn is_open(&self) -> bool {
        self.0.file.is_none()
    }

    /// Who calls, if he has `role`. `authorization` is the header of this name, `certificate` the DNS names in the certificate that
    /// the connection has shown, `what` what is asked for, for the log.
    ///
    /// # Errors
    /// It is not known who calls, or he may not.
    pub(crate) fn check(
        &self,
        authorization: Option<&str>,
        certificate: &[String],
        role: Role,
        what: &str,
    ) -> Result<Arc<Identity>, Denied> {
        let access = self.0.in_force.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(access) = access else { return Ok(Identity::anyone()) };
        let now = self.0.clock.now_unix_ms() / 1000;
        let token = authorization.map(bearer).transpose();
        let known = token.and_then(|token| access.identify(token.as_deref(), certificate, now));
        let allowed = known.and_then(|identity| {
            let name = Arc::clone(&identity.name);
            if identity.roles.has(role) { Ok(identity) } else { Err(Denied::NotAllowed { name, role }) }
        });
        allowed.inspect_err(|denied| self.refused(denied, now, what))
    }

    /// Counts a refusal, and logs it unless many came within this second.
    fn refused(&self, denied: &Denied, now: u64, what: &str) {
        self.0.metrics.access_refused.get_or_create(&Kind::of(denied.kind())).inc();
        let next = |before: u64| if before >> 32 == now { before + 1 } else { now << 32 | 1 };
        let before = self.0.logged.fetch_update(Relaxed, Relaxed, |before| Some(next(before)));
        if before.is_ok_and(|before| next(before) & u64::from(u32::MAX) <= LOGGED) {
            tracing::warn!(target: "plimsoll_server::audit", what, %denied, "refused a caller");
        }
    }

    /// Takes changed files over until `end`.
    ///
    /// # Errors
    /// The signal cannot be heard.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch("access_file", end, move |asked| self.look(asked)).await
    }

    /// Reads all files again if one has changed, or somebody `asked`.
    fn look(&self, asked: bool) {
        let Some(path) = &self.0.file else { return };
        let mut stamps = self.0.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = stamps.iter().any(|known| stamp(&known.0) != *known);
        if !changed && !asked {
            return;
        }
        let (access, now) = read(path);
        *stamps = now;
        let kind = if access.is_ok() { "taken" } else { "refused" };
        self.0.metrics.access_reloads.get_or_create(&Kind::of(kind)).inc();
        match access {
            Ok(access) => {
                tracing::info!(target: "plimsoll_server::audit", ?access, "took the file of access over");
                *self.0.in_force.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(access));
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "the file of access is refused; the one in force stays");
            }
        }
    }
}

/// What the file says, and the stamps of all files that were read for it, taken before they were.
fn read(path: &Path) -> (anyhow::Result<Access>, Vec<Look>) {
    let mut stamps = vec![stamp(path)];
    let file = text(path).and_then(|text| AccessFile::parse(&text).map_err(|wrong| anyhow!(wrong)));
    let file = match file.with_context(|| path.display().to_string()) {
        Ok(file) => file,
        Err(error) => return (Err(error), stamps),
    };
    let beside = |named: &Path| path.parent().map_or_else(|| named.to_owned(), |dir| dir.join(named));
    stamps.extend(file.files().map(|named| stamp(&beside(named))));
    let keys = |named: &PathBuf| text(&beside(named)).map_err(|error| format!("{error:#}"));
    let access = Access::new(file, keys).map_err(|wrong| anyhow!("{}: {wrong}", path.display()));
    (access, stamps)
}

/// `None` for what cannot be looked at.
fn stamp(path: &Path) -> Look {
    (path.to_owned(), reload::stamp(path).ok())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = reload::stamp(path).context("cannot be read")?.1;
    reload::text(path, bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// SHA-256 of `secret`.
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    fn file(role: &str) -> String {
        format!("[[token]]\nname = \"one\"\nsha256 = \"{SECRET}\"\nroles = [\"{role}\"]\n")
    }

    #[test]
    fn a_changed_file_is_taken_over_and_a_wrong_one_leaves_the_old_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.toml");
        fs::write(&path, file("reader")).unwrap();
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(Some(path.clone()), Arc::clone(&metrics)).unwrap();
        let may = |role| guard.check(Some("Bearer secret"), &[], role, "test").is_ok();
        assert!(may(Role::Reader) && !may(Role::Agent));
        fs::write(&path, file("reader") + "nonsense = 1\n").unwrap();
        guard.look(false);
        assert!(may(Role::Reader) && !may(Role::Agent));
        fs::write(&path, file("agent")).unwrap();
        guard.look(false);
        assert!(may(Role::Agent) && !may(Role::Reader));
        let count = |kind| metrics.access_reloads.get_or_create(&Kind::of(kind)).get();
        assert_eq!((count("taken"), count("refused")), (1, 1));
        fs::remove_file(&path).unwrap();
        guard.look(false);
        assert!(may(Role::Agent), "a file that is gone for a moment opens nothing and shuts nobody out");
    }

    #[test]
    fn whoever_is_refused_is_counted_by_the_reason_and_a_flood_is_not_logged_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.toml");
        fs::write(&path, file("reader")).unwrap();
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::open(Some(path), Arc::clone(&metrics)).unwrap();
        for authorization in [None, Some("Bearer wrong"), Some("Digest x"), Some("Basic ???")] {
            assert!(guard.check(authorization, &[], Role::Reader, "test").is_err(), "{authorization:?}");
        }
        // what browsers and Prometheus can send: any name, the token as password
        assert!(guard.check(Some("Basic YW55Ym9keTpzZWNyZXQ="), &[], Role::Reader, "test").is_ok());
        let count = |kind| metrics.access_refused.get_or_create(&Kind::of(kind)).get();
        assert_eq!((count("nobody"), count("not_accepted")), (1, 3));
    }
}
