//! Which nodes a pod may run on, as Kubernetes expresses it.

use std::collections::BTreeMap;

use super::names;

/// Which nodes a pod may run on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodePlacement {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of the node that the pod tolerates.
    pub tolerations: Vec<Toleration>,
    /// Priority class; empty for none.
    pub priority_class: String,
}

/// A toleration of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Key of the taint. Empty with `Exists`: every taint.
    /// Value: label of Kubernetes.
    /// Default: every taint.
    #[serde(default)]
    pub key: String,
    /// How the value is compared.
    /// Value: `Equal` or `Exists`.
    /// Default: `Equal`.
    #[serde(default = "equal")]
    pub operator: String,
    /// Value of the taint. Not with `Exists`.
    /// Value: value of a label.
    /// Default: empty.
    #[serde(default)]
    pub value: String,
    /// Effect of the taint.
    /// Value: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    /// Default: every effect.
    #[serde(default)]
    pub effect: String,
}

fn equal() -> String {
    "Equal".to_owned()
}

impl Toleration {
    /// The error in a toleration by Kubernetes' rules, which would refuse a pod with it; `None` if it is valid.
    pub(super) fn mistake(&self) -> Option<String> {
        let Self { key, operator, value, effect } = self;
        match operator.as_str() {
            "Equal" if key.is_empty() => return Some("operator Equal needs a key".to_owned()),
            "Exists" if !value.is_empty() => return Some("operator Exists takes no value".to_owned()),
            "Equal" | "Exists" => {}
            other => return Some(format!("operator {other:?} is neither Equal nor Exists")),
        }
        let known = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.as_str());
        if !known {
            return Some(format!("effect {effect:?} is none of NoSchedule, PreferNoSchedule, NoExecute"));
        }
        let of_key = names::key_mistake(key).filter(|_| !key.is_empty()).map(|why| format!("key: {why}"));
        of_key.or_else(|| names::value_mistake(value).map(|why| format!("value: {why}")))
    }
}
