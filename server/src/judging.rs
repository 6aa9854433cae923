//! What verdicts stand on beside the history, shared: the rules, which may change while the server runs, and the failures
//! that verdicts were given on.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{Evidence, History, Key, Verdict},
    predict,
    retry::{self, Flaky, Known, Policy, Rules, Seen},
};

/// How often the directory of rules is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Failures kept, each a key with a signature: about 30 MB.
const FAILURES: usize = 50_000;
/// Most files of rules.
const FILES: usize = 64;
/// Largest file of rules, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A handle on what verdicts stand on.
#[derive(Debug, Clone)]
pub(crate) struct Judging(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: Option<PathBuf>,
    rules: RwLock<Arc<Rules>>,
    stamps: Mutex<Vec<Stamp>>,
    seen: Mutex<Seen>,
    policy: Policy,
}

/// What tells that a file has changed: name, bytes, time of the last change.
type Stamp = (String, u64, Option<SystemTime>);

impl Judging {
    /// With the rules of the program and of the files in `dir`.
    ///
    /// # Errors
    /// The directory cannot be read, or a file of it is wrong: all mistakes of all files.
    pub(crate) fn open(dir: Option<PathBuf>, policy: Policy) -> anyhow::Result<Self> {
        let (rules, stamps) = match &dir {
            Some(dir) => (read(dir)?, stamps(dir)?),
            None => (Rules::built_in(), Vec::new()),
        };
        Ok(Self(Arc::new(Shared {
            dir,
            rules: RwLock::new(rules),
            stamps: Mutex::new(stamps),
            seen: Mutex::new(Seen::new(FAILURES)),
            policy,
        })))
    }

    /// The verdict on what is known of an ended attempt.
    pub(crate) fn judge(
        &self,
        evidence: &Evidence,
        history: &History,
        settings: &predict::Settings,
    ) -> Verdict {
        let rules = Arc::clone(&self.0.rules.read().unwrap_or_else(PoisonError::into_inner));
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Known { rules: &rules, history, seen: &seen, settings, policy: &self.0.policy };
        retry::judge(evidence, &known)
    }

    /// Failures with retries whose end is known, most retries first.
    pub(crate) fn flaky(&self, history: &History, most: usize) -> Vec<Flaky> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).flaky(history, most)
    }

    /// Learns a verdict that is on disk.
    pub(crate) fn learn(&self, key: &Key, verdict: &Verdict) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).learn(key, verdict);
    }

    /// Takes changed rules over until `end`. Rules that are wrong are named in the log, and those in force stay.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        let Some(dir) = self.0.dir.clone() else {
            end.cancelled().await;
            return Ok(());
        };
        let mut tick = tokio::time::interval(LOOK);
        while end.run_until_cancelled(tick.tick()).await.is_some() {
            let (this, dir) = (self.clone(), dir.clone());
            // a directory on a network that hangs must not hold up the server
            let looked = tokio::task::spawn_blocking(move || this.look(&dir)).await;
            match looked {
                Ok(Ok(Some(rules))) => tracing::info!(rules, "took changed rules over"),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::error!(%error, "rules_dir: the rules in force stay"),
                Err(error) => tracing::error!(%error, "rules_dir: looking ended badly"),
            }
        }
        Ok(())
    }

    /// Reads the rules again if a file has changed; gives how many there are then. A change is looked at once.
    fn look(&self, dir: &Path) -> anyhow::Result<Option<usize>> {
        let now = stamps(dir)?;
        {
            let mut known = self.0.stamps.lock().unwrap_or_else(PoisonError::into_inner);
            if *known == now {
                return Ok(None);
            }
            *known = now;
        }
        let rules = read(dir)?;
        let count = rules.len();
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(Some(count))
    }
}

/// The rules of the program and of the files in a directory.
///
/// # Errors
/// See [`Judging::open`].
pub(crate) fn read(dir: &Path) -> anyhow::Result<Arc<Rules>> {
    let mut files = Vec::new();
    for (name, bytes, _) in stamps(dir)? {
        if bytes > FILE_BYTES {
            bail!("{name} has {bytes} bytes, at most {FILE_BYTES} are read");
        }
        let path = dir.join(&name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        files.push((name, text));
    }
    if files.len() > FILES {
        bail!("{} holds {} files of rules, at most {FILES} are read", dir.display(), files.len());
    }
    Rules::extended(&files).map(Arc::new).map_err(|wrong| anyhow::anyhow!(wrong.join("\n")))
}

/// The files of rules in a directory, by name.
fn stamps(dir: &Path) -> anyhow::Result<Vec<Stamp>> {
    let list = || -> io::Result<Vec<Stamp>> {
        let mut stamps = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let rules = [".toml", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
            if !rules || name.starts_with('.') {
                continue;
            }
            // through links: Kubernetes mounts a ConfigMap as links
            let about = fs::metadata(entry.path())?;
            stamps.push((name, about.len(), about.modified().ok()));
        }
        stamps.sort();
        Ok(stamps)
    };
    list().with_context(|| dir.display().to_string())
}
