//! Checks the database of the store, without taking the store from the server that writes it.

use plimsoll_proto::figures::{count, counted};
use plimsoll_store::DatabaseReport;
use tokio::runtime::Builder;

use super::CheckLine;
use crate::runtime::settings::{Config, refuse_two_stores};

const DATABASE_CHECK: &str = "database";

/// A line for each check. If the database cannot be looked at, there is only one.
/// Errors: the runtime for the connection cannot be started.
pub(super) fn check_database(config: &Config) -> anyhow::Result<Vec<CheckLine>> {
    if let Err(error) = refuse_two_stores(&config.data_dir) {
        return Ok(vec![CheckLine::fail(DATABASE_CHECK, format!("{error:#}"))]);
    }
    look(config)
}

/// Age of a transaction from which the rows that it keeps slow the store, seconds.
const OLD_TRANSACTION_SECONDS: u64 = 300;

fn look(config: &Config) -> anyhow::Result<Vec<CheckLine>> {
    let settings = config.database()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(DatabaseReport::read(&settings)) {
        Ok(report) => Ok(vec![store(&report), rights(&report), replication(&report), transactions(&report)]),
        Err(error) => Ok(vec![CheckLine::fail(DATABASE_CHECK, format!("store_url: {error}"))]),
    }
}

fn store(report: &DatabaseReport) -> CheckLine {
    let DatabaseReport { name, version, store, missing_rights, .. } = report;
    match store {
        Some(id) => {
            CheckLine::ok(DATABASE_CHECK, format!("PostgreSQL {version} at {name} holds the store {id}"))
        }
        None if !missing_rights.is_empty() => CheckLine::warn(
            DATABASE_CHECK,
            format!("PostgreSQL {version} at {name}; its store cannot be looked at"),
        ),
        None => CheckLine::warn(
            DATABASE_CHECK,
            format!(
                "PostgreSQL {version} at {name} has no store yet, so the server begins without a history; is it the right database?"
            ),
        ),
    }
}

fn rights(report: &DatabaseReport) -> CheckLine {
    let check = "database rights";
    if report.missing_rights.is_empty() {
        return CheckLine::ok(check, "the user may do what a server needs");
    }
    let grants: Vec<String> =
        report.missing_rights.iter().map(|right| format!("GRANT {right} TO ..")).collect();
    CheckLine::fail(
        check,
        format!("the user of store_url lacks rights: let an administrator run {}", grants.join("; ")),
    )
}

fn replication(report: &DatabaseReport) -> CheckLine {
    let check = "replication";
    let (all, synchronous) = (report.standbys, report.synchronous_standbys);
    if report.waits_for_standby && synchronous > 0 {
        return CheckLine::ok(
            check,
            format!("{}, {} of them synchronous", counted(all, "standby server"), count(synchronous)),
        );
    }
    let finding = match (report.waits_for_standby, report.sees_others) {
        (true, false) => {
            "commits wait for a standby; whether one is connected is not shown to this user: GRANT pg_monitor TO .. shows it".to_owned()
        }
        (true, true) => "commits wait for a standby, and no synchronous one is connected, so none succeeds: start it, or change \
                         synchronous_standby_names"
            .to_owned(),
        (false, _) => format!(
            "commits wait for no standby, so what was acknowledged last is lost with the primary ({} connected): set \
             synchronous_standby_names",
            counted(all, "standby server")
        ),
    };
    CheckLine::warn(check, finding)
}

fn transactions(report: &DatabaseReport) -> CheckLine {
    let check = "transactions";
    let unseen = if report.sees_others { "" } else { "; those of other users are not shown to this user" };
    match &report.oldest_transaction {
        Some((seconds, owner)) if *seconds >= OLD_TRANSACTION_SECONDS => CheckLine::warn(
            check,
            format!(
                "the oldest is open for {} min, so the database keeps what was replaced since, and gets slower: end {owner}",
                seconds / 60
            ),
        ),
        Some((seconds, _)) => CheckLine::ok(check, format!("the oldest is open for {seconds} s{unseen}")),
        None => CheckLine::ok(check, format!("none is open{unseen}")),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_base::checks::checks_text;

    use super::*;

    fn report() -> DatabaseReport {
        DatabaseReport {
            name: "db:5432/plimsoll".to_owned(),
            version: "15.14".to_owned(),
            store: None,
            missing_rights: Vec::new(),
            sees_others: true,
            standbys: 2,
            synchronous_standbys: 1,
            waits_for_standby: true,
            oldest_transaction: None,
        }
    }

    fn assert_begins(line: CheckLine, row: &str) {
        let text = checks_text(&[line]);
        assert!(text.starts_with(row), "{text}");
    }

    #[test]
    fn replication_is_judged_by_its_synchronous_standbys() {
        let found = |change: fn(&mut DatabaseReport)| {
            let mut report = report();
            change(&mut report);
            replication(&report)
        };
        assert_begins(found(|_| {}), "ok    replication  2 standby servers, 1 of them synchronous");
        let away = found(|report| (report.standbys, report.synchronous_standbys) = (1, 0));
        assert_begins(
            away,
            "warn  replication  commits wait for a standby, and no synchronous one is connected",
        );
        let unseen = found(|report| (report.synchronous_standbys, report.sees_others) = (0, false));
        assert_begins(
            unseen,
            "warn  replication  commits wait for a standby; whether one is connected is not shown",
        );
        let alone = found(|report| report.waits_for_standby = false);
        assert_begins(alone, "warn  replication  commits wait for no standby, so what was acknowledged last");
    }

    #[test]
    fn transactions_open_five_minutes_are_reported_with_owner() {
        let found = |oldest: Option<(u64, &str)>, sees_others| {
            let oldest_transaction = oldest.map(|(age, owner)| (age, owner.to_owned()));
            transactions(&DatabaseReport { oldest_transaction, sees_others, ..report() })
        };
        assert_begins(found(None, true), "ok    transactions  none is open\n");
        assert_begins(
            found(None, false),
            "ok    transactions  none is open; those of other users are not shown",
        );
        assert_begins(
            found(Some((299, "process 7")), true),
            "ok    transactions  the oldest is open for 299 s\n",
        );
        let old = found(Some((600, "process 7 of bob (psql)")), true);
        assert_begins(old, "warn  transactions  the oldest is open for 10 min");
        assert!(
            found(Some((600, "process 7 of bob (psql)")), true)
                .finding
                .ends_with("end process 7 of bob (psql)")
        );
    }
}
