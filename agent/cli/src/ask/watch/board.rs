//! The running attempts as rows of a screen. There are at most as many rows as the server allows open attempts.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
};

use plimsoll_proto::{
    figures, measured,
    shown::clean,
    v1::{Running, WatchResponse},
};

use crate::ask::{
    terminal_style::{Paint, TerminalStyle},
    text::{
        attempt_name as name, fit_text,
        table::{Cell, Column, Table},
    },
};

/// Lines of the screen besides the rows: title, column heads, help on keys.
const FRAME_LINES: usize = 3;

/// By what the rows are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// The attempts closest to their memory limit first; attempts without a limit by need.
    #[default]
    Limit,
    /// The highest memory need first.
    Need,
    /// The highest CPU use first.
    Cpu,
    /// The longest running first.
    Time,
    /// By package, then by id.
    Name,
}

impl RowOrder {
    fn next(self) -> Self {
        match self {
            Self::Limit => Self::Need,
            Self::Need => Self::Cpu,
            Self::Cpu => Self::Time,
            Self::Time => Self::Name,
            Self::Name => Self::Limit,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Limit => "closest to the limit",
            Self::Need => "need",
            Self::Cpu => "cpu",
            Self::Time => "time",
            Self::Name => "name",
        }
    }
}

/// An attempt, and the CPU that it used between its last two messages.
#[derive(Debug)]
struct RunningRow {
    running: Running,
    millicores: Option<u64>,
}

/// Which rows the screen shows.
struct VisibleRows {
    /// Number of rows above the first visible row.
    rows_above: usize,
    /// Lines available for rows.
    row_lines: usize,
    all_rows: usize,
}

/// All running attempts.
#[derive(Debug, Default)]
pub(super) struct RunningTable {
    rows: HashMap<String, RunningRow>,
    /// Number of attempts of this table that ended while the connection was up.
    ended: u64,
    order: RowOrder,
    /// Number of rows above the first visible row.
    rows_above: usize,
    /// What is wrong with the connection, if anything.
    pub(super) connection_problem: Option<String>,
}

impl RunningTable {
    /// Updates the rows from a message of the server.
    pub(super) fn apply_message(&mut self, message: WatchResponse) {
        for running in message.running {
            match self.rows.entry(running.attempt.clone()) {
                Entry::Occupied(mut row) => row.get_mut().update_row(running),
                Entry::Vacant(place) => {
                    let whole = running.cpu_usec.checked_div(running.elapsed_ms);
                    place.insert(RunningRow { running, millicores: whole });
                }
            }
        }
        for attempt in &message.ended {
            self.ended += u64::from(self.rows.remove(attempt).is_some());
        }
    }

    /// Removes all rows, because a new watch sends them again.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    pub(super) fn next_order(&mut self) {
        (self.order, self.rows_above) = (self.order.next(), 0);
    }

    /// Scrolls by `by` rows; the terminal has `lines` lines.
    pub(super) fn scroll(&mut self, by: isize, lines: usize) {
        let most = self.rows.len().saturating_sub(lines.saturating_sub(FRAME_LINES));
        self.rows_above = self.rows_above.saturating_add_signed(by).min(most);
    }

    /// The lines of the screen: at most `lines`, none wider than the terminal.
    pub(super) fn draw(&self, lines: usize, look: TerminalStyle) -> Vec<String> {
        let columns = look.columns.unwrap_or(usize::MAX);
        let starved = self.rows.values().filter(|row| row.running.starved).count();
        let mut title = format!("plimsoll  {} running", self.rows.len());
        if self.rows.values().any(|row| !measured::mark(row.running.source()).is_empty()) {
            title.push_str(" (* measured by processes)");
        }
        if starved > 0 {
            let _written = write!(title, ", {starved} starved");
        }
        let _written = write!(title, ", {} ended meanwhile", self.ended);
        let mut drawn = vec![look.paint(Paint::Head, &fit_text(&title, columns))];
        let room = lines.saturating_sub(FRAME_LINES);
        let mut rows: Vec<&RunningRow> = self.rows.values().collect();
        rows.sort_by_cached_key(|row| (Reverse(row.sort_rank(self.order)), row.name()));
        let above = self.rows_above.min(rows.len().saturating_sub(room));
        let table = running_table(rows.iter().skip(above).take(room).copied());
        drawn.extend(table.render(look).lines().map(str::to_owned));
        drawn.truncate(lines.saturating_sub(1));
        while drawn.len() + 1 < lines {
            drawn.push(String::new());
        }
        drawn.push(
            self.foot_line(&VisibleRows { rows_above: above, row_lines: room, all_rows: rows.len() }, look),
        );
        drawn
    }

    fn foot_line(&self, rows: &VisibleRows, look: TerminalStyle) -> String {
        let columns = look.columns.unwrap_or(usize::MAX);
        let VisibleRows { rows_above: above, row_lines: room, all_rows: all } = *rows;
        if let Some(trouble) = &self.connection_problem {
            return look.paint(Paint::Bad, &fit_text(&clean(trouble), columns));
        }
        let hidden = if all > room {
            format!("  rows {} to {} of {all}", above + 1, (above + room).min(all))
        } else {
            String::new()
        };
        let keys = format!("order: {} (s)  up, down  quit (q){hidden}", self.order.word());
        look.paint(Paint::Faint, &fit_text(&keys, columns))
    }
}

impl RunningRow {
    fn update_row(&mut self, running: Running) {
        let time = running.elapsed_ms.saturating_sub(self.running.elapsed_ms);
        let cpu = running.cpu_usec.saturating_sub(self.running.cpu_usec);
        // microseconds of CPU in a millisecond are thousandths of a core
        if let Some(millicores) = cpu.checked_div(time) {
            self.millicores = Some(millicores);
        }
        self.running = running;
    }

    fn name(&self) -> (String, String) {
        let package = self.running.key.as_ref().map(|key| key.package.clone()).unwrap_or_default();
        (package, self.running.attempt.clone())
    }

    fn sort_rank(&self, order: RowOrder) -> u64 {
        match order {
            // the key is thousandths of the limit; attempts without a limit come last, by bytes
            RowOrder::Limit => self.limit_permille().map_or(0, |share| share.saturating_add(1)),
            RowOrder::Need => self.running.need_bytes,
            RowOrder::Cpu => self.millicores.unwrap_or(0),
            RowOrder::Time => self.running.elapsed_ms,
            RowOrder::Name => 0,
        }
    }

    /// Memory need in thousandths of the limit; `None` without a limit.
    fn limit_permille(&self) -> Option<u64> {
        let limit = self.running.memory_limit_bytes.filter(|limit| *limit > 0)?;
        u64::try_from(u128::from(self.running.need_bytes) * 1000 / u128::from(limit)).ok()
    }

    fn cells(&self) -> Vec<Cell> {
        let share = self.limit_permille();
        let paint = match share {
            Some(950..) => Paint::Bad,
            Some(800..) => Paint::Warn,
            _ => Paint::Plain,
        };
        let state = if self.running.starved { "starved" } else { "" };
        vec![
            Cell::painted(share.map_or_else(|| "-".to_owned(), |share| format!("{} %", share / 10)), paint),
            figures::bytes(self.running.need_bytes).into(),
            format!(
                "{}{}",
                figures::bytes(self.running.need_peak_bytes),
                measured::mark(self.running.source())
            )
            .into(),
            figures::cell(self.running.memory_limit_bytes, figures::bytes).into(),
            self.millicores
                .map_or_else(|| figures::DASH.to_owned(), |cores| figures::millicores(cores / 10 * 10))
                .into(),
            figures::millis(self.running.elapsed_ms).into(),
            Cell::painted(state.to_owned(), Paint::Bad),
            self.running.key.as_ref().map(name).unwrap_or_default().into(),
            clean(&self.running.attempt).into(),
        ]
    }
}

fn running_table<'a>(rows: impl Iterator<Item = &'a RunningRow>) -> Table {
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
    rows.for_each(|row| table.add_row(row.cells()));
    table
}

#[cfg(test)]
mod tests;
