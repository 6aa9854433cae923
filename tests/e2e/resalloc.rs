//! Clients of Resalloc, over Python's own `xmlrpc.client`, which the stock client uses.
//!
//! Needs `python3`; skipped with a reason without it, unless `PLIMSOLL_PYTHON_REQUIRED` is set.

use std::process::Command;

use plimsoll_tests::{Server, Site};

use crate::{access::TOKENS, tenants::OTHER};

const POOLS: &str =
    "[[pool]]\nname = \"p\"\nat_once = 1\ntags = [\"x\", \"copr_builder\"]\n[tickets]\neach_owner = 1\n";

/// Whether Python is there; if not, why the test is skipped.
pub(crate) fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    let required = std::env::var_os("PLIMSOLL_PYTHON_REQUIRED").is_some();
    assert!(there || !required, "python3 is missing, and PLIMSOLL_PYTHON_REQUIRED is set");
    if !there {
        eprintln!("skipped: python3 is not installed");
    }
    there
}

/// What a script prints for which `p` is the server at this path, `state(ticket)` what `collectTicket` answers as four letters, and
/// `to(user)` the server for the caller with this token.
fn python(server: &Server, path: &str, script: &str) -> String {
    let http = server.http;
    let head = format!(
        r#"
import threading, xmlrpc.client as rpc
def to(token): return rpc.ServerProxy("http://" + (token and "user:" + token + "@") + "{http}{path}", allow_none=True)
p = to("")
def state(ticket, p=p):
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
fn tickets_of_resallocs_client_go_on_after_a_kill_and_their_numbers_never_come_again() {
    if !has_python() {
        return;
    }
    let site = Site::start_with(&[("--pools-file", POOLS)], &[]).unwrap();
    let before = r#"
first, second = p.takeTicket(["x", "copr_builder"], "ann/p--bob"), p.takeTicket(["x"])
print(first, second, p.takeTicket(["moon"]), state(first), state(str(second)), state(3), state(4))
waited = []
waits = threading.Thread(target=lambda: waited.append(to("").waitTicket(str(second))))
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
fn the_password_in_the_address_is_the_token_and_another_callers_number_is_no_ticket() {
    if !has_python() {
        return;
    }
    let files = [("--pools-file", POOLS), ("--access-file", &[TOKENS, OTHER].concat())];
    let site = Site::start_with(&files, &[]).unwrap();
    let script = r#"
runner, other = to("runner-secret"), to("other-secret")
ticket = runner.takeTicket(["x"], "ann/p--bob")
print(state(ticket, other), other.closeTicket(ticket), repr(other.waitTicket(ticket)), state(ticket, runner))
print(state(other.takeTicket(["x"], "ann/p--bob"), other))
print([refused(lambda: to(token).takeTicket(["x"])) for token in ("", "wrong", "reader-secret")])
"#;
    let printed = python(&site.server, "/", script);
    let expected = "---None None '' ynnp\nnynNone\n[401, 401, 403]\n";
    assert_eq!(printed, expected, "the other caller has no grant for the project of this sandbox");
}
