//! KEDA: how many builders a pool needs. A trigger's metadata names the pool, the measure, and the amount for one replica.

use std::collections::HashMap;

use plimsoll_core::domain::{Bytes, FieldViolation};

use crate::service::demand::{Demands, PoolDemand, cores};

/// Highest target: more than any builder has.
const HIGHEST_TARGET: f64 = 1e9;

/// Names in a trigger's metadata: ours, and those for KEDA itself (keda.sh, "External" trigger), which passes all of them on.
const METADATA_NAMES: [&str; 3] = ["pool", "measure", "target"];
const OF_KEDA: [&str; 8] = [
    "scalerAddress",
    "metricType",
    "tlsCertFile",
    "caCert",
    "tlsClientCert",
    "tlsClientKey",
    "unsafeSsl",
    "enableTLS",
];

/// Suffix of names whose value KEDA reads from the workload's environment: it passes the value on under the longer name.
const FROM_ENV: &str = "FromEnv";

const POOL: &str = "scaledObjectRef.scalerMetadata.pool";

/// The measured resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Places,
    Cores,
    Memory,
}

impl Measure {
    const ALL: [Self; 3] = [Self::Places, Self::Cores, Self::Memory];

    /// Name in the trigger's metadata, and of the metric.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Places => "places",
            Self::Cores => "cores",
            Self::Memory => "memory",
        }
    }

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

    /// The demand: waiting plus held, because busy builders are needed too.
    pub(crate) fn of(self, demand: &PoolDemand) -> f64 {
        let all = demand.taken.all();
        match self {
            Self::Places => all.places.into(),
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
    /// Amount that one replica handles.
    pub(crate) target: f64,
}

impl Trigger {
    /// Parses the metadata.
    ///
    /// # Errors
    /// A name is unknown, or a value is invalid; names the field.
    pub(crate) fn read(metadata: &HashMap<String, String>) -> Result<Self, FieldViolation> {
        let given = |name: &str| metadata.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let of = |name: &str| given(name).or_else(|| given(&format!("{name}{FROM_ENV}")));
        let field = |name: &str| format!("scaledObjectRef.scalerMetadata.{name}");
        let is_known = |name: &str| METADATA_NAMES.contains(&name) || OF_KEDA.contains(&name);
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

    /// Demand in its pool.
    ///
    /// # Errors
    /// There is no such pool.
    pub(crate) fn demand(&self, demands: &Demands) -> Result<PoolDemand, FieldViolation> {
        demands.of(POOL, &self.pool)
    }

    /// The measure of a metric with this name; without a name that of the metadata.
    ///
    /// # Errors
    /// There is no such metric.
    pub(crate) fn measured(&self, metric: &str) -> Result<Measure, FieldViolation> {
        if metric.is_empty() { Ok(self.measure) } else { Measure::parse("metricName", metric) }
    }

    /// The name of its metric.
    pub(crate) fn metric(&self) -> &'static str {
        self.measure.as_str()
    }
}

/// Parses a trigger's metadata; asserts that a valid one is within bounds.
pub(crate) fn understood(metadata: &HashMap<String, String>) {
    match Trigger::read(metadata) {
        Ok(Trigger { target, .. }) => assert!(target > 0.0 && target <= HIGHEST_TARGET, "{target}"),
        Err(fault) => assert!(fault.to_string().len() < 1000, "a fault repeats no more than a word"),
    }
}

/// Whether at least one builder is needed.
pub(crate) fn is_active(demand: &PoolDemand) -> bool {
    demand.taken.all().places > 0
}

/// A whole number that is no less.
pub(crate) fn whole(value: f64) -> i64 {
    i64::try_from(Bytes::from_f64(value.ceil()).0).unwrap_or(i64::MAX)
}
