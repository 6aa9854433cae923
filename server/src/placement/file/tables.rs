//! The form of the operator's file. What it means is decided elsewhere.

use std::collections::BTreeMap;

use plimsoll_proto::quantity;
use serde::Deserialize;
use toml::Spanned;

use crate::placement::pool::Toleration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) currency: String,
    #[serde(default)]
    pub(super) pool: Vec<PoolTable>,
    #[serde(default)]
    pub(super) kind: BTreeMap<String, Spanned<KindTable>>,
    #[serde(default)]
    pub(super) rule: Vec<Spanned<RuleTable>>,
    #[serde(default)]
    pub(super) tickets: TicketsTable,
}

/// How places are shared.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TicketsTable {
    pub(super) at_once: Option<Spanned<u32>>,
    pub(super) each_owner: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) owner: BTreeMap<String, Spanned<u32>>,
    #[serde(default)]
    pub(super) tag: BTreeMap<String, Spanned<u32>>,
    #[serde(default)]
    pub(super) arch: BTreeMap<String, Spanned<u32>>,
    pub(super) most_open: Option<Spanned<u32>>,
    pub(super) ask_within: Option<Spanned<String>>,
    pub(super) start_within: Option<Spanned<String>>,
    pub(super) silent_within: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolTable {
    pub(super) name: Spanned<String>,
    pub(super) os: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) arch: String,
    pub(super) cores: Option<Spanned<Cpu>>,
    pub(super) memory: Option<Spanned<String>>,
    pub(super) disk: Option<Spanned<String>>,
    pub(super) overwrite_max: Option<OverwriteMax>,
    #[serde(default)]
    pub(super) price_gib_hour: f64,
    #[serde(default)]
    pub(super) price_core_hour: f64,
    pub(super) at_once: Option<u32>,
    #[serde(default)]
    pub(super) on_demand: bool,
    #[serde(default)]
    pub(super) by_rule: bool,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) allowed: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(default)]
    pub(super) priority_class: String,
}

/// What the runner's `*_overwrite_max_allowed` are.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverwriteMax {
    pub(super) memory_request: Option<Spanned<String>>,
    pub(super) memory_limit: Option<Spanned<String>>,
    pub(super) cpu_request: Option<Spanned<Cpu>>,
    pub(super) cpu_limit: Option<Spanned<Cpu>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindTable {
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) tolerations: Vec<Toleration>,
    #[serde(default)]
    pub(super) priority_class: String,
    #[serde(default)]
    pub(super) raised_priority_class: String,
    pub(super) at_once: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    #[serde(default)]
    pub(super) name: String,
    pub(super) project: Option<Spanned<String>>,
    pub(super) owner: Option<Spanned<String>>,
    pub(super) stack: Option<Spanned<String>>,
    pub(super) package: Option<Spanned<String>>,
    pub(super) version: Option<Spanned<String>>,
    pub(super) arch: Option<Spanned<String>>,
    pub(super) r#ref: Option<Spanned<String>>,
    pub(super) ref_class: Option<Spanned<String>>,
    pub(super) kind: Option<Spanned<String>>,
    pub(super) key: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, Spanned<String>>,
    pub(super) memory_over: Option<Spanned<String>>,
    pub(super) cores_over: Option<Spanned<Cpu>>,
    pub(super) wall_p50_over: Option<String>,
    pub(super) wall_p95_over: Option<String>,
    pub(super) copr: Option<Spanned<String>>,
    pub(super) pool: Option<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) when_busy: Option<String>,
    pub(super) busy_from: Option<u32>,
}

/// Cores, as a number or as Kubernetes writes them.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Cpu {
    Number(f64),
    Text(String),
}

impl Cpu {
    /// How many.
    pub(super) fn cores(&self) -> Result<f64, String> {
        match self {
            Self::Number(number) if number.is_finite() && *number >= 0.0 => {
                quantity::cores(&number.to_string())
            }
            Self::Number(number) => Err(format!("{number} is not a number of cores")),
            Self::Text(text) => quantity::cores(text),
        }
    }
}
