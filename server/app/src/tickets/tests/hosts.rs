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
async fn a_ticket_gets_a_responding_host_exclusively() {
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
fn kept_hosts_count_against_the_at_once_limit() {
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
fn a_kept_host_is_not_shared_across_projects() {
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
fn host_list_changes_apply_without_revoking_hosts() {
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
