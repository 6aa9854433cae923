//! Estimates the CPU, memory, disk and network that a server needs for a number of builds.
//!
//! Each constant was measured with the real server and real agents on one machine (x86-64, 2 cores); its comment has the measurement. To repeat the measurements:
//!
//! ```text
//! plimsoll-server --data-dir data &                                   # CPU: utime + stime in /proc/PID/stat, memory: VmRSS
//! for n in $(seq 60); do plimsoll run --attempt m$n --key package=p$n -- sleep 40 & done
//! plimsoll-server verify data                                         # samples, bytes of the entries, bytes on disk
//! ```
//!
//! The bytes on the network were counted by a proxy between six agents and the server. Sealed samples: `store/src/tests/size.rs`.

use plimsoll_core::domain::Bytes;
use plimsoll_proto::figures::count;

/// Samples of a build per second (the agent's `--interval`).
const SAMPLES_A_SECOND: f64 = 1.0;
/// Additional samples of a build, because its first seconds are sampled faster. Measured: 952 samples of six
/// builds of 120 s.
const EXTRA_FIRST_SAMPLES: f64 = 39.0;
/// Bytes of a sealed sample: 4 in long builds, 5 in builds of a minute.
const SAMPLE_BYTES: f64 = 4.5;
/// Bytes of a summary with its keys. Measured: 21,633 bytes of entries for 60 builds of 65 samples each, and
/// 5,593 for 6 builds of 159.
const SUMMARY_BYTES: f64 = 300.0;
/// Size of the store's files while the server works, as a multiple of their content.
const FILES_OVER_ENTRIES: f64 = 2.0;
/// Bytes of an empty store with its first segments: 1.4 MB on disk with 60 short builds.
const EMPTY_STORE_BYTES: f64 = 1.0e6;
/// Bytes on the network to the server, per sample. Measured: 56,370 for 952 samples, with headers of HTTP/2 and
/// the ends of six builds.
const SENT_BYTES: f64 = 59.0;
/// Bytes on the network from the server back to the agents, per sample. Measured: 17,061 for 952 samples.
const ANSWERED_BYTES: f64 = 18.0;
/// Most seconds of CPU per sample, with its share of commits, starts and ends of builds. Measured: 2.87 s for
/// 3,929 samples of 60 builds of 40 s, with a server that was compiled without optimization. A release build
/// takes less.
const SAMPLE_CPU_SECONDS: f64 = 0.00073;
/// Memory of a connected agent with its open attempt. Measured: 9.6 MiB for 60 agents.
const AGENT_BYTES: f64 = 163.0 * 1024.0;

/// Builds at the busiest time, as a multiple of the daily mean.
const PEAK_FACTOR: f64 = 3.0;
/// Days in a month, for estimates per month.
const MONTH_DAYS: f64 = 30.0;
/// Seconds in a day.
const DAY_SECONDS: f64 = 86_400.0;

/// Most builds a day that are accepted; above any real fleet.
pub const MAX_BUILDS: f64 = 1e8;
/// Longest mean wall time that is accepted, minutes: a week.
pub const MAX_MINUTES: f64 = 10_080.0;
/// Most agents at once that are accepted.
pub const MAX_AGENTS: f64 = 1e6;

/// How many builds a fleet runs, how long they take, and how many run at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetLoad {
    /// Builds in a day; above 0, at most [`MAX_BUILDS`].
    pub builds_per_day: f64,
    /// Mean wall time of the builds, minutes; above 0, at most [`MAX_MINUTES`].
    pub mean_minutes: f64,
    /// Agents at once at the busiest time, at most [`MAX_AGENTS`]; `None` for three times the daily mean.
    pub agents: Option<f64>,
}

/// The server's settings that determine its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryTerms {
    /// Most attempts that predictions and statistics use.
    pub history_attempts: f64,
    /// Memory of one attempt in the history, bytes.
    pub attempt_bytes: f64,
    /// Memory of the program and its caches, bytes.
    pub program_bytes: f64,
    /// Memory of the server for each byte of the store's files.
    pub file_share: f64,
}

/// The resources that a server needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerSize {
    /// Number of agents at the busiest time.
    pub agents: f64,
    /// Samples per second at the busiest time.
    pub samples_per_second: f64,
    /// Most cores in use at the busiest time, without predictions and web pages.
    pub cores: f64,
    /// Memory that the server needs after a month, bytes.
    pub memory_bytes: f64,
    /// Bytes that a month adds to the store's files, while samples are kept in full.
    pub disk_month_bytes: f64,
    /// Bytes on the network per second at the busiest time, to the server and back.
    pub network_bytes_per_second: f64,
    /// Bytes on the network in a month, to the server and back.
    pub network_month_bytes: f64,
}

/// Number of samples of a build that takes `seconds`.
fn samples(seconds: f64) -> f64 {
    seconds * SAMPLES_A_SECOND + EXTRA_FIRST_SAMPLES
}

/// Bytes of the store's files after `builds` builds of `seconds` each have ended.
pub fn disk_bytes(builds: f64, seconds: f64) -> f64 {
    EMPTY_STORE_BYTES + builds * (SUMMARY_BYTES + samples(seconds) * SAMPLE_BYTES) * FILES_OVER_ENTRIES
}

/// Estimates the resources that a server needs for these builds.
pub fn size(load: &FleetLoad, terms: &MemoryTerms) -> ServerSize {
    let seconds = load.mean_minutes * 60.0;
    let mean_agents = load.builds_per_day * seconds / DAY_SECONDS;
    let agents = load.agents.unwrap_or_else(|| (mean_agents * PEAK_FACTOR).ceil()).max(1.0);
    // each agent sends samples at the mean rate of its build
    let samples_per_second = agents * samples(seconds) / seconds;
    let month_builds = load.builds_per_day * MONTH_DAYS;
    let disk_month_bytes = disk_bytes(month_builds, seconds);
    let history = month_builds.min(terms.history_attempts) * terms.attempt_bytes;
    let network = SENT_BYTES + ANSWERED_BYTES;
    ServerSize {
        agents,
        samples_per_second,
        cores: samples_per_second * SAMPLE_CPU_SECONDS,
        memory_bytes: terms.program_bytes
            + history
            + agents * AGENT_BYTES
            + disk_month_bytes * terms.file_share,
        disk_month_bytes,
        network_bytes_per_second: samples_per_second * network,
        network_month_bytes: month_builds * samples(seconds) * network,
    }
}

/// A row of the table that [`text`] prints: builds a day, agents, CPU, memory, disk per month, network.
pub fn cells(load: &FleetLoad, size: &ServerSize) -> [String; 6] {
    let bytes = |value: f64| Bytes::from_f64(value).to_string();
    [
        count(Bytes::from_f64(load.builds_per_day).0),
        count(Bytes::from_f64(size.agents).0),
        format!("{:.2} cores", size.cores),
        bytes(size.memory_bytes),
        bytes(size.disk_month_bytes),
        format!("{}/s", bytes(size.network_bytes_per_second)),
    ]
}

/// The resources that a server needs, as text for people.
pub fn text(load: &FleetLoad, size: &ServerSize) -> String {
    let [builds, agents, cores, memory, disk, network] = cells(load, size);
    let month = Bytes::from_f64(size.network_month_bytes);
    let source = if load.agents.is_some() { "" } else { "  three times the mean of the day" };
    format!(
        "builds a day    {builds}  of {:.1} minutes\n\
         agents at once  {agents}{source}\n\
         samples         {:.0}/s\n\
         CPU             {cores} at most\n\
         memory          {memory}\n\
         disk a month    {disk}\n\
         network         {network}  {month} a month\n\
         CPU and network: at the busiest time; predictions and pages come on top. Memory: after a month; the history stops growing at \
         history_attempts. Disk: with all samples; after series_full_for they become one row for 15 seconds.\n",
        load.mean_minutes, size.samples_per_second,
    )
}

/// The resources as one JSON object; the names contain the units.
pub fn json(load: &FleetLoad, size: &ServerSize) -> String {
    let whole = |value: f64| Bytes::from_f64(value).0;
    serde_json::json!({
        "builds_per_day": load.builds_per_day,
        "mean_minutes": load.mean_minutes,
        "agents": whole(size.agents),
        "samples_per_second": size.samples_per_second,
        "cores": size.cores,
        "memory_bytes": whole(size.memory_bytes),
        "disk_month_bytes": whole(size.disk_month_bytes),
        "network_bytes_per_second": whole(size.network_bytes_per_second),
        "network_month_bytes": whole(size.network_month_bytes),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: MemoryTerms = MemoryTerms {
        history_attempts: 1e6,
        attempt_bytes: 503.0,
        program_bytes: 192.0 * 1024.0 * 1024.0,
        file_share: 1.0 / 32.0,
    };

    fn of(builds_per_day: f64, mean_minutes: f64, agents: Option<f64>) -> ServerSize {
        size(&FleetLoad { builds_per_day, mean_minutes, agents }, &TERMS)
    }

    #[test]
    fn agents_are_three_times_the_mean_of_the_day_where_they_are_not_given() {
        // 1,440 builds of 10 minutes are ten at once in the mean
        assert!((of(1440.0, 10.0, None).agents - 30.0).abs() < 1e-9);
        assert!((of(1440.0, 10.0, Some(500.0)).agents - 500.0).abs() < 1e-9);
        assert!((of(0.1, 1.0, None).agents - 1.0).abs() < 1e-9, "at least one");
    }

    #[test]
    fn twice_the_builds_take_twice_the_disk_and_more_agents_take_more_cpu_and_memory() {
        let (one, two) = (of(5000.0, 20.0, None), of(10_000.0, 20.0, None));
        let builds = |size: ServerSize| size.disk_month_bytes - EMPTY_STORE_BYTES;
        assert!((builds(two) / builds(one) - 2.0).abs() < 1e-9);
        assert!(two.cores > 1.9 * one.cores && two.network_bytes_per_second > one.network_bytes_per_second);
        let crowded = of(5000.0, 20.0, Some(10_000.0));
        assert!(crowded.memory_bytes > one.memory_bytes && crowded.cores > one.cores);
        // what a month adds follows from the builds alone
        assert!((crowded.disk_month_bytes - one.disk_month_bytes).abs() < 1e-9);
    }

    #[test]
    fn the_history_stops_growing_where_the_setting_says() {
        let history = |builds| {
            let size = of(builds, 1.0, Some(1.0));
            size.memory_bytes - size.disk_month_bytes * TERMS.file_share
        };
        assert!((history(1e6) - history(1e7)).abs() < 1.0);
        assert!(history(1e4) < history(1e6));
    }

    #[test]
    fn the_largest_load_that_may_be_asked_for_is_a_number() {
        let most = of(MAX_BUILDS, MAX_MINUTES, Some(MAX_AGENTS));
        assert!(
            [most.cores, most.memory_bytes, most.disk_month_bytes, most.network_month_bytes]
                .into_iter()
                .all(f64::is_finite)
        );
    }
}
