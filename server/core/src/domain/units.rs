//! Units as types, so that bytes, milliseconds, CPU microseconds and cores cannot be mixed up.

use std::fmt;

use plimsoll_proto::figures;
use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number as a float, for statistics. Exact below 2^53.
            #[expect(clippy::cast_precision_loss, reason = "statistics do not need more than 53 bits")]
            pub fn as_f64(self) -> f64 {
                self.0 as f64
            }

            /// The nearest whole number. Negative numbers and NaN become 0, numbers that are too large become the largest.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is what the doc promises")]
            pub fn from_f64(value: f64) -> Self {
                Self(value.round() as u64)
            }

            /// The difference; 0 if `other` is larger.
            #[must_use]
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
    };
}

unit! {
    /// Bytes of memory, disk or wire.
    Bytes
}
unit! {
    /// Milliseconds: a duration, or a time since 1970 (the field's name says which).
    Millis
}
unit! {
    /// Microseconds of CPU time.
    CpuMicros
}
unit! {
    /// Microseconds of time that a build lost; this is not CPU time.
    Micros
}

/// Processor cores, with fractions.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cores(pub f64);

impl Bytes {
    /// One mebibyte.
    pub const MIB: Self = Self(1 << 20);
    /// One gibibyte.
    pub const GIB: Self = Self(1 << 30);

    /// This memory multiplied by `time`, GiB x h.
    pub fn gib_hours(self, time: Millis) -> f64 {
        self.as_f64() / Self::GIB.as_f64() * time.hours()
    }

    /// The size rounded up to whole mebibytes.
    #[must_use]
    pub fn ceil_mib(self) -> Self {
        Self(self.0.div_ceil(Self::MIB.0).saturating_mul(Self::MIB.0))
    }
}

impl Millis {
    /// One second.
    pub const SECOND: Self = Self(1000);

    /// The duration in hours.
    pub fn hours(self) -> f64 {
        self.as_f64() / 3_600_000.0
    }
}

impl CpuMicros {
    /// Mean number of cores used over `time`; 0 for no time.
    pub fn cores_over(self, time: Millis) -> Cores {
        if time.0 == 0 { Cores(0.0) } else { Cores(self.as_f64() / (time.as_f64() * 1000.0)) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::bytes(self.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::millis(self.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::micros(self.0))
    }
}

impl fmt::Display for CpuMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::micros(self.0))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.0)
    }
}

/// A count as a float, for a mean or a share.
pub(crate) fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The median; of an even number of values the upper of the two in the middle; 0 if empty.
pub fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_as_people_say_them() {
        let shown: Vec<String> = [0, 1023, 2048, 300 << 20, 3 << 29].map(|b| Bytes(b).to_string()).to_vec();
        assert_eq!(shown, ["0 B", "1023 B", "2 KiB", "300 MiB", "1.50 GiB"]);
        let shown: Vec<String> = [1500, 61_000, 3_661_000].map(|t| Millis(t).to_string()).to_vec();
        assert_eq!(shown, ["1.5 s", "1 min 1 s", "1 h 1 min"]);
    }

    #[test]
    fn conversions_from_floats_saturate() {
        assert_eq!(Bytes::from_f64(f64::NAN), Bytes(0));
        assert_eq!(Bytes::from_f64(-5.0), Bytes(0));
        assert_eq!(Bytes::from_f64(f64::INFINITY), Bytes(u64::MAX));
        assert_eq!(Bytes(u64::MAX).ceil_mib(), Bytes(u64::MAX));
    }

    #[test]
    fn no_time_means_no_cores() {
        assert!(CpuMicros(5).cores_over(Millis(0)).0.abs() < f64::EPSILON);
        assert!((CpuMicros(2_000_000).cores_over(Millis(1000)).0 - 2.0).abs() < 1e-9);
    }
}
