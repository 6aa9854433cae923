//! Settings of the store, the history and retention.

use super::super::{
    checks, parse,
    setting::{Setting, settings},
};

pub(super) const STORE: &[Setting] = settings! {
    /// Directory of the store; with store_url, of the position of the database. It is made if it is missing.
    "data_dir" => data_dir, "DIR", read parse::directory;
    /// PostgreSQL database that keeps the store in the place of data_dir: postgres://USER@HOST:PORT/DATABASE?sslmode=require, without a
    /// password. Several servers may share it: one serves, the others wait as standbys.
    "store_url" => store_url, "URL", read checks::store_url, unset "the store is in data_dir";
    /// File with the password of store_url's user. It is read again for each new connection, so the password can be changed while servers
    /// run.
    "store_password_file" => store_password_file, "FILE", read parse::file;
    /// PEM file with the CA of the database's certificate, if that of the system does not know it. It is read again for each new
    /// connection.
    "store_ca_file" => store_ca_file, "FILE", read parse::file;
    /// Memory for the storage engine's cache, from 1MiB to 1TiB.
    "store_cache" => store_cache, "SIZE", read checks::store_cache;
    /// Finished attempts kept in memory to learn from.
    "history_attempts" => history_attempts, "N", number 1_usize..=10_000_000;
    /// Memory for these attempts, at least 16MiB. When it is full, the oldest are left on disk alone.
    "history_memory" => history_memory, "SIZE", read checks::history_memory, unset "480MiB for each million, but at most 40 % of the memory limit of the cgroup, or of the RAM";
    /// Attempts that may be open at once.
    "open_attempts" => open_attempts, "N", number 1_usize..=1_000_000;
    /// An attempt whose agent is silent for this long is closed as lost.
    "abandon_after" => abandon_after, "TIME";
};

pub(super) const RETENTION: &[Setting] = settings! {
    /// Age at which the samples of an ended attempt are reduced to one row per 15 seconds, peaks kept.
    "series_full_for" => retain.full_for, "TIME";
    /// Age at which the samples of an ended attempt are deleted and only its summary stays.
    "series_keep_for" => retain.keep_for, "TIME";
    /// Age at which an ended attempt is deleted as a whole.
    "summaries_keep_for" => retain.summaries_for, "TIME", unset "never";
    /// Age at which log lines are deleted from verdicts; the verdicts stay.
    "log_lines_keep_for" => retain.log_lines_for, "TIME", unset "as long as the verdict";
    /// Most bytes of samples of ended attempts; the oldest are deleted first.
    "series_max_bytes" => retain.max_bytes, "SIZE", unset "no bound";
};
