//! The running attempts, for as long as the caller reads: each change as a line of JSON, or all of them again every two seconds.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
    io::{self, Write},
    time::Duration,
};

use plimsoll_client::questions::{Client, QuestionFailure};
use plimsoll_proto::{
    figures, measured,
    shown::clean,
    v1::{Running, WatchResponse},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    json,
    terminal_style::{Paint, TerminalStyle},
    text::{
        attempt_name,
        table::{Cell, Column, Table},
    },
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
    rows: HashMap<String, RunningRow>,
}

/// An attempt, and the CPU that it used between its last two messages.
#[derive(Debug)]
struct RunningRow {
    running: Running,
    millicores: Option<u64>,
}

impl RunningList {
    fn apply_message(&mut self, message: WatchResponse) {
        for running in message.running {
            match self.rows.entry(running.attempt.clone()) {
                Entry::Occupied(mut row) => row.get_mut().update(running),
                Entry::Vacant(place) => {
                    let millicores = running.cpu_usec.checked_div(running.elapsed_ms);
                    place.insert(RunningRow { running, millicores });
                }
            }
        }
        for attempt in &message.ended {
            self.rows.remove(attempt);
        }
    }

    /// A head line and a row for each attempt: those closest to their memory limit first, then those without a limit, by need.
    fn render(&self, look: TerminalStyle) -> String {
        let mut head = format!("{} running", figures::count(self.rows.len() as u64));
        let starved = self.rows.values().filter(|row| row.running.starved).count();
        if starved > 0 {
            let _written = write!(head, ", {starved} starved");
        }
        if self.rows.values().any(|row| !measured::mark(row.running.source()).is_empty()) {
            head.push_str(" (* measured by processes)");
        }
        let mut rows: Vec<&RunningRow> = self.rows.values().collect();
        rows.sort_by_cached_key(|row| {
            (Reverse((row.limit_permille(), row.running.need_bytes)), row.running.attempt.clone())
        });
        let mut table = Table::new(vec![
            Column::number_column("of limit", 1),
            Column::number_column("need", 2),
            Column::number_column("peak", 6),
            Column::number_column("limit", 7),
            Column::number_column("cores", 4),
            Column::number_column("time", 5),
            Column::text_column("", 3, 7),
            Column::text_column("what", 0, 8),
            Column::text_column("attempt", 8, 10),
        ]);
        for row in rows {
            table.add_row(row.cells());
        }
        let table = if self.rows.is_empty() { String::new() } else { table.render(look) };
        format!("\n{}\n{table}", look.paint(Paint::Head, &head))
    }
}

impl RunningRow {
    fn update(&mut self, running: Running) {
        let time = running.elapsed_ms.saturating_sub(self.running.elapsed_ms);
        let cpu = running.cpu_usec.saturating_sub(self.running.cpu_usec);
        // microseconds of CPU in a millisecond are thousandths of a core
        self.millicores = cpu.checked_div(time).or(self.millicores);
        self.running = running;
    }

    /// Memory need in thousandths of the limit; `None` without a limit.
    fn limit_permille(&self) -> Option<u64> {
        let limit = self.running.memory_limit_bytes.filter(|limit| *limit > 0)?;
        u64::try_from(u128::from(self.running.need_bytes) * 1000 / u128::from(limit)).ok()
    }

    fn cells(&self) -> Vec<Cell> {
        let Running { need_bytes, need_peak_bytes, memory_limit_bytes, elapsed_ms, .. } = self.running;
        let share = self.limit_permille();
        let paint = match share {
            Some(950..) => Paint::Bad,
            Some(800..) => Paint::Warn,
            _ => Paint::Plain,
        };
        let state = if self.running.starved { "starved" } else { "" };
        vec![
            Cell::painted(share.map_or_else(|| "-".to_owned(), |share| format!("{} %", share / 10)), paint),
            figures::bytes(need_bytes).into(),
            (figures::bytes(need_peak_bytes) + measured::mark(self.running.source())).into(),
            figures::cell(memory_limit_bytes, figures::bytes).into(),
            figures::cell(self.millicores, |cores| figures::millicores(cores / 10 * 10)).into(),
            figures::millis(elapsed_ms).into(),
            Cell::painted(state.to_owned(), Paint::Bad),
            self.running.key.as_ref().map(attempt_name).unwrap_or_default().into(),
            clean(&self.running.attempt).into(),
        ]
    }
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
of limit     need     peak    limit  cores    time           what            attempt
    99 %   99 MiB   99 MiB  100 MiB    0.5  12.0 s  starved  p-b\\u{1b}[2J包  b
       -  100 MiB  100 MiB        –    1.5  10.0 s           p-a\\u{1b}[2J包  a
       -    7 MiB    7 MiB        –    1.5  10.0 s           p-d\\u{1b}[2J包  d
";
        assert_eq!(list.render(TerminalStyle::default()), expected);
    }
}
