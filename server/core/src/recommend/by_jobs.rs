//! Sizes of each build of a package at other numbers of build jobs, for places with different numbers of cores.

use super::{ProposalTerms, known};
use crate::domain::{Bytes, Hints, Key, Millis, Prediction};

/// What one version of a package with its variants should request.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildSizes {
    /// As in a key.
    pub version: String,
    /// Those of its variants that not all builds of the package share, as in a key.
    pub variants: String,
    /// A size for each number of build jobs at which one is known.
    pub sizes: Vec<SizeAtJobs>,
}

/// A memory request for a number of build jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeAtJobs {
    /// Number of build jobs.
    pub build_jobs: u32,
    /// The predicted memory request, in whole MiB.
    pub memory_request: Bytes,
    /// Median wall time; 0 if it is not known.
    pub wall: Millis,
}

/// The sizes of all builds at the numbers of build jobs in `terms`. Builds that differ only in other fields of the key, such as the
/// compiler, are one, with the larger size of each.
pub(super) fn sizes_by_jobs(
    builds: &[Key],
    predict: impl Fn(&Key) -> Prediction,
    terms: &ProposalTerms,
) -> Vec<BuildSizes> {
    let mut found: Vec<BuildSizes> = Vec::new();
    for key in builds.iter().filter(|_| !terms.build_jobs.is_empty()) {
        let sizes = terms.build_jobs.iter().filter_map(|jobs| {
            let hints = Hints { build_jobs: Some(*jobs), ..key.hints };
            let prediction = predict(&Key { hints, ..key.clone() });
            let request = known(&prediction, &prediction.memory_request, terms.least_confidence)?;
            let wall = known(&prediction, &prediction.wall_p50, 0.0).unwrap_or_default();
            Some(SizeAtJobs {
                build_jobs: *jobs,
                memory_request: Bytes(request).ceil_mib(),
                wall: Millis(wall),
            })
        });
        let sizes: Vec<SizeAtJobs> = sizes.collect();
        match found.iter_mut().find(|of| of.version == key.version && of.variants == key.variants) {
            Some(same) => same.sizes = larger(&same.sizes, &sizes),
            None => {
                found.push(BuildSizes {
                    version: key.version.clone(),
                    variants: key.variants.clone(),
                    sizes,
                });
            }
        }
    }
    let words = |build: &BuildSizes| -> Vec<String> {
        build.variants.split_whitespace().map(str::to_owned).collect()
    };
    let shared = found
        .iter()
        .map(words)
        .reduce(|one, other| one.into_iter().filter(|word| other.contains(word)).collect());
    let shared = shared.unwrap_or_default();
    for build in &mut found {
        let own: Vec<String> = words(build).into_iter().filter(|word| !shared.contains(word)).collect();
        build.variants = own.join(" ");
    }
    found
}

/// The larger of two sizes at each number of build jobs that both have.
fn larger(one: &[SizeAtJobs], other: &[SizeAtJobs]) -> Vec<SizeAtJobs> {
    let both = one.iter().filter_map(|size| {
        let same = other.iter().find(|of| of.build_jobs == size.build_jobs)?;
        Some(SizeAtJobs {
            memory_request: size.memory_request.max(same.memory_request),
            wall: size.wall.max(same.wall),
            ..*size
        })
    });
    both.collect()
}
