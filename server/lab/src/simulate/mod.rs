//! A day of recorded history on nodes of a size: what a fleet would need with one policy's sizes and with another's.
//!
//! ```text
//! tape (as for a replay) -> run (arrivals, ends, the queue) -> nodes (first fit) -> outcome -> table or JSON
//! ```
//!
//! A build asks for memory and cores, and goes to the first open node with room for both; nodes stand in the order in which the
//! fleet names their kinds, and then in that of their opening. If none has room, a node of the first kind that is large enough and
//! not all used is opened; else the build waits. When something ends, waiting builds are tried, the oldest first, and later
//! builds may pass one that still does not fit: as the scheduler of Kubernetes does it. A node that is empty for a time is closed.
//!
//! Every build holds the same cores under every policy (`cores`), and takes longer where they are fewer than it used. So the rows of a table
//! differ by their memory alone.
//!
//! A build whose limit is below what it needs is lost after its whole time, and comes back with the policy's next size. A node keeps the
//! request free. For most policies both are the same; with `plimsoll-pod` a build may use more than its request. Where the builds of a node
//! then use more together than it has, those that are most above their requests are lost after their whole time, too, and come back
//! with what they used and 15 % as their requests, as a verdict says. A policy learns a build when that has ended here, after all waiting, and not before.
//!
//! `oracle` is no policy here but a bound (`oracle`): what no sizes can be below.
//!
//! With a spread hint, builds whose predicted p95 of wall time is long go to nodes with others of that sort first, and the others
//! away from them, so that fewer nodes are kept open by one long build from which the short ones have gone.
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
