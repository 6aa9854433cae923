//! Runs the predictor over standard input and output, for evaluation programs: each line of input and output is
//! a JSON object.
//!
//! ```text
//! {"op":"reset","trace":T,"seed":S}                           -> {}
//! {"op":"predict","task":{..}}                                -> {"bytes":N}
//! {"op":"retry","task":{..},"failed_bytes":B,"attempt":K}     -> {"bytes":N}
//! {"op":"observe","task":{..},"peak_bytes":P,"runtime_ms":R}  -> {}
//! ```
//!
//! `process` and `trace` of a task are its key, `input_size` and `cpus` its hints, `requested_bytes` the
//! preset.

use std::io::{self, BufRead, Write};

use plimsoll_core::{
    domain::{Bytes, Hints, Key},
    predict::Settings,
};
use serde::Deserialize;

use super::{
    ours::{PlimsollPolicy, SizesInForce},
    policy::{FinishedBuild, PolicyQuestion, SizingPolicy as _},
};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Request {
    Reset,
    Predict { task: TaskRequest },
    Retry { task: TaskRequest, failed_bytes: f64 },
    Observe { task: TaskRequest, peak_bytes: f64, runtime_ms: f64 },
}

#[derive(Deserialize)]
struct TaskRequest {
    #[serde(default)]
    trace: String,
    process: String,
    input_size: Option<f64>,
    cpus: Option<f64>,
    requested_bytes: Option<f64>,
    submit_ms: Option<f64>,
}

impl TaskRequest {
    fn ask(self) -> PolicyQuestion {
        let count = |value: f64| Bytes::from_f64(value).0;
        let hints = Hints {
            build_jobs: self.cpus.and_then(|cpus| u32::try_from(count(cpus)).ok()),
            input_bytes: self.input_size.map(count),
        };
        let key = Key { project: self.trace, package: self.process, hints, ..Key::default() };
        let start_ms = self.submit_ms.unwrap_or(0.0);
        PolicyQuestion { key, workload: 0, preset: self.requested_bytes, start_ms, need: f64::NAN }
    }
}

/// Answers requests until the input ends.
/// Errors: A line is not a valid request (the error has its number), or the streams fail.
pub fn serve(settings: &Settings, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut policy = PlimsollPolicy::new(settings.clone(), SizesInForce::Request);
    let mut observed = 0;
    for (number, line) in (1_u64..).zip(input.lines()) {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let request = serde_json::from_str(&line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {number} is not a request: {error}"))
        })?;
        let bytes = match request {
            Request::Reset => {
                policy = PlimsollPolicy::new(settings.clone(), SizesInForce::Request);
                None
            }
            Request::Predict { task } => Some(policy.size(&task.ask())),
            Request::Retry { task, failed_bytes } => {
                Some(policy.size_after_failure(&task.ask(), failed_bytes))
            }
            Request::Observe { task, peak_bytes, runtime_ms } => {
                observed += 1;
                let done = FinishedBuild {
                    number: observed,
                    peak: peak_bytes,
                    mean: 0.0,
                    wall_ms: runtime_ms,
                    cpu_usec: 0,
                    stopped: false,
                    untrusted: false,
                };
                policy.learn(&task.ask(), &done);
                None
            }
        };
        match bytes {
            Some(bytes) => writeln!(output, "{}", serde_json::json!({ "bytes": Bytes::from_f64(bytes).0 }))?,
            None => writeln!(output, "{{}}")?,
        }
        output.flush()?;
    }
    Ok(())
}
