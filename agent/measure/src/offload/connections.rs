//! Connections that the processes of a build hold to programs that are not of the build.
//!
//! | connection | where it ends |
//! |---|---|
//! | TCP, established | outside, unless a process of the build holds the other end, by the kernel's table of connections |
//! | Unix, not of datagrams | outside, unless a process of the build or the agent holds the other end, by the kernel's socket diagnostics |
//!
//! A Unix socket to a service that answers for every program of a machine ([`BYSTANDERS`]) does not count: the C library and the runtimes of
//! languages hold them. Neither do standard streams, nor connections that the agent holds too, because the build inherits them.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::programs::MAX_PROCESSES;
use crate::kernel;

/// Most open files of one process that are examined.
const MAX_FILES: usize = 256;
/// Most network namespaces whose tables are read: containers of the build may have their own.
const MAX_NAMESPACES: usize = 4;
/// The state of an established connection (`TCP_ESTABLISHED` in `net/tcp_states.h`), as the kernel's tables write it.
const ESTABLISHED: &str = "01";
/// Parts of the paths of sockets through which names of users and hosts, log lines and windows pass.
const BYSTANDERS: [&[u8]; 7] = [b"/sss/", b"/nscd", b"/nslcd", b"/systemd/", b"/dbus", b"/bus", b"X11-unix"];
/// Name and peer of a socket in an answer of the kernel (`UNIX_DIAG_NAME`, `UNIX_DIAG_PEER` in `linux/unix_diag.h`).
const NAME: u16 = 0;
const PEER: u16 = 2;
/// The kind of question and answer for sockets of one family (`SOCK_DIAG_BY_FAMILY` in `linux/sock_diag.h`).
const DIAG_BY_FAMILY: u16 = 20;
/// A socket of datagrams (`SOCK_DGRAM`), as a connection to the system's log is.
const DATAGRAM: u8 = 2;

/// Whether one of the processes holds a connection to a program that is none of them. `proc`: the folder that shows them.
pub fn reach_outside(proc: &Path, pids: &[i32]) -> bool {
    let folders: Vec<PathBuf> = pids
        .iter()
        .filter(|pid| **pid > 0)
        .take(MAX_PROCESSES)
        .map(|pid| proc.join(pid.to_string()))
        .collect();
    let (mut held, mut namespaces) = (BTreeSet::new(), Vec::new());
    for folder in &folders {
        let sockets = sockets_of(folder, 3);
        let namespace = fs::read_link(folder.join("ns/net")).unwrap_or_default();
        let is_new =
            namespaces.len() < MAX_NAMESPACES && namespaces.iter().all(|(known, _)| *known != namespace);
        if !sockets.is_empty() && is_new {
            namespaces.push((namespace, folder));
        }
        held.extend(sockets);
    }
    let inherited = sockets_of(&proc.join("self"), 0);
    let own = &held - &inherited;
    if own.is_empty() {
        return false;
    }
    namespaces.iter().any(|(_, folder)| tcp_reaches_outside(folder, &own, &held))
        || unix_reaches_outside(&own, &(&held | &inherited))
}

/// Inode numbers of the sockets that a process has open, from the file descriptor `first` on.
fn sockets_of(folder: &Path, first: u32) -> BTreeSet<u64> {
    let Ok(files) = fs::read_dir(folder.join("fd")) else { return BTreeSet::new() };
    let numbered = |name: &str| name.parse().is_ok_and(|number: u32| number >= first);
    let files =
        files.flatten().take(MAX_FILES).filter(|file| file.file_name().to_str().is_some_and(numbered));
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// Whether one of the sockets `own` is connected over TCP to a socket that is not one of `held`.
fn tcp_reaches_outside(folder: &Path, own: &BTreeSet<u64>, held: &BTreeSet<u64>) -> bool {
    let tables = ["net/tcp", "net/tcp6"]
        .map(|name| kernel::read(&folder.join(name)).ok().flatten().unwrap_or_default());
    let connections: Vec<(&str, &str, u64)> =
        tables.iter().flat_map(|table| table.lines().filter_map(established)).collect();
    connections.iter().filter(|(_, _, inode)| own.contains(inode)).any(|(local, remote, _)| {
        let other_end = connections.iter().find(|end| (end.0, end.1) == (*remote, *local));
        other_end.is_none_or(|(_, _, inode)| !held.contains(inode))
    })
}

/// Local address, remote address and inode of an established connection in the kernel's table. Of an address, the last four bytes and the
/// port: a connection between IPv4 and IPv6 sockets has a different form at each end.
fn established(line: &str) -> Option<(&str, &str, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let [local, remote] =
        [fields.next()?, fields.next()?].map(|text| text.get(text.len().saturating_sub(13)..));
    (fields.next()? == ESTABLISHED).then_some((local?, remote?, fields.nth(5)?.parse().ok()?))
}

/// Whether one of the sockets `own` is a Unix socket whose other end is not one of `held`.
#[expect(clippy::host_endian_bytes, reason = "as the kernel of this machine writes them")]
fn unix_reaches_outside(own: &BTreeSet<u64>, held: &BTreeSet<u64>) -> bool {
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
    let Ok(kernel) = kernel else { return false };
    own.iter().any(|inode| {
        let Some(peer) =
            attribute(&kernel, *inode, PEER).and_then(|peer| Some(u32::from_ne_bytes(peer.try_into().ok()?)))
        else {
            return false;
        };
        let is_bystander =
            |name: Vec<u8>| BYSTANDERS.iter().any(|part| name.windows(part.len()).any(|text| text == *part));
        !held.contains(&peer.into()) && !attribute(&kernel, peer.into(), NAME).is_some_and(is_bystander)
    })
}

/// An attribute of a Unix socket, as the kernel's diagnostics (`sock_diag(7)`) answer; `None` for other sockets, for those of datagrams, and
/// where the kernel has no diagnostics.
#[expect(clippy::host_endian_bytes, reason = "as the kernel of this machine writes them")]
fn attribute(kernel: &OwnedFd, inode: u64, wanted: u16) -> Option<Vec<u8>> {
    // nlmsghdr: length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, number and port; then unix_diag_req: AF_UNIX, states, inode, what to show, cookie
    let (length, inode, show) =
        (40_u32.to_ne_bytes(), u32::try_from(inode).ok()?.to_ne_bytes(), 5_u32.to_ne_bytes());
    let [kind, request] = [DIAG_BY_FAMILY, 1].map(u16::to_ne_bytes);
    let question =
        [&length[..], &kind, &request, &[0; 8], &[1, 0, 0, 0], &[u8::MAX; 4], &inode, &show, &[u8::MAX; 8]];
    send(kernel, &question.concat(), SendFlags::empty()).ok()?;
    let mut answer = [0; 1024];
    let (read, _) = recv(kernel, &mut answer, RecvFlags::DONTWAIT).ok()?;
    // after the head: unix_diag_msg of 16 bytes, in which the second is the type of the socket, then attributes. An error is of another kind
    let answer = answer.get(..read)?;
    if answer.get(4..6)? != kind || answer.get(17)? == &DATAGRAM {
        return None;
    }
    let mut rest = answer.get(32..)?;
    while let Some((head, after)) = rest.split_at_checked(4) {
        let [length, kind] =
            [head.get(..2)?, head.get(2..)?].map(|two| two.try_into().map(u16::from_ne_bytes));
        let length = usize::from(length.ok()?).max(4);
        if kind.ok()? == wanted {
            return Some(after.get(..length - 4)?.to_vec());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}
