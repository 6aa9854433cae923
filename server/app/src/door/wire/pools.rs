//! The answers of `GetPools` and `GetDemand`.

use plimsoll_core::placement::{
    BuildKind, KindPolicy, NodePlacement, Pool, PoolMaximums, hosts::HostCounts, tickets::TicketAmount,
};
use plimsoll_proto::v1 as pb;

use crate::tickets::{
    UpstreamStatus,
    demand::{PoolDemand, cores},
};

pub(crate) fn pool(
    pool: &Pool,
    open_attempts: u32,
    hosts: Option<HostCounts>,
    upstream: Option<UpstreamStatus>,
) -> pb::Pool {
    let PoolMaximums { memory_request, memory_limit, cpu_request, cpu_limit } = pool.maximums;
    pb::Pool {
        name: pool.name.clone(),
        os: pool.os.as_str().to_owned(),
        arch: pool.arch.clone(),
        max_memory_request_bytes: memory_request.map(|bytes| bytes.0),
        max_memory_limit_bytes: memory_limit.map(|bytes| bytes.0),
        max_cpu_request_cores: cpu_request.map(|cores| cores.0),
        max_cpu_limit_cores: cpu_limit.map(|cores| cores.0),
        max_disk_bytes: pool.disk.map(|bytes| bytes.0),
        price_gib_hour: pool.price.gib_hour,
        price_core_hour: pool.price.core_hour,
        at_once: pool.at_once,
        on_demand: pool.on_demand,
        by_rule: pool.by_rule,
        tags: pool.tags.clone(),
        place: Some(place(&pool.place)),
        open_attempts,
        hosts: hosts.map(|HostCounts { free, held, kept, quarantined }| pb::PoolHosts {
            free,
            held,
            kept,
            quarantined,
        }),
        upstream: upstream.map(|UpstreamStatus { address, problem, counts }| pb::PoolUpstream {
            address,
            problem,
            waiting: counts.waiting,
            ready: counts.ready,
            closing: counts.closing,
        }),
    }
}

pub(crate) fn demand(demand: PoolDemand) -> pb::PoolDemand {
    let (wanted, held) = (Some(amount(demand.occupancy.wanted)), Some(amount(demand.occupancy.held)));
    pb::PoolDemand { pool: demand.pool, on_demand: demand.on_demand, wanted, held }
}

fn amount(amount: TicketAmount) -> pb::Amount {
    pb::Amount { places: amount.slots, cores: cores(amount), memory_bytes: amount.memory_bytes }
}

fn place(place: &NodePlacement) -> pb::Place {
    let toleration = |toleration: &plimsoll_core::placement::Toleration| pb::Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.clone(),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
    };
    pb::Place {
        node_selector: place.node_selector.clone().into_iter().collect(),
        tolerations: place.tolerations.iter().map(toleration).collect(),
        priority_class: place.priority_class.clone(),
    }
}

pub(crate) fn kind(kind: BuildKind, policy: &KindPolicy) -> pb::KindPolicy {
    pb::KindPolicy {
        kind: kind.as_str().to_owned(),
        place: Some(place(&policy.place)),
        raised_priority_class: policy.raised_priority_class.clone(),
        at_once: policy.at_once,
    }
}
