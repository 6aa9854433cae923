//! The life of the process: settings, log, build, run, exit status. The program calls only
//! [`main`], so that another program can run the server, too.

use std::{
    io::{ErrorKind, Write as _},
    path::Path,
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use plimsoll_proto::shown::escaped_lines;
use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Addresses, App, Cli, Config, Log, agent_threads,
    runtime::settings::{MachineMemory, MemoryPlan, PrintedConfig, log_bytes},
};

/// Exit status for invalid settings: `EX_USAGE` of sysexits(3).
const WRONG_SETTINGS: u8 = 64;

/// Longest wait for the threads of agents to end. Everything that was acknowledged is on disk by
/// then.
const THREADS_END_WITHIN: Duration = Duration::from_secs(1);

/// Signals that follow each other within this time count as one.
const SAME_SIGNAL_WITHIN: Duration = Duration::from_millis(300);

/// Runs the command line of this process. Call it before any thread is started.
pub fn main() -> ExitCode {
    let Cli { args, command } = Cli::from_process();
    #[expect(clippy::disallowed_methods, reason = "the one place that hands the environment to the settings")]
    let mut config = match Config::load(&args, |name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(mistakes) => {
            for mistake in mistakes {
                print_error(&format!("plimsoll-server: {mistake}"));
            }
            return ExitCode::from(WRONG_SETTINGS);
        }
    };
    config.machine = MachineMemory::read(Path::new("/"));
    config.log_bytes = log_bytes(&config.data_dir);
    if args.print_config {
        return match write!(std::io::stdout(), "{}", PrintedConfig(&config)) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    }
    if let Some(command) = command {
        return command.run(&config);
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("plimsoll-server: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn print_error(line: &str) {
    // if standard error is closed, there is no other way to report it
    let _unheard = writeln!(std::io::stderr(), "{}", escaped_lines(line));
}

fn run(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let agents = agent_threads()?;
    let ended = runtime.block_on(serve(config, agents.handle().clone()));
    // the threads of agents end first: their connections use timers of the other runtime
    agents.shutdown_timeout(THREADS_END_WITHIN);
    // threads that still run, such as one that opens a store, must not keep the process alive
    runtime.shutdown_background();
    ended
}

async fn serve(config: Config, agents: Handle) -> anyhow::Result<()> {
    let log = Log::begin(&config)?;
    let ended = Box::pin(run_server(config, agents)).await;
    log.end().await;
    ended
}

/// Runs the server, from opening the store until it is closed.
async fn run_server(config: Config, agents: Handle) -> anyhow::Result<()> {
    let (mut stop, mut again) = (listen_for_signals()?, listen_for_signals()?);
    // SIGHUP reloads rules; without this handler, one that arrives early would end the process
    let _received = signal(SignalKind::hangup())?;
    let (data_dir, store_url) = (config.data_dir.display().to_string(), config.store_url.clone());
    let memory = MemoryPlan::of(&config);
    tracing::info!(history_memory = %memory.history, from = memory.reason, "memory for the history");
    memory.check()?;
    if let Some(shortage) = MemoryPlan::backup_shortage(&config) {
        tracing::warn!(shortage, "backups and statistics may be refused");
    }
    tracing::info!(data_dir, store_url, "opening the store");
    let mut second = pin!(second_signal(async || again.next_signal().await));
    let built = tokio::select! {
        built = build(config, &mut stop) => built?,
        () = &mut second => anyhow::bail!("ended by a second signal before the store was closed"),
    };
    let Some(app) = built else {
        tracing::info!("stopped before it served");
        return Ok(());
    };
    let Addresses { grpc, http, admission } = app.addresses()?;
    let admission = admission.map(tracing::field::display);
    tracing::info!(%grpc, %http, admission, data_dir, "serving");
    tokio::select! {
        ended = app.run(agents, stop.first_signal()) => ended,
        () = &mut second => anyhow::bail!("ended by a second signal before it was drained; what was acknowledged is on disk"),
    }
}

/// Builds the server, unless a signal stops it before it can serve.
async fn build(config: Config, stop: &mut StopSignals) -> anyhow::Result<Option<App>> {
    let stopped = CancellationToken::new();
    let mut building = pin!(App::build(config, &stopped));
    tokio::select! {
        built = &mut building => return built,
        () = stop.next_signal() => stopped.cancel(),
    }
    building.await
}

/// Waits for a second signal to stop. A signal that follows the first immediately does not count: a
/// terminal and a supervisor may both signal the process.
async fn second_signal(mut recv: impl AsyncFnMut()) {
    recv().await;
    let first = Instant::now();
    loop {
        recv().await;
        if first.elapsed() >= SAME_SIGNAL_WITHIN {
            return;
        }
    }
}

/// The signals that stop the server.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

fn listen_for_signals() -> std::io::Result<StopSignals> {
    Ok(StopSignals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    })
}

impl StopSignals {
    async fn next_signal(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    async fn first_signal(mut self) {
        self.next_signal().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// When the second wish is seen, if signals come at these milliseconds; `None` if it is not.
    async fn seen(signals: &[u64]) -> Option<u64> {
        let (begin, mut next) = (Instant::now(), signals.iter());
        let recv = async || match next.next() {
            Some(at) => sleep(Duration::from_millis(*at).saturating_sub(begin.elapsed())).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = second_signal(recv) => u64::try_from(begin.elapsed().as_millis()).ok(),
            () = sleep(Duration::from_hours(1)) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn simultaneous_stop_signals_count_as_one() {
        assert_eq!(seen(&[100]).await, None);
        assert_eq!(seen(&[100, 101, 399]).await, None);
        assert_eq!(seen(&[100, 400]).await, Some(400));
        assert_eq!(seen(&[100, 110, 5000, 6000]).await, Some(5000));
    }
}
