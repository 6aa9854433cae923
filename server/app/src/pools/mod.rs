//! The pools in force, shared by all parts of the server: the pools file, which may change while
//! the server runs, and how busy each pool is.
//!
//! The pools file and the host files that it names are reloaded when one of them changes, and at
//! SIGHUP. An invalid file is logged, and the previous pools stay in force.

mod open;
mod taken;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow, bail};
use plimsoll_core::{
    domain::{Attempt, Key, Prediction},
    placement::{
        NodePlacement, OperatingSystem, Placement, PlacementTarget, ResourceNeeds, RuleSubject,
        tickets::PoolTickets,
    },
};
use taken::TicketDemand;
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    metrics::{KindLabel, Metrics},
    reload::{self, FileStamp, ReloadedValue},
};
pub(crate) use open::{HeldSlot, OpenSlots};
pub(crate) use taken::PoolOccupancy;

/// Name of the setting with the pools file, for messages.
const POOLS_SETTING: &str = "pools_file";

/// Files with their state on disk, by which a change is noticed; `None` for a file that could not
/// be read.
type Stamps = Vec<(PathBuf, Option<FileStamp>)>;

/// The pools in force. Cheap to clone; clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct PoolRegistry(Arc<PoolRegistryState>);

#[derive(Debug)]
struct PoolRegistryState {
    file: Option<PathBuf>,
    /// The pools in force, with the states of the pools file and of the files that it names.
    kept: ReloadedValue<Placement, Stamps>,
    open_slots: OpenSlots,
    tickets: TicketDemand,
    metrics: Arc<Metrics>,
}

impl PoolRegistry {
    /// Reads the pools file; without a file there are no pools.
    /// Errors: the file cannot be read, or is invalid; the text names all mistakes.
    pub(crate) fn open(file: Option<PathBuf>, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let mut stamps = Vec::new();
        let placement = file.as_deref().map(|file| read_with(file, &mut stamps)).transpose()?;
        let placement = placement.unwrap_or_default();
        log_warnings(&placement);
        let kept = ReloadedValue::new(POOLS_SETTING, Arc::new(placement), stamps);
        let (open, tickets) = (OpenSlots::default(), TicketDemand::default());
        Ok(Self(Arc::new(PoolRegistryState { file, kept, open_slots: open, tickets, metrics })))
    }

    /// The pools in force.
    pub(crate) fn now(&self) -> Arc<Placement> {
        self.0.kept.in_force_now()
    }

    /// Open attempts by pool.
    pub(crate) fn places(&self) -> &OpenSlots {
        &self.0.open_slots
    }

    /// Takes a slot for an open attempt in the pool that it names, with its sizes lowered to those
    /// of a builder. Returns `None` if the attempt names no pool.
    pub(crate) fn hold(&self, attempt: &Attempt) -> Option<HeldSlot> {
        let (opening, now) = (&attempt.opening, self.now());
        let sizes = now
            .pool(&opening.pool)
            .map_or(attempt.resources, |pool| pool.lowered_to_maximums(&attempt.resources));
        self.0.open_slots.hold(&opening.pool, &sizes, opening.ticket.is_some(), attempt.slot_without_ticket())
    }

    /// Sets the function that returns the demand of a pool's tickets; it returns `None` for a pool
    /// without tickets.
    pub(crate) fn ask_tickets(&self, tickets: impl Fn(&str) -> Option<PoolTickets> + Send + Sync + 'static) {
        self.0.tickets.set(Arc::new(tickets));
    }

    /// Demand of a pool.
    pub(crate) fn taken(&self, pool: &str) -> PoolOccupancy {
        PoolOccupancy::of(self.0.tickets.of(pool), self.0.open_slots.of(pool))
    }

    /// Number of builds in a pool; builds that wait count like builds that run.
    pub(crate) fn busy(&self, pool: &str) -> u32 {
        self.taken(pool).total().slots
    }

    /// Assigns a prediction to a pool and lowers it to what the pool offers. Counted in the
    /// metrics.
    pub(crate) fn assign(&self, key: &Key, prediction: Prediction) -> Prediction {
        if self.now().pools().is_empty() {
            return prediction;
        }
        let assigned = self.lowered(key, prediction);
        let kind = match (assigned.placed.pool.is_empty(), assigned.placed.clamped) {
            (true, _) => "none",
            (false, true) => "clamped",
            (false, false) => "fits",
        };
        self.0.metrics.placements.get_or_create(&KindLabel::of(kind)).inc();
        assigned
    }

    /// Like [`Self::assign`], for the attempt's record: not counted in the metrics.
    pub(crate) fn lowered(&self, key: &Key, prediction: Prediction) -> Prediction {
        self.now().put_in_pool(&RuleSubject::of(key), prediction, &|pool| self.busy(pool))
    }

    /// Placement for a pod of this key with these requests: the pool `predicted` if the pod fits
    /// there, else the pool chosen for the requests. A pod that fits in no pool keeps its own
    /// placement, and gets only the placement of its kind of build. `None` if the operator
    /// configured no placement, or if the pod is not for Linux and no pool accepts its system:
    /// nodes and kinds are for Linux unless a pool names another system.
    pub(crate) fn aim(
        &self,
        key: &Key,
        os: OperatingSystem,
        needs: &ResourceNeeds,
        predicted: &str,
    ) -> Option<PlacementTarget> {
        let now = self.now();
        let subject = RuleSubject { os, ..RuleSubject::of(key) };
        // the pod's architecture is unknown and the nodes have several: on a node of another one
        // its image would not run
        let is_unsure = subject.family.is_empty() && now.is_mixed(os);
        let pool = now.pool(predicted).filter(|pool| !is_unsure && pool.os == os && pool.fits(needs));
        let choice = || now.choose(&subject, needs, &|pool| self.busy(pool));
        let (pool, reason) = match pool {
            Some(pool) => (Some(pool), format!("pool {}", pool.name)),
            None if now.pools().is_empty() => (None, String::new()),
            None if is_unsure => (None, "no pool, because its processors are not known".to_owned()),
            None => {
                let choice = choice();
                (choice.pool.filter(|_| !choice.clamped), choice.reason)
            }
        };
        if pool.is_none() && os != OperatingSystem::Linux {
            return None;
        }
        let place = now.place(&subject, pool);
        let name = pool.map(|pool| pool.name.clone()).unwrap_or_default();
        let says_something = pool.is_some() || place != NodePlacement::default();
        let kind = format!("{} build", subject.kind.as_str());
        let reason = if reason.is_empty() { kind } else { format!("{kind}, {reason}") };
        says_something.then_some(PlacementTarget { pool: name, place, reason })
    }

    /// The name of the pool that a runner's tags select; empty if they select none.
    pub(crate) fn named_by(&self, tags: &[String]) -> String {
        self.now().named_by(tags).map(|pool| pool.name.clone()).unwrap_or_default()
    }

    /// Reloads the pools file when it changes and at each SIGHUP, until `end`.
    /// Errors: the signal handler cannot be installed.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch_files(POOLS_SETTING, end, move |asked| self.reload_if_changed(asked)).await
    }

    /// Reloads the file if it has changed, or if a reload was requested.
    pub(crate) fn reload_if_changed(&self, asked: bool) {
        let PoolRegistryState { file: Some(file), kept, metrics, .. } = &*self.0 else { return };
        let again = |before: &Stamps| before.iter().map(|(path, _)| stamp_of(path)).collect();
        let taken =
            kept.reload_if_changed(asked, again, |now| self.reread(file, now), &metrics.pools_reloads);
        metrics.pools_refused.set(i64::from(kept.is_refused()));
        if let Some(taken) = taken {
            log_warnings(&taken);
            tracing::info!(pools = taken.pools().len(), rules = taken.rules(), "took pools over");
        }
    }

    /// Reads the file again. Refuses a file without pools if there are pools in force: it is being
    /// written, or was emptied by mistake.
    fn reread(&self, file: &Path, stamps: &mut Stamps) -> anyhow::Result<Arc<Placement>> {
        stamps.clear();
        let (read, before) = (read_with(file, stamps)?, self.now().pools().len());
        if read.pools().is_empty() && before > 0 {
            bail!(
                "pools_file: {} names no pool any more, and {before} are in force; to have none, restart the server",
                file.display()
            );
        }
        Ok(Arc::new(read))
    }
}

/// Reads and parses a pools file.
/// Errors: the file cannot be read, or is invalid; the text names all mistakes.
pub(crate) fn read(file: &Path) -> anyhow::Result<Placement> {
    read_with(file, &mut Vec::new())
}

/// Like [`read`]; also stores the state of each file before it is read, even if the file is
/// invalid.
fn read_with(file: &Path, stamps: &mut Stamps) -> anyhow::Result<Placement> {
    let mut text = |path: &Path| {
        stamps.push(stamp_of(path));
        let bytes = reload::stamp(path)?.bytes;
        reload::text(path, bytes)
    };
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let pools = text(file).context(POOLS_SETTING)?;
    let mut of_hosts = |name: &str| text(&folder.join(name)).map_err(|error| format!("{error:#}"));
    let parsed = Placement::parse_with(&pools, &mut of_hosts);
    parsed.map_err(|wrong| anyhow!("{}:\n{wrong}", file.display())).context(POOLS_SETTING)
}

fn stamp_of(path: &Path) -> (PathBuf, Option<FileStamp>) {
    (path.to_owned(), reload::stamp(path).ok())
}

fn log_warnings(placement: &Placement) {
    for warning in placement.warnings() {
        tracing::warn!(%warning, "the file of pools has a probable mistake");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use plimsoll_core::domain::{Bytes, Cores};

    use super::*;

    const ONE: &str = "[[pool]]\nname = \"one\"\nmemory = \"4GiB\"\n";

    #[test]
    fn unknown_arch_gets_no_pool_if_pools_differ() {
        let (_dir, path) = plimsoll_support::temporary::file_name("pools.toml");
        let two = "[[pool]]\nname = \"x\"\narch = \"x86_64\"\n[[pool]]\nname = \"a\"\narch = \"aarch64\"\n\
                   [kind.explicit]\npriority_class = \"ci\"\n";
        fs::write(&path, two).unwrap();
        let pools = PoolRegistry::open(Some(path), Arc::new(Metrics::new())).unwrap();
        let aim = |arch: &str| {
            let key = Key { arch: arch.into(), ..Key::default() };
            let aim = pools.aim(&key, OperatingSystem::Linux, &ResourceNeeds::default(), "x").unwrap();
            (aim.pool, aim.place.priority_class)
        };
        assert_eq!(aim(""), (String::new(), "ci".to_owned()));
        assert_eq!(aim("linux-x86_64_v3").0, "x");
    }

    #[test]
    fn windows_pods_go_only_to_windows_pools() {
        let (_dir, path) = plimsoll_support::temporary::file_name("pools.toml");
        let linux = "[[pool]]\nname = \"x\"\n[kind.explicit]\npriority_class = \"ci\"\n";
        let windows = "[[pool]]\nname = \"w\"\nos = \"windows\"\nprice_gib_hour = 9\n";
        let aim = |pools: &str, os| {
            fs::write(&path, pools).unwrap();
            let pools = PoolRegistry::open(Some(path.clone()), Arc::new(Metrics::new())).unwrap();
            let aim = pools.aim(&Key::default(), os, &ResourceNeeds::default(), "x");
            aim.map(|aim| (aim.pool, aim.place.priority_class))
        };
        let both = format!("{linux}{windows}");
        let place = |pool: &str| Some((pool.to_owned(), "ci".to_owned()));
        assert_eq!(aim(linux, OperatingSystem::Windows), None);
        assert_eq!(aim(&both, OperatingSystem::Windows), place("w"));
        assert_eq!(aim(&both, OperatingSystem::Linux), place("x"));
        // a pool of Windows that names no processors does not make the pools of Linux less certain
        let mut dearer = format!("{both}[[pool]]\nname = \"w2\"\nos = \"windows\"\narch = \"arm64\"\n");
        assert_eq!(aim(&dearer, OperatingSystem::Linux), place("x"));
        dearer = dearer.replace("windows", "amiga");
        fs::write(&path, dearer).unwrap();
        let error =
            format!("{:#}", PoolRegistry::open(Some(path.clone()), Arc::new(Metrics::new())).unwrap_err());
        assert!(error.contains("os \"amiga\" is none of linux, windows, darwin, freebsd"), "{error}");
    }

    #[test]
    fn an_attempt_occupies_at_most_its_pools_capacity() {
        let (_dir, path) = plimsoll_support::temporary::file_with("pools.toml", format!("{ONE}cores = 8\n"));
        let pools = PoolRegistry::open(Some(path), Arc::new(Metrics::new())).unwrap();
        let held = |bytes, cores| {
            let mut attempt = crate::ingest::fixture::attempt("a");
            attempt.opening.pool = "one".to_owned();
            attempt.resources.memory_limit = Some(Bytes(bytes));
            attempt.resources.cpu_request = Some(Cores(cores));
            let _held = pools.hold(&attempt).unwrap();
            let held = pools.taken("one").held;
            (held.slots, held.memory_bytes, held.milli_cores)
        };
        assert_eq!(held(1 << 30, 2.0), (1, 1 << 30, 2000));
        assert_eq!(held(1 << 60, 1e6), (1, 4 << 30, 8000));
    }
}
