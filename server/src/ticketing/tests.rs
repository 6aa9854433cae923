//! What is answered is on the disk, and a restart takes it up.

use std::fs;

use super::*;
use crate::{
    answers::Answers,
    domain::{History, Key, Opening, Resources, SessionId, Source, Ticket},
    identity::{Proven, Roles},
    learned::Learned,
    placement::tickets::{End, Refused},
    predict,
};

const POOLS: &str = r#"
[[pool]]
name = "big"
at_once = 1
tags = ["beefy"]
[[pool]]
name = "other"
by_rule = true
allowed = ['team/.*']
[[rule]]
name = "main"
ref_class = "default"
pool = "other"
when_busy = "big"
busy_from = 1
[tickets]
each_owner = 5
[tickets.tag]
licence = 3
"#;

/// A server's tickets over a store, with a file of pools.
struct Site {
    dir: tempfile::TempDir,
    store: Store,
    placing: Placing,
    metrics: Arc<Metrics>,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pools.toml");
        fs::write(&path, POOLS).unwrap();
        let metrics = Arc::new(Metrics::new());
        let placing = Placing::open(Some(path), Arc::clone(&metrics)).unwrap();
        Self { dir, store: Store::memory(), placing, metrics }
    }

    fn tickets(&self) -> (Ticketing, Keeper) {
        Ticketing::new(self.store.clone(), self.placing.clone(), Arc::clone(&self.metrics), Clock)
    }

    /// Works with a server until `story` is over; its attempts are `open` when it starts. Then it is gone, as after a kill.
    async fn run<T>(&self, open: &[Attempt], story: impl AsyncFnOnce(&Ticketing) -> T) -> T {
        let (ticketing, keeper) = self.tickets();
        ticketing.resume(open).await.unwrap();
        tokio::select! {
            () = keeper.run(tokio_util::sync::CancellationToken::new()) => panic!("it works until it is stopped"),
            told = story(&ticketing) => told,
        }
    }

    async fn on_disk(&self) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        store::load_tickets(&self.store, |ticket| tickets.push(ticket)).await.unwrap();
        tickets
    }

    fn claims(&self, ticketing: &Ticketing) -> Claims {
        Claims {
            learned: Learned::new(History::new(10)),
            answers: Arc::new(Answers::default()),
            predict: Arc::new(predict::Settings::default()),
            placing: self.placing.clone(),
            ticketing: ticketing.clone(),
        }
    }
}

fn id(name: &str) -> TicketId {
    TicketId::parse(name).unwrap()
}

fn claim(asked: u64) -> Claim {
    let (owner, pool, kind, by) = ("o".into(), "big".into(), "explicit".into(), "anyone".into());
    Claim { owner, pool, kind, by, asked, ..Claim::default() }
}

fn attempt(name: &str, ticket: &str) -> Attempt {
    Attempt {
        id: AttemptId::parse(name).unwrap(),
        session: SessionId::parse("s").unwrap(),
        key: Key::default(),
        number: 1,
        retries: None,
        source: Source::Unspecified,
        resources: Resources::default(),
        started_unix_ms: 0,
        opening: Opening { ticket: Some(id(ticket)), ..Opening::default() },
    }
}

async fn open(ticketing: &Ticketing, name: &str, asked: u64) -> &'static str {
    word(&ticketing.open(&id(name), claim(asked)).await.unwrap())
}

fn word(view: &View) -> &'static str {
    match view {
        View::Open(told) if told.ticket.granted_unix_ms.is_some() => "granted",
        View::Open(_) => "queued",
        View::Ended(End::Closed, _) => "closed",
        View::Ended(End::Expired, _) => "expired",
    }
}

fn state(tickets: &[Ticket]) -> Vec<(&str, bool)> {
    tickets.iter().map(|ticket| (ticket.id.as_str(), ticket.granted_unix_ms.is_some())).collect()
}

#[tokio::test]
async fn what_is_answered_is_on_the_disk_and_a_restart_takes_it_up() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        assert_eq!(open(ticketing, "a", 1).await, "granted");
        assert_eq!(state(&site.on_disk().await), [("a", true)]);
        assert_eq!((open(ticketing, "b", 2).await, open(ticketing, "c", 3).await), ("queued", "queued"));
        assert_eq!(state(&site.on_disk().await), [("a", true), ("b", false), ("c", false)]);
    })
    .await;
    site.run(&[], async |ticketing: &Ticketing| {
        // the same question finds the same ticket, another one does not get it
        assert_eq!((open(ticketing, "a", 1).await, open(ticketing, "b", 2).await), ("granted", "queued"));
        let taken = ticketing.open(&id("a"), claim(9)).await;
        assert_eq!(taken, Err(Refused::Taken(id("a")).into()));
        let caller = Identity::anyone();
        assert_eq!(word(&ticketing.close(&id("a"), "o", &caller).await.unwrap()), "closed");
        assert_eq!(state(&site.on_disk().await), [("b", true), ("c", false)]);
        // late repetitions change nothing
        assert_eq!(word(&ticketing.close(&id("a"), "o", &caller).await.unwrap()), "closed");
        assert_eq!(open(ticketing, "a", 1).await, "closed");
    })
    .await;
}

#[tokio::test]
async fn an_attempt_keeps_its_ticket_through_a_restart_and_ends_it() {
    let site = Site::new();
    let first = attempt("1", "a");
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 1).await;
        open(ticketing, "b", 2).await;
        ticketing.begin(&first);
        // answers come behind what was before them
        open(ticketing, "a", 1).await;
        assert_eq!(site.on_disk().await[0].attempt, Some(first.id.clone()));
    })
    .await;
    site.run(std::slice::from_ref(&first), async |ticketing: &Ticketing| {
        assert_eq!(ticketing.demand()[0].attended, 1);
        ticketing.end(&attempt("other", "a"));
        assert_eq!(open(ticketing, "a", 1).await, "granted");
        ticketing.end(&first);
        assert_eq!((open(ticketing, "a", 1).await, open(ticketing, "b", 2).await), ("closed", "granted"));
        ticketing.begin(&attempt("2", "b"));
        open(ticketing, "b", 2).await;
    })
    .await;
    // the attempt of b ended, and the server was killed before it could note what that means
    site.run(&[], async |ticketing: &Ticketing| {
        assert_eq!(open(ticketing, "b", 2).await, "closed");
        assert_eq!(site.on_disk().await, []);
    })
    .await;
}

#[tokio::test]
async fn an_attempt_of_another_project_does_not_take_a_ticket() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        let of_project = Claim { project: "x".into(), ..claim(1) };
        ticketing.open(&id("a"), of_project).await.unwrap();
        ticketing.begin(&attempt("stranger", "a"));
        assert_eq!(ticketing.demand()[0].attended, 0);
        let mut own = attempt("own", "a");
        own.key.project = "x".into();
        ticketing.begin(&own);
        assert_eq!(ticketing.demand()[0].attended, 1);
        // without a project it is of no project, and not of each
        ticketing.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        ticketing.open(&id("b"), claim(2)).await.unwrap();
        let of_project = Attempt { opening: attempt("own", "b").opening, ..own };
        ticketing.begin(&of_project);
        assert_eq!(ticketing.demand()[0].attended, 0);
        ticketing.begin(&attempt("none", "b"));
        assert_eq!(ticketing.demand()[0].attended, 1);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_told_of_a_place_that_is_not_on_the_disk() {
    let site = Site::new();
    let Store::Memory(memory) = &site.store else { panic!("in memory") };
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 1).await;
        let caller = Identity::anyone();
        memory.refuse_commits("the disk is full");
        let refused = ticketing.close(&id("a"), "o", &caller).await;
        assert!(matches!(refused, Err(Refusal::Unwritable(ref why)) if why.contains("full")), "{refused:?}");
        assert!(matches!(ticketing.open(&id("b"), claim(2)).await, Err(Refusal::Unwritable(_))));
        assert_eq!(state(&site.on_disk().await), [("a", true)]);
    })
    .await;
    // what the restart finds is what was told last
    let Store::Memory(memory) = &site.store else { panic!("in memory") };
    memory.accept_commits();
    site.run(&[], async |ticketing: &Ticketing| assert_eq!(open(ticketing, "b", 2).await, "queued")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_hears_of_the_grant_and_its_ticket_dies_with_it() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 1).await;
        open(ticketing, "b", 2).await;
        let caller = Identity::anyone();
        let (a, mut watching) = (id("a"), ticketing.watch(&id("b"), true, &caller).unwrap());
        assert_eq!(word(&watching.view().await.unwrap()), "queued");
        let (closed, ()) = tokio::join!(ticketing.close(&a, "o", &caller), watching.changed());
        closed.unwrap();
        assert_eq!(word(&watching.view().await.unwrap()), "granted");
        tokio::time::sleep(std::time::Duration::from_hours(2)).await;
        assert_eq!(word(&watching.view().await.unwrap()), "granted");
        drop(watching);
        tokio::time::sleep(std::time::Duration::from_hours(2)).await;
        assert_eq!(open(ticketing, "b", 2).await, "expired");
        assert_eq!(site.on_disk().await, []);
        assert!(ticketing.0.desk().is_quiet());
    })
    .await;
}

#[tokio::test]
async fn whoever_watched_a_ticket_that_has_ended_is_not_heard_of_for_another_one_with_its_id() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        let caller = Identity::anyone();
        open(ticketing, "a", 1).await;
        open(ticketing, "b", 2).await;
        let old = ticketing.watch(&id("b"), true, &caller).unwrap();
        ticketing.close(&id("b"), "o", &caller).await.unwrap();
        assert_eq!(open(ticketing, "b", 3).await, "queued", "another question takes the id");
        let new = ticketing.watch(&id("b"), true, &caller).unwrap();
        assert_eq!(old.view().await, Err(Refused::Unknown(id("b")).into()));
        drop(old);
        ticketing.close(&id("a"), "o", &caller).await.unwrap();
        let late = Now { unix_ms: 0, steady_ms: u64::MAX - 1 };
        assert_eq!(ticketing.0.desk().tickets.expire(10, late), [], "who watches it now keeps it");
        assert_eq!(word(&new.view().await.unwrap()), "granted");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_of_pools_is_in_force_for_those_who_wait() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        open(ticketing, "a", 1).await;
        open(ticketing, "b", 2).await;
        let caller = Identity::anyone();
        let mut watching = ticketing.watch(&id("b"), false, &caller).unwrap();
        fs::write(site.dir.path().join("pools.toml"), POOLS.replace("at_once = 1", "at_once = 20")).unwrap();
        site.placing.look(true);
        watching.changed().await;
        assert_eq!(word(&watching.view().await.unwrap()), "granted");
    })
    .await;
}

#[tokio::test]
async fn nobody_closes_or_watches_the_ticket_of_another_one() {
    let site = Site::new();
    let named = |name: &str, projects: &[&str], roles: Roles| Identity {
        name: name.into(),
        projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        roles,
        ..Identity::clone(&Identity::nobody())
    };
    let of = |name, projects| named(name, projects, Roles::default());
    site.run(&[], async |ticketing: &Ticketing| {
        let mine = Claim { by: "gitlab".into(), project: "team/x".into(), ..claim(1) };
        ticketing.open(&id("a"), mine).await.unwrap();
        for stranger in [of("other", &[]), of("gitlab", &["team/y"])] {
            let closed = ticketing.close(&id("a"), "o", &stranger).await;
            assert_eq!(closed, Err(Refused::Unknown(id("a")).into()), "nor learns that it is there");
            let watched = ticketing.watch(&id("a"), true, &stranger).map(drop);
            assert_eq!(watched, Err(Refused::Unknown(id("a")).into()));
        }
        let colleague = of("other", &["team/x"]);
        let closed = ticketing.close(&id("a"), "o", &colleague).await;
        assert!(
            matches!(closed, Err(Refusal::Forbidden(ref fault)) if fault.field == "ticket"),
            "{closed:?}"
        );
        let me = of("gitlab", &["team/x"]);
        for owner in ["", "another"] {
            let closed = ticketing.close(&id("a"), owner, &me).await;
            assert!(matches!(closed, Err(Refusal::Fault(ref fault)) if fault.field == "owner"), "{closed:?}");
        }
        let unknown = ticketing.close(&id("b"), "o", &me).await;
        assert_eq!(unknown, Err(Refused::Unknown(id("b")).into()));
        assert_eq!(word(&ticketing.close(&id("a"), "o", &me).await.unwrap()), "closed");
        ticketing.open(&id("c"), claim(3)).await.unwrap();
        let operator = named("root", &["-"], [Role::Operator].into_iter().collect());
        assert!(ticketing.close(&id("c"), "o", &operator).await.is_ok());
    })
    .await;
}

#[test]
fn a_claim_is_what_the_key_the_pools_and_the_token_say() {
    let site = Site::new();
    let (ticketing, _keeper) = site.tickets();
    let claims = site.claims(&ticketing);
    let key = Key { package: "zlib".into(), project: "team/x".into(), owner: "ann".into(), ..Key::default() };
    let asked = || Asked {
        key: key.clone(),
        kind: None,
        owner: String::new(),
        pool: String::new(),
        tags: Vec::new(),
    };
    let anyone = Identity::anyone();
    let ask = |asked: Asked| claims.claim(&anyone, asked);
    let claim = ask(Asked { tags: vec!["licence".into()], ..asked() }).unwrap();
    assert_eq!((claim.owner.as_str(), claim.pool.as_str(), claim.kind.as_str()), ("ann", "big", "explicit"));
    assert_eq!((claim.tags.join(" "), claim.by.as_str()), ("licence".to_owned(), "anyone"));
    assert!(claim.memory.0 > 0 && claim.milli_cores > 0 && claim.wall.0 > 0);
    let other = ask(Asked {
        key: Key { git_ref: "main".into(), ..key.clone() },
        pool: "other".into(),
        owner: "bob".into(),
        kind: crate::placement::Kind::parse("auto"),
        ..asked()
    });
    let other = other.unwrap();
    assert_eq!((other.owner.as_str(), other.pool.as_str(), other.kind.as_str()), ("bob", "other", "auto"));
    assert_ne!(other.asked, claim.asked);
    let field = |asked: Asked| match ask(asked) {
        Err(Refusal::Fault(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        field(Asked { pool: "moon".into(), ..asked() }),
        "pool: \"moon\" is not there; there are: big, other"
    );
    let elsewhere = Key { project: "else/where".into(), ..key.clone() };
    assert!(
        field(Asked { pool: "other".into(), key: elsewhere, ..asked() })
            .starts_with("pool: pool other is not for")
    );
    assert!(field(Asked { tags: vec!["nonsense".into()], ..asked() }).starts_with("tags: \"nonsense\""));
    // who may see some projects only makes no owners up
    let one = Identity { projects: vec!["team/*".to_owned()].into(), ..Identity::clone(&anyone) };
    assert_eq!(claims.claim(&one, asked()).unwrap().owner, "team/x");
    let made_up = claims.claim(&one, Asked { owner: "nobody-else".into(), ..asked() });
    assert!(matches!(made_up, Err(Refusal::Forbidden(ref fault)) if fault.field == "owner"), "{made_up:?}");
}

/// A key of a package of a project, and nothing else asked.
fn about(project: &str, package: &str) -> Asked {
    let key = Key { project: project.into(), package: package.into(), ..Key::default() };
    Asked { key, kind: None, owner: String::new(), pool: String::new(), tags: Vec::new() }
}

fn proven(project: &str, git_ref: &str, owner: &str) -> Identity {
    let proven = Proven { project: project.into(), git_ref: git_ref.into(), owner: owner.into(), job: None };
    Identity { proven, ..Identity::clone(&Identity::anyone()) }
}

#[tokio::test]
async fn the_same_words_about_two_projects_are_two_questions() {
    let site = Site::new();
    site.run(&[], async |ticketing: &Ticketing| {
        let claims = site.claims(ticketing);
        let claim = |project: &str| claims.claim(&proven(project, "", "o"), about("", "zlib")).unwrap();
        let (one, other) = (claim("team/x"), claim("team/y"));
        assert_ne!(one.asked, other.asked);
        // not even if the numbers of both happen to be the same
        let other = Claim { asked: one.asked, ..other };
        ticketing.open(&id("a"), one.clone()).await.unwrap();
        assert_eq!(ticketing.open(&id("a"), other.clone()).await, Err(Refused::Taken(id("a")).into()));
        ticketing.close(&id("a"), "o", &Identity::anyone()).await.unwrap();
        assert_eq!(word(&ticketing.open(&id("a"), one).await.unwrap()), "closed");
        assert_eq!(word(&ticketing.open(&id("a"), other).await.unwrap()), "granted");
    })
    .await;
}

#[test]
fn callers_whose_long_names_begin_alike_are_told_apart() {
    let named =
        |name: String| claim::by(&Identity { name: name.into(), ..Identity::clone(&Identity::anyone()) });
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
fn only_a_rule_puts_a_ticket_into_a_pool_of_rules_and_it_looks_at_what_is_proven() {
    let site = Site::new();
    let (ticketing, _keeper) = site.tickets();
    let claims = site.claims(&ticketing);
    let to_other = || Asked { pool: "other".into(), ..about("team/x", "zlib") };
    let ruled = |asked: Asked| match claims.claim(&proven("team/x", "feature", "ann"), asked) {
        Ok(claim) => claim.pool,
        Err(Refusal::Fault(fault)) => fault.to_string(),
        Err(other) => panic!("{other:?}"),
    };
    assert!(
        ruled(to_other()).starts_with("pool: only a rule puts builds into \"other\""),
        "{}",
        ruled(to_other())
    );
    let mut main = to_other();
    main.key.git_ref = "main".into();
    assert!(ruled(main).starts_with("pool: only a rule"), "it says a branch that is not proven");
    assert_eq!(claims.claim(&proven("team/x", "main", "ann"), to_other()).unwrap().pool, "other");
    // the branch is that of the proven project alone
    let mut elsewhere = to_other();
    elsewhere.key.project = "team/y".into();
    elsewhere.key.git_ref = "main".into();
    assert_eq!(ruled(elsewhere), "other");
    // also where the rule would send it elsewhere just now
    let _busy: Vec<_> =
        (0..9).map(|_| site.placing.places().hold("other", &Resources::default(), false)).collect();
    assert_eq!(claims.claim(&proven("team/x", "main", "ann"), to_other()).unwrap().pool, "other");
    assert_eq!(claims.claim(&proven("team/x", "main", "ann"), about("team/x", "zlib")).unwrap().pool, "big");
}

#[tokio::test]
async fn the_largest_ticket_fits_into_one_part() {
    let long = |n: usize| "\"".repeat(n);
    let mut ticket = Ticket {
        id: id(&"x".repeat(128)),
        claim: Claim {
            owner: long(256),
            pool: "x".repeat(63),
            arch: "x86_64".into(),
            kind: "explicit".into(),
            tags: vec!["x".repeat(63); 16],
            raised: true,
            project: long(256),
            by: long(64),
            asked: u64::MAX,
            ..claim(0)
        },
        round: u64::MAX,
        number: u64::MAX,
        opened_unix_ms: u64::MAX,
        granted_unix_ms: Some(u64::MAX),
        attempt: None,
    };
    ticket.attempt = AttemptId::parse(&"x".repeat(128)).ok();
    let mut batch = store::Batch::default();
    store::put_ticket(&mut batch, &ticket).unwrap();
    assert_eq!(batch.operations(), 1);
}

#[tokio::test]
async fn no_secret_in_a_question_is_kept_or_shown() {
    let site = Site::new();
    let (ticketing, _keeper) = site.tickets();
    let token = "glpat-aB3dE6gH9jK2mN5pQ8sT";
    let asked = Asked {
        key: Key { project: format!("of {token}"), ..Key::default() },
        kind: None,
        owner: format!("robot {token}"),
        pool: "big".into(),
        tags: Vec::new(),
    };
    let claim = site.claims(&ticketing).claim(&Identity::anyone(), asked).unwrap();
    assert_eq!((claim.owner.as_str(), claim.project.as_str()), ("robot [MASKED]", "of [MASKED]"));
}
