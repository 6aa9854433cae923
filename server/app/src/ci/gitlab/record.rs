//! The content of a hook's file; `spool` documents the fields.

use plimsoll_core::{
    domain::{Cause, ReportedOutcome, Reporter},
    mask,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job_hook::{self, EndedJob, ParsedHook};

/// Version of the file format.
const FORMAT: u8 = 1;

/// The content of a hook's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HookRecord {
    format: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delivery: Option<String>,
    hook: Value,
    by: Reporter,
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    report: Option<JobReport>,
}

/// What GitLab's answers showed about a job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct JobReport {
    cause: Option<Cause>,
    unneeded: bool,
}

impl HookRecord {
    pub(super) fn of(ended: &EndedJob, delivery: Option<&str>) -> Self {
        let mut hook = ended.body.clone();
        mask::json(&mut hook);
        Self {
            format: FORMAT,
            host: ended.job.host.clone(),
            delivery: delivery.map(ToOwned::to_owned),
            hook,
            by: ended.reported.by.clone(),
            report: None,
        }
    }

    /// Adds what GitLab's answers showed.
    pub(super) fn add_answer(&mut self, reported: &ReportedOutcome) {
        self.report = Some(JobReport { cause: reported.cause, unneeded: reported.unneeded });
    }

    /// The end of the job in the file, with what GitLab's answers showed. `None` if the file has
    /// another version, or the hook reports no end.
    pub(super) fn ended(&self) -> Option<Box<EndedJob>> {
        let instance = self.host.as_ref().map(|host| format!("https://{host}"));
        let read = job_hook::read(self.hook.to_string().as_bytes(), instance.as_deref());
        let Ok(ParsedHook::Ended(mut ended)) = read else { return None };
        ended.reported.by.clone_from(&self.by);
        if let Some(JobReport { cause, unneeded }) = self.report {
            ended.reported = ReportedOutcome { cause, unneeded, ..ended.reported };
        }
        Some(ended).filter(|_| self.format == FORMAT)
    }
}
