//! What each answer of an upstream means for a ticket.

use super::*;

#[test]
fn what_another_client_took_is_not_closed() {
    for shared in [false, true] {
        let last = Some(7);
        let mut ledger = UpstreamLedger::new(UpstreamServer { last, ..server() }, [], shared);
        let intended = ledger.intend();
        assert!(matches!(intended, LedgerWrite::Server(server) if server.unanswered == 1));
        let effects = ledger.taken(9, holder(1));
        assert_eq!((effects.foreign, effects.found), (u32::from(!shared), 0));
        assert_eq!(ledger.counts(), LedgerCounts { waiting: 1, ..LedgerCounts::default() });
        ledger.intend();
        ledger.not_taken(true, 0);
        let is_look = |step| matches!(step, LedgerStep::Look(10));
        assert_eq!(is_look(ledger.next(false, 0)), !shared);
    }
}

#[test]
fn a_server_with_numbers_anew_gets_no_call_about_the_numbers_of_before() {
    let tickets = |holder: Option<TicketHolder>, number, output: Option<&str>| UpstreamTicket {
        address: ADDRESS.to_owned(),
        number,
        holder,
        output: output.map(str::to_owned),
        failed: false,
    };
    let before =
        [tickets(Some(holder(1)), 1, Some("x")), tickets(Some(holder(2)), 2, None), tickets(None, 3, None)];
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(3), ..server() }, before, false);
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
fn a_machine_that_fails_in_use_stays_and_one_that_fails_before_is_replaced() {
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(0), ..server() }, [], false);
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
fn a_server_that_does_not_answer_is_asked_less_often_and_by_one_call() {
    let mut ledger = UpstreamLedger::new(UpstreamServer { last: Some(0), ..server() }, [], false);
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
