//! The access file in force. It is reloaded when it or a key set that it names changes, and at each
//! SIGHUP. An invalid file is logged, and the previous one stays in force. Key sets that are not in
//! files are fetched from their issuers.

mod caller;
mod fetch;
pub(crate) mod foreign;
#[cfg(test)]
mod issuer_tests;
mod rotate;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, anyhow};
pub(crate) use caller::Caller;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::identity::{
        Access, AccessFile, Bound, Denied, ExceededBound, FetchedKeys, Identity, KeySetSource, Roles,
        Sources, Usages, bearer,
    },
    runtime::{
        audit::AUDIT,
        clock::Clock,
        metrics::{KindLabel, Metrics},
        reload,
        reload::{FileStamp, ReloadedValue},
    },
};

/// Name of the setting with the access file, for messages.
const SETTING_NAME: &str = "access_file";
/// Most refusals that are logged in one second. All of them are counted.
const MAX_LOGGED_REFUSALS: u64 = 10;

/// A file, with its state on disk when it was read; `None` if the state could not be read.
type StampedFile = (PathBuf, Option<FileStamp>);

/// Fetched key sets, by origin.
type Origins = HashMap<KeySetSource, Arc<FetchedKeys>>;

/// The access rules in force. Cheap to clone; clones share the state. Without an access file every
/// caller may do everything.
#[derive(Debug, Clone)]
pub(crate) struct Guard(Arc<GuardState>);

#[derive(Debug)]
struct GuardState {
    file: Option<PathBuf>,
    /// The access rules; `None` if there is no access file, so that callers need no identity.
    kept: ReloadedValue<Option<Access>, Vec<StampedFile>>,
    /// Keys of the issuers in force, if they are fetched.
    origins: Mutex<Origins>,
    origins_changed: Notify,
    usages: Usages,
    /// Number of changes of the access rules so far.
    changes: watch::Sender<u64>,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// Refusals logged in the current second: the upper 32 bits are the second, the lower 32 bits
    /// the count.
    logged: AtomicU64,
}

impl Guard {
    /// Reads the access file.
    /// Errors: the access file, or a file that it names, cannot be read or is invalid.
    pub(crate) fn open(file: Option<PathBuf>, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let usages = Usages::default();
        let read = file.as_deref().map(|path| AccessFileContent::new(path, &Origins::new(), &usages));
        let AccessFileContent { access, stamps, origins } = match read {
            Some(read) => read,
            None => AccessFileContent { access: Ok(None), stamps: Vec::new(), origins: Origins::new() },
        };
        Ok(Self(Arc::new(GuardState {
            file,
            kept: ReloadedValue::new(SETTING_NAME, Arc::new(access.context(SETTING_NAME)?), stamps),
            origins: Mutex::new(origins),
            origins_changed: Notify::new(),
            usages,
            changes: watch::Sender::new(0),
            metrics,
            clock: Clock,
            logged: AtomicU64::new(0),
        })))
    }

    /// Whether there is no access file, so that callers need no identity.
    pub(crate) fn is_open(&self) -> bool {
        self.0.file.is_none()
    }

    /// Identifies the caller, and checks that it has one of the `roles`. `authorization` is the header of this name, `certificate` the DNS
    /// names in the connection's client certificate, `what` the request, for the log.
    /// Errors: the caller is unknown, or lacks the role.
    pub(crate) fn check(
        &self,
        authorization: Option<&str>,
        certificate: &[String],
        roles: impl Into<Roles>,
        what: &str,
    ) -> Result<Arc<Identity>, Denied> {
        self.identify(authorization, certificate, roles.into())
            .inspect_err(|denied| self.refused(denied, self.now(), what))
    }

    /// Like [`Self::check`], but does not log or count refusals.
    fn identify(
        &self,
        authorization: Option<&str>,
        certificate: &[String],
        roles: Roles,
    ) -> Result<Arc<Identity>, Denied> {
        let access = self.0.kept.in_force_now();
        let Some(access) = &*access else { return Ok(Identity::anyone()) };
        let token = authorization.map(bearer).transpose()?;
        let identity = access.identify(token.as_deref(), certificate, self.now(), Instant::now())?;
        let name = Arc::clone(&identity.name);
        if identity.roles.has_one_of(roles) { Ok(identity) } else { Err(Denied::NotAllowed { name, roles }) }
    }

    /// The current time, seconds since 1970.
    fn now(&self) -> u64 {
        self.0.clock.now_unix_ms() / 1000
    }

    /// Number of changes of the access rules so far; it differs after each change.
    fn generation(&self) -> u64 {
        *self.0.changes.borrow()
    }

    /// Counts a refusal, and logs it unless there were many in this second.
    fn refused(&self, denied: &Denied, now: u64, what: &str) {
        self.0.metrics.access_refused.get_or_create(&KindLabel::of(denied.kind())).inc();
        if self.may_log(now) {
            tracing::warn!(target: AUDIT, what, %denied, "refused a caller");
        }
    }

    /// Whether few enough refusals were logged in this second.
    fn may_log(&self, now: u64) -> bool {
        let next = |before: u64| if before >> 32 == now { before + 1 } else { now << 32 | 1 };
        let before = self.0.logged.fetch_update(Relaxed, Relaxed, |before| Some(next(before)));
        before.is_ok_and(|before| next(before) & u64::from(u32::MAX) <= MAX_LOGGED_REFUSALS)
    }

    /// Counts one request against the caller's rate.
    /// Errors: the caller exceeds its rate.
    pub(crate) fn question(&self, caller: &Identity) -> Result<(), ExceededBound> {
        let asked = caller.take(Bound::Queries, 1, Instant::now());
        asked.inspect_err(|exceeded| self.exceeded(caller, exceeded))
    }

    /// Refuses an anonymous caller. Used where something is stored under the caller's name, or
    /// where the answer reveals what others do.
    /// Errors: the caller is anonymous.
    pub(crate) fn known(&self, caller: &Identity, what: &str) -> Result<(), Denied> {
        if !caller.is_anonymous {
            return Ok(());
        }
        self.refused(&Denied::Unidentified, self.now(), what);
        Err(Denied::Unidentified)
    }

    /// Counts an exceeded bound, and logs it unless there were many refusals in this second.
    pub(crate) fn exceeded(&self, caller: &Identity, exceeded: &ExceededBound) {
        self.0.metrics.access_exceeded.get_or_create(&KindLabel::of(exceeded.bound.as_str())).inc();
        if self.may_log(self.now()) {
            tracing::warn!(target: AUDIT, caller = %caller.name, %exceeded, "a caller went beyond a bound");
        }
    }

    /// Counts a report on a project that the caller may not report on, and logs it unless there
    /// were many refusals in this second.
    pub(crate) fn refused_report(&self, caller: &Identity, what: &str) {
        self.0.metrics.access_refused.get_or_create(&KindLabel::of("told_of_others")).inc();
        if self.may_log(self.now()) {
            tracing::warn!(target: AUDIT, caller = %caller.name, what, "a caller reported on a project that it has no grant for");
        }
    }

    /// Reloads changed files and fetches keys of issuers, until `end`.
    /// Errors: the signal handler cannot be installed.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        let keys = rotate::keep_all_keys(Arc::clone(&self.0), end.clone());
        let files = reload::watch_files(SETTING_NAME, end, move |asked| self.reload_if_changed(asked));
        tokio::try_join!(files, keys).map(|_both| ())
    }

    /// Updates the metrics of known callers and verified tokens.
    fn report_callers(&self) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.0.metrics.access_callers.set(gauge(self.0.usages.callers()));
        let tokens = (*self.0.kept.in_force_now()).as_ref().map_or(0, Access::checked_token_count);
        self.0.metrics.access_tokens.set(gauge(tokens));
    }

    /// Reloads all files if one has changed, or if a reload was requested.
    pub(crate) fn reload_if_changed(&self, asked: bool) {
        let Some(path) = &self.0.file else { return };
        self.report_callers();
        let GuardState { kept, origins, usages, metrics, .. } = &*self.0;
        let stamps = |known: &Vec<StampedFile>| known.iter().map(|(path, _)| stamp(path)).collect();
        let read = |stamps: &mut Vec<StampedFile>| {
            let mut origins = origins.lock().unwrap_or_else(PoisonError::into_inner);
            let read = AccessFileContent::new(path, &origins, usages);
            *stamps = read.stamps;
            let access = read.access?;
            *origins = read.origins;
            Ok(Arc::new(access))
        };
        let taken = kept.reload_if_changed(asked, stamps, read, &metrics.access_reloads);
        metrics.access_file_refused.set(i64::from(kept.is_refused()));
        if let Some(access) = taken {
            tracing::info!(target: AUDIT, ?access, "took the file of access over");
            self.0.origins_changed.notify_one();
            self.0.changes.send_modify(|changes| *changes += 1);
        }
    }
}

/// The result of reading the access file.
struct AccessFileContent {
    access: anyhow::Result<Option<Access>>,
    /// States of all files that were read, taken before reading.
    stamps: Vec<StampedFile>,
    origins: Origins,
}

impl AccessFileContent {
    /// Reads the access file. Keys in `known` are not fetched again.
    fn new(path: &Path, known: &Origins, usages: &Usages) -> Self {
        let mut stamps = vec![stamp(path)];
        let file = text(path).and_then(|text| AccessFile::parse(&text).map_err(|wrong| anyhow!(wrong)));
        let file = match file.with_context(|| path.display().to_string()) {
            Ok(file) => file,
            Err(error) => return Self { access: Err(error), stamps, origins: Origins::new() },
        };
        let in_access_dir =
            |named: &Path| path.parent().map_or_else(|| named.to_owned(), |dir| dir.join(named));
        stamps.extend(file.files().map(|named| stamp(&in_access_dir(named))));
        // the text does not quote the file's name: a secret may have been written in its place
        let read = |named: &PathBuf| {
            text(&in_access_dir(named)).map_err(|error| format!("cannot be read: {}", error.root_cause()))
        };
        let origins = Mutex::new(Origins::new());
        let fetched = |mut origin: KeySetSource| {
            for named in [&mut origin.ca_file, &mut origin.bearer_file].into_iter().flatten() {
                *named = in_access_dir(named);
            }
            let place = known.get(&origin).cloned().unwrap_or_default();
            let mut origins = origins.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(origins.entry(origin).or_insert(place))
        };
        let access =
            Access::new(file, Sources { read: &read, usages, moment: Instant::now(), fetched: &fetched });
        let access = access.map(Some).map_err(|wrong| anyhow!("{}: {wrong}", path.display()));
        Self { access, stamps, origins: origins.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The state of a file on disk; `None` if it cannot be read.
fn stamp(path: &Path) -> StampedFile {
    (path.to_owned(), reload::stamp(path).ok())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = reload::stamp(path).context("cannot be read")?.bytes;
    reload::text(path, bytes)
}
