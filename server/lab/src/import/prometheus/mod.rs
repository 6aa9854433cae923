//! History that Prometheus has of the pods in which GitLab's runner builds: series become attempts. Pure: who asks is a matter of the server.
//!
//! | module | what it does |
//! |---|---|
//! | `labels` | names of labels, which differ between clusters |
//! | `question` | what is asked about one window of time |
//! | `answer` | Prometheus' answers |
//! | `pods` | a pod, from the windows in which it was seen |
//! | `jobs` | jobs of GitLab's list, and which pods they ran in |
//! | `attempts` | pods that have ended, as attempts or as why they are none |
//!
//! Prometheus reads now and then, so a peak is at least what it saw: [`MeasurementSource::Prometheus`].
//!
//! [`MeasurementSource::Prometheus`]: plimsoll_core::domain::MeasurementSource::Prometheus

mod answer;
mod attempts;
#[cfg(test)]
mod job_tests;
mod jobs;
mod labels;
mod pods;
mod question;
#[cfg(test)]
mod tests;

pub use answer::{PrometheusAnswer, PrometheusSeries, read_answer};
pub use attempts::{JobEnd, NamespaceTotals, PodAttempts, PodCoverage};
pub use jobs::{ListedJob, ListedJobs};
pub use labels::PrometheusLabels;
pub use pods::{BuildPods, TimeRange, TooManyPods};
pub use question::PrometheusQuestion;
