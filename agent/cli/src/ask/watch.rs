//! The running attempts, for as long as the caller reads: each change as a line of JSON, or all of them again every two seconds.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt::Write as _,
    io::{self, Write},
    time::Duration,
};

use plimsoll_client::questions::{Client, QuestionFailure};
use plimsoll_proto::{
    figures, measured, tables,
    v1::{Running, WatchResponse},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    json,
    terminal_style::{Paint, TerminalStyle},
};

/// Time between two lists.
const LIST_INTERVAL: Duration = Duration::from_secs(2);

/// Writes each message of the server as a line of JSON, until the output is closed or the server ends the
/// watch.
/// Errors: the server did not answer, or ended the watch.
pub async fn watch_lines(client: &Client, out: &mut (dyn Write + Send)) -> Result<(), QuestionFailure> {
    let mut watch = client.watch().await?;
    loop {
        let message = watch.next().await?;
        if !is_written(out, &json::render_watch(&message))? {
            return Ok(());
        }
    }
}

/// Writes the list of all running attempts every two seconds, until the output is closed or the server ends the watch.
/// Errors: the server did not answer, or ended the watch.
pub async fn watch_list(
    client: &Client,
    look: TerminalStyle,
    out: &mut (dyn Write + Send),
) -> Result<(), QuestionFailure> {
    let mut watch = client.watch().await?;
    let mut list = RunningList::default();
    // the first message has all attempts
    list.apply_message(watch.next().await?);
    let mut ticks = interval(LIST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = watch.next() => list.apply_message(message?),
            _tick = ticks.tick() => if !is_written(out, &list.render(look))? {
                return Ok(());
            },
        }
    }
}

/// Writes a text; false if the reader has closed the output.
fn is_written(out: &mut (dyn Write + Send), text: &str) -> Result<bool, QuestionFailure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(QuestionFailure::NoAnswer(format!("standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// All running attempts; at most as many as the server allows open ones.
#[derive(Debug, Default)]
struct RunningList {
    /// Each attempt with the cores that it used between its last two messages.
    rows: HashMap<String, (Running, Option<f64>)>,
}

impl RunningList {
    fn apply_message(&mut self, message: WatchResponse) {
        for running in message.running {
            let cores = match self.rows.get(&running.attempt) {
                None => measured::running_cores(&running),
                Some((before, cores)) => {
                    let cpu = running.cpu_usec.saturating_sub(before.cpu_usec);
                    let time = running.elapsed_ms.saturating_sub(before.elapsed_ms);
                    measured::cores_over(cpu, time).or(*cores)
                }
            };
            self.rows.insert(running.attempt.clone(), (running, cores));
        }
        for attempt in &message.ended {
            self.rows.remove(attempt);
        }
    }

    /// A head line and a row for each attempt: those closest to their memory limit first, then those without a limit, by need.
    fn render(&self, look: TerminalStyle) -> String {
        let mut head = format!("{} running", figures::count(self.rows.len() as u64));
        let starved = self.rows.values().filter(|(running, _)| running.starved).count();
        if starved > 0 {
            let _written = write!(head, ", {starved} starved");
        }
        let mut rows: Vec<_> = self.rows.values().map(|(running, cores)| (running, *cores)).collect();
        rows.sort_by_cached_key(|(running, _)| {
            (Reverse((limit_permille(running), running.need_bytes)), running.attempt.clone())
        });
        let table = look.table(&tables::running("cores now", rows.into_iter()), usize::MAX);
        format!("\n{}\n{table}", look.paint(Paint::Head, &head))
    }
}

/// Memory need in thousandths of the limit; `None` without a limit.
fn limit_permille(running: &Running) -> Option<u64> {
    let limit = running.memory_limit_bytes.filter(|limit| *limit > 0)?;
    u64::try_from(u128::from(running.need_bytes) * 1000 / u128::from(limit)).ok()
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Key;

    use super::*;

    fn running(attempt: &str, need_mib: u64, limit_mib: Option<u64>) -> Running {
        Running {
            attempt: attempt.to_owned(),
            key: Some(Key { package: format!("p-{attempt}\u{1b}[2J包"), ..Key::default() }),
            elapsed_ms: 10_000,
            need_bytes: need_mib << 20,
            need_peak_bytes: need_mib << 20,
            cpu_usec: 15_000_000,
            memory_limit_bytes: limit_mib.map(|mib| mib << 20),
            ..Running::default()
        }
    }

    #[test]
    fn changes_are_followed_and_the_tightest_stand_first() {
        let mut list = RunningList::default();
        assert_eq!(list.render(TerminalStyle::default()), "\n0 running\n");
        let rows = vec![running("a", 100, None), running("b", 97, Some(100)), running("c", 400, Some(1000))];
        list.apply_message(WatchResponse { running: rows, ended: vec![] });
        let later = Running {
            elapsed_ms: 12_000,
            cpu_usec: 16_000_000,
            starved: true,
            ..running("b", 99, Some(100))
        };
        list.apply_message(WatchResponse {
            running: vec![later, running("d", 7, None)],
            ended: ["c", "unknown"].map(str::to_owned).to_vec(),
        });
        let expected = "
3 running, 1 starved
of limit  need now  highest need    limit  cores now     for  with page cache  build           state    attempt
    99 %    99 MiB        99 MiB  100 MiB        0.5  12.0 s           99 MiB  p-b\\u{1b}[2J包  starved  b
       –   100 MiB       100 MiB        –        1.5  10.0 s          100 MiB  p-a\\u{1b}[2J包  running  a
       –     7 MiB         7 MiB        –        1.5  10.0 s            7 MiB  p-d\\u{1b}[2J包  running  d
";
        assert_eq!(list.render(TerminalStyle::default()), expected);
    }
}
