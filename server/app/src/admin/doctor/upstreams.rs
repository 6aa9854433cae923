//! Checks that the servers answer which pools name as their upstream.

use std::collections::BTreeMap;

use anyhow::Context as _;
use plimsoll_core::placement::upstream::PoolUpstream;
use tokio::{runtime::Builder, task::JoinSet};

use super::{CheckLine, line_of};
use crate::{runtime::settings::Config, sizing::pools, tickets::check_upstream};

/// A line for each upstream. None if there is no pools file, or a wrong one, which has a line of its own.
///
/// # Errors
/// The runtime for the calls cannot be started.
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
