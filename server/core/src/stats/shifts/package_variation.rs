//! Finds packages with a need that varies much between attempts of one build.

use std::collections::HashMap;

use crate::domain::{Bytes, Millis};
use crate::stats::{
    attempts::builds::BuildIdentity,
    attempts::row::{AttemptRow, RowFlag},
};

/// Fewest attempts of a build for which a deviation is computed.
const FEWEST_ATTEMPTS: u32 = 3;

/// How much the need of a package varies.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageVariation {
    /// Name of the package.
    pub package: String,
    /// Number of attempts that were compared.
    pub attempts: u32,
    /// Coefficient of variation of the need within builds, weighed by attempts.
    pub variation: f64,
    /// Lowest need of an attempt that was compared.
    pub need_min: Bytes,
    /// Highest need of an attempt that was compared.
    pub need_max: Bytes,
}

/// Mean and variance of the need, for each build.
#[derive(Debug)]
pub(in crate::stats) struct BuildNeeds(Vec<NeedMoments>);

#[derive(Debug, Clone, Copy)]
struct NeedMoments {
    attempts: u32,
    min: f32,
    max: f32,
    mean: f64,
    /// Sum of the squared distances from the mean (Welford 1962).
    squares: f64,
}

impl BuildNeeds {
    /// Starts without attempts, for `builds` builds.
    pub(in crate::stats) fn of(builds: usize) -> Self {
        let nothing = NeedMoments { attempts: 0, min: f32::INFINITY, max: 0.0, mean: 0.0, squares: 0.0 };
        Self(vec![nothing; builds])
    }

    /// Adds an attempt, unless its need shows nothing: because the attempt was cut short, or because its work was done already.
    pub(in crate::stats) fn add(&mut self, row: &AttemptRow) {
        if !row.succeeded() || row.need <= 0.0 || row.has_flag(RowFlag::Unneeded) {
            return;
        }
        let Some(need) = usize::try_from(row.build).ok().and_then(|build| self.0.get_mut(build)) else {
            return;
        };
        need.attempts += 1;
        let value = f64::from(row.need);
        let distance = value - need.mean;
        need.mean += distance / f64::from(need.attempts);
        need.squares += distance * (value - need.mean);
        need.min = need.min.min(row.need);
        need.max = need.max.max(row.need);
    }

    /// The packages that vary most, at most `most`.
    pub(in crate::stats) fn most_variable(
        &self,
        builds: &[BuildIdentity],
        most: usize,
    ) -> Vec<PackageVariation> {
        let mut packages: HashMap<&str, (u64, f64, f32, f32)> = HashMap::new();
        for (need, build) in self.0.iter().zip(builds).filter(|(need, _)| need.attempts >= FEWEST_ATTEMPTS) {
            let deviation = (need.squares / f64::from(need.attempts - 1)).sqrt();
            let (attempts, sum, min, max) =
                packages.entry(&build.key.package).or_insert((0, 0.0, f32::INFINITY, 0.0));
            *attempts += u64::from(need.attempts);
            *sum += f64::from(need.attempts) * deviation / need.mean;
            (*min, *max) = (min.min(need.min), max.max(need.max));
        }
        let mut packages: Vec<_> = packages
            .into_iter()
            .map(|(package, (attempts, sum, min, max))| {
                (sum / Millis(attempts).as_f64(), package, attempts, min, max)
            })
            .filter(|(variation, ..)| *variation > 0.0)
            .collect();
        packages.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        packages.truncate(most);
        let bytes = |gib: f32| Bytes::from_f64(f64::from(gib) * Bytes::GIB.as_f64());
        let variable =
            |(variation, package, attempts, min, max): (f64, &str, u64, f32, f32)| PackageVariation {
                package: package.to_owned(),
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
                variation,
                need_min: bytes(min),
                need_max: bytes(max),
            };
        packages.into_iter().map(variable).collect()
    }
}
