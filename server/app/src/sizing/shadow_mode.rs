//! Shadow mode in force: that of the settings, or that of a file, which is read again while the server runs. So sizes can be switched off at
//! once, for all builds or for some.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, anyhow};
use plimsoll_core::{domain::Key, shadow};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    metrics::Metrics,
    reload::{self, FileStamp, ReloadedValue},
    settings::{parse_shares, parse_switch},
};

const SHADOW_SETTING: &str = "shadow_file";

/// The shadow file. Its keys are settings, which it replaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShadowFile {
    shadow: String,
    #[serde(default)]
    shadow_apply: String,
}

/// Which predictions are in force. Cheap to clone; clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct ShadowMode(Arc<ShadowState>);

#[derive(Debug)]
struct ShadowState {
    file: Option<PathBuf>,
    /// What holds without the file.
    configured: shadow::Settings,
    kept: ReloadedValue<shadow::Settings, Option<FileStamp>>,
    /// How often the file was taken over.
    changes: AtomicU64,
    metrics: Arc<Metrics>,
}

impl ShadowMode {
    /// Reads the file. One that does not exist changes nothing.
    /// Errors: it cannot be read, or is invalid.
    pub(crate) fn open(
        file: Option<PathBuf>,
        configured: shadow::Settings,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let kept = ReloadedValue::new(SHADOW_SETTING, Arc::new(configured.clone()), None);
        let mode =
            Self(Arc::new(ShadowState { file, configured, kept, changes: AtomicU64::new(0), metrics }));
        let read = mode.read()?;
        mode.0.metrics.shadow.set(i64::from(read.is_on));
        mode.reload_if_changed(false);
        Ok(mode)
    }

    /// Whether predictions for this key are only shown and not applied.
    pub(crate) fn withholds(&self, key: &Key) -> bool {
        self.0.kept.in_force_now().withholds(key)
    }

    /// A number that grows with each change: earlier answers must not be repeated after it.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Relaxed)
    }

    /// Reads the file again when it changes and at each SIGHUP, until `end`.
    /// Errors: the signal handler cannot be installed.
    pub(crate) async fn watch(self, end: CancellationToken) -> anyhow::Result<()> {
        reload::watch_files(SHADOW_SETTING, end, move |asked| self.reload_if_changed(asked)).await
    }

    fn reload_if_changed(&self, asked: bool) {
        let ShadowState { file: Some(file), kept, metrics, changes, .. } = &*self.0 else { return };
        let stamp = |_before: &_| reload::stamp(file).ok();
        let taken =
            kept.reload_if_changed(asked, stamp, |_now| self.read().map(Arc::new), &metrics.shadow_reloads);
        metrics.shadow_refused.set(i64::from(kept.is_refused()));
        if let Some(taken) = taken {
            changes.fetch_add(1, Relaxed);
            metrics.shadow.set(i64::from(taken.is_on));
            tracing::warn!(shadow = taken.is_on, apply = ?taken.apply, "took shadow mode over");
        }
    }

    /// What the file says now; the settings without a file.
    fn read(&self) -> anyhow::Result<shadow::Settings> {
        let configured = || Ok(self.0.configured.clone());
        let Some(file) = &self.0.file else { return configured() };
        if std::fs::metadata(file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return configured();
        }
        let read = || {
            let ShadowFile { shadow, shadow_apply } =
                toml::from_str(&reload::text(file, reload::stamp(file)?.bytes)?)?;
            let wrong = |key: &'static str| move |error: String| anyhow!("{key}: {error}");
            let is_on = parse_switch(&shadow).map_err(wrong("shadow"))?;
            let apply = parse_shares(&shadow_apply).map_err(wrong("shadow_apply"))?;
            anyhow::ensure!(is_on || apply.is_empty(), "shadow_apply: needs shadow = \"on\"");
            anyhow::Ok(shadow::Settings { is_on, apply })
        };
        read().with_context(|| format!("{SHADOW_SETTING}: {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sizes_are_switched_off_while_the_server_runs() {
        let (_dir, file) = plimsoll_support::temporary::file_name("shadow.toml");
        let open =
            || ShadowMode::open(Some(file.clone()), shadow::Settings::default(), Arc::new(Metrics::new()));
        let mode = open().unwrap();
        let key = |project: &str| Key { project: project.into(), package: "zlib".into(), ..Key::default() };
        let cases = [
            ("shadow = \"on\"\n", [true, true], 0),
            ("shadow = \"on\"\nshadow_apply = \"g/off=0%,*=100%\"\n", [true, false], 0),
            ("shadow = \"perhaps\"\n", [true, false], 1),
            ("shadow = \"off\"\nshadow_apply = \"*=1%\"\n", [true, false], 1),
            ("", [true, false], 1),
            ("shadow = \"off\"\n", [false, false], 0),
        ];
        for (text, withheld, refused) in cases {
            let before = mode.changes();
            fs::write(&file, text).unwrap();
            mode.reload_if_changed(false);
            assert_eq!(["g/off", "g/on"].map(|name| mode.withholds(&key(name))), withheld, "{text}");
            assert_eq!(mode.0.metrics.shadow_refused.get(), refused, "{text}");
            assert_eq!(mode.changes() > before, refused == 0, "{text}");
            assert_eq!(open().is_err(), refused == 1, "{text}");
        }
        fs::write(&file, "shadow = \"on\"\n").unwrap();
        mode.reload_if_changed(false);
        fs::remove_file(&file).unwrap();
        mode.reload_if_changed(false);
        assert!(!mode.withholds(&key("g/on")), "without the file the settings hold");
    }
}
