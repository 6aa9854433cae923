//! Attempts that run without a ticket, tries in one place, and the answers about a ticket that has ended.

use super::*;

/// An attempt that says where it runs, and has no ticket.
fn beside(name: &str, pool: &str) -> Attempt {
    let opening = OpeningRecord { pool: pool.into(), ..OpeningRecord::default() };
    Attempt { opening, ..attempt(name, "none") }
}

#[tokio::test]
async fn a_pre_restart_ticket_may_have_ended() {
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
async fn untrusted_attempts_block_tickets_only_per_proven_job() {
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
    // a run of GitHub may invent any number of jobs
    let invented = ["github:a/b:12.2/a1", "github:a/b:12.2/a2", "github:a/b:13.1/a1"].map(|id| of(id, true));
    Site::new()
        .run(&[], async |tickets: &TicketRegistry| {
            for attempt in &invented {
                tickets.begin(attempt);
            }
            assert_eq!(tickets.wanted("big"), 2, "one of each run");
        })
        .await;
}
