//! What each answer of an upstream means for a ticket.

use super::*;

#[test]
fn what_another_client_took_is_not_closed() {
    for shared in [false, true] {
        let last = Some(7);
        let mut ledger = UpstreamLedger::new(UpstreamServer { last, shared, ..server() }, []);
        let intended = ledger.intend();
        assert!(matches!(intended, LedgerWrite::Server(server) if server.unanswered == 1));
        let effects = ledger.taken(9, holder(1));
        assert_eq!((effects.foreign, effects.found), (u32::from(!shared), 0));
        assert_eq!(ledger.counts(), LedgerCounts { waiting: 1, ..LedgerCounts::default() });
        ledger.intend();
        ledger.not_taken(true, 0);
        let is_look = |step| matches!(step, LedgerStep::Look(11));
        assert_eq!(is_look(ledger.next(false, 0)), !shared);
    }
}

#[test]
fn a_renumbered_server_gets_no_old_numbers() {
    let ready = UpstreamTicket { output: Some("x".to_owned()), ..ticket(1, Some(holder(1))) };
    let before = [ready, ticket(2, Some(holder(2))), ticket(3, None)];
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(3), ..server() }, before);
    ledger.intend();
    let effects = ledger.taken(1, holder(4));
    assert!(effects.restarted);
    assert_eq!(effects.events, [LedgerEvent::Gone(holder(1)), LedgerEvent::Again(holder(2))]);
    assert_eq!(ledger.counts(), LedgerCounts { waiting: 1, ..LedgerCounts::default() });
    assert_eq!(ledger.next(false, 0), LedgerStep::Collect(1));
    ledger.release(&holder(1));
    assert_eq!(ledger.next(false, 0), LedgerStep::Collect(1), "another ticket has the number");
}

#[test]
fn only_machines_failing_before_use_are_replaced() {
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(0), ..server() }, []);
    ledger.intend();
    ledger.taken(1, holder(1));
    let again = ledger.collected(1, CollectAnswer::Failed, 0);
    assert_eq!(again.events, [LedgerEvent::Again(holder(1))]);
    assert_eq!(ledger.next(true, 0), LedgerStep::Close(1));
    ledger.closed(1);
    assert_eq!(ledger.next(true, 0), LedgerStep::Wait(1000), "not at once, and later each time");
    ledger.intend();
    ledger.taken(2, holder(1));
    assert_eq!(ledger.next(false, 0), LedgerStep::Collect(2));
    let ready = ledger.collected(2, CollectAnswer::Ready("m".to_owned()), 0);
    assert_eq!(ready.events, [LedgerEvent::Ready(holder(1), "m".to_owned())]);
    for (answer, event) in [
        (CollectAnswer::Failed, vec![LedgerEvent::Failed(holder(1))]),
        (CollectAnswer::Failed, vec![]),
        (CollectAnswer::Ready("m".to_owned()), vec![]),
        (CollectAnswer::Unknown, vec![LedgerEvent::Gone(holder(1))]),
    ] {
        assert_eq!(ledger.collected(2, answer, 0).events, event);
    }
}

#[test]
fn an_unreachable_server_is_polled_with_backoff() {
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(0), ..server() }, []);
    let mut now = 0;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(ledger.next(true, now), LedgerStep::Take);
        ledger.intend();
        ledger.not_taken(false, now);
        ledger.unreachable(now);
        now += seconds * 1000;
        assert_eq!(ledger.next(true, now - 1), LedgerStep::Wait(now));
    }
    assert!(ledger.is_done(), "no take was sent");
}

/// A ticket of the upstream server without a machine.
fn ticket(number: u32, holder: Option<TicketHolder>) -> UpstreamTicket {
    UpstreamTicket { address: ADDRESS.to_owned(), number, holder, output: None, failed: false }
}

fn ledger_with(last: u32, unanswered: u32, closing: impl IntoIterator<Item = u32>) -> UpstreamLedger {
    let closing = closing.into_iter().map(|number| ticket(number, None));
    UpstreamLedger::new(UpstreamServer { last: Some(last), unanswered, ..server() }, closing)
}

#[test]
fn unanswered_steps_let_other_steps_go_first() {
    for hangs in [true, false] {
        let mut ledger = ledger_with(2, 0, [1, 2]);
        assert_eq!(ledger.next(true, 0), LedgerStep::Close(1));
        if hangs {
            ledger.no_answer(LedgerStep::Close(1), 0);
            assert_eq!(ledger.next(true, 0), LedgerStep::Wait(1000));
        } else {
            ledger.fault(LedgerStep::Close(1), 0);
        }
        assert_eq!(ledger.next(true, 1000), LedgerStep::Close(2));
        ledger.closed(2);
        assert_eq!(ledger.next(true, 1000), LedgerStep::Take);
        ledger.intend();
        ledger.taken(3, holder(1));
        assert_eq!(ledger.next(false, 1000), LedgerStep::Collect(3));
        ledger.no_answer(LedgerStep::Collect(3), 1000);
        assert_eq!(ledger.next(true, 2000), LedgerStep::Take);
        ledger.intend();
        ledger.not_taken(true, 2000);
        ledger.no_answer(LedgerStep::Take, 2000);
        assert_eq!(ledger.next(true, 4000), LedgerStep::Look(5), "not the take again");
        ledger.no_answer(LedgerStep::Look(5), 4000);
        assert_eq!(ledger.next(true, 8000), LedgerStep::Take, "not the look again");
        assert_eq!(ledger.next(false, 61_000), LedgerStep::Close(1));
    }
}

#[test]
fn an_unfit_output_fails_only_before_delivery() {
    let mut ledger = ledger_with(0, 0, []);
    ledger.intend();
    ledger.taken(1, holder(1));
    assert_eq!(ledger.collected(1, CollectAnswer::Unfit, 0).events, [LedgerEvent::Again(holder(1))]);
    assert_eq!(ledger.next(false, 0), LedgerStep::Close(1));
    ledger.intend();
    ledger.taken(2, holder(1));
    ledger.collected(2, CollectAnswer::Ready("m".to_owned()), 0);
    assert_eq!(ledger.collected(2, CollectAnswer::Unfit, 0), LedgerEffects::default());
}

#[test]
fn numbers_beyond_lost_answers_are_foreign_and_unclosed() {
    let mut ledger = ledger_with(7, 2, []);
    assert_eq!(ledger.next(false, 0), LedgerStep::Look(10), "one more than can be lost");
    let effects = ledger.looked(10, true, 0);
    let known = UpstreamServer { last: Some(10), ..server() };
    let foreign =
        LedgerEffects { foreign: 3, writes: vec![LedgerWrite::Server(known)], ..LedgerEffects::default() };
    assert_eq!(effects, foreign);
    assert!(ledger.is_done());
    let mut ledger = ledger_with(7, 2, []);
    for (number, is_given_out) in [(10, false), (9, false), (8, true)] {
        assert_eq!(ledger.next(false, 0), LedgerStep::Look(number));
        let found = u32::from(is_given_out);
        assert_eq!(ledger.looked(number, is_given_out, 0).found, found, "{number}");
    }
    assert_eq!(ledger.next(false, 0), LedgerStep::Close(8));
    ledger.closed(8);
    assert_eq!(ledger.next(false, 0), LedgerStep::Look(10), "the other one may come yet");
}

#[test]
fn a_foreign_gap_ends_the_search_durably() {
    let mut ledger = ledger_with(7, 2, []);
    ledger.intend();
    let effects = ledger.taken(11, holder(1));
    assert_eq!((effects.foreign, effects.found), (3, 0));
    let known = UpstreamServer { last: Some(11), ..server() };
    assert_eq!(effects.writes.last(), Some(&LedgerWrite::Server(known)));
    assert_eq!((ledger.unanswered(), ledger.next(false, 0)), (0, LedgerStep::Collect(11)));
}

#[test]
fn the_search_for_a_lost_answer_ends() {
    let mut ledger = ledger_with(7, 1, []);
    let (mut now, mut looks) = (0, 0);
    while !ledger.is_done() {
        match ledger.next(false, now) {
            LedgerStep::Look(number) => drop(ledger.looked(number, false, now)),
            LedgerStep::Wait(until) => now = until,
            step => panic!("{step:?}"),
        }
        looks += 1;
        assert!(looks < 100);
    }
    assert!((600_000..=660_000).contains(&now), "{now}");
    ledger.intend();
    assert_eq!(ledger.taken(9, holder(1)).foreign, 1, "it is not closed");
}

#[test]
fn too_many_unsettled_numbers_stop_takes() {
    assert_eq!(ledger_with(0, 63, []).next(true, 0), LedgerStep::Take);
    assert_eq!(ledger_with(0, 64, []).next(true, 0), LedgerStep::Look(65));
    for (most, step) in [(63, LedgerStep::Take), (64, LedgerStep::Wait(60_000))] {
        let mut ledger = ledger_with(100, 0, 1..=most);
        for number in 1..=most {
            ledger.fault(LedgerStep::Close(number), 0);
        }
        assert_eq!(ledger.next(true, 0), step);
    }
}

#[test]
fn numbers_from_shared_times_are_not_closed() {
    let mut ledger = ledger_with(7, 1, []);
    assert_eq!(ledger.set_shared(false), []);
    assert_eq!(ledger.set_shared(true).len(), 1, "kept over a restart");
    assert!(ledger.is_done());
    ledger.intend();
    ledger.not_taken(true, 0);
    assert_eq!(ledger.set_shared(false), [LedgerWrite::Server(server())]);
    assert_eq!(ledger.next(true, 2000), LedgerStep::Look(1), "the last number is looked for anew");
}

#[test]
fn a_changed_output_means_another_clients_ticket() {
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(0), shared: true, ..server() }, []);
    ledger.intend();
    ledger.taken(1, holder(1));
    assert_eq!(ledger.output_of_shared(1), None);
    ledger.collected(1, CollectAnswer::Ready("m".to_owned()), 0);
    assert_eq!(ledger.output_of_shared(1), Some("m"));
    let effects = ledger.collected(1, CollectAnswer::Ready("other".to_owned()), 0);
    assert_eq!(effects.events, [LedgerEvent::Gone(holder(1))]);
    assert!(matches!(effects.writes.as_slice(), [LedgerWrite::Delete(_)]));
    assert!(ledger.is_done(), "it is not closed");
}

#[test]
fn a_renumbered_servers_lost_answer_is_found() {
    let mut ledger = ledger_with(50, 1, []);
    ledger.intend();
    let effects = ledger.taken(2, holder(1));
    assert_eq!((effects.restarted, effects.found, effects.foreign), (true, 1, 0));
    assert_eq!(ledger.next(false, 0), LedgerStep::Close(1));
}

#[test]
fn a_lost_number_is_closed_once_known() {
    let mut world = World::new(7);
    world.ledger = ledger_with(7, 2, []);
    world.write(vec![LedgerWrite::Server(UpstreamServer { last: Some(7), unanswered: 2, ..server() })]);
    // two takes are lost, and the server finishes the second one first
    let [first, second] = [world.upstream.take(), world.upstream.take()];
    world.upstream.unfinished.insert(first);
    while world.upstream.open.contains(&second) {
        world.step(CallFate::Done);
    }
    (0..5).for_each(|_| world.step(CallFate::Done));
    world.upstream.open.insert(first);
    world.upstream.unfinished.clear();
    world.settle();
    world.check();
    assert_eq!(world.upstream.open.len(), 0);
}

#[test]
fn an_unknown_lost_number_expires_after_ten_minutes() {
    let mut ledger = ledger_with(7, 0, [5]);
    for minute in 0..10 {
        assert_eq!(ledger.next(false, minute * 60_000), LedgerStep::Close(5));
        assert_eq!(ledger.unknown_at_close(5, minute * 60_000), LedgerEffects::default());
    }
    assert_eq!(ledger.unknown_at_close(5, 600_000).writes.len(), 1);
    assert!(ledger.is_done());
}

#[test]
fn the_last_number_is_found_despite_gaps() {
    for (last, missing) in
        [(0, 0..0), (1, 0..0), (70, 1..64), (5000, 4090..4100), (4100, 4096..4100), (900, 300..364)]
    {
        let mut world = World::new(last);
        world.upstream.forgotten.extend(missing.clone());
        world.disturb(0, 0);
        while world.ledger.next(true, world.now) != LedgerStep::Take {
            world.step(CallFate::Done);
        }
        assert_eq!(world.server.last, Some(last), "without {missing:?}");
    }
}

#[test]
fn unused_tickets_are_abandoned_after_a_silent_day() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let mut ledger = ledger_with(7, 3, [5, 6]);
    ledger.intend();
    ledger.taken(8, holder(1));
    for number in [5, 6] {
        ledger.close_answered(number, false, 0);
    }
    // a fault or a refusal is an answer
    ledger.close_answered(6, true, DAY_MS - 1);
    assert!(ledger.give_up_closing(DAY_MS, DAY_MS - 1).0.is_empty());
    ledger.close_answered(5, false, DAY_MS);
    assert_eq!(ledger.give_up_closing(DAY_MS, DAY_MS).0, [5]);
    ledger.closed(6);
    assert_eq!(ledger.counts(), LedgerCounts { waiting: 1, ..LedgerCounts::default() });
    ledger.release(&holder(1));
    assert!(ledger.give_up_closing(DAY_MS, 9 * DAY_MS).0.is_empty(), "it has not been tried");
    ledger.close_answered(8, false, 9 * DAY_MS);
    assert_eq!(ledger.give_up_closing(DAY_MS, 10 * DAY_MS).0, [8]);
    assert!(ledger.is_done());
}

#[test]
fn silence_restarts_the_lost_answers_timeout() {
    let mut ledger = ledger_with(7, 1, []);
    ledger.looked(9, false, 0);
    ledger.looked(8, false, 0);
    ledger.no_answer(LedgerStep::Look(9), 1000);
    ledger.looked(9, false, 600_000);
    ledger.looked(8, false, 600_000);
    assert_eq!(ledger.unanswered(), 1, "its take may have hung as long");
}

#[test]
fn a_restart_searches_an_unknown_last_number() {
    let ledger = UpstreamLedger::new(server(), [ticket(9, Some(holder(1)))]);
    assert_eq!(ledger.next(true, 0), LedgerStep::Look(1));
}
