//! The live screen: redraws a few times a second, and reads keys. Restores the terminal at the end.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{
        BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
        LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
    },
};
use plimsoll_client::questions::{Client, QuestionFailure, RunningWatch};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use super::board::RunningTable;
use crate::ask::terminal_style::TerminalStyle;

/// Shortest time between two drawings; people do not read faster.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Pause before the next attempt to connect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Most keys that wait while the screen is drawn.
const MAX_WAITING_KEYS: usize = 16;

/// Shows running attempts until the user presses `q`. If the server disappears, it connects again.
/// Errors: the server does not answer at first, or the terminal fails.
pub async fn watch_screen(client: &Client, look: TerminalStyle) -> Result<(), QuestionFailure> {
    let watch = client.watch().await?;
    let broken = |error: io::Error| QuestionFailure::NoAnswer(format!("the terminal: {error}"));
    let mut stop = signal(SignalKind::terminate()).map_err(broken)?;
    let shown = ScreenGuard::enter().map_err(broken)?;
    let keys = read_keys();
    let ended = tokio::select! {
        ended = show_until_quit(client, watch, keys, look) => ended.map_err(broken),
        _asked = stop.recv() => Ok(()),
    };
    drop(shown);
    ended
}

/// Restores the terminal when it is dropped.
#[derive(Debug)]
struct ScreenGuard;

impl ScreenGuard {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        // if one of the next steps fails, dropping this value restores the terminal
        let shown = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(shown)
    }
}

impl Drop for ScreenGuard {
    fn drop(&mut self) {
        // an error means that the terminal is closed: then there is nothing to restore
        drop(execute!(io::stdout(), Show, LeaveAlternateScreen));
        drop(disable_raw_mode());
    }
}

/// What a key press asks for, or that the terminal changed its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenCommand {
    Quit,
    Reorder,
    Scroll(isize),
    Redraw,
}

/// Starts a thread that reads keys until the process ends; returns the commands.
fn read_keys() -> mpsc::Receiver<ScreenCommand> {
    let (commands, keys) = mpsc::channel(MAX_WAITING_KEYS);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let gone = command_of(&event).is_some_and(|command| commands.blocking_send(command).is_err());
            if gone {
                return;
            }
        }
    });
    keys
}

fn command_of(event: &Event) -> Option<ScreenCommand> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return matches!(event, Event::Resize(..)).then_some(ScreenCommand::Redraw);
    };
    Some(match code {
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => ScreenCommand::Quit,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => ScreenCommand::Quit,
        KeyCode::Char('s') => ScreenCommand::Reorder,
        KeyCode::Up | KeyCode::Char('k') => ScreenCommand::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => ScreenCommand::Scroll(1),
        KeyCode::PageUp => ScreenCommand::Scroll(-10),
        KeyCode::PageDown => ScreenCommand::Scroll(10),
        KeyCode::Home => ScreenCommand::Scroll(isize::MIN),
        KeyCode::End => ScreenCommand::Scroll(isize::MAX),
        _ => return None,
    })
}

async fn show_until_quit(
    client: &Client,
    watch: RunningWatch,
    mut keys: mpsc::Receiver<ScreenCommand>,
    look: TerminalStyle,
) -> io::Result<()> {
    let (mut board, mut watch) = (RunningTable::default(), Some(watch));
    let mut ticks = interval(REDRAW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changed = true;
    loop {
        tokio::select! {
            () = next_message(client, &mut watch, &mut board) => changed = true,
            command = keys.recv() => match command {
                None | Some(ScreenCommand::Quit) => return Ok(()),
                Some(command) => {
                    apply_command(command, &mut board)?;
                    draw(&board, look)?;
                    changed = false;
                }
            },
            _tick = ticks.tick(), if changed => {
                draw(&board, look)?;
                changed = false;
            }
        }
    }
}

/// Waits for the next message of the server; without a connection, connects again.
async fn next_message(client: &Client, watch: &mut Option<RunningWatch>, board: &mut RunningTable) {
    let followed = if let Some(running) = watch {
        running.next().await.map(|message| board.apply_message(message))
    } else {
        sleep(RECONNECT_PAUSE).await;
        client.watch().await.map(|anew| {
            board.clear();
            (*watch, board.connection_problem) = (Some(anew), None);
        })
    };
    if let Err(failure) = followed {
        *watch = None;
        board.connection_problem = Some(format!("{failure}; trying again"));
    }
}

fn apply_command(command: ScreenCommand, board: &mut RunningTable) -> io::Result<()> {
    match command {
        ScreenCommand::Reorder => board.next_order(),
        ScreenCommand::Scroll(by) => board.scroll(by, usize::from(size()?.1)),
        ScreenCommand::Redraw | ScreenCommand::Quit => {}
    }
    Ok(())
}

/// Draws over the old screen line by line, because clearing it first would make it flicker.
fn draw(board: &RunningTable, look: TerminalStyle) -> io::Result<()> {
    let (columns, lines) = size()?;
    let look = TerminalStyle { columns: Some(usize::from(columns)), ..look };
    let mut out = io::stdout().lock();
    queue!(out, BeginSynchronizedUpdate)?;
    for (line, nth) in board.draw(usize::from(lines), look).iter().zip(0..) {
        queue!(out, MoveTo(0, nth), Print(line), Clear(ClearType::UntilNewLine))?;
    }
    queue!(out, EndSynchronizedUpdate)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ask_for_what_the_foot_says() {
        let press = |code, modifiers| command_of(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| press(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(ScreenCommand::Quit));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(ScreenCommand::Quit));
        assert_eq!([plain(KeyCode::Char('c')), plain(KeyCode::Char('x'))], [None, None]);
        assert_eq!(
            [plain(KeyCode::Char('s')), plain(KeyCode::Up)],
            [Some(ScreenCommand::Reorder), Some(ScreenCommand::Scroll(-1))]
        );
        assert_eq!(command_of(&Event::Resize(1, 1)), Some(ScreenCommand::Redraw));
    }
}
