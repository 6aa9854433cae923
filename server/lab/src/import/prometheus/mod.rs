//! History that Prometheus has of the pods in which GitLab's runner builds: series become attempts. Pure: who asks is a matter of the server.
//!
//! | module | what it does |
//! |---|---|
//! | `labels` | names of labels, which differ between clusters |
//! | `question` | what is asked about one window of time |
//! | `answer` | Prometheus' answers |
//! | `pod` | what was seen of one pod |
//! | `pods` | all pods, from the windows in which they were seen |
//! | `spool` | pods that have ended, packed |
//! | `jobs` | jobs of GitLab's list |
//! | `held_job`, `fit_by_time` | one of them, packed; which pods they ran in |
//! | `known` | a pod with a known job, as an attempt or as why it is none |
//! | `attempts` | one attempt for each job, and how much is known of the pods |
//!
//! Prometheus reads now and then, so a peak is at least what it saw: [`MeasurementSource::Prometheus`].
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
