//! Memory of clients of Resalloc that wait for their tickets, beside idle connections in the same server. Limit: 240 MiB for ten thousand.

use std::{fs, path::Path};

use plimsoll_tests::{Programs, QUIET, Server, waits};

/// With the idle ones as many connections as may be open with 20,000 files.
const CALLS: u32 = 4900;

pub(crate) fn beside_idle_connections(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("waiting.toml");
    fs::write(&file, "[[pool]]\nname = \"p\"\nat_once = 1\ntags = [\"x\"]\n")?;
    let (data, file) = (dir.join("waiting"), file.display().to_string());
    let options = ["--log", QUIET, "--pools-file", &file, "--http-connections", "10000"];
    let server = Server::start_with(programs, &data, &options)?;
    let each = waits::measure(&server, CALLS)?;
    let ten_thousand = each.waiting as f64 * 10_000.0 / f64::from(1 << 20);
    println!(
        "waiting: {CALLS} calls of waitTicket take {} bytes each, so 10,000 take {ten_thousand:.0} MiB (limit 240), and {} threads; an idle \
         connection takes {} bytes more",
        each.waiting, each.threads, each.idle
    );
    Ok(())
}
