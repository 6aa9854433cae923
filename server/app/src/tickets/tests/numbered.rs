//! Tickets with numbers as their ids.

use super::*;
use crate::{
    door::fixture,
    tickets::{
        NumberedTicket, TicketService,
        ticket_service::{CollectedTicket, TagQuestion},
    },
};

fn never() -> Refusal {
    FieldViolation::new("tags", "are of no pool").into()
}

/// What a number is to a caller, in a word.
async fn status(tickets: &TicketRegistry, number: u64, caller: &Identity) -> &'static str {
    match tickets.collect(number, caller).await.unwrap() {
        NumberedTicket::Known(view) => word(&view),
        NumberedTicket::Gone => "gone",
        NumberedTicket::Unknown => "unknown",
    }
}

#[tokio::test]
async fn a_ticket_number_is_never_reused() {
    let site = Site::new();
    let anyone = Identity::anyone();
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!(tickets.open_numbered(Ok(claim(1))).await.unwrap(), 1);
        assert_eq!(site.on_disk().await[0].collected, Some(false));
        assert_eq!(status(tickets, 1, &anyone).await, "granted");
        assert_eq!(site.on_disk().await[0].collected, Some(true), "before the answer");
        assert_eq!(tickets.open_numbered(Ok(claim(2))).await.unwrap(), 2);
        assert_eq!(status(tickets, 2, &anyone).await, "queued");
        tickets.close_numbered(2, &anyone).await.unwrap();
        assert_eq!(status(tickets, 2, &anyone).await, "closed");
        // twice, and one that there never was
        tickets.close_numbered(2, &anyone).await.unwrap();
        tickets.close_numbered(9, &anyone).await.unwrap();
        // what can never be granted is on the disk as a number alone
        assert_eq!(tickets.open_numbered(Err(never())).await.unwrap(), 3);
        assert_eq!(status(tickets, 3, &anyone).await, "gone");
        // another caller's ticket has the next id
        open(tickets, "resalloc/4", 7).await;
        assert_eq!(status(tickets, 4, &anyone).await, "queued");
    })
    .await;
    site.run(&[], async |tickets: &TicketRegistry| {
        assert_eq!(status(tickets, 1, &anyone).await, "granted");
        assert_eq!((status(tickets, 2, &anyone).await, status(tickets, 3, &anyone).await), ("gone", "gone"));
        assert_eq!(status(tickets, 0, &anyone).await, "unknown");
        assert_eq!(status(tickets, 5, &anyone).await, "unknown");
        assert_eq!(tickets.open_numbered(Err(never())).await.unwrap(), 5);
        // nothing is given out for a question that may be answered later
        let later = tickets.open_numbered(Err(Refusal::TicketUnwritable("full".into()))).await;
        assert_eq!(later, Err(Refusal::TicketUnwritable("full".into())));
        assert_eq!(status(tickets, 6, &anyone).await, "unknown");
    })
    .await;
}

#[tokio::test]
async fn other_callers_numbers_are_unknown() {
    let site = Site::new();
    let named = |name: &str| Identity {
        name: name.into(),
        roles: crate::access::identity::Role::Caller.into(),
        ..Identity::clone(&Identity::anyone())
    };
    let (copr, other) = (named("copr"), named("other"));
    site.run(&[], async |tickets: &TicketRegistry| {
        let of_copr = TicketClaim { by: copr.stored_name(), ..claim(1) };
        let number = tickets.open_numbered(Ok(of_copr)).await.unwrap();
        assert_eq!(status(tickets, number, &other).await, "unknown");
        assert_eq!(site.on_disk().await[0].collected, Some(false), "it was not asked for");
        assert_eq!(tickets.collect_granted(number, &other).await, Ok(NumberedTicket::Unknown));
        tickets.close_numbered(number, &other).await.unwrap();
        assert_eq!(status(tickets, number, &copr).await, "granted");
        tickets.close_numbered(number, &copr).await.unwrap();
        assert_eq!(status(tickets, number, &other).await, "unknown");
    })
    .await;
}

#[tokio::test]
async fn a_sandbox_names_owner_and_project() {
    let site = Site::new();
    let anyone = Identity::anyone();
    site.run(&[], async |registry: &TicketRegistry| {
        let sizing = fixture::sizing_alone(site.pools.clone());
        let tickets = TicketService { sizing, registry: registry.clone() };
        let take = async |tags: &[&str], sandbox: &str| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let asked = TagQuestion { tags, sandbox: sandbox.into() };
            tickets.take(&anyone, Ok(asked)).await.unwrap()
        };
        let number = take(&["beefy", "licence"], "@copr/pull-requests--ann").await;
        let granted = CollectedTicket::Known { output: Some("big".into()), closed: false, failed: false };
        assert_eq!(tickets.collect(&anyone, number, true).await, Ok(granted));
        let claim = site.on_disk().await[0].claim.clone();
        assert_eq!((&*claim.owner, &*claim.project, &*claim.pool), ("@copr", "@copr/pull-requests", "big"));
        assert_eq!(claim.tags, ["licence"]);
        let closed = CollectedTicket::Known { output: None, closed: true, failed: false };
        for (tags, sandbox) in [(&["moon"][..], ""), (&["licence", "nonsense"], "a/b")] {
            let number = take(tags, sandbox).await;
            assert_eq!(tickets.collect(&anyone, number, true).await, Ok(closed.clone()), "{tags:?}");
        }
        assert_eq!(tickets.collect(&anyone, 1 << 40, false).await, Ok(CollectedTicket::Unknown));
        let alone = take(&["beefy"], "ann").await;
        assert_eq!(
            site.on_disk().await.iter().find(|ticket| ticket.granted_unix_ms.is_none()).unwrap().claim.owner,
            "ann",
            "{alone}"
        );
    })
    .await;
}
