//! How long a place is held: by those who are heard of, by attempts with a ticket, and by those without one.

use super::*;

#[test]
fn a_ticket_expires_without_signs_of_life() {
    let mut tickets = tickets(limits(Some(1), &[]), 10);
    let ended =
        |changes: &[TicketChange]| changes.iter().filter(|c| matches!(c, TicketChange::Ended(..))).count();
    for name in ["a", "b", "c", "d"] {
        tickets.opened(name, claim("o", &[]));
    }
    tickets.watch(&id("b"), false, at(50));
    // c and d wait, and no call asks for them again
    tickets.ask(&id("d"), at(50));
    assert_eq!(ended(&tickets.expire(10, at(101))), 1);
    assert!(tickets.get(&id("c")).is_none());
    assert_eq!(ended(&tickets.expire(10, at(151))), 1);
    // a has its place, and no attempt begins
    let changes = tickets.expire(10, at(1001));
    assert_eq!(granted(&changes), ["b"]);
    // a watcher of b does not hold its place; asking does not help either
    tickets.ask(&id("b"), at(1900));
    assert_eq!(ended(&tickets.expire(10, at(2000))), 0);
    tickets.watch(&id("b"), true, at(2000));
    assert_eq!(ended(&tickets.expire(10, at(999_999))), 0);
    let number = tickets.get(&id("b")).unwrap().number;
    tickets.unwatch(&id("b"), number + 1, true, at(900_000));
    assert_eq!(ended(&tickets.expire(10, at(999_999))), 0, "another ticket had this id");
    tickets.unwatch(&id("b"), number, true, at(1_000_000));
    assert_eq!(ended(&tickets.expire(10, at(1_000_100))), 0);
    assert_eq!(ended(&tickets.expire(10, at(1_000_101))), 1);
    assert!(tickets.leaves_nothing());
}

#[test]
fn only_its_own_attempt_keeps_a_ticket_alive() {
    let mut tickets = tickets(limits(Some(1), &[]), 10);
    let [one, other] = ["1", "2"].map(|name| AttemptId::parse(name).unwrap());
    tickets.opened("a", claim("o", &[]));
    tickets.opened("b", claim("o", &[]));
    assert!(tickets.begin(&id("a"), &one));
    assert!(!tickets.begin(&id("a"), &other), "one place, one attempt");
    assert!(!tickets.begin(&id("b"), &other), "it has no place yet");
    tickets.watch(&id("b"), false, at(0));
    assert_eq!(tickets.expire(10, at(999_999)), []);
    assert_eq!(tickets.demand()[0].attended, 1);
    assert_eq!(tickets.end(&id("a"), &other, at(0)), []);
    assert_eq!(granted(&tickets.end(&id("a"), &one, at(0))), ["b"]);
    assert_eq!(tickets.demand()[0].attended, 0);
}

#[test]
fn a_numbered_ticket_expires_only_until_collected() {
    let mut tickets = tickets(limits(Some(2), &[]), 10);
    for name in ["lost", "held", "waits"] {
        tickets.opened(name, claim("o", &[]));
        tickets.await_collector(&id(name), at(0));
    }
    assert!(tickets.collect(&id("held"), at(50)) && !tickets.collect(&id("held"), at(60)));
    tickets.watch(&id("waits"), false, at(60));
    // the place of the lost one goes to the one that waits
    assert_eq!(granted(&tickets.expire(10, at(101))), ["waits"]);
    let number = tickets.get(&id("waits")).unwrap().number;
    tickets.unwatch(&id("waits"), number, false, at(150));
    assert!(tickets.collect(&id("waits"), at(200)));
    assert_eq!(tickets.expire(10, at(999_999)), []);
    // an attempt in its place comes and goes
    let attempt = AttemptId::parse("1").unwrap();
    assert!(tickets.begin(&id("held"), &attempt));
    assert_eq!(tickets.end(&id("held"), &attempt, at(999_999)), []);
    assert_eq!((tickets.len(), tickets.demand()[0].attended), (2, 0));
    for name in ["held", "waits"] {
        tickets.close(&id(name), at(0)).unwrap();
    }
    assert!(tickets.leaves_nothing());
}

#[test]
fn job_tickets_expire_unused_or_with_their_token() {
    const NEVER: u64 = 9_999_999;
    // when the token ends, when the client asks again, for another token, and until when the ticket then is open
    for (token_ends, asks_again, renewed, until) in [
        (None, 0, None, NEVER),
        (Some(NEVER), 0, None, 1000),
        (Some(NEVER), 900, None, 1000),
        (Some(500), 0, None, 1000),
        (Some(40_000), 35_000, None, 65_000),
        (Some(40_000), 35_000, Some(80_000), 80_000),
    ] {
        let mut terms = terms(limits(Some(1), &[]), 10);
        let is_long = token_ends == Some(40_000);
        terms.timeouts.start_within_ms = if is_long { 90_000 } else { 1000 };
        let mut tickets = Tickets::new(terms);
        let of_token = |ends: Option<u64>| ends.map(|ends| at(ends).unix_ms);
        let claim = TicketClaim { job_token_ends_unix_ms: of_token(token_ends), ..claim("o", &[]) };
        tickets.opened("t", claim);
        tickets.await_collector(&id("t"), at(0));
        tickets.collect(&id("t"), at(0));
        tickets.renew(&id("t"), of_token(renewed));
        // asking, or waiting for what is there already, is no start; the end of a try is
        tickets.collect(&id("t"), at(asks_again));
        tickets.watch(&id("t"), false, at(asks_again));
        tickets.unwatch(&id("t"), 0, false, at(asks_again));
        if is_long {
            let attempt = AttemptId::parse("1").unwrap();
            assert!(tickets.begin(&id("t"), &attempt));
            assert_eq!(tickets.expire(10, at(NEVER)), [], "an attempt runs");
            tickets.end(&id("t"), &attempt, at(asks_again));
        }
        assert_eq!(tickets.expire(10, at(until)), [], "{token_ends:?} {renewed:?}");
        let ends = usize::from(until != NEVER);
        assert_eq!(tickets.expire(10, at(until + 1)).len(), ends, "{token_ends:?} {renewed:?}");
    }
}

#[test]
fn a_job_has_few_open_tickets_others_many() {
    let mut tickets = tickets(limits(Some(1), &[]), 100);
    let of = |by: &str, ends| TicketClaim { by: by.into(), job_token_ends_unix_ms: ends, ..claim(by, &[]) };
    let mut most = |by: &str, ends| {
        (0..20).filter(|n| tickets.open(&id(&format!("{by}/{n}")), of(by, ends), at(0)).is_ok()).count()
    };
    assert_eq!((most("job", Some(1)), most("other", Some(1)), most("runner", None)), (16, 16, 20));
    tickets.close(&id("job/3"), at(0)).unwrap();
    assert!(tickets.open(&id("job/3"), of("job", Some(1)), at(0)).is_ok());
    let full = tickets.open(&id("job/more"), of("job", Some(1)), at(0));
    assert_eq!(full, Err(TicketRefusal::OfJob(MAX_OPEN_OF_JOB)));
}

#[test]
fn unticketed_attempts_occupy_slots_without_being_stopped() {
    let mut tickets = tickets(limits(None, &[(LimitKey::Pool("p".into()), 2), (LimitKey::All, 5)]), 10);
    tickets.occupy("p");
    assert_eq!(tickets.opened("a", claim("o", &[])), ["a"]);
    assert!(tickets.opened("b", claim("o", &[])).is_empty(), "one place is taken without a ticket");
    let status = tickets.status(&id("b"), at(0)).unwrap();
    assert_eq!(status.waits_for, ["pool p: 2 of 2, 1 without a ticket"]);
    // over the limit: none is stopped, and a place must come free twice
    tickets.occupy("p");
    assert!(tickets.closed("a").is_empty());
    assert_eq!(tickets.wanted("p"), 3);
    assert_eq!(granted(&tickets.vacate("p", at(0))), ["b"]);
    assert!(tickets.vacate("p", at(0)).is_empty());
    assert_eq!(tickets.closed("b"), [""; 0]);
    assert!(tickets.leaves_nothing() && tickets.wanted("p") == 0);
}

#[test]
fn a_pool_full_without_tickets_blocks_no_other() {
    let mut both = limits(None, &[(LimitKey::Pool("p".into()), 1), (tag("x"), 1)]);
    both.pools.insert("other".into());
    let mut tickets = tickets(both, 10_000);
    tickets.occupy("p");
    tickets.opened("stuck", claim("s", &["x"]));
    for n in 0..2 * MAX_PASSED_OVER {
        let name = format!("o{n}");
        let granted = tickets.opened(&name, TicketClaim { pool: "other".into(), ..claim("o", &["x"]) });
        assert_eq!(granted, [name.as_str()], "the only x is free for any that fits");
        tickets.closed(&name);
    }
    assert_eq!(granted(&tickets.vacate("p", at(0))), ["stuck"]);
}

#[test]
fn a_slot_is_kept_briefly_for_a_retry() {
    let mut tickets = tickets(limits(Some(1), &[]), 10);
    let [one, other] = ["1", "2"].map(|name| AttemptId::parse(name).unwrap());
    tickets.opened("a", claim("o", &[]));
    tickets.opened("b", claim("o", &[]));
    tickets.begin(&id("a"), &one);
    assert!(!tickets.vacate_for_retry(&id("a"), &other, at(0)), "not its attempt");
    assert!(tickets.vacate_for_retry(&id("a"), &one, at(5000)));
    assert_eq!(tickets.demand()[0].attended, 0);
    tickets.watch(&id("b"), false, at(5000));
    assert_eq!(tickets.expire(10, at(6000)), []);
    // the next try is the life of it again
    assert!(tickets.begin(&id("a"), &other));
    assert_eq!(tickets.expire(10, at(99_000)), []);
    tickets.vacate_for_retry(&id("a"), &other, at(99_000));
    assert_eq!(granted(&tickets.expire(10, at(100_001))), ["b"], "none tried again");
}

#[test]
fn an_early_machine_is_kept_for_its_slot() {
    let mut tickets = tickets(limits(Some(1), &[]), 10);
    for name in ["a", "b"] {
        tickets.opened(name, TicketClaim { on_host: true, ..claim("o", &[]) });
    }
    let machine = UpstreamMachine { output: "m".into(), failed: false };
    assert!(tickets.set_machine(&id("b"), machine, at(0)));
    assert!(!tickets.get(&id("b")).unwrap().is_ready(), "it has no slot");
    tickets.closed("a");
    assert!(tickets.get(&id("b")).unwrap().is_ready());
}
