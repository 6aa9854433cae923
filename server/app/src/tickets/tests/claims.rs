//! What a claim says, and whose ticket it is.

use super::*;
use crate::{
    access::identity::{ProvenClaims, Role, Roles, TokenJob},
    door::fixture,
    runtime::metrics::KindLabel,
    tickets::{TicketService, ticket_service::TicketQuestion},
};

impl Site {
    fn claims(&self, registry: &TicketRegistry) -> TicketService {
        TicketService { sizing: fixture::sizing_alone(self.pools.clone()), registry: registry.clone() }
    }
}

#[tokio::test]
async fn callers_cannot_close_or_watch_others_tickets() {
    let site = Site::new();
    let named = |name: &str, projects: &[&str], roles: Roles| Identity {
        name: name.into(),
        projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        roles,
        ..Identity::clone(&Identity::unknown())
    };
    let of = |name, projects| named(name, projects, Roles::default());
    site.run(&[], async |tickets: &TicketRegistry| {
        let mine = TicketClaim { by: "gitlab".into(), project: "team/x".into(), ..claim(1) };
        tickets.open(&id("a"), mine).await.unwrap();
        for stranger in [of("other", &["team/y"]), of("gitlab", &["team/y"])] {
            let closed = tickets.close(&id("a"), "o", &stranger).await;
            assert_eq!(closed, Err(TicketRefusal::Unknown(id("a")).into()), "nor learns that it is there");
            let watched = tickets.watch(&id("a"), true, &stranger).map(drop);
            assert_eq!(watched, Err(TicketRefusal::Unknown(id("a")).into()));
        }
        let colleague = of("other", &["team/x"]);
        let closed = tickets.close(&id("a"), "o", &colleague).await;
        assert!(
            matches!(closed, Err(Refusal::Forbidden(ref fault)) if fault.field == "ticket"),
            "{closed:?}"
        );
        let me = of("gitlab", &["team/x"]);
        for owner in ["", "another"] {
            let closed = tickets.close(&id("a"), owner, &me).await;
            assert!(matches!(closed, Err(Refusal::Fault(ref fault)) if fault.field == "owner"), "{closed:?}");
        }
        let unknown = tickets.close(&id("b"), "o", &me).await;
        assert_eq!(unknown, Err(TicketRefusal::Unknown(id("b")).into()));
        assert_eq!(word(&tickets.close(&id("a"), "o", &me).await.unwrap()), "closed");
        tickets.open(&id("c"), claim(3)).await.unwrap();
        let theirs = TicketClaim { project: "team/x".into(), ..claim(4) };
        tickets.open(&id("d"), theirs).await.unwrap();
        let operator = |projects| named("root", projects, Role::Operator.into());
        let of_another = operator(&["team/y"]);
        for ticket in ["c", "d"] {
            let closed = tickets.close(&id(ticket), "o", &of_another).await.map(drop);
            let watched = tickets.watch(&id(ticket), true, &of_another).map(drop);
            let unknown = Err(TicketRefusal::Unknown(id(ticket)).into());
            assert_eq!([closed, watched], [unknown.clone(), unknown], "{ticket}");
        }
        assert!(tickets.close(&id("d"), "o", &operator(&["team/x"])).await.is_ok(), "of its project");
        assert!(tickets.close(&id("c"), "o", &operator(&[])).await.is_ok(), "of all");
    })
    .await;
}

#[test]
fn a_claim_combines_key_pools_and_token() {
    let site = Site::new();
    let (tickets, _keeper) = site.tickets();
    let claims = site.claims(&tickets);
    let key = Key { package: "zlib".into(), project: "team/x".into(), owner: "ann".into(), ..Key::default() };
    let asked = || TicketQuestion {
        key: key.clone(),
        kind: None,
        owner: String::new(),
        pool: String::new(),
        tags: Vec::new(),
    };
    let anyone = Identity::anyone();
    let ask = |asked: TicketQuestion| claims.claim(&anyone, &id("t"), asked);
    let claim = ask(TicketQuestion { tags: vec!["licence".into()], ..asked() }).unwrap();
    assert_eq!((claim.owner.as_str(), claim.pool.as_str(), claim.kind.as_str()), ("ann", "big", "explicit"));
    assert_eq!((claim.tags.join(" "), claim.by.as_str()), ("licence".to_owned(), "anyone"));
    assert!(claim.memory.0 > 0 && claim.milli_cores > 0 && claim.wall.0 > 0);
    let other = ask(TicketQuestion {
        key: Key { git_ref: "main".into(), ..key.clone() },
        pool: "other".into(),
        owner: "bob".into(),
        kind: plimsoll_core::placement::BuildKind::parse("auto"),
        ..asked()
    });
    let other = other.unwrap();
    assert_eq!((other.owner.as_str(), other.pool.as_str(), other.kind.as_str()), ("bob", "other", "auto"));
    assert_ne!(other.asked, claim.asked);
    let field = |asked: TicketQuestion| match ask(asked) {
        Err(Refusal::Fault(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    let moon = field(TicketQuestion { pool: "moon".into(), ..asked() });
    assert_eq!(moon, "pool: \"moon\" is not there; there are: big, other");
    let elsewhere = Key { project: "else/where".into(), ..key.clone() };
    let other = field(TicketQuestion { pool: "other".into(), key: elsewhere, ..asked() });
    assert!(other.starts_with("pool: pool other is not for"));
    let nonsense = field(TicketQuestion { tags: vec!["nonsense".into()], ..asked() });
    assert!(nonsense.starts_with("tags: \"nonsense\""));
    // who may see some projects only makes no owners up
    let one = Identity { projects: vec!["team/*".to_owned()].into(), ..Identity::clone(&anyone) };
    assert_eq!(claims.claim(&one, &id("t"), asked()).unwrap().owner, "team/x");
    let made_up = claims.claim(&one, &id("t"), TicketQuestion { owner: "another-owner".into(), ..asked() });
    assert!(matches!(made_up, Err(Refusal::Forbidden(ref fault)) if fault.field == "owner"), "{made_up:?}");
}

/// A key of a package of a project, and nothing else asked.
fn about(project: &str, package: &str) -> TicketQuestion {
    let key = Key { project: project.into(), package: package.into(), ..Key::default() };
    TicketQuestion { key, kind: None, owner: String::new(), pool: String::new(), tags: Vec::new() }
}

fn proven(project: &str, git_ref: &str, owner: &str) -> Identity {
    let proven = ProvenClaims {
        project: project.into(),
        git_ref: git_ref.into(),
        owner: owner.into(),
        ..ProvenClaims::default()
    };
    Identity { proven, ..Identity::clone(&Identity::anyone()) }
}

#[tokio::test]
async fn equal_questions_of_two_projects_are_distinct() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        let claims = site.claims(tickets);
        let claim =
            |project: &str| claims.claim(&proven(project, "", "o"), &id("t"), about("", "zlib")).unwrap();
        let (one, other) = (claim("team/x"), claim("team/y"));
        assert_ne!(one.asked, other.asked);
        // not even if the numbers of both happen to be the same
        let other = TicketClaim { asked: one.asked, ..other };
        tickets.open(&id("a"), one.clone()).await.unwrap();
        assert_eq!(tickets.open(&id("a"), other.clone()).await, Err(TicketRefusal::Taken(id("a")).into()));
        tickets.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        assert_eq!(word(&tickets.open(&id("a"), one).await.unwrap()), "closed");
        assert_eq!(word(&tickets.open(&id("a"), other).await.unwrap()), "granted");
    })
    .await;
}

#[test]
fn long_caller_names_with_equal_prefixes_stay_distinct() {
    let named =
        |name: String| Identity { name: name.into(), ..Identity::clone(&Identity::anyone()) }.stored_name();
    let pod = |pod: &str| {
        named(format!("kubernetes.default.svc.cluster.local:system:serviceaccount:builds:runner/{pod}"))
    };
    assert_eq!(pod("a"), pod("a"));
    assert_ne!(pod("a"), pod("b"));
    assert!(pod("a").starts_with("kubernetes.default.svc.cluster.local:system:ser"), "{}", pod("a"));
    for length in [1, 64] {
        assert_eq!(named("é".repeat(length)), "é".repeat(length));
    }
    assert_eq!(named("é".repeat(65)).chars().count(), 64);
}

#[test]
fn restricted_pools_need_a_rule_on_proven_facts() {
    let site = Site::new();
    let (tickets, _keeper) = site.tickets();
    let claims = site.claims(&tickets);
    let to_other = || TicketQuestion { pool: "other".into(), ..about("team/x", "zlib") };
    let ruled =
        |asked: TicketQuestion| match claims.claim(&proven("team/x", "feature", "ann"), &id("t"), asked) {
            Ok(claim) => claim.pool,
            Err(Refusal::Fault(fault)) => fault.to_string(),
            Err(other) => panic!("{other:?}"),
        };
    let refused = ruled(to_other());
    assert!(refused.starts_with("pool: only a rule puts builds into \"other\""), "{refused}");
    let mut main = to_other();
    main.key.git_ref = "main".into();
    assert!(ruled(main).starts_with("pool: only a rule"), "it says a branch that is not proven");
    assert_eq!(claims.claim(&proven("team/x", "main", "ann"), &id("t"), to_other()).unwrap().pool, "other");
    // the branch is that of the proven project alone
    let mut elsewhere = to_other();
    elsewhere.key.project = "team/y".into();
    elsewhere.key.git_ref = "main".into();
    assert_eq!(ruled(elsewhere), "other");
    // also where the rule would send it elsewhere just now
    let _busy: Vec<_> = (0..9)
        .map(|_| site.pools.places().hold("other", &Resources::default(), false, Some(PoolSlot::Own)))
        .collect();
    assert_eq!(claims.claim(&proven("team/x", "main", "ann"), &id("t"), to_other()).unwrap().pool, "other");
    let claim = claims.claim(&proven("team/x", "main", "ann"), &id("t"), about("team/x", "zlib")).unwrap();
    assert_eq!(claim.pool, "big");
}

#[tokio::test]
async fn secrets_in_questions_are_masked() {
    let site = Site::new();
    let (tickets, _keeper) = site.tickets();
    let token = "glpat-aB3dE6gH9jK2mN5pQ8sT";
    let asked = TicketQuestion {
        key: Key { project: format!("of {token}"), ..Key::default() },
        kind: None,
        owner: format!("robot {token}"),
        pool: "big".into(),
        tags: Vec::new(),
    };
    let claim = site.claims(&tickets).claim(&Identity::anyone(), &id("t"), asked).unwrap();
    assert_eq!((claim.owner.as_str(), claim.project.as_str()), ("robot [MASKED]", "of [MASKED]"));
}

/// The caller of this job of a project.
fn of_job(project: &str, job: &str) -> Identity {
    let job = Some(TokenJob { host: "gitlab.example".into(), id: job.into() });
    let proven = ProvenClaims { project: project.into(), job, ..ProvenClaims::default() };
    let name = format!("gitlab.example:{project}:{}", proven.job.as_ref().unwrap().id);
    Identity {
        name: name.into(),
        proven,
        projects: vec![project.to_owned()].into(),
        ..Identity::clone(&Identity::unknown())
    }
}

#[tokio::test]
async fn a_job_takes_over_its_squatted_ticket() {
    let site = Site::new();
    site.run(&[], async |tickets: &TicketRegistry| {
        let claims = site.claims(tickets);
        let name = id("gitlab.example:7");
        let squatter = Identity { name: "runner".into(), ..Identity::clone(&Identity::anyone()) };
        let (job, other) = (of_job("team/x", "7"), of_job("team/x", "8"));
        let claim = |caller: &Identity| claims.claim(caller, &name, about("team/x", "zlib")).unwrap();
        let opened = tickets.open(&name, claim(&squatter)).await.unwrap();
        assert_eq!(word(&opened), "granted");
        assert_eq!(open(tickets, "next", 1).await, "queued");
        let mut watching = tickets.watch(&name, true, &squatter).unwrap();
        assert_eq!(tickets.open(&name, claim(&other)).await, Err(TicketRefusal::Taken(name.clone()).into()));

        let opened = tickets.open(&name, claim(&job)).await.unwrap();
        assert_eq!((word(&opened), opened.ticket().claim.by.as_str()), ("queued", &*job.name));
        assert_eq!(open(tickets, "next", 1).await, "granted", "the place went to who was next");
        watching.changed().await;
        assert!(watching.view().await.is_err(), "who opened it before sees nothing of the job's");
        drop(watching);
        assert_eq!(site.metrics.taken_over.get_or_create(&KindLabel::of("ticket")).get(), 1);
        // the same again is the same ticket, and no caller takes it from the job
        assert_eq!(word(&tickets.open(&name, claim(&job)).await.unwrap()), "queued");
        let squatted = tickets.open(&name, claim(&squatter)).await;
        assert_eq!(squatted, Err(TicketRefusal::Taken(name.clone()).into()));
    })
    .await;
    let kept = site.on_disk().await;
    let of_job = kept.iter().find(|ticket| ticket.id.as_str() == "gitlab.example:7").unwrap();
    assert_eq!((of_job.claim.by.as_str(), of_job.claim.proven), ("gitlab.example:team/x:7", true));
    site.run(&[], async |tickets: &TicketRegistry| {
        let claim = TicketClaim { by: "runner".into(), ..of_job.claim.clone() };
        let claim = TicketClaim { proven: false, ..claim };
        let taken = tickets.open(&of_job.id, claim).await;
        assert_eq!(taken, Err(TicketRefusal::Taken(of_job.id.clone()).into()), "nor after a restart");
    })
    .await;
}
