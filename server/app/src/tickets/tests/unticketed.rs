//! Attempts that run without a ticket, tries in one place, and the answers about a ticket that has ended.

use super::*;

/// An attempt that says where it runs, and has no ticket.
fn beside(name: &str, pool: &str) -> Attempt {
    let opening = OpeningRecord { pool: pool.into(), ..OpeningRecord::default() };
    Attempt { opening, ..attempt(name, "none") }
}

#[tokio::test]
async fn an_attempt_without_a_ticket_takes_a_place_also_over_a_restart() {
    let site = Site::new();
    let (free, named) = (
        beside("free", "big"),
        Attempt {
            opening: OpeningRecord { pool: "big".into(), ..attempt("late", "gone").opening },
            ..attempt("late", "gone")
        },
    );
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.begin(&free);
        // its ticket has ended, or never was: it runs all the same
        tickets.begin(&named);
        tickets.begin(&named);
        assert_eq!(open(tickets, "a", 1).await, "queued");
        assert_eq!(tickets.wanted("big"), 3);
    })
    .await;
    site.run(&[free.clone(), named.clone()], async |tickets: &TicketRegistry| {
        assert_eq!(open(tickets, "a", 1).await, "queued", "nothing is granted before it is known who runs");
        tickets.end(&named, false);
        assert_eq!(open(tickets, "a", 1).await, "queued");
        // one whose agent is gone takes nothing; it does when it is back
        tickets.set_silent([(&free, true)].into_iter());
        tickets.set_silent([(&free, true)].into_iter());
        assert_eq!(open(tickets, "a", 1).await, "granted");
        tickets.set_silent([(&free, false)].into_iter());
        assert_eq!(tickets.wanted("big"), 2);
        tickets.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        tickets.end(&free, false);
        assert_eq!(open(tickets, "b", 2).await, "granted");
        tickets.close(&id("b"), "o", &Identity::anyone()).await.unwrap();
        assert!(tickets.0.state().is_quiet());
    })
    .await;
}

#[tokio::test]
async fn tries_in_one_place_keep_its_ticket_until_the_agent_gives_it_back() {
    let site = Site::new();
    let tries = ["1", "2", "3"].map(|name| {
        let mut attempt = attempt(name, "a");
        (attempt.session, attempt.opening.pool) =
            (SessionId::parse(&format!("s{name}")).unwrap(), "big".into());
        attempt
    });
    site.run(&[], async |tickets: &TicketRegistry| {
        let caller = Identity::anyone();
        open(tickets, "a", 1).await;
        open(tickets, "b", 2).await;
        for attempt in &tries {
            tickets.begin(attempt);
            assert_eq!(tickets.demand()[0].attended, 1);
            tickets.end(attempt, true);
            assert_eq!((open(tickets, "a", 1).await, open(tickets, "b", 2).await), ("granted", "queued"));
            assert_eq!((tickets.demand()[0].attended, tickets.wanted("big")), (0, 2));
        }
        let refused = tickets.give_back(&id("a"), "s2", &caller).await;
        assert!(matches!(refused, Err(Refusal::Fault(ref fault)) if fault.field == "session"), "{refused:?}");
        assert_eq!(word(&tickets.give_back(&id("a"), "s3", &caller).await.unwrap()), "closed");
        assert_eq!(open(tickets, "b", 2).await, "granted");
        tickets.close(&id("b"), "o", &caller).await.unwrap();
        assert!(tickets.0.state().is_quiet());
    })
    .await;
    site.run(&[], async |tickets: &TicketRegistry| {
        open(tickets, "a", 3).await;
        tickets.begin(&tries[0]);
        tickets.end(&tries[0], true);
        open(tickets, "c", 4).await;
    })
    .await;
    // the place is kept over a restart, too, and its next try finds it
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!((open(tickets, "a", 3).await, open(tickets, "c", 4).await), ("granted", "queued"));
        tickets.begin(&tries[1]);
        assert_eq!((tickets.demand()[0].attended, tickets.wanted("big")), (1, 2));
        tickets.end(&tries[1], false);
        assert_eq!(open(tickets, "c", 4).await, "granted");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_that_ended_before_a_restart_is_reported_as_one_that_may_have_ended() {
    let site = Site::new();
    let caller = Identity::anyone();
    site.run(&[], async |tickets: &TicketRegistry| {
        open(tickets, "a", 1).await;
        tickets.close(&id("a"), "o", &caller).await.unwrap();
        let watching = tickets.watch(&id("a"), true, &caller).unwrap();
        assert_eq!(word(&watching.view().await.unwrap()), "closed");
    })
    .await;
    site.run(&[], async |tickets: &TicketRegistry| {
        let watched = tickets.watch(&id("a"), true, &caller).map(drop);
        let closed = tickets.close(&id("a"), "o", &caller).await.map(drop);
        assert_eq!((&watched, &closed), (&Err(TicketRefusal::Unknown(id("a")).into()), &watched));
        let words = watched.unwrap_err().to_string();
        assert!(words.contains("or it has ended") && words.contains("not after a restart"), "{words}");
        assert!(tickets.0.state().is_quiet());
    })
    .await;
}

#[tokio::test]
async fn attempts_that_are_not_trusted_hold_up_no_ticket_but_one_for_each_proven_job() {
    let site = Site::new();
    let of = |name: &str, proven: bool| {
        let mut attempt = beside(name, "big");
        (attempt.opening.untrusted, attempt.opening.proven) = (true, proven);
        attempt
    };
    let (forged, first, second) = (of("forged", false), of("x:7", true), of("x:7.2/3", true));
    site.run(&[], async |tickets: &TicketRegistry| {
        tickets.begin(&forged);
        let missed = OpeningRecord { ticket: Some(id("gone")), ..forged.opening.clone() };
        tickets.begin(&Attempt { id: AttemptId::parse("late").unwrap(), opening: missed, ..forged.clone() });
        tickets.set_silent([(&forged, false)].into_iter());
        assert_eq!(tickets.wanted("big"), 0);
        tickets.begin(&first);
        tickets.begin(&second);
        assert_eq!(tickets.wanted("big"), 1, "of one job");
        // the next of the job takes the place of one that has ended, and of one that is silent
        tickets.end(&first, false);
        tickets.set_silent([(&second, false)].into_iter());
        assert_eq!(tickets.wanted("big"), 1);
        tickets.begin(&first);
        tickets.set_silent([(&second, true), (&first, false)].into_iter());
        assert_eq!(tickets.wanted("big"), 1);
        tickets.end(&second, false);
        assert_eq!(tickets.wanted("big"), 1, "it had given its place back");
        tickets.end(&first, false);
        assert_eq!(open(tickets, "a", 1).await, "granted");
    })
    .await;
}
