//! KEDA scales builders by demand: this module computes how many a pool needs. The metadata of a
//! KEDA trigger names the pool, the measure, and the amount for one replica.

use std::collections::HashMap;

use plimsoll_base::named_enum;
use plimsoll_core::domain::{Bytes, FieldViolation};

use crate::tickets::demand::{Demands, PoolDemand, cores};

/// Highest target: more than any builder has.
const HIGHEST_TARGET: f64 = 1e9;

/// Names in a trigger's metadata that are read here. `KEDA_NAMES`: names that KEDA itself reads
/// (keda.sh, "External" trigger) and also passes on.
const METADATA_NAMES: [&str; 3] = ["pool", "measure", "target"];
const KEDA_NAMES: [&str; 8] = [
    "scalerAddress",
    "metricType",
    "tlsCertFile",
    "caCert",
    "tlsClientCert",
    "tlsClientKey",
    "unsafeSsl",
    "enableTLS",
];

/// Suffix of a metadata name: KEDA reads its value from a variable of the workload's environment.
const FROM_ENV: &str = "FromEnv";

const POOL_ENV_NAME: &str = "scaledObjectRef.scalerMetadata.pool";

named_enum! {
    /// The measured resource.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Measure {
        Places => "places",
        Cores => "cores",
        Memory => "memory",
    }
}

impl Measure {
    fn parse(field: &str, word: &str) -> Result<Self, FieldViolation> {
        let known = Self::ALL.into_iter().find(|measure| measure.as_str() == word);
        known.ok_or_else(|| {
            let shown: String = word.chars().take(64).collect();
            FieldViolation::new(
                field,
                format!("{shown:?} is none of {}", Self::ALL.map(Self::as_str).join(", ")),
            )
        })
    }

    /// The demand: waiting plus held slots, because builders that are busy are needed too.
    pub(crate) fn of(self, demand: &PoolDemand) -> f64 {
        let all = demand.occupancy.total();
        match self {
            Self::Places => all.slots.into(),
            Self::Cores => cores(all),
            Self::Memory => Bytes(all.memory_bytes).as_f64() / Bytes::GIB.as_f64(),
        }
    }
}

/// A trigger's metadata.
#[derive(Debug, PartialEq)]
pub(crate) struct Trigger {
    pool: String,
    measure: Measure,
    /// Amount of the measure that one replica handles.
    pub(crate) target: f64,
}

impl Trigger {
    /// Parses the metadata.
    /// Errors: A name is unknown, or a value is invalid; the error names the field.
    pub(crate) fn read(metadata: &HashMap<String, String>) -> Result<Self, FieldViolation> {
        let given = |name: &str| metadata.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let of = |name: &str| given(name).or_else(|| given(&format!("{name}{FROM_ENV}")));
        let field = |name: &str| format!("scaledObjectRef.scalerMetadata.{name}");
        let is_known = |name: &str| METADATA_NAMES.contains(&name) || KEDA_NAMES.contains(&name);
        let is_known = |name: &str| is_known(name) || name.strip_suffix(FROM_ENV).is_some_and(is_known);
        let unknown = metadata.keys().map(String::as_str).find(|name| !is_known(name));
        if let Some(unknown) = unknown {
            let shown: String = unknown.chars().take(64).collect();
            return Err(FieldViolation::new(
                field(&shown),
                format!("is not known; known are {}", METADATA_NAMES.join(", ")),
            ));
        }
        let measure = of("measure").map(|word| Measure::parse(&field("measure"), word)).transpose()?;
        let target = match of("target") {
            None => 1.0,
            Some(text) => {
                let number =
                    text.parse::<f64>().ok().filter(|target| *target > 0.0 && *target <= HIGHEST_TARGET);
                number.ok_or_else(|| {
                    let shown: String = text.chars().take(64).collect();
                    FieldViolation::new(
                        field("target"),
                        format!("{shown:?} is not a number above 0, up to {HIGHEST_TARGET}"),
                    )
                })?
            }
        };
        let pool = of("pool").unwrap_or_default().to_owned();
        Ok(Self { pool, measure: measure.unwrap_or(Measure::Places), target })
    }

    /// Demand in the trigger's pool.
    /// Errors: there is no such pool.
    pub(crate) fn demand(&self, demands: &Demands) -> Result<PoolDemand, FieldViolation> {
        demands.of(POOL_ENV_NAME, &self.pool)
    }

    /// The measure of the metric with this name; if the name is empty, the measure in the metadata.
    /// Errors: there is no such metric.
    pub(crate) fn measured(&self, metric: &str) -> Result<Measure, FieldViolation> {
        if metric.is_empty() { Ok(self.measure) } else { Measure::parse("metricName", metric) }
    }

    /// The name of the trigger's metric.
    pub(crate) fn metric(&self) -> &'static str {
        self.measure.as_str()
    }
}

/// Parses a trigger's metadata, for fuzzing; asserts that valid metadata is within bounds.
pub(crate) fn understood(metadata: &HashMap<String, String>) {
    match Trigger::read(metadata) {
        Ok(Trigger { target, .. }) => assert!(target > 0.0 && target <= HIGHEST_TARGET, "{target}"),
        Err(fault) => assert!(fault.to_string().len() < 1000, "a fault repeats no more than a word"),
    }
}

/// Whether at least one builder is needed.
pub(crate) fn is_active(demand: &PoolDemand) -> bool {
    demand.occupancy.total().slots > 0
}

/// The value rounded up to a whole number.
pub(crate) fn round_up(value: f64) -> i64 {
    i64::try_from(Bytes::from_f64(value.ceil()).0).unwrap_or(i64::MAX)
}
