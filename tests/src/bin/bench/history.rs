//! Predict from ten thousand summaries and from a million: it should not matter.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::ensure;
use plimsoll_tests::{
    Programs, QUIET, Server,
    bare::BareServer,
    figures::{Times, Usage, median},
};
use tonic::transport::Endpoint;

use crate::{
    ROUNDS,
    asking::{Call, as_fast_as_it_goes},
};

const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
const PACKAGES: u64 = 2000;

/// The package of the `n`th row, or question.
pub(crate) fn package(n: u64) -> String {
    format!("package-{}", n.wrapping_mul(7919) % PACKAGES)
}

pub(crate) async fn of_growing_size(
    programs: &Programs,
    bare: &BareServer,
    dir: &Path,
) -> anyhow::Result<()> {
    let empty = Endpoint::new(bare.url.clone())?.connect().await?;
    println!("Predict at 64 in flight from a history of growing size, {PACKAGES} packages:");
    for size in SIZES {
        let (data, rows) = (dir.join(format!("history-{size}")), dir.join("rows.csv"));
        write_rows(&rows, size)?;
        let began = Instant::now();
        import(programs, &data, &rows)?;
        let imported = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let kept = size.to_string();
        let server = Server::start_with(programs, &data, &["--history-attempts", &kept, "--log", QUIET])?;
        let opened = began.elapsed().as_secs_f64();
        let ours = Endpoint::new(server.url())?.connect().await?;
        let (mut asked, mut nothing, mut times) = (Vec::new(), Vec::new(), Times::default());
        for _round in 0..ROUNDS {
            let (rate, taken) = as_fast_as_it_goes(&ours, 64, Call::Predict).await?;
            asked.push(rate);
            times.join(taken);
            nothing.push(as_fast_as_it_goes(&empty, 64, Call::Predict).await?.0);
        }
        let (asked, nothing) = (median(&mut asked), median(&mut nothing));
        let resident = Usage::of(server.pid())?.resident_kib / 1024;
        println!("  {size} summaries: {asked:.0}/s, {:.2} of an empty call, {times}", asked / nothing);
        println!("    imported in {imported:.1} s, opened in {opened:.1} s, {resident} MiB resident");
        drop(server);
        fs::remove_dir_all(&data)?;
    }
    Ok(())
}

pub(crate) fn import(programs: &Programs, data: &Path, rows: &Path) -> anyhow::Result<()> {
    let mut import = Command::new(&programs.server);
    import.env_clear().arg("--data-dir").arg(data).arg("import").arg(rows).stdout(Stdio::null());
    ensure!(import.stderr(Stdio::null()).status()?.success(), "the import failed");
    Ok(())
}

pub(crate) fn write_rows(path: &Path, size: u64) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(
        file,
        "attempt,package,version,arch,build_system,submitted_ms,wall_ms,peak_bytes,cpu_usec,build_jobs"
    )?;
    for n in 0..size {
        let (mixed, wall) = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40, 60_000 + n % 600_000);
        writeln!(
            file,
            "row-{n},{},1.{},x86_64,cmake,{},{wall},{},{},4",
            package(n),
            mixed % 8,
            1_780_000_000_000_u64 + n * 1000,
            (mixed % 4000 + 100) << 20,
            wall * 900,
        )?;
    }
    Ok(file.flush()?)
}
