//! Simulates recorded builds on nodes, to compare what a fleet would need with the sizes of different policies.
//!
//! ```text
//! tape (as for a replay) -> run (arrivals, ends, the queue) -> nodes (first fit) -> outcome -> table or JSON
//! ```
//!
//! A build requests memory and cores, and runs on the first open node that has both free. Nodes are ordered by their kind, as the fleet
//! lists the kinds, and then by the time of their opening. If no open node has room, a node of the first kind that is large enough and
//! has nodes left is opened; otherwise the build waits. When a build ends, the waiting builds are tried, the oldest first. A later build
//! may start before an older one that still does not fit, as with the scheduler of Kubernetes. A node that stays empty for a time is
//! closed.
//!
//! Each build holds the same cores under every policy (`cores`), and takes longer if it used more cores than it holds. So the rows of a
//! table differ only because of memory.
//!
//! A build with a limit below its need is lost after its whole time, and is tried again with the policy's next
//! size. A node reserves the request. For most policies request and limit are the same; with `plimsoll-pod` a
//! build may use more than its request. If the builds of a node then use more together than it has, those
//! furthest above their requests are evicted: they too are lost after their whole time. They are tried again
//! with what they used plus 15 % as their requests, as a verdict of the server proposes. A policy learns from a
//! build when the build has ended in the simulation, waiting included.
//!
//! `oracle` is not a policy here but a lower bound: no sizes can need less.
//!
//! With a spread hint, builds with a long predicted p95 of wall time prefer nodes with other long builds, and
//! short builds prefer nodes without long ones. So fewer nodes stay open for a single long build after their
//! short builds have ended.
//!
//! The same file and the same terms give the same outcome.

mod cores;
mod fleet;
mod nodes;
mod oracle;
mod outcome;
mod report;
mod rows;
mod run;
#[cfg(test)]
mod tests;
mod waiting;

pub use cores::{CpuRule, SimulatedCores};
pub use fleet::Fleet;
pub use outcome::FleetOutcome;
pub(crate) use report::aligned;
pub use report::{FleetReport, json, text};
pub use rows::{RowWindow, SimulatedRows};
pub use run::{SimulatedSizes, SimulationTerms, run};
