//! Turns Prometheus' series about the pods of GitLab's runner into attempts. No I/O: the server sends the queries.
//!
//! | module | what it does |
//! |---|---|
//! | `labels` | names of labels, which differ between clusters |
//! | `question` | the queries about one window of time |
//! | `answer` | Prometheus' answers |
//! | `pod` | the readings of one pod |
//! | `pods` | all pods, from the windows in which they were seen |
//! | `spool` | pods that have ended, in compressed form |
//! | `jobs` | jobs of GitLab's list |
//! | `held_job`, `fit_by_time` | a job in a compact form; finds the pods that jobs ran in |
//! | `known` | turns a pod with a known job into an attempt |
//! | `attempts` | chooses one attempt for each job, and counts how much is known of the pods |
//!
//! Prometheus reads at long intervals, so the true peak may be higher than the recorded one: [`MeasurementSource::Prometheus`].
//!
//! [`MeasurementSource::Prometheus`]: plimsoll_core::domain::MeasurementSource::Prometheus

mod answer;
mod attempts;
mod fit_by_time;
mod held_job;
#[cfg(test)]
mod job_tests;
mod jobs;
mod known;
mod labels;
mod pod;
mod pods;
mod question;
mod spool;
#[cfg(test)]
mod tests;

pub use answer::{PrometheusAnswer, PrometheusSeries, read_answer};
pub use attempts::{NamespaceTotals, PodAttempt, PodAttempts};
pub use jobs::{JobEnd, ListedJob, ListedJobs};
pub use known::PodCoverage;
pub use labels::PrometheusLabels;
pub use pod::TimeRange;
pub use pods::{BuildPods, TooManyPods};
pub use question::PrometheusQuestion;
