//! Demand of each pool: waiting and held tickets, and open attempts in a known pool. For metrics, callers and autoscalers.

use std::{sync::Arc, time::Duration};

use plimsoll_core::{
    domain::{Bytes, FieldViolation},
    placement::{Pool, tickets::TicketAmount},
};
use tokio_util::sync::CancellationToken;

use crate::{
    pools::{PoolOccupancy, PoolRegistry},
    runtime::metrics::{Metrics, PoolLabels},
};

/// How often metrics are updated: well below the usual scrape interval.
const METRICS_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolDemand {
    /// Name of the pool.
    pub(crate) pool: String,
    /// Whether the pool's builders are created on demand.
    pub(crate) on_demand: bool,
    pub(crate) occupancy: PoolOccupancy,
}

/// Computes the demand for the pools in force. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Demands(PoolRegistry);

impl Demands {
    pub(crate) fn new(pools: PoolRegistry) -> Self {
        Self(pools)
    }

    /// The demand for all pools, in the order of the pools file.
    pub(crate) fn all(&self) -> Vec<PoolDemand> {
        self.0.now().pools().iter().map(|pool| self.demand(pool)).collect()
    }

    /// Demand of one pool. `field` is the request field that named it, for the error.
    /// Errors: there is no such pool.
    pub(crate) fn of(&self, field: &str, name: &str) -> Result<PoolDemand, FieldViolation> {
        let now = self.0.now();
        if let Some(pool) = now.pool(name) {
            return Ok(self.demand(pool));
        }
        let known: Vec<&str> = now.pools().iter().map(|pool| pool.name.as_str()).collect();
        let known = if known.is_empty() {
            "the server has no file of pools".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        let shown: String = name.chars().take(64).collect();
        let why = if name.is_empty() { "is missing".to_owned() } else { format!("{shown:?} is not a pool") };
        Err(FieldViolation::new(field, format!("{why}; {known}")))
    }

    fn demand(&self, pool: &Pool) -> PoolDemand {
        PoolDemand { pool: pool.name.clone(), on_demand: pool.on_demand, occupancy: self.0.taken(&pool.name) }
    }

    /// Updates the metrics of demand regularly, until `end`.
    pub(crate) async fn report_metrics(
        self,
        metrics: Arc<Metrics>,
        end: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut shown: Vec<String> = Vec::new();
        let mut tick = tokio::time::interval(METRICS_INTERVAL);
        while end.run_until_cancelled(tick.tick()).await.is_some() {
            let all = self.all();
            for gone in shown.iter().filter(|name| !all.iter().any(|demand| demand.pool == **name)) {
                metrics.forget_pool(gone);
            }
            for demand in &all {
                metrics.set_demand(demand);
            }
            shown = all.into_iter().map(|demand| demand.pool).collect();
        }
        Ok(())
    }
}

impl Metrics {
    /// Sets the metrics of a pool's demand.
    fn set_demand(&self, demand: &PoolDemand) {
        for (state, amount) in [("wanted", demand.occupancy.wanted), ("held", demand.occupancy.held)] {
            let label = PoolLabels { pool: demand.pool.clone(), state };
            self.pool_places.get_or_create(&label).set(amount.slots.into());
            self.pool_cores.get_or_create(&label).set(cores(amount));
            self.pool_memory_bytes.get_or_create(&label).set(amount.memory_bytes);
        }
    }

    /// Removes the metrics of a pool that is no longer in the file.
    fn forget_pool(&self, pool: &str) {
        for state in ["wanted", "held"] {
            let label = PoolLabels { pool: pool.to_owned(), state };
            self.pool_places.remove(&label);
            self.pool_cores.remove(&label);
            self.pool_memory_bytes.remove(&label);
        }
    }
}

/// The CPU of an amount, in cores.
pub(crate) fn cores(amount: TicketAmount) -> f64 {
    Bytes(amount.milli_cores).as_f64() / 1000.0
}

#[cfg(test)]
mod tests {
    use std::fs;

    use plimsoll_core::{
        domain::{Cores, PoolSlot, Resources},
        placement::tickets,
    };
    use tokio_util::task::TaskTracker;

    use super::*;

    const POOLS: &str = "[[pool]]\nname = \"small\"\n[[pool]]\nname = \"big\"\non_demand = true\n";

    fn demands(tickets: &[tickets::PoolTickets]) -> (Demands, tempfile::TempDir, Arc<Metrics>) {
        let (dir, file) = plimsoll_support::temporary::file_with("pools.toml", POOLS);
        let metrics = Arc::new(Metrics::new());
        let pools = PoolRegistry::open(Some(file), Arc::clone(&metrics)).unwrap();
        let tickets = tickets.to_vec();
        pools.ask_tickets(move |pool| tickets.iter().find(|demand| demand.pool == pool).cloned());
        (Demands::new(pools), dir, metrics)
    }

    fn amount(places: u32) -> TicketAmount {
        let each = u64::from(places);
        TicketAmount { slots: places, memory_bytes: each << 30, milli_cores: each * 2000 }
    }

    fn two_cores_and_a_gib() -> Resources {
        Resources { memory_request: Some(Bytes::GIB), cpu_request: Some(Cores(2.0)), ..Resources::default() }
    }

    #[test]
    fn attempts_with_and_without_tickets_count_once() {
        let ticket =
            tickets::PoolTickets { pool: "big".into(), queued: amount(3), held: amount(2), attended: 1 };
        let elsewhere = tickets::PoolTickets { pool: "gone".into(), ..ticket };
        let (demands, _dir, _) = demands(&[ticket, elsewhere]);
        let places = demands.0.places();
        let sizes = two_cores_and_a_gib();
        let _open = [
            places.hold("big", &sizes, true, Some(PoolSlot::Own)),
            places.hold("big", &sizes, false, Some(PoolSlot::Own)),
        ];
        let all = demands.all();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].pool.as_str(), all[0].occupancy.total()), ("small", TicketAmount::default()));
        let big = &all[1];
        assert_eq!((big.occupancy.wanted, big.occupancy.held, big.on_demand), (amount(3), amount(3), true));
        assert_eq!(demands.of("pool", "big").unwrap(), *big);
    }

    #[test]
    fn poolless_ticket_attempts_hide_no_unticketed_ones() {
        let ticket =
            tickets::PoolTickets { pool: "big".into(), queued: amount(0), held: amount(5), attended: 5 };
        let (demands, _dir, _) = demands(&[ticket]);
        let places = demands.0.places();
        let _open: Vec<_> =
            (0..3).map(|_| places.hold("big", &two_cores_and_a_gib(), false, Some(PoolSlot::Own))).collect();
        assert_eq!(demands.of("pool", "big").unwrap().occupancy.held, amount(8));
        // one of the five names it, and counts as before
        let _named = places.hold("big", &two_cores_and_a_gib(), true, Some(PoolSlot::Own));
        assert_eq!(demands.of("pool", "big").unwrap().occupancy.held, amount(8));
    }

    #[test]
    fn an_unknown_pool_is_refused_with_alternatives() {
        let (demands, _dir, _) = demands(&[]);
        for (name, part) in [("", "is missing; there are small, big"), ("moon", "\"moon\" is not a pool")] {
            let fault = demands.of("pool", name).unwrap_err();
            assert!(fault.field == "pool" && fault.description.contains(part), "{fault}");
        }
        let fault = demands.of("pool", &"x".repeat(1 << 20)).unwrap_err();
        assert!(fault.description.len() < 200);
        let none = Demands::new(PoolRegistry::open(None, Arc::new(Metrics::new())).unwrap());
        assert!(none.of("pool", "x").unwrap_err().description.contains("no file of pools"));
    }

    #[tokio::test(start_paused = true)]
    async fn demand_metrics_cover_exactly_the_current_pools() {
        let ticket =
            tickets::PoolTickets { pool: "big".into(), queued: amount(3), held: amount(0), attended: 0 };
        let (demands, dir, metrics) = demands(&[ticket]);
        let end = CancellationToken::new();
        let telling =
            TaskTracker::new().spawn(demands.clone().report_metrics(Arc::clone(&metrics), end.clone()));
        tokio::time::sleep(METRICS_INTERVAL / 2).await;
        let text = metrics.encode().unwrap();
        for line in [
            "plimsoll_pool_places{pool=\"big\",state=\"wanted\"} 3\n",
            "plimsoll_pool_cores{pool=\"big\",state=\"wanted\"} 6.0\n",
            "plimsoll_pool_memory_bytes{pool=\"big\",state=\"wanted\"} 3221225472\n",
            "plimsoll_pool_places{pool=\"small\",state=\"held\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        fs::write(dir.path().join("pools.toml"), "[[pool]]\nname = \"big\"\n").unwrap();
        demands.0.reload_if_changed(true);
        tokio::time::sleep(METRICS_INTERVAL * 2).await;
        let text = metrics.encode().unwrap();
        assert!(text.contains("pool=\"big\"") && !text.contains("pool=\"small\""), "{text}");
        end.cancel();
        telling.await.unwrap().unwrap();
    }
}
