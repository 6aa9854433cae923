//! Checks that the servers answer which pools name as their upstream, and that the cluster shows its `LimitRange`s.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use plimsoll_core::placement::upstream::PoolUpstream;
use tokio::{runtime::Builder, task::JoinSet};

use super::{CheckLine, line_of};
use crate::{
    ci::kubernetes::{SERVICE_ACCOUNT, read_limit_ranges},
    pools,
    runtime::settings::Config,
    tickets::check_upstream,
};

/// Whether the webhook, if there is one, may read `LimitRange`s. A server that may not works too, so nothing fails.
/// Errors: the runtime for the request cannot be started.
pub(super) fn check_limit_ranges(config: &Config) -> anyhow::Result<Option<CheckLine>> {
    if config.admission.listen.is_none() {
        return Ok(None);
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (found, refused) = runtime.block_on(read_limit_ranges(&config.admission, Path::new(SERVICE_ACCOUNT)));
    Ok(Some(match refused {
        None => CheckLine::ok("LimitRanges", format!("of {} namespaces", found.len())),
        Some(why) => CheckLine::warn("LimitRanges", format!("{why:#}; else admit_min_memory bounds sizes")),
    }))
}

/// A line for each upstream. None if there is no pools file, or a wrong one, which has a line of its own.
/// Errors: the runtime for the calls cannot be started.
pub(super) fn check_upstreams(config: &Config) -> anyhow::Result<Vec<CheckLine>> {
    let placement = config.pools_file.as_deref().and_then(|file| pools::read(file).ok()).unwrap_or_default();
    let upstreams = placement.pools().iter().filter_map(|pool| pool.upstream.clone());
    let by_address: BTreeMap<String, PoolUpstream> =
        upstreams.map(|upstream| (upstream.address.shown().to_owned(), upstream)).collect();
    let checked = Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut checks = JoinSet::new();
        for (address, upstream) in by_address {
            checks.spawn(async move { (check_upstream(&upstream).await, address) });
        }
        checks.join_all().await
    });
    let mut lines = Vec::new();
    // the checks end in any order
    let by_address: BTreeMap<_, _> = checked.into_iter().map(|(answer, address)| (address, answer)).collect();
    for (address, answer) in by_address {
        let answer = answer.map(|()| format!("{address} answers"));
        let advice = || format!("{address}: its tickets wait; check upstream in the pools file");
        lines.push(line_of("upstream", answer.with_context(advice)));
    }
    Ok(lines)
}
