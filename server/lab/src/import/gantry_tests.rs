//! The query of the guide import.md, which writes Gantry's table as CSV. Needs Debian's package `sqlite3`; skipped without it, unless
//! `PLIMSOLL_SQLITE_REQUIRED` is set.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use plimsoll_core::domain::{Bytes, Cause, Millis, Outcome, Summary};

use super::Reader;

const GUIDE: &str = include_str!("../../../../deploy/docs/import.md");

/// The table with its columns and rules, as version 2 of the database has it.
const SCHEMA: &str = "
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, pod TEXT NOT NULL UNIQUE, node INTEGER NOT NULL, start INTEGER NOT NULL,
        end INTEGER NOT NULL, gitlab_id INTEGER NOT NULL UNIQUE, job_status TEXT NOT NULL, ref TEXT NOT NULL,
        pkg_name TEXT NOT NULL, pkg_version TEXT NOT NULL, pkg_variants TEXT NOT NULL, compiler_name TEXT NOT NULL,
        compiler_version TEXT NOT NULL, arch TEXT NOT NULL, stack TEXT NOT NULL, build_jobs INTEGER NOT NULL,
        cpu_request REAL NOT NULL, cpu_limit REAL, cpu_mean REAL NOT NULL, cpu_median REAL NOT NULL, cpu_max REAL NOT NULL,
        cpu_min REAL NOT NULL, cpu_stddev REAL NOT NULL, mem_request REAL NOT NULL, mem_limit REAL NOT NULL,
        mem_mean REAL NOT NULL, mem_median REAL NOT NULL, mem_max REAL NOT NULL, mem_min REAL NOT NULL,
        mem_stddev REAL NOT NULL);";

/// Runs SQL on the database; what it prints, with the names of the columns.
fn sqlite(database: &Path, sql: &str) -> Option<String> {
    let begun = Command::new("sqlite3")
        .args(["-bail", "-header", "-csv"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut program) = begun else {
        let required = std::env::var_os("PLIMSOLL_SQLITE_REQUIRED").is_some();
        assert!(!required, "sqlite3 is missing, and PLIMSOLL_SQLITE_REQUIRED is set");
        println!("skipped: sqlite3 is not installed");
        return None;
    };
    program.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{sql}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn row(id: u32, end: f64, variants: &str, status: &str) -> String {
    format!(
        "INSERT INTO jobs VALUES ({id}, 'pod-{id}', 1, 1708919572.983, {end}, 100 + {id}, '{status}', 'develop', 'curl', '8.15.0', \
         '{variants}', 'gcc', '12', 'a-b-c', 'e4s', 12, 12.0, NULL, 9.5, 11.9, 12.25, 0.3, 3.8, 48000000000.0, 64000000000.0, \
         965209889.241, 739960832.0, 41186873344.0, 85508096.0, 870741989.7);"
    )
}

/// The attempts that the guide's query and the import make of the database.
fn read(database: &Path) -> (Vec<Summary>, String) {
    let (_, query) = GUIDE.split_once("```text\nSELECT ").unwrap();
    let (query, _) = query.split_once("```").unwrap();
    let file = database.with_extension("csv");
    std::fs::write(&file, sqlite(database, &format!("SELECT {query}")).unwrap()).unwrap();
    let mut reader = Reader::open(&file).unwrap();
    let mut summaries = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        assert!(record.timed);
        summaries.push(record.summary);
    }
    (summaries, reader.refusals.to_string())
}

#[test]
fn the_guides_query_reads_gantrys_database() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("gantry.db");
    let variants = r#"{"nghttp2": true, "gssapi": false, "build_system": "autotools", "libs:": ["shared", "static"], "tls": "openssl"}"#;
    let end = 1_708_924_744.811;
    let rows = [
        row(1, end, variants, "success"),
        row(2, end, "{}", "canceled"),
        row(3, 1.0, "{}", "success"),
        row(4, end, "", "failed"),
        row(5, end, "{bad", "success"),
    ];
    if sqlite(&database, &(SCHEMA.to_owned() + &rows.concat())).is_none() {
        return;
    }
    let (summaries, refusals) = read(&database);
    for refused in ["line 4, wall_ms", "line 6, package"] {
        assert!(refusals.contains(refused), "{refusals}");
    }
    let ids: Vec<&str> = summaries.iter().map(|summary| summary.attempt.as_str()).collect();
    assert_eq!(ids, ["gitlab.spack.io:101", "gitlab.spack.io:102", "gitlab.spack.io:104"]);
    let summary = &summaries[0];
    // the same build has the same key from Spack
    let spec = "curl@8.15.0 ~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl arch=a-b-c%gcc@12";
    let mut key = plimsoll_core::gantry::parse_spec(spec).unwrap();
    (key.stack, key.git_ref, key.hints.build_jobs) = ("e4s".to_owned(), "develop".to_owned(), Some(12));
    assert_eq!(summary.key, key);
    assert_eq!((summary.started_unix_ms, summary.wall), (1_708_919_572_983, Millis(5_171_828)));
    assert_eq!((summary.need_peak, summary.need_mean), (Bytes(41_186_873_344), Bytes(965_209_889)));
    assert_eq!(summary.resources.memory_request, Some(Bytes(48_000_000_000)));
    assert!((summary.cpu.cores_over(summary.wall).0 - 9.5).abs() < 1e-6);
    let ends: Vec<Outcome> = summaries.iter().map(|summary| summary.outcome).collect();
    assert_eq!(ends, [Outcome::Succeeded, Outcome::Failed, Outcome::Failed]);
    // later versions say which jobs ran out of memory
    sqlite(
        &database,
        "ALTER TABLE jobs ADD COLUMN oomed BOOLEAN DEFAULT FALSE; UPDATE jobs SET oomed = 1 WHERE id = 4;",
    );
    let (summaries, _) = read(&database);
    assert_eq!(summaries[1].cause, Some(Cause::Unknown));
    assert!(summaries[2].censored && summaries[2].cause == Some(Cause::Oom));
}
