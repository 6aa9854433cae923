//! Tickets through whole programs: a place is given once, through kills, and comes back when its attempt ends.

use std::fs;

use plimsoll_proto::v1::{self as pb, TicketState as State, placement_client::PlacementClient};
use plimsoll_tests::{Sender, Site, eventually, finish, hello};
use tonic::{Code, Status, transport::Channel};

const POOLS: &str = "[[pool]]\nname = \"big\"\nat_once = 2\n[tickets]\neach_owner = 3\n";

/// A server with a pool of two places.
struct Placing(Site);

impl Placing {
    fn new() -> Self {
        Self(Site::start_with(&[("--pools-file", POOLS)], &[]).unwrap())
    }

    /// The same store, after a kill.
    fn killed(self) -> Self {
        Self(self.0.killed().unwrap())
    }

    async fn client(&self) -> PlacementClient<Channel> {
        PlacementClient::connect(self.0.server.url()).await.unwrap()
    }

    async fn open(&self, ticket: &str, owner: &str) -> pb::Ticket {
        self.ask(question(ticket, owner)).await.unwrap()
    }

    async fn ask(&self, question: pb::OpenTicketRequest) -> Result<pb::Ticket, Status> {
        Ok(self.client().await.open_ticket(question).await?.into_inner().ticket.unwrap())
    }

    async fn close(&self, ticket: &str, owner: &str) -> Result<pb::Ticket, Status> {
        let asked =
            pb::CloseTicketRequest { ticket: ticket.into(), owner: owner.into(), ..Default::default() };
        Ok(self.client().await.close_ticket(asked).await?.into_inner().ticket.unwrap())
    }
}

fn question(ticket: &str, owner: &str) -> pb::OpenTicketRequest {
    let key = pb::Key { package: "zlib".into(), ..pb::Key::default() };
    let (ticket, owner) = (ticket.into(), owner.into());
    pb::OpenTicketRequest { ticket, owner, key: Some(key), ..pb::OpenTicketRequest::default() }
}

fn in_place_of(attempt: &str, ticket: &str) -> pb::Hello {
    pb::Hello { ticket: ticket.into(), ..hello(attempt, "zlib") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_granted_once_through_kills() {
    let site = Placing::new();
    for name in ["a", "b", "c", "d"] {
        let wanted = if name < "c" { State::Granted } else { State::Queued };
        assert_eq!(site.open(name, "o").await.state(), wanted, "{name}");
    }
    let waits = site.open("d", "o").await;
    assert_eq!((waits.position, waits.waits_for.join(" ")), (2, "pool big: 2 of 2".to_owned()));
    assert!(waits.estimated_wait_ms > 0, "{waits:?}");
    let mut stream = Sender::connect(&site.0.server.url()).await.unwrap();
    stream.exchange(in_place_of("attempt-a", "a")).await.unwrap();
    // that it is noted is not waited for by the agent
    let noted = async || site.open("a", "o").await.attempt;
    eventually("the attempt is in its place", noted, |attempt| attempt == "attempt-a").await;

    let site = site.killed();
    let states = async |site: &Placing| {
        let mut states = Vec::new();
        for name in ["a", "b", "c", "d"] {
            states.push(site.open(name, "o").await.state());
        }
        states
    };
    assert_eq!(states(&site).await, [State::Granted, State::Granted, State::Queued, State::Queued]);
    let mut stream = Sender::connect(&site.0.server.url()).await.unwrap();
    stream.exchange(in_place_of("attempt-a", "a")).await.unwrap();
    stream.close(finish("attempt-a", 0, Some(0))).await.unwrap();
    assert_eq!(states(&site).await, [State::Closed, State::Granted, State::Granted, State::Queued]);
    assert_eq!(site.close("b", "o").await.unwrap().state(), State::Closed);

    let site = site.killed();
    assert_eq!(site.open("c", "o").await.state(), State::Granted);
    assert_eq!(site.open("d", "o").await.state(), State::Granted);
    let asked = pb::WatchTicketRequest { ticket: "a".into(), hold: false };
    let gone = site.client().await.watch_ticket(asked).await.unwrap_err();
    assert!(gone.code() == Code::NotFound && gone.message().contains("or it has ended"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_without_tickets_occupy_places_across_kills() {
    let site = Placing::new();
    let free = |attempt: &str| pb::Hello { pool: "big".into(), ..hello(attempt, "zlib") };
    let mut stream = Sender::connect(&site.0.server.url()).await.unwrap();
    stream.exchange(free("one")).await.unwrap();
    stream.exchange(free("two")).await.unwrap();
    let asked = async |site: &Placing| site.open("a", "o").await;
    let waits = asked(&site).await;
    assert_eq!((waits.state(), waits.position), (State::Queued, 1));
    assert_eq!(waits.waits_for, ["pool big: 2 of 2, 2 without a ticket"]);

    let site = site.killed();
    assert_eq!(asked(&site).await.state(), State::Queued);
    let mut stream = Sender::connect(&site.0.server.url()).await.unwrap();
    stream.exchange(free("two")).await.unwrap();
    stream.close(finish("two", 0, Some(0))).await.unwrap();
    eventually("the place is free", async || asked(&site).await.state(), |state| *state == State::Granted)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_place_retries_keep_their_ticket() {
    let site = Placing::new();
    for name in ["a", "b", "c"] {
        site.open(name, "o").await;
    }
    let dir = site.0.dir.path();
    let agent = site.0.agent.clone().with("DIR", dir.to_str().unwrap());
    let script = "echo x >>$DIR/tries; exit 3";
    let line = ["run", "--ticket", "a", "--attempt", "mine", "--patience", "2m", "--retry-in-place", "3"];
    let line = [&line[..], &["--key", "package=zlib", "--", "sh", "-c", script]].concat();
    let ran = agent.call(&line);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let tries = fs::read_to_string(dir.join("tries")).unwrap().lines().count();
    assert!(tries > 1, "the test needs another try: {ran:?}");
    assert!(!ran.stderr.contains("holds its place"), "{}", ran.stderr);
    let last = site.open("a", "o").await;
    assert_eq!((last.state(), site.open("c", "o").await.state()), (State::Closed, State::Granted));
    let metrics = site.0.server.get("/metrics").unwrap().1;
    let counted = |kind: &str| {
        let name = format!("plimsoll_ticket_changes_total{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    assert_eq!((counted("attended"), counted("missed"), counted("closed")), (tries, 0, 1), "{metrics}");
    assert!(counted("kept") >= tries - 1, "{metrics}");
}
