//! Clients of Resalloc, over Python's own `xmlrpc.client`, which the stock client uses.
//!
//! Needs `python3`; skipped with a reason without it, unless `PLIMSOLL_PYTHON_REQUIRED` is set.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Command, Stdio},
};

use plimsoll_tests::{AccessFile, Server, Site, allow_open_files, waits};

use crate::tools::has_python;

const POOLS: &str =
    "[[pool]]\nname = \"p\"\nat_once = 1\ntags = [\"x\", \"copr_builder\"]\n[tickets]\neach_owner = 1\n";

/// What a script prints for which `connect()` connects to the server at this path, `p` is connected, and `state(ticket)` is what `collectTicket` answers
/// as four letters.
fn python(server: &Server, path: &str, script: &str) -> String {
    let http = server.http;
    let head = format!(
        r#"
import threading, xmlrpc.client as rpc
def connect(): return rpc.ServerProxy("http://{http}{path}", allow_none=True)
p = connect()
def state(ticket):
    answer = p.collectTicket(ticket)
    return "".join({{True: "y", False: "n", None: "-"}}[answer[name]] for name in ("ready", "closed", "failed")) + str(answer["output"])
def refused(call):
    try: return call()
    except rpc.ProtocolError as error: return error.errcode
    except rpc.Fault as fault: return fault.faultCode
"#
    );
    let output = Command::new("python3").arg("-c").arg(head + script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn resalloc_tickets_and_numbers_survive_a_kill() {
    if !has_python() {
        return;
    }
    let site = Site::start_with(&[("--pools-file", POOLS)], &[]).unwrap();
    let before = r#"
first, second = p.takeTicket(["x", "copr_builder"], "ann/p--bob"), p.takeTicket(["x"])
print(first, second, p.takeTicket(["moon"]), state(first), state(str(second)), state(3), state(4))
waited = []
waits = threading.Thread(target=lambda: waited.append(connect().waitTicket(str(second))))
waits.start()
print(p.closeTicket(first), state(first))
waits.join()
print(waited, state(second), sorted(p.system.listMethods())[:3])
print(refused(lambda: p.noTicket()), refused(lambda: p.closeTicket()), refused(lambda: p.takeTicket(["x" * (2 << 20)])))
"#;
    let printed = python(&site.server, "", before);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "1 2 3 ynnp nnnNone nynNone ---None");
    assert_eq!(lines[1], "None yynp");
    assert_eq!(lines[2], "['p'] ynnp ['closeTicket', 'collectTicket', 'system.listMethods']");
    assert_eq!(lines[3], "-32601 -32602 413");
    let site = site.killed().unwrap();
    let after =
        "print(state(1), state(2), state(3), p.takeTicket(['x']), state(4), p.closeTicket(2), state(4))";
    assert_eq!(python(&site.server, "/RPC2", after), "nynNone ynnp nynNone 4 nnnNone None ynnp\n");
    let page = site.server.get("/").unwrap();
    assert!(page.0 == 200 && page.1.contains("/RPC2"), "{page:?}");
}

#[test]
fn a_reachable_machine_is_reused_within_its_sandbox() {
    if !has_python() {
        return;
    }
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = there.local_addr().unwrap().port();
    // nothing listens on the port of the first host
    let pools = format!(
        "[[pool]]\nname = \"m\"\ntags = [\"x\"]\nhosts = [\"127.0.0.2\", \"127.0.0.1\"]\ncheck_port = {port}\nreuse_opportunity_time = 3600\n"
    );
    let site = Site::start_with(&[("--pools-file", &pools)], &[]).unwrap();
    let before = r#"
ann, eve = p.takeTicket(["x"], "ann/p--bob"), p.takeTicket(["x"], "eve/q--eve")
print(p.waitTicket(ann), state(eve))
p.closeTicket(ann)
again = p.takeTicket(["x"], "ann/p--bob")
print(p.waitTicket(str(again)), state(ann), state(eve), again)
"#;
    assert_eq!(
        python(&site.server, "", before),
        "127.0.0.1 nnnNone\n127.0.0.1 yyn127.0.0.1 nnnNone 3\n",
        "the other host did not answer, and this one is kept for the sandbox"
    );
    let metrics = site.server.get("/metrics").unwrap().1;
    let quarantined = "plimsoll_pool_hosts{pool=\"m\",state=\"quarantined\"} 1\n";
    assert!(metrics.contains(quarantined), "{metrics}");
    let site = site.killed().unwrap();
    let after = r#"
print(state(3), state(2))
p.closeTicket(3)
print(p.waitTicket(p.takeTicket(["x"], "ann/p--bob")), state(3))
"#;
    assert_eq!(python(&site.server, "/RPC2", after), "ynn127.0.0.1 nnnNone\n127.0.0.1 yyn127.0.0.1\n");
}

#[test]
fn a_wait_cut_by_a_kill_is_repeated() {
    if !has_python() {
        return;
    }
    let site = Site::start_with(&[("--pools-file", POOLS)], &[]).unwrap();
    let script = r#"
import os, signal
p.takeTicket(["x"])
second = p.takeTicket(["x"])
class Killing(rpc.Transport):
    def parse_response(self, response):
        # the head of the answer has come
        os.kill(PID, signal.SIGKILL)
        return super().parse_response(response)
try: rpc.ServerProxy("http://ADDRESS", transport=Killing()).waitTicket(second)
except OSError: print("repeated")
"#;
    let script = script
        .replace("PID", &site.server.pid().to_string())
        .replace("ADDRESS", &site.server.http.to_string());
    assert_eq!(python(&site.server, "", &script), "repeated\n");
}

#[test]
fn an_unacknowledged_ticket_expires_upstream_too() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = include_str!("../data/resalloc.py");
    let mut upstream = Command::new("python3")
        .args(["-c", script])
        .args([dir.path().join("db").as_os_str(), "0".as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(upstream.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let pools = format!(
        "[[pool]]\nname = \"u\"\nat_once = 1\ntags = [\"x\"]\nupstream = \"http://127.0.0.1:{}\"\n[tickets]\nask_within = \"15s\"\n",
        port.trim()
    );
    let site = Site::start_with(&[("--pools-file", &pools)], &[]).unwrap();
    let script = r#"
import socket, time
body = rpc.dumps((["x"], "ann/p--bob"), "takeTicket").encode()
head = "POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n" % len(body)
dying = socket.create_connection(("127.0.0.1", int("ADDRESS".rsplit(":", 1)[1])))
dying.sendall(head.encode() + body)
dying.recv(12)
dying.close()
again = p.takeTicket(["x"], "ann/p--bob")
# there is one slot, which the first ticket has
print(again, "host" in p.waitTicket(again), p.collectTicket(1)["closed"])
p.closeTicket(again)
upstream = rpc.ServerProxy("http://127.0.0.1:UPSTREAM", allow_none=True)
for _ in range(1200):
    if not upstream.openTickets(): break
    time.sleep(0.05)
print(upstream.openTickets(), "open upstream")
"#;
    let script = script.replace("ADDRESS", &site.server.http.to_string()).replace("UPSTREAM", port.trim());
    let printed = python(&site.server, "", &script);
    upstream.kill().and_then(|()| upstream.wait()).unwrap();
    assert_eq!(printed, "2 True True\n[] open upstream\n");
}

#[test]
fn a_waiting_call_takes_little_memory() {
    allow_open_files().unwrap();
    let access = AccessFile::default().token("copr", &["caller", "reader"], "");
    let files = [("--pools-file", POOLS), ("--access-file", access.text())];
    let site = Site::start_with(&files, &["--http-connections", "3000"]).unwrap();
    let each = waits::measure(&site.server, 1200).unwrap();
    // ten thousand of them: below 240 MiB
    assert!(each.waiting < 24 * 1024, "{each:?}");
    // those that the runtime starts for files come and go
    assert!(each.threads < 8, "{each:?}");
}
