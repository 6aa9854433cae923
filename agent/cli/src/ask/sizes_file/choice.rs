//! Chooses the cheapest class for a package, and finds the version or variant that needs another one.

use std::collections::BTreeSet;

use plimsoll_proto::{
    figures,
    v1::{BuildSizes, Recommendation},
};

use super::{
    MIN_SAVING,
    classes::{Class, Classes},
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A class for a package, with the memory to request there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice<'c> {
    pub(super) class: &'c Class,
    /// Bytes, rounded up.
    pub(super) request: u64,
    /// The need is more than the class has.
    pub(super) is_clamped: bool,
    /// What an attempt costs: in the currency of the classes, or in GiB without prices.
    pub(super) cost: f64,
}

/// A spec of a package, with the builds that it matches.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpecBuilds<'r> {
    pub(super) spec: String,
    pub(super) builds: Vec<&'r BuildSizes>,
    /// Least memory of a class, bytes: what an attempt needed that the sizes of the builds do not explain.
    pub(super) floor: u64,
    /// Least request, bytes; 0 if only the need counts.
    pub(super) least: u64,
}

impl<'r> SpecBuilds<'r> {
    /// Builds of a package. A highest need is explained by the size of another build, or by build jobs that are known to change the need, unless
    /// memory ended an attempt.
    pub(super) fn of(spec: String, builds: Vec<&'r BuildSizes>, row: &'r Recommendation) -> Self {
        let highest = row.highest_need_bytes.unwrap_or_default();
        let sizes = |build: &'r BuildSizes| build.sizes.iter().map(|size| size.memory_request_bytes);
        let others = row.builds.iter().filter(|other| !builds.iter().any(|own| std::ptr::eq(*own, *other)));
        let is_of_others = others.flat_map(sizes).any(|bytes| bytes >= highest);
        let varies = builds.iter().copied().any(|build| sizes(build).min() != sizes(build).max());
        let is_explained = is_of_others || (varies && row.failed_for_memory == 0);
        Self { spec, builds, floor: if is_explained { 0 } else { highest }, least: 0 }
    }

    /// The same with a least request.
    pub(super) fn at_least(&self, least: u64) -> Self {
        Self { least, ..self.clone() }
    }
}

/// The largest memory request of these builds at `jobs`, with the median wall time in hours (1 if it is not known). `None` if one of the
/// requests is not known.
fn need(builds: &[&BuildSizes], jobs: u32) -> Option<(u64, f64)> {
    let mut largest = (0, 0);
    for build in builds {
        let size = build.sizes.iter().find(|size| size.build_jobs == jobs)?;
        largest = (size.memory_request_bytes.max(largest.0), size.wall_ms.max(largest.1));
    }
    let hours = figures::float(largest.1) / 3_600_000.0;
    (largest.0 > 0).then_some((largest.0, if largest.1 == 0 { 1.0 } else { hours }))
}

/// Memory rounded up in steps of an eighth to a quarter, so that packages share groups and small changes of a prediction change nothing.
fn rounded(bytes: u64) -> u64 {
    let step = match bytes {
        0..GIB => 128 * MIB,
        GIB..=4_294_967_295 => 256 * MIB,
        4_294_967_296..=17_179_869_183 => GIB,
        _ => 2 * GIB,
    };
    bytes.next_multiple_of(step)
}

/// A request of these builds in a class, as if the class could hold it.
pub(super) fn in_class<'c>(of: &SpecBuilds<'_>, class: &'c Class, classes: &Classes) -> Option<Choice<'c>> {
    let (need, hours) = need(&of.builds, class.build_jobs)?;
    let request = rounded(need).max(of.least).min(class.memory);
    let is_clamped = need.max(of.floor).max(of.least) > class.memory;
    Some(Choice { class, request, is_clamped, cost: cost(class, request, hours, classes) })
}

fn cost(class: &Class, request: u64, hours: f64, classes: &Classes) -> f64 {
    let gib = figures::float(request) / figures::float(GIB);
    if !classes.has_prices() {
        return gib;
    }
    hours * (gib * class.prices.0 + figures::float(class.millicores) / 1000.0 * class.prices.1)
}

/// What these builds need in a class, bytes, and what an attempt costs with the request that the file has. `None` if the need is not known.
pub(super) fn need_and_cost(
    builds: &[&BuildSizes],
    class: &Class,
    request: u64,
    classes: &Classes,
) -> Option<(u64, f64)> {
    let (need, hours) = need(builds, class.build_jobs)?;
    Some((need, cost(class, request, hours, classes)))
}

/// The cheapest class that holds the builds; of equal ones the one with least memory. If none holds them, that with most memory; `None` if
/// the need is not known there.
pub(super) fn cheapest<'c>(of: &SpecBuilds<'_>, classes: &'c Classes) -> Option<Choice<'c>> {
    let all: Vec<Choice<'c>> = classes.all.iter().filter_map(|class| in_class(of, class, classes)).collect();
    let order = |a: &&Choice<'_>, b: &&Choice<'_>| {
        let by_memory = a.class.memory.cmp(&b.class.memory);
        a.cost.total_cmp(&b.cost).then(by_memory).then_with(|| a.class.name.cmp(&b.class.name))
    };
    let held = all.iter().filter(|choice| !choice.is_clamped).min_by(order);
    let largest = || all.iter().filter(|choice| choice.class.memory == classes.most_memory()).min_by(order);
    held.or_else(largest).copied()
}

/// The specs of a package: one with a version or variant that needs another size, if there is one, then the package itself for all its
/// other builds. `known`: specs of the package that the file has; they are used as long as builds match them.
pub(super) fn specs<'r>(row: &'r Recommendation, classes: &Classes, known: &[String]) -> Vec<SpecBuilds<'r>> {
    let package = &row.package;
    let known: Vec<&String> = known.iter().filter(|spec| *spec != package).collect();
    let mut parts = Vec::new();
    let mut rest: Vec<&BuildSizes> = row.builds.iter().collect();
    // without specs in the file one is looked for
    let builds = if known.is_empty() { rest.as_slice() } else { &[] };
    let words = builds.iter().flat_map(|build| words_of(build));
    let words: BTreeSet<(bool, String)> = words.map(|word| (word.starts_with('@'), word)).collect();
    for spec in known {
        let (with, without): (Vec<_>, Vec<_>) =
            rest.iter().partition(|build| words_of(build).any(|word| &with_word(package, &word) == spec));
        if !with.is_empty() {
            parts.push(SpecBuilds::of(spec.clone(), with, row));
            rest = without;
        }
    }
    let mut best: Option<(f64, &String)> = None;
    // of words that tell the same builds apart, a variant comes before a version
    for (_, word) in &words {
        let (with, without): (Vec<_>, Vec<_>) =
            rest.iter().partition(|build| words_of(build).any(|of| of == *word));
        let of = |builds| cheapest(&SpecBuilds::of(String::new(), builds, row), classes);
        let (Some(large), Some(small)) = (of(with), of(without)) else {
            continue;
        };
        let gain = 1.0 - small.cost / large.cost;
        if gain > MIN_SAVING && small.request < large.request && best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, word));
        }
    }
    if let Some((_, word)) = best {
        let (with, without): (Vec<_>, Vec<_>) =
            rest.iter().partition(|build| words_of(build).any(|of| of == *word));
        parts.push(SpecBuilds::of(with_word(package, word), with, row));
        rest = without;
    }
    if !rest.is_empty() {
        parts.push(SpecBuilds::of(package.clone(), rest, row));
    }
    parts
}

/// What tells a build from others of its package, as Spack writes it in a spec: variants and the version.
fn words_of(build: &BuildSizes) -> impl Iterator<Item = String> + '_ {
    let variants = build.variants.split_whitespace().map(str::to_owned);
    let version =
        Some(&build.version).filter(|version| !version.is_empty()).map(|version| format!("@={version}"));
    let letter = |of: char| of.is_ascii_alphanumeric() || "+~@=._-,".contains(of);
    variants.chain(version).filter(move |word| word.chars().all(letter) && !word.starts_with(['-', '=', ',']))
}

fn with_word(package: &str, word: &str) -> String {
    let space = if word.starts_with(['+', '~', '@']) { "" } else { " " };
    format!("{package}{space}{word}")
}
