//! Checks the machine: addresses, memory, open files.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use rustix::process::{Resource, getrlimit};

use super::{CheckLine, line_of};
use crate::runtime::settings::{Config, MemoryPlan};

const FILES_CHECK: &str = "open files";
/// Lowest limit of open files that is accepted: each connection of an agent needs one. Services
/// usually have a far higher limit.
const MIN_FILES: u64 = 4096;

/// Checks whether the machine has enough memory for a full history.
pub(super) fn memory(config: &Config) -> CheckLine {
    let plan = MemoryPlan::of(config);
    let fits = plan.check().map(|()| {
        let machine = config.machine.as_ref().map(|machine| format!("; the machine has {machine}"));
        let shortage = MemoryPlan::backup_shortage(config).map(|shortage| format!("; {shortage}"));
        let (machine, shortage) = (machine.unwrap_or_default(), shortage.unwrap_or_default());
        format!("the server takes up to {}, with a full history{machine}{shortage}", plan.all)
    });
    line_of("memory", fits)
}

/// Checks the limit of open files, which bounds connections.
pub(super) fn check_open_files() -> CheckLine {
    judge_files(getrlimit(Resource::Nofile).maximum)
}

pub(super) fn judge_files(most: Option<u64>) -> CheckLine {
    match most {
        Some(most) if most < MIN_FILES => CheckLine::fail(
            FILES_CHECK,
            format!(
                "the hard limit is {most}, and each agent needs one: raise it to {MIN_FILES} or more (ulimit -Hn; LimitNOFILE of systemd)"
            ),
        ),
        Some(most) => CheckLine::ok(FILES_CHECK, format!("up to {most}")),
        None => CheckLine::ok(FILES_CHECK, "without a limit"),
    }
}

/// Checks that the server can listen on its addresses. An address in use is fine if a server has
/// the data directory open: that server uses it.
pub(super) fn check_addresses(config: &Config, is_serving: bool) -> Vec<CheckLine> {
    let all = [
        ("gRPC address", "grpc_listen", Some(config.grpc_listen)),
        ("HTTP address", "http_listen", Some(config.http_listen)),
        ("hook address", "admit_listen", config.admission.listen),
    ];
    let line = |(check, setting, address): (&'static str, &str, Option<SocketAddr>)| {
        Some(address_line(check, setting, address?, is_serving))
    };
    all.into_iter().filter_map(line).collect()
}

fn address_line(check: &'static str, setting: &str, address: SocketAddr, is_serving: bool) -> CheckLine {
    match TcpListener::bind(address) {
        Ok(_listener) => CheckLine::ok(check, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_serving => {
            CheckLine::ok(check, format!("{address} is in use, and a server has the data directory open"))
        }
        Err(error) => {
            CheckLine::fail(check, format!("cannot listen on {address} ({error}): set another {setting}"))
        }
    }
}
