//! The table of what runs, as it is drawn.

use plimsoll_proto::v1::Key;

use super::*;
use crate::ask::text::text_columns;

fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| text_columns(line)).max().unwrap_or(0)
}

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

fn board() -> RunningTable {
    let mut board = RunningTable::default();
    let rows = vec![running("a", 100, None), running("b", 97, Some(100)), running("c", 400, Some(1000))];
    board.apply_message(WatchResponse { running: rows, ended: vec![] });
    board
}

fn order(board: &RunningTable) -> String {
    let drawn = board.draw(20, TerminalStyle::default()).join("\n");
    let mut places: Vec<(usize, &str)> =
        ["p-a", "p-b", "p-c"].iter().filter_map(|name| Some((drawn.find(name)?, *name))).collect();
    places.sort_unstable();
    places.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_closest_to_its_limit_comes_first() {
    let mut board = board();
    assert_eq!(order(&board), "p-b p-c p-a");
    board.next_order();
    assert_eq!(order(&board), "p-c p-a p-b");
}

#[test]
fn changes_are_followed_and_ends_are_counted_once() {
    let mut board = board();
    let later =
        Running { elapsed_ms: 12_000, cpu_usec: 16_000_000, starved: true, ..running("b", 99, Some(100)) };
    let ended = ["a", "a", "unknown"].map(str::to_owned).to_vec();
    board.apply_message(WatchResponse { running: vec![later], ended });
    let drawn = board.draw(10, TerminalStyle::default());
    assert_eq!(drawn[0], "plimsoll  2 running, 1 starved, 1 ended meanwhile");
    let line = "    99 %   99 MiB   99 MiB   100 MiB    0.5  12.0 s  starved  p-b\\u{1b}[2J包  b";
    assert_eq!(drawn[2], line);
    assert!(drawn[9].contains("quit (q)"), "{drawn:?}");
    board.connection_problem = Some("no server\u{1b}".to_owned());
    assert_eq!(board.draw(10, TerminalStyle::default())[9], "no server\\u{1b}");
}

#[test]
fn a_screen_of_any_size_is_filled_and_never_exceeded() {
    let mut board = board();
    for n in 0..50 {
        board.apply_message(WatchResponse {
            running: vec![running(&format!("x{n}"), n, None)],
            ended: vec![],
        });
    }
    for lines in [1, 2, 3, 5, 24, 100] {
        for columns in [8, 20, 40, 80, 200] {
            board.scroll(7, lines);
            let drawn = board.draw(lines, TerminalStyle { columns: Some(columns), colour: false });
            assert_eq!(drawn.len(), lines);
            assert!(widest(&drawn) <= columns, "{columns}: {drawn:?}");
        }
    }
    board.scroll(1000, 13);
    let drawn = board.draw(13, TerminalStyle::default());
    assert!(drawn[12].ends_with("rows 44 to 53 of 53"), "{drawn:?}");
    board.scroll(-1000, 13);
    assert!(board.draw(13, TerminalStyle::default())[12].ends_with("rows 1 to 10 of 53"));
}
