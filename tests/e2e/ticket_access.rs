//! Tickets where it matters who calls: each owner has its own, none has those of another, and what is refused changes nothing.

use plimsoll_proto::v1::{self as pb, TicketState as State, placement_client::PlacementClient};
use plimsoll_tests::{Site, with_token as with};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{access::TOKENS, tenants::OTHER};

const POOLS: &str = "[[pool]]\nname = \"big\"\nat_once = 1\n[tickets]\neach_owner = 3\n";

/// The token is `root-secret`.
const ROOT: &str = r#"
    [[token]]
    name = "root"
    sha256 = "633cd8d24fedcc77768b4ec31de07894220aeaddbaaecec2b92c5d60cb7f25f8"
    roles = ["caller", "operator"]
"#;

/// The caller that opens tickets for `spack/packages`, and another one.
const OURS: &str = "spack-secret";
const THEIRS: &str = "other-secret";

/// A server with one place that wants to know who calls.
struct Guarded(Site);

/// What is refused: the code, and the field or what else is named first.
type Refused = (Code, String);

impl Guarded {
    fn start() -> Self {
        let access = [TOKENS, OTHER, ROOT].concat();
        Self(Site::start_with(&[("--access-file", &access), ("--pools-file", POOLS)], &[]).unwrap())
    }

    async fn client(&self) -> PlacementClient<Channel> {
        PlacementClient::connect(self.0.server.url()).await.unwrap()
    }

    async fn open(&self, token: &str, question: pb::OpenTicketRequest) -> Result<pb::Ticket, Refused> {
        let opened = self.client().await.open_ticket(with(token, question)).await;
        Ok(opened.map_err(|status| refused(&status))?.into_inner().ticket.unwrap())
    }

    async fn close(&self, token: &str, ticket: &str, owner: &str) -> Result<State, Refused> {
        let asked =
            pb::CloseTicketRequest { ticket: ticket.into(), owner: owner.into(), ..Default::default() };
        let closed = self.client().await.close_ticket(with(token, asked)).await;
        Ok(closed.map_err(|status| refused(&status))?.into_inner().ticket.unwrap().state())
    }

    /// The first message of a watch.
    async fn watch(&self, token: &str, ticket: &str) -> Result<State, Refused> {
        let asked = pb::WatchTicketRequest { ticket: ticket.into(), hold: true };
        let watched = self.client().await.watch_ticket(with(token, asked)).await;
        let first = watched.map_err(|status| refused(&status))?.into_inner().message().await;
        Ok(first.map_err(|status| refused(&status))?.unwrap().ticket.unwrap().state())
    }

    /// Places that are wanted and held.
    async fn demand(&self, token: &str, pool: &str) -> Result<(u32, u32), Refused> {
        let asked = pb::GetDemandRequest { pool: pool.into() };
        let response = self.client().await.get_demand(with(token, asked)).await;
        let pools = response.map_err(|status| refused(&status))?.into_inner().pools;
        let places = |amount: &Option<pb::Amount>| amount.as_ref().map_or(0, |amount| amount.places);
        Ok((places(&pools[0].wanted), places(&pools[0].held)))
    }
}

/// The code, and the field that a refusal names; without one the text before the first colon.
fn refused(status: &Status) -> Refused {
    let field = status.get_details_bad_request().map(|bad| bad.field_violations[0].field.clone());
    let before = || status.message().split(':').next().unwrap_or_default().to_owned();
    (status.code(), field.unwrap_or_else(before))
}

fn question(ticket: &str, project: &str) -> pb::OpenTicketRequest {
    let key = pb::Key { package: "zlib".into(), project: project.into(), ..pb::Key::default() };
    pb::OpenTicketRequest { ticket: ticket.into(), key: Some(key), ..pb::OpenTicketRequest::default() }
}

fn ours(ticket: &str) -> pb::OpenTicketRequest {
    question(ticket, "spack/packages")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_owner_has_his_own_tickets_and_none_of_another_one() {
    let site = Guarded::start();
    let opened = site.open(OURS, ours("a")).await.unwrap();
    assert_eq!((opened.state(), opened.owner.as_str()), (State::Granted, "spack/packages"));
    // the same question is the same ticket, and another one's under this id is none
    assert_eq!(site.open(OURS, ours("a")).await.unwrap(), opened);
    assert_eq!(site.open(THEIRS, question("a", "other/one")).await.unwrap_err().0, Code::AlreadyExists);
    assert_eq!(site.open(THEIRS, question("b", "other/one")).await.unwrap().state(), State::Queued);

    let denied = |field: &str| (Code::PermissionDenied, field.to_owned());
    assert_eq!(site.open(THEIRS, ours("c")).await.unwrap_err(), denied("key.project"));
    let made_up = pb::OpenTicketRequest { owner: "spack/packages".into(), ..question("c", "other/one") };
    assert_eq!(site.open(THEIRS, made_up).await.unwrap_err(), denied("owner"));
    // who may not see its project does not learn that it is there
    let unknown = |ticket: &str| (Code::NotFound, format!("ticket {ticket} is not open"));
    for (stranger, expected) in [(THEIRS, unknown("a")), ("runner-secret", denied("ticket"))] {
        assert_eq!(site.close(stranger, "a", "spack/packages").await.unwrap_err(), expected);
        assert_eq!(site.watch(stranger, "a").await.unwrap_err(), expected);
    }
    assert_eq!(site.close(OURS, "a", "").await.unwrap_err(), (Code::InvalidArgument, "owner".to_owned()));
    assert_eq!(site.watch(OURS, "a").await.unwrap(), State::Granted);
    assert_eq!(site.demand(THEIRS, "big").await.unwrap(), (1, 1), "what was refused has changed nothing");

    assert_eq!(site.close("root-secret", "a", "spack/packages").await.unwrap(), State::Closed);
    assert_eq!(site.watch(THEIRS, "b").await.unwrap(), State::Granted);
    assert_eq!(site.close(THEIRS, "b", "other/one").await.unwrap(), State::Closed);
    assert_eq!(site.close(OURS, "b", "other/one").await.unwrap_err(), unknown("b"), "also when it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_needs_its_role_and_without_a_token_it_is_refused() {
    let site = Guarded::start();
    site.open(OURS, ours("a")).await.unwrap();
    for (token, code) in [
        ("", Code::Unauthenticated),
        ("wrong", Code::Unauthenticated),
        ("reader-secret", Code::PermissionDenied),
    ] {
        let refused = [
            site.open(token, ours("b")).await.unwrap_err(),
            site.watch(token, "a").await.unwrap_err(),
            site.close(token, "a", "spack/packages").await.unwrap_err(),
        ];
        assert!(refused.iter().all(|(refused, _)| *refused == code), "{token:?}: {refused:?}");
    }
    assert_eq!(site.demand("", "").await.unwrap_err().0, Code::Unauthenticated);
    assert_eq!(site.demand("runner-secret", "").await.unwrap_err().0, Code::PermissionDenied);
    assert_eq!(site.demand("reader-secret", "").await.unwrap(), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_with_its_field_and_changes_nothing() {
    let site = Guarded::start();
    let invalid = |field: &str| (Code::InvalidArgument, field.to_owned());
    let with_owner = |bytes: usize| pb::OpenTicketRequest { owner: "x".repeat(bytes), ..ours("a") };
    assert_eq!(site.open(OURS, with_owner(200_000)).await.unwrap_err(), invalid("owner"));
    let huge = site.open(OURS, with_owner(1 << 20)).await.unwrap_err();
    assert!(matches!(huge.0, Code::OutOfRange | Code::ResourceExhausted), "{huge:?}");
    for (field, wrong) in [
        ("pool", pb::OpenTicketRequest { pool: "moon".into(), ..ours("a") }),
        ("tags", pb::OpenTicketRequest { tags: vec!["gold".into()], ..ours("a") }),
        ("kind", pb::OpenTicketRequest { kind: "lazy".into(), ..ours("a") }),
        ("ticket", pb::OpenTicketRequest { ticket: "x".repeat(1000), ..ours("a") }),
    ] {
        assert_eq!(site.open(OURS, wrong).await.unwrap_err(), invalid(field));
    }
    assert_eq!(site.demand(OURS, "moon").await.unwrap_err(), invalid("pool"));
    assert_eq!(site.close(OURS, "unknown", "spack/packages").await.unwrap_err().0, Code::NotFound);
    assert_eq!(site.watch(OURS, "unknown").await.unwrap_err().0, Code::NotFound);
    assert_eq!(site.watch(OURS, "").await.unwrap_err(), invalid("ticket"));
    assert_eq!(site.demand(OURS, "").await.unwrap(), (0, 0));
    // a limit is not a mistake: the fourth of an owner waits, with the limit in words
    for name in ["a", "b", "c", "d"] {
        site.open(OURS, ours(name)).await.unwrap();
    }
    assert_eq!(site.open(OURS, ours("d")).await.unwrap().waits_for, ["pool big: 1 of 1"]);
}
