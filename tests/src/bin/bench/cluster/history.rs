//! Start and takeover with a million summaries, and the memory that they take beside a store in files.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::ensure;
use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, QUIET, Server, figures::Usage};
use tokio::task::block_in_place;

use super::takeover::until_ready;
use crate::asking::package;

const SUMMARIES: u64 = 1_000_000;

/// Imports into files, moves that into the database by a backup, and starts servers on both.
pub(super) async fn of_a_million(
    programs: &Programs,
    database: &PostgresServer,
    dir: &Path,
) -> anyhow::Result<()> {
    let (data, rows, archive) = (dir.join("million"), dir.join("million.csv"), dir.join("million.backup"));
    write_rows(&rows, SUMMARIES)?;
    run(Command::new(&programs.server).arg("--data-dir").arg(&data).arg("import").arg(&rows))?;
    fs::remove_file(&rows)?;
    let (kept, url) = (SUMMARIES.to_string(), database.url(&database.new_database()));
    let resident_mib = |server: &Server| anyhow::Ok(Usage::of(server.pid())?.resident_kib / 1024);
    let options = ["--log", QUIET, "--history-attempts", &kept];
    let begun = Instant::now();
    let server = Server::start_with(programs, &data, &options)?;
    let (opened, of_files) = (begun.elapsed(), resident_mib(&server)?);
    drop(server);
    println!("{SUMMARIES} summaries in files: opened in {opened:.1?}, {of_files} MiB resident");

    let begun = Instant::now();
    run(Command::new(&programs.server).arg("--data-dir").arg(&data).arg("backup").arg(&archive))?;
    let saved = begun.elapsed();
    fs::remove_dir_all(&data)?;
    let begun = Instant::now();
    run(Command::new(&programs.server).args(["restore", "--store-url", &url]).arg(&archive))?;
    println!("  moved: backup in {saved:.1?}, restore into the database in {:.1?}", begun.elapsed());

    let options = [&options[..], &["--store-url", &url]].concat();
    let begun = Instant::now();
    let server = Server::start_with(programs, &dir.join("million-1"), &options)?;
    let (opened, of_database) = (begun.elapsed(), resident_mib(&server)?);
    println!("  in a database: opened in {opened:.1?}; goal 10 s");
    println!(
        "  {of_database} MiB resident, {} MiB more than with files; goal 64",
        of_database.cast_signed() - of_files.cast_signed()
    );
    let standby = Server::start_standby(programs, &dir.join("million-2"), &options)?;
    block_in_place(|| server.stop())?;
    let time = until_ready(&standby, Instant::now()).await?;
    println!(
        "  taken over {time:.1?} after the end of the old writer, by a standby that read nothing before"
    );
    Ok(())
}

fn run(program: &mut Command) -> anyhow::Result<()> {
    let ended = program.env_clear().stdout(Stdio::null()).output()?;
    ensure!(ended.status.success(), "{program:?}: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

fn write_rows(path: &Path, size: u64) -> anyhow::Result<()> {
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
