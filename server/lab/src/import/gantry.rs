//! Reads the SQLite database of Gantry (github.com/spack/spack-gantry): each row of the table `jobs` is an attempt.
//!
//! | this program | Gantry's column |
//! |---|---|
//! | `attempt` | `gitlab_id`: the number of the CI job, as an agent names it where it does not know the host |
//! | key | `pkg_name`, `pkg_version`, `pkg_variants`, `compiler_name`, `compiler_version`, `arch`, `stack`, `ref` |
//! | start and wall time | `start`, `end`: seconds since 1970, with fractions |
//! | need | `mem_max`, `mem_mean`: bytes, the working set. It contains active page cache, so it is higher than the need |
//! | CPU | `cpu_mean`, `cpu_max`: cores |
//! | requests and limits | `mem_request`, `mem_limit`, `cpu_request`, `cpu_limit` |
//! | outcome | `job_status`, `oomed` |
//!
//! Versions of Gantry differ in their columns: only `pkg_name`, `start`, `end` and `mem_max` must exist. The table is
//! read page by page in one transaction, so that writes of a running Gantry do not change what is read.

use std::{
    collections::{HashMap, VecDeque},
    ffi::c_int,
    path::Path,
};

use plimsoll_core::domain::{Bytes, Cores, CpuMicros, Millis};
use rusqlite::{Connection, OpenFlags, ffi, types::Value};

use super::{
    columns::IMPORT_COLUMNS,
    draft::{DatabaseFields, ReadRow, RecordDraft},
    refusals::RowRefusal,
    source::{FileError, ReadPosition},
};

mod spelling;
#[cfg(test)]
mod tests;

/// Name of a row in refusals.
pub(super) const ROW_UNIT: &str = "table jobs, row";

/// Number of rows that one query reads.
const ROWS_PER_QUERY: i64 = 1000;

/// The columns that are read, and whether a Gantry database must have each.
const JOB_COLUMNS: [(&str, bool); 22] = [
    ("pkg_name", true),
    ("start", true),
    ("end", true),
    ("mem_max", true),
    ("gitlab_id", false),
    ("job_status", false),
    ("oomed", false),
    ("ref", false),
    ("pkg_version", false),
    ("pkg_variants", false),
    ("compiler_name", false),
    ("compiler_version", false),
    ("arch", false),
    ("stack", false),
    ("build_jobs", false),
    ("cpu_request", false),
    ("cpu_limit", false),
    ("cpu_mean", false),
    ("cpu_max", false),
    ("mem_request", false),
    ("mem_limit", false),
    ("mem_mean", false),
];

/// The rows of the table `jobs`, in the order of their ids.
pub(super) struct GantryJobs {
    database: Connection,
    select: String,
    after: i64,
    page: VecDeque<Vec<Value>>,
    /// How many of the rows were read.
    pub(super) place: ReadPosition,
}

/// Advice for this error. SQLite can read a database in WAL mode only if it can write to the directory
/// (sqlite.org/wal.html, "Read-Only Databases").
fn way_out(code: Option<c_int>) -> &'static str {
    match code {
        Some(ffi::SQLITE_READONLY_ROLLBACK) => {
            "; a writer of this database was interrupted, and the file of the same name and -journal behind it holds what must be undone: \
             open the database once with a program that may write to it (sqlite3 FILE .tables), and import it then"
        }
        Some(code) if matches!(code & 0xff, ffi::SQLITE_CANTOPEN | ffi::SQLITE_READONLY) => {
            "; a database in WAL mode is read only where its directory can be written: copy the file, with the one of the same name \
             and -wal behind it, into such a directory"
        }
        _ => "",
    }
}

impl GantryJobs {
    /// Opens a database for reading, and finds the columns.
    /// Errors: the database cannot be read, or it is not one of Gantry.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let columns = |reason: String| FileError::Columns { path: path.to_owned(), reason };
        let broken = |error: rusqlite::Error| {
            let way_out = way_out(error.sqlite_error().map(|error| error.extended_code));
            columns(format!("cannot be read as a SQLite database: {error}{way_out}"))
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).map_err(broken)?;
        let names = |query: &str| -> rusqlite::Result<Vec<String>> {
            database.prepare(query)?.query_map([], |row| row.get(0))?.collect()
        };
        // from the first query on, all queries in this transaction see the same state of the database
        database.execute_batch("BEGIN").map_err(broken)?;
        let there = names("SELECT name FROM pragma_table_info('jobs')").map_err(broken)?;
        if there.is_empty() {
            let tables = names("SELECT name FROM sqlite_schema WHERE type = 'table'").map_err(broken)?;
            let text = "is no database of Gantry: it lacks the table jobs; the tables there are";
            return Err(columns(format!("{text}: {}", tables.join(", "))));
        }
        let has = |name: &str| there.iter().any(|column| column == name);
        let absent: Vec<&str> = JOB_COLUMNS
            .iter()
            .filter(|(name, needed)| *needed && !has(name))
            .map(|(name, _)| *name)
            .collect();
        if !absent.is_empty() {
            let (absent, there) = (absent.join(", "), there.join(", "));
            return Err(columns(format!(
                "table jobs lacks the column {absent}; the columns there are: {there}"
            )));
        }
        let picked: Vec<String> = JOB_COLUMNS
            .iter()
            .map(|(name, _)| if has(name) { format!("\"{name}\"") } else { "NULL".to_owned() })
            .collect();
        let select = format!(
            "SELECT rowid, {} FROM jobs WHERE rowid > ?1 ORDER BY rowid LIMIT {ROWS_PER_QUERY}",
            picked.join(", ")
        );
        let rows: i64 =
            database.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0)).map_err(broken)?;
        let place = ReadPosition::of(u64::try_from(rows).unwrap_or(0));
        Ok(Self { database, select, after: i64::MIN, page: VecDeque::new(), place })
    }

    /// Reads the next row, and sets `id` to its id.
    pub(super) fn next(&mut self, id: &mut u64) -> Result<ReadRow, String> {
        if self.page.is_empty() {
            self.turn().map_err(|error| error.to_string())?;
        }
        let Some(mut values) = self.page.pop_front() else { return Ok(None) };
        if let Value::Integer(row) = values.remove(0) {
            self.after = row;
            *id = u64::try_from(row).unwrap_or(0);
        }
        self.place.advance(1);
        let named = JOB_COLUMNS.iter().map(|(name, _)| *name).zip(values);
        Ok(Some(read(*id, &named.collect())))
    }

    fn turn(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.database.prepare(&self.select)?;
        let rows = statement.query_map([self.after], |row| {
            (0..=JOB_COLUMNS.len()).map(|column| row.get::<_, Value>(column)).collect()
        })?;
        self.page = rows.collect::<rusqlite::Result<_>>()?;
        Ok(())
    }
}

impl std::fmt::Debug for GantryJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("after", &self.after).finish_non_exhaustive()
    }
}

type Values<'n> = HashMap<&'n str, Value>;

/// Reads one row. A refusal names the column as Gantry does.
fn read(id: u64, values: &Values<'_>) -> Result<super::Record, RowRefusal> {
    let refuse = |column, reason: String| RowRefusal { line: id, column, reason };
    let (start, wall) = times(values).map_err(|(column, reason)| refuse(column, reason))?;
    let (variants, build_system) =
        spelling::variants(&text(values, "pkg_variants")).map_err(|reason| refuse("pkg_variants", reason))?;
    let beside = DatabaseFields {
        memory_limit: number(values, "mem_limit").filter(|size| *size >= 1.0).map(Bytes::from_f64),
        cpu_request: cores(values, "cpu_request"),
        cpu_limit: cores(values, "cpu_limit"),
        cpu_peak: cores(values, "cpu_max"),
    };
    let cpu = cores(values, "cpu_mean").map(|mean| CpuMicros::from_f64(mean.0 * wall.as_f64() * 1000.0));
    let texts = IMPORT_COLUMNS.iter().map(|column| match column.name {
        "attempt" => text(values, "gitlab_id"),
        "package" => text(values, "pkg_name"),
        "version" => text(values, "pkg_version"),
        "variants" => variants.clone(),
        "build_system" => build_system.clone(),
        "compiler" => plimsoll_proto::spack::compiler(&text(values, "compiler_name")).to_owned(),
        "compiler_version" => plimsoll_proto::spack::compiler(&text(values, "compiler_version")).to_owned(),
        "submitted_ms" => start.0.to_string(),
        "wall_ms" => wall.0.to_string(),
        "peak_bytes" => whole(values, "mem_max"),
        "mean_bytes" => whole(values, "mem_mean"),
        "requested_bytes" => whole(values, "mem_request"),
        "cpu_usec" => cpu.map_or_else(String::new, |cpu| cpu.0.to_string()),
        "build_jobs" => Some(whole(values, "build_jobs")).filter(|jobs| jobs != "0").unwrap_or_default(),
        "outcome" => outcome(values),
        same @ ("arch" | "stack" | "ref") => text(values, same),
        _ => String::new(),
    });
    let texts: Vec<String> = texts.collect();
    let draft = RecordDraft { database_fields: beside, ..RecordDraft::default() };
    let record = draft.read_with_known(id, texts.iter().map(String::as_str));
    record.map_err(|refusal| RowRefusal { column: gantry_column(refusal.column), ..refusal })
}

/// Gantry's name for one of our columns.
fn gantry_column(ours: &'static str) -> &'static str {
    match ours {
        "attempt" => "gitlab_id",
        "package" => "pkg_name",
        "version" => "pkg_version",
        "variants" => "pkg_variants",
        "compiler" => "compiler_name",
        "submitted_ms" => "start",
        "wall_ms" => "end",
        "peak_bytes" => "mem_max",
        "mean_bytes" => "mem_mean",
        "requested_bytes" => "mem_request",
        "cpu_usec" => "cpu_mean",
        "outcome" => "job_status",
        same => same,
    }
}

/// Start and wall time of an attempt, from Gantry's seconds.
fn times(values: &Values<'_>) -> Result<(Millis, Millis), (&'static str, String)> {
    let seconds = |column| {
        number(values, column).ok_or_else(|| (column, "is not a number of seconds since 1970".to_owned()))
    };
    let (start, end) = (seconds("start")?, seconds("end")?);
    if end < start {
        return Err(("end", format!("{end} is before start, {start}")));
    }
    Ok((Millis::from_f64(start * 1000.0), Millis::from_f64((end - start) * 1000.0)))
}

fn outcome(values: &Values<'_>) -> String {
    let oomed = number(values, "oomed").is_some_and(|oomed| oomed > 0.0);
    match text(values, "job_status").as_str() {
        _ if oomed => "oom".to_owned(),
        "canceled" => "failed".to_owned(),
        status => status.to_owned(),
    }
}

/// A column as text, or its number as text; empty if the column is empty.
fn text(values: &Values<'_>, column: &str) -> String {
    match values.get(column) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Integer(number)) => number.to_string(),
        Some(Value::Real(number)) => number.to_string(),
        Some(Value::Null | Value::Blob(_)) | None => String::new(),
    }
}

fn number(values: &Values<'_>, column: &str) -> Option<f64> {
    let number = match values.get(column)? {
        Value::Text(text) => text.trim().parse().ok(),
        Value::Real(number) => Some(*number),
        Value::Integer(number) => number.to_string().parse().ok(),
        Value::Null | Value::Blob(_) => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

/// A number as text, without its fraction (means have one). Anything else stays as it is, so that the refusal
/// can show it.
fn whole(values: &Values<'_>, column: &str) -> String {
    match number(values, column) {
        Some(number) => format!("{number:.0}"),
        None => text(values, column),
    }
}

fn cores(values: &Values<'_>, column: &str) -> Option<Cores> {
    let most = plimsoll_proto::limits::CORES;
    number(values, column).filter(|cores| *cores > 0.0 && *cores <= most).map(Cores)
}
