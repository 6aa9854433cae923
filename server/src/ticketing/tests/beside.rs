//! Attempts that run without a ticket, tries in one place, and what is told of a ticket that has ended.

use super::*;

/// An attempt that says where it runs, and has no ticket.
fn beside(name: &str, pool: &str) -> Attempt {
    let opening = Opening { pool: pool.into(), ..Opening::default() };
    Attempt { opening, ..attempt(name, "none") }
}

#[tokio::test]
async fn an_attempt_without_a_ticket_takes_a_place_also_over_a_restart() {
    let site = Site::new();
    let (free, named) = (
        beside("free", "big"),
        Attempt {
            opening: Opening { pool: "big".into(), ..attempt("late", "gone").opening },
            ..attempt("late", "gone")
        },
    );
    site.run(&[], async |ticketing: &Ticketing| {
        ticketing.begin(&free);
        // its ticket has ended, or never was: it runs all the same
        ticketing.begin(&named);
        ticketing.begin(&named);
        assert_eq!(open(ticketing, "a", 1).await, "queued");
        assert_eq!(ticketing.wanted("big"), 3);
    })
    .await;
    site.run(&[free.clone(), named.clone()], async |ticketing: &Ticketing| {
        assert_eq!(open(ticketing, "a", 1).await, "queued", "nothing is granted before it is known who runs");
        ticketing.end(&named, false);
        assert_eq!(open(ticketing, "a", 1).await, "queued");
        // one whose agent is gone takes nothing; it does when it is back
        ticketing.hear([(&free, true)].into_iter());
        ticketing.hear([(&free, true)].into_iter());
        assert_eq!(open(ticketing, "a", 1).await, "granted");
        ticketing.hear([(&free, false)].into_iter());
        assert_eq!(ticketing.wanted("big"), 2);
        ticketing.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        ticketing.end(&free, false);
        assert_eq!(open(ticketing, "b", 2).await, "granted");
        ticketing.close(&id("b"), "o", &Identity::anyone()).await.unwrap();
        assert!(ticketing.0.desk().is_quiet());
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
    site.run(&[], async |ticketing: &Ticketing| {
        let caller = Identity::anyone();
        open(ticketing, "a", 1).await;
        open(ticketing, "b", 2).await;
        for attempt in &tries {
            ticketing.begin(attempt);
            assert_eq!(ticketing.demand()[0].attended, 1);
            ticketing.end(attempt, true);
            assert_eq!((open(ticketing, "a", 1).await, open(ticketing, "b", 2).await), ("granted", "queued"));
            assert_eq!((ticketing.demand()[0].attended, ticketing.wanted("big")), (0, 2));
        }
        let refused = ticketing.give_back(&id("a"), "s2", &caller).await;
        assert!(matches!(refused, Err(Refusal::Fault(ref fault)) if fault.field == "session"), "{refused:?}");
        assert_eq!(word(&ticketing.give_back(&id("a"), "s3", &caller).await.unwrap()), "closed");
        assert_eq!(open(ticketing, "b", 2).await, "granted");
        ticketing.close(&id("b"), "o", &caller).await.unwrap();
        assert!(ticketing.0.desk().is_quiet());
    })
    .await;
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 3).await;
        ticketing.begin(&tries[0]);
        ticketing.end(&tries[0], true);
        open(ticketing, "c", 4).await;
    })
    .await;
    // the place is kept over a restart, too, and its next try finds it
    site.run(&[], async |ticketing: &Ticketing| {
        assert_eq!((open(ticketing, "a", 3).await, open(ticketing, "c", 4).await), ("granted", "queued"));
        ticketing.begin(&tries[1]);
        assert_eq!((ticketing.demand()[0].attended, ticketing.wanted("big")), (1, 2));
        ticketing.end(&tries[1], false);
        assert_eq!(open(ticketing, "c", 4).await, "granted");
    })
    .await;
}

#[tokio::test]
async fn of_a_ticket_that_ended_before_a_restart_is_told_that_it_may_have_ended() {
    let site = Site::new();
    let caller = Identity::anyone();
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 1).await;
        ticketing.close(&id("a"), "o", &caller).await.unwrap();
        let watching = ticketing.watch(&id("a"), true, &caller).unwrap();
        assert_eq!(word(&watching.view().await.unwrap()), "closed");
    })
    .await;
    site.run(&[], async |ticketing: &Ticketing| {
        let watched = ticketing.watch(&id("a"), true, &caller).map(drop);
        let closed = ticketing.close(&id("a"), "o", &caller).await.map(drop);
        assert_eq!((&watched, &closed), (&Err(Refused::Unknown(id("a")).into()), &watched));
        let words = watched.unwrap_err().to_string();
        assert!(words.contains("or it has ended") && words.contains("not after a restart"), "{words}");
        assert!(ticketing.0.desk().is_quiet());
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
    site.run(&[], async |ticketing: &Ticketing| {
        ticketing.begin(&forged);
        let missed = Opening { ticket: Some(id("gone")), ..forged.opening.clone() };
        ticketing.begin(&Attempt {
            id: AttemptId::parse("late").unwrap(),
            opening: missed,
            ..forged.clone()
        });
        ticketing.hear([(&forged, false)].into_iter());
        assert_eq!(ticketing.wanted("big"), 0);
        ticketing.begin(&first);
        ticketing.begin(&second);
        assert_eq!(ticketing.wanted("big"), 1, "of one job");
        // the next of the job takes the place of one that has ended, and of one that is silent
        ticketing.end(&first, false);
        ticketing.hear([(&second, false)].into_iter());
        assert_eq!(ticketing.wanted("big"), 1);
        ticketing.begin(&first);
        ticketing.hear([(&second, true), (&first, false)].into_iter());
        assert_eq!(ticketing.wanted("big"), 1);
        ticketing.end(&second, false);
        assert_eq!(ticketing.wanted("big"), 1, "it had given its place back");
        ticketing.end(&first, false);
        assert_eq!(open(ticketing, "a", 1).await, "granted");
    })
    .await;
}
