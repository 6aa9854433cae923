//! JSON of running attempts.

use plimsoll_proto::{
    measured,
    v1::{Running, WatchResponse},
};
use serde::Serialize;

use super::attempt::KeyJson;

/// What has changed since the line before; the first lines are all that runs.
#[derive(Debug, Serialize)]
pub(super) struct WatchJson {
    running: Vec<RunningJson>,
    ended: Vec<String>,
}

/// A running attempt as it is now.
#[derive(Debug, Serialize)]
struct RunningJson {
    attempt: String,
    key: KeyJson,
    elapsed_ms: u64,
    memory_bytes: u64,
    need_bytes: u64,
    need_peak_bytes: u64,
    cpu_usec: u64,
    memory_limit_bytes: Option<u64>,
    starved: bool,
}

impl From<&WatchResponse> for WatchJson {
    fn from(message: &WatchResponse) -> Self {
        Self {
            running: message.running.iter().map(RunningJson::from).collect(),
            ended: message.ended.clone(),
        }
    }
}

impl From<&Running> for RunningJson {
    fn from(running: &Running) -> Self {
        Self {
            attempt: running.attempt.clone(),
            key: KeyJson::from(running.key.clone().unwrap_or_default()),
            elapsed_ms: running.elapsed_ms,
            memory_bytes: measured::running_memory(running),
            need_bytes: running.need_bytes,
            need_peak_bytes: running.need_peak_bytes,
            cpu_usec: running.cpu_usec,
            memory_limit_bytes: running.memory_limit_bytes,
            starved: running.starved,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ask::json::render_watch;

    #[test]
    fn a_message_is_one_line() {
        let running = Running { attempt: "a\nb".to_owned(), need_bytes: 7, ..Running::default() };
        let line = render_watch(&WatchResponse { running: vec![running], ended: vec!["c".to_owned()] });
        assert_eq!(line.matches('\n').count(), 1);
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!([&said["running"][0]["need_bytes"], &said["ended"]], [&json!(7), &json!(["c"])]);
    }
}
