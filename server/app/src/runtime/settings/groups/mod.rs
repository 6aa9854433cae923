//! All settings; each file has one group.

mod kubernetes;
mod others;
mod server;
mod sizes;
mod spack;
mod store;

use super::setting::{Group, Setting};

/// All groups, in the order of `--help`, `--print-config` and the reference.
pub(super) const ALL: &[Group] = &[
    Group { title: "Listeners", settings: server::LISTENERS },
    Group { title: "Access", settings: server::ACCESS },
    Group { title: "Logs and traces", settings: server::LOGS },
    Group { title: "Store", settings: store::STORE },
    Group { title: "Retention", settings: store::RETENTION },
    Group { title: "Predictions", settings: sizes::PREDICTIONS },
    Group { title: "Retries, rules and pools", settings: sizes::RULES },
    Group { title: "Stock Spack", settings: spack::ALLOCATION },
    Group { title: "GitLab", settings: others::GITLAB },
    Group { title: "Kubernetes", settings: kubernetes::ADMISSION },
    Group { title: "Statistics", settings: others::STATISTICS },
];

/// All settings, in the order of `--print-config`.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    ALL.iter().flat_map(|group| group.settings)
}

/// The setting with this name.
pub(super) fn named(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}
