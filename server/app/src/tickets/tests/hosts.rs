//! Hosts of pools.

mod properties;

use super::*;
use crate::tickets::NumberedTicket;

fn wants(asked: u64, sandbox: &str) -> TicketClaim {
    TicketClaim { pool: "h".into(), on_host: true, sandbox: sandbox.into(), ..claim(asked) }
}

/// The host of a ticket, once it has one.
async fn host(tickets: &TicketRegistry, number: u64) -> String {
    match tickets.collect_granted(number, &Identity::anyone()).await.unwrap() {
        NumberedTicket::Known(view) => view.ticket().host.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn is_ready(tickets: &TicketRegistry, number: u64) -> bool {
    match tickets.collect(number, &Identity::anyone()).await.unwrap() {
        NumberedTicket::Known(view) => view.ticket().is_ready(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_ticket_gets_a_host_that_answers_and_no_other_ticket_does_also_after_a_restart() {
    let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = there.local_addr().unwrap().port();
    // nothing listens on the port of the other address
    let site = Site::with(&format!(
        "[[pool]]\nname = \"h\"\nhosts = [\"127.0.0.2\", \"127.0.0.1\"]\ncheck_port = {port}\nreuse_opportunity_time = 3600\n"
    ));
    let anyone = Identity::anyone();
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.open_numbered(Ok(wants(1, "s"))).await.unwrap();
        assert_eq!(host(tickets, 1).await, "127.0.0.1");
        tickets.open_numbered(Ok(wants(2, "t"))).await.unwrap();
        assert!(!is_ready(tickets, 2).await, "it has a slot, and the other host does not answer");
        tickets.close_numbered(1, &anyone).await.unwrap();
        tickets.open_numbered(Ok(wants(3, "s"))).await.unwrap();
        assert_eq!(host(tickets, 3).await, "127.0.0.1", "it was kept for this sandbox");
        assert!(!is_ready(tickets, 2).await);
    })
    .await;
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!(host(tickets, 3).await, "127.0.0.1");
        assert!(!is_ready(tickets, 2).await);
        let held: Vec<String> = site.on_disk().await.into_iter().filter_map(|ticket| ticket.host).collect();
        assert_eq!(held, ["127.0.0.1"]);
        tickets.close_numbered(3, &anyone).await.unwrap();
        tickets.open_numbered(Ok(wants(4, "s"))).await.unwrap();
        assert_eq!(host(tickets, 4).await, "127.0.0.1");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_that_is_opened_right_after_its_list_was_read_again_gets_no_host_that_was_removed() {
    let there = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let pool = |hosts: &str| {
        let port = there.local_addr().unwrap().port();
        format!("[[pool]]\nname = \"h\"\nhosts = [{hosts}]\ncheck_port = {port}\n")
    };
    let site = Site::with(&pool("\"127.0.0.2\", \"127.0.0.1\""));
    site.run(&[], async |tickets: &TicketRegistry| {
        fs::write(site.dir.path().join("pools.toml"), pool("\"127.0.0.1\"")).unwrap();
        site.pools.reload_if_changed(true);
        tickets.open_numbered(Ok(wants(1, ""))).await.unwrap();
        assert_eq!(host(tickets, 1).await, "127.0.0.1");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_that_ends_while_its_host_is_checked_gives_it_back() {
    let site = Site::with("[[pool]]\nname = \"h\"\nhosts = [\"a\"]\n");
    let (tickets, _keeper) = site.tickets();
    tickets.resume(&[]).await.unwrap();
    let now = tickets.0.now();
    let mut state = tickets.0.state();
    let open = |state: &mut TicketState, name: &str| {
        let changes = state.tickets.open(&id(name), wants(1, ""), now).unwrap();
        state.note(changes, now);
    };
    open(&mut state, "one");
    let checks = state.hosts_to_check(now, 9);
    assert_eq!(checks.iter().map(|check| check.host.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(state.hosts_to_check(now, 9), [], "it is being checked");
    let changes = state.tickets.close(&id("one"), now).unwrap();
    state.note(changes, now);
    open(&mut state, "two");
    assert_eq!(state.hosts_to_check(now, 9), [], "it is still being checked");
    state.host_checked(&checks[0], true, now);
    let checks = state.hosts_to_check(now, 9);
    assert_eq!(checks.iter().map(|check| check.ticket.as_str()).collect::<Vec<_>>(), ["two"]);
    state.host_checked(&checks[0], false, now);
    assert_eq!(state.hosts_to_check(now, 9), [], "it did not answer");
}

/// Tickets of a pool with hosts at a time that the test sets. Checks of hosts answer when the test says so.
struct Yard {
    site: Site,
    tickets: TicketRegistry,
    checks: Vec<host_checks::HostCheck>,
    now: ClockReading,
}

impl Yard {
    fn new(pool: &str) -> Self {
        let site = Site::with(&format!("[[pool]]\nname = \"h\"\n{pool}"));
        let (tickets, _keeper) = site.tickets();
        Self { site, tickets, checks: Vec::new(), now: ClockReading { unix_ms: 0, steady_ms: 0 } }
    }

    fn state(&self) -> MutexGuard<'_, TicketState> {
        self.tickets.0.state()
    }

    fn open(&mut self, name: &str, sandbox: &str) {
        self.open_of("", name, sandbox);
    }

    fn open_of(&mut self, project: &str, name: &str, sandbox: &str) {
        let mut state = self.state();
        let claim = TicketClaim { project: project.into(), ..wants(1, sandbox) };
        let changes = state.tickets.open(&id(name), claim, self.now).unwrap();
        state.opened(&id(name), self.now);
        state.note(changes, self.now);
        drop(state);
        self.look();
    }

    fn close(&mut self, name: &str) {
        let mut state = self.state();
        if let Ok(changes) = state.tickets.close(&id(name), self.now) {
            state.note(changes, self.now);
        }
        drop(state);
        self.look();
    }

    fn look(&mut self) {
        let checks = self.state().hosts_to_check(self.now, 99);
        self.checks.extend(checks);
    }

    /// Ends the checks: of those hosts that `answers` names with an answer.
    fn check(&mut self, answers: impl Fn(&str) -> bool) {
        for check in std::mem::take(&mut self.checks) {
            self.state().host_checked(&check, answers(&check.host), self.now);
        }
        self.look();
    }

    fn list(&mut self, pool: &str) {
        fs::write(self.site.dir.path().join("pools.toml"), format!("[[pool]]\nname = \"h\"\n{pool}"))
            .unwrap();
        self.site.pools.reload_if_changed(true);
        Keeper(Arc::clone(&self.tickets.0)).apply_pools_and_expire();
        self.look();
    }

    /// As after a kill: what was on the disk is all that is known.
    fn restart(&mut self) {
        let kept: Vec<Ticket> = self.open_tickets();
        self.tickets = self.site.tickets().0;
        self.checks.clear();
        self.state().restore(kept, self.now);
        self.look();
    }

    fn open_tickets(&self) -> Vec<Ticket> {
        let state = self.state();
        (0..99).filter_map(|n| state.tickets.get(&id(&n.to_string())).cloned()).collect()
    }

    /// The host of each open ticket that has one.
    fn held(&self) -> Vec<(String, String)> {
        let tickets = self.open_tickets().into_iter();
        tickets.filter_map(|ticket| Some((ticket.id.to_string(), ticket.host?))).collect()
    }

    /// The ticket of each host that is out, or is checked for a ticket that is open.
    fn holders(&self) -> Vec<TicketId> {
        let state = self.state();
        let is_open = |check: &host_checks::HostCheck| {
            state.tickets.get(&check.ticket).is_some_and(|ticket| ticket.number == check.number)
        };
        let is_left = |host: &str| self.checks.iter().any(|check| check.host == host && !is_open(check));
        state.hosts.held().filter(|(host, _)| !is_left(host)).map(|(_, holder)| holder.clone()).collect()
    }

    fn ticket(&self, name: &str) -> Ticket {
        self.state().tickets.get(&id(name)).cloned().unwrap()
    }

    fn host(&self, name: &str) -> String {
        self.ticket(name).host.unwrap_or_default()
    }
}

#[test]
fn a_host_that_is_spelled_in_another_way_is_still_the_one_that_its_ticket_holds() {
    let mut yard = Yard::new("hosts = [\"A\"]\n");
    yard.open("1", "");
    yard.check(|_| true);
    assert_eq!(yard.host("1"), "a");
    yard.open("2", "");
    yard.list("hosts = [\"a.\"]\n");
    yard.check(|_| true);
    assert_eq!((yard.host("1"), yard.host("2")), ("a".into(), String::new()));
    let mut kept = yard.open_tickets();
    kept[0].host = Some("A.".into());
    yard.tickets = yard.site.tickets().0;
    yard.state().restore(kept, yard.now);
    yard.look();
    assert_eq!((yard.host("1"), yard.checks.len()), ("a".into(), 0));
}

#[test]
fn tickets_follow_their_pool_when_it_loses_its_last_host_or_gets_its_first() {
    let mut yard = Yard::new("hosts = [\"a\"]\n");
    yard.open("1", "");
    yard.open("2", "");
    assert!(yard.ticket("2").granted_unix_ms.is_none());
    yard.state().take_dirty();
    yard.list("at_once = 2\n");
    assert!(yard.ticket("1").is_ready() && yard.ticket("2").is_ready());
    assert_eq!(yard.state().take_dirty().len(), 2, "both are written");
    // the check was under way
    yard.check(|_| true);
    assert_eq!((yard.host("1"), yard.state().hosts.held().count()), (String::new(), 0));
    yard.open("3", "");
    yard.list("at_once = 1\n");
    assert!(!yard.ticket("3").claim.on_host);
    yard.list("hosts = [\"a\"]\n");
    assert!(yard.ticket("1").is_ready(), "it runs with what it got");
    yard.close("1");
    yard.close("2");
    assert!(!yard.ticket("3").is_ready());
    yard.check(|_| true);
    assert_eq!(yard.host("3"), "a");
    // the file was changed while the server was down
    fs::write(yard.site.dir.path().join("pools.toml"), "[[pool]]\nname = \"h\"\n").unwrap();
    yard.open("4", "");
    yard.site.pools.reload_if_changed(true);
    yard.restart();
    assert!(!yard.ticket("4").claim.on_host);
}

#[test]
fn no_more_hosts_are_out_than_may_be_at_once_also_if_one_was_kept_for_a_ticket_out_of_turn() {
    let mut yard = Yard::new("hosts = [\"a\", \"b\", \"c\"]\nat_once = 2\nreuse_opportunity_time = 3600\n");
    yard.open("1", "s");
    yard.open("2", "");
    yard.check(|_| true);
    yard.close("1");
    yard.open("3", "");
    yard.check(|host| host != "c");
    yard.open("4", "s");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.host("3"), yard.host("4")), ("b".into(), String::new(), "a".into()));
    // c may be tried again
    yard.now.steady_ms += 60_000;
    yard.look();
    assert_eq!(yard.checks, []);
    yard.close("2");
    yard.check(|_| true);
    assert_eq!(yard.host("3"), "b");
}

#[test]
fn a_host_is_not_kept_for_another_project_that_names_the_same_sandbox() {
    let mut yard = Yard::new("hosts = [\"a\"]\nreuse_opportunity_time = 60\n");
    yard.open_of("p", "1", "s");
    yard.check(|_| true);
    yard.close("1");
    yard.open_of("q", "2", "s");
    assert_eq!(yard.checks, [], "it is kept for s of p");
    yard.open_of("q", "3", "s");
    yard.open_of("p", "4", "s");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.host("3"), yard.host("4")), (String::new(), String::new(), "a".into()));
}

#[test]
fn a_host_that_is_unlisted_while_its_check_fails_leaves_no_slot_behind() {
    let mut yard = Yard::new("hosts = [\"a\", \"b\"]\n");
    yard.open("1", "");
    yard.open("2", "");
    yard.open("3", "");
    yard.list("hosts = [\"a\"]\n");
    yard.check(|host| host == "a");
    yard.close("1");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.ticket("3").granted_unix_ms), ("a".into(), None));
    // the same if the ticket ends during the check
    let mut yard = Yard::new("hosts = [\"a\", \"b\"]\n");
    yard.open("1", "");
    yard.open("2", "");
    yard.list("hosts = [\"a\"]\n");
    yard.close("2");
    yard.check(|host| host == "a");
    yard.open("3", "");
    assert_eq!(yard.ticket("3").granted_unix_ms, None);
}

#[test]
fn a_removed_host_stays_out_until_its_ticket_closes_and_an_added_one_is_given_at_once() {
    let mut yard = Yard::new("hosts = [\"a\", \"b\"]\n");
    for name in ["1", "2", "3"] {
        yard.open(name, "");
    }
    yard.check(|_| true);
    assert_eq!((yard.host("1"), yard.host("2"), yard.host("3")), ("a".into(), "b".into(), String::new()));
    yard.list("hosts = [\"a\", \"c\"]\n");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.host("3")), ("b".into(), "c".into()));
    yard.open("4", "");
    yard.close("2");
    assert!(yard.checks.is_empty(), "b is gone: {:?}", yard.checks);
    yard.restart();
    yard.close("1");
    yard.check(|_| true);
    assert_eq!(yard.host("4"), "a", "closed early frees at once");
    // taken off the list while it is checked
    yard.list("hosts = [\"a\", \"c\", \"d\"]\n");
    yard.open("5", "");
    yard.list("hosts = [\"a\", \"c\"]\n");
    yard.check(|_| true);
    assert_eq!(yard.host("5"), "");
}

#[test]
fn a_ticket_of_the_same_sandbox_gets_the_host_before_those_that_wait_longer_within_its_other_limits() {
    let reuse = "hosts = [\"a\"]\nreuse_opportunity_time = 60\n";
    let mut yard = Yard::new(reuse);
    yard.open("1", "s");
    yard.check(|_| true);
    yard.open("2", "t");
    yard.open("3", "s");
    yard.close("1");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.host("3")), (String::new(), "a".into()));
    yard.close("3");
    yard.check(|_| true);
    assert_eq!(yard.host("2"), "", "it is kept for s");
    yard.now.steady_ms += 60_000;
    yard.look();
    yard.check(|_| true);
    assert_eq!(yard.host("2"), "a");
    // not above the limit of its owner
    let mut yard = Yard::new(&format!("{reuse}[tickets]\neach_owner = 1\n"));
    yard.open("1", "s");
    yard.check(|_| true);
    yard.open("2", "t");
    yard.open("3", "s");
    yard.close("1");
    yard.check(|_| true);
    assert_eq!((yard.host("2"), yard.host("3")), (String::new(), String::new()));
}

#[test]
fn a_restart_forgets_which_hosts_did_not_answer_and_for_which_sandbox_they_were_kept() {
    let mut yard = Yard::new("hosts = [\"a\"]\nreuse_opportunity_time = 60\n");
    yard.open("1", "s");
    yard.check(|_| false);
    assert_eq!(yard.checks, [], "it is left alone");
    yard.restart();
    yard.check(|_| true);
    assert_eq!(yard.host("1"), "a", "checked again at once");
    yard.close("1");
    yard.open("2", "t");
    assert_eq!(yard.checks, [], "it is kept for s");
    yard.restart();
    yard.check(|_| true);
    assert_eq!(yard.host("2"), "a");
}
