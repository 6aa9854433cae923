//! Tokens of every kind that is wrong, and what a right one proves.

mod file;
mod github;

use std::path::PathBuf;

use plimsoll_core::domain::test_attempt;
use serde_json::{Value, json};

use super::{
    signer::{Signer, YEAR_2100},
    *,
};

const FILE: &str = r#"
    [[token]]
    name = "grafana"
    sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    roles = ["reader"]
    projects = ["spack/*"]

    [[certificate]]
    dns_name = "runner-1.example.com"
    roles = ["agent"]
    trusted = true

    [[issuer]]
    issuer = "https://gitlab.example.com"
    kind = "gitlab"
    audience = "plimsoll"
    keys_file = "keys.json"

    [[issuer.grant]]
    claims = { project_path = "spack/*", ref_protected = "true" }
    roles = ["agent", "caller"]
    trusted = true

    [[issuer.grant]]
    claims = { project_path = "spack/*" }
    roles = ["agent", "caller"]
"#;

fn access(file: &str, signer: &Signer) -> Result<Access, String> {
    let read = |path: &PathBuf| {
        assert_eq!(path, &PathBuf::from("keys.json"));
        Ok(signer.key_set())
    };
    Access::new(
        AccessFile::parse(file)?,
        Sources {
            read: &read,
            usages: &Usages::default(),
            moment: Instant::now(),
            fetched: &|_origin| Arc::default(),
        },
    )
}

fn attempt(id: &str) -> Attempt {
    let mut attempt = test_attempt(id);
    attempt.key.project = "another/project".into();
    attempt.key.git_ref = "main".into();
    attempt
}

#[test]
fn token_claims_override_what_a_message_claims() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let identity = access.identify(Some(&signer.token(|_claims| ())), &[], 0, Instant::now()).unwrap();
    assert!(identity.roles.has(Role::Agent) && !identity.roles.has(Role::Reader) && identity.trusted);
    let mut opened = attempt("gitlab.example.com:4711.2");
    identity.opens(&mut opened).unwrap();
    let key = &opened.key;
    assert_eq!((&*key.project, &*key.git_ref, &*key.owner), ("spack/packages", "develop", "eve"));
    assert!(!opened.opening.untrusted);
    for other in ["gitlab.example.com:4712", "4711", "gitlab.example.org:4711", "x:gitlab.example.com:4711"] {
        let fault = identity.opens(&mut attempt(other)).unwrap_err();
        assert_eq!(fault.field, "attempt", "{other}");
    }
}

#[test]
fn a_token_without_a_project_is_refused() {
    let signer = Signer::new();
    let file = FILE.replace("claims = { project_path = \"spack/*\" }", "claims = {}");
    let access = access(&file, &signer).unwrap();
    let token = signer.token(|claims| drop(claims.as_object_mut().unwrap().remove("project_path")));
    let denied = access.identify(Some(&token), &[], 0, Instant::now()).unwrap_err();
    let unnamed =
        "does not name its owner (project_path and job_id; repository, run_id and run_attempt; or sub)";
    assert_eq!(denied, Denied::NotAccepted(unnamed));
}

#[test]
fn token_claims_override_questions_about_the_own_job() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let identity = access.identify(Some(&signer.token(|_claims| ())), &[], 0, Instant::now()).unwrap();
    let asks = |id: &str, project: &str| {
        let mut key = Key { project: project.into(), git_ref: "main".into(), ..Key::default() };
        identity.asks_about(&AttemptId::parse(id).unwrap(), &mut key).map(|()| (key.project, key.git_ref))
    };
    let claimed = |git_ref: &str| Ok(("spack/packages".to_owned(), git_ref.to_owned()));
    assert_eq!(asks("gitlab.example.com:4711", "another/project"), claimed("develop"));
    assert_eq!(asks("gitlab.example.com:4712", ""), claimed("main"));
    assert_eq!(asks("gitlab.example.com:4712", "another/project").unwrap_err().field, "project");
}

#[test]
fn an_unknown_caller_may_see_and_do_nothing() {
    let unknown = Identity::unknown();
    assert!(Role::ALL.iter().all(|role| !unknown.roles.has(*role)) && !unknown.trusted);
    for project in ["", "spack/packages"] {
        assert!(unknown.may_see(project).is_err(), "{project:?}");
    }
}

#[test]
fn only_identifying_fields_make_a_new_key() {
    let bounded = FILE.replacen("[\"reader\"]", "[\"agent\"]\n    bounds = { keys_per_hour = 1 }", 1);
    let caller =
        access(&bounded, &Signer::new()).unwrap().identify(Some("secret"), &[], 0, Instant::now()).unwrap();
    let note = |change: &dyn Fn(&mut Key)| {
        let mut attempt = attempt("1");
        change(&mut attempt.key);
        caller.note(&attempt, Instant::now()).map_err(|exceeded| exceeded.bound)
    };
    assert_eq!(note(&|_key| ()), Ok(()));
    let telling: [fn(&mut Key) -> &mut String; 10] = [
        |key| &mut key.project,
        |key| &mut key.stack,
        |key| &mut key.package,
        |key| &mut key.version,
        |key| &mut key.variants,
        |key| &mut key.compiler,
        |key| &mut key.compiler_version,
        |key| &mut key.arch,
        |key| &mut key.build_system,
        |key| &mut key.git_ref,
    ];
    for (n, text) in telling.iter().enumerate() {
        assert_eq!(note(&|key| text(key).push('x')), Err(Bound::Keys), "text {n}");
    }
    assert_eq!(note(&|key| (key.owner, key.hints.build_jobs) = ("eve".into(), Some(9))), Ok(()));
}

#[test]
fn unprotected_refs_are_measured_but_untrusted() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let token = signer.token(|claims| claims["ref_protected"] = json!("false"));
    let identity = access.identify(Some(&token), &[], 0, Instant::now()).unwrap();
    let mut opened = attempt("gitlab.example.com:4711");
    identity.opens(&mut opened).unwrap();
    assert!(opened.opening.untrusted);
}

#[test]
fn job_labels_come_from_the_token() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let claimed =
        [("pipeline", "900"), ("job", "build"), ("commit", "c0ffee"), ("sha", "c0ffee"), ("x", "y")];
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let labels = |protected: &str, claims: &[(&'static str, Value)]| {
        let token = signer.token(|all| {
            all["ref_protected"] = json!(protected);
            for (name, value) in claims {
                all[*name] = value.clone();
            }
        });
        let identity = access.identify(Some(&token), &[], 0, Instant::now()).unwrap();
        let mut opened = attempt("gitlab.example.com:4711");
        opened.key.labels = claimed.map(|(name, value)| label(name, value)).into();
        let mut asked = opened.key.clone();
        identity.asks_about(&opened.id, &mut asked).unwrap();
        identity.opens(&mut opened).unwrap();
        assert_eq!(opened.key.labels, asked.labels);
        opened.key.labels
    };
    let own = [("pipeline_id", json!("7")), ("sha", json!("beef"))];
    let of_token = [("pipeline", "7"), ("job", "build"), ("commit", "beef"), ("sha", "beef"), ("x", "y")];
    for protected in ["true", "false"] {
        assert_eq!(labels(protected, &own), of_token.map(|(name, value)| label(name, value)).into());
    }
    assert_eq!(labels("true", &[]), claimed.map(|(name, value)| label(name, value)).into());
    assert_eq!(labels("false", &[]), [label("job", "build"), label("x", "y")].into());
}

#[test]
fn invalid_tokens_are_refused_with_brief_reasons() {
    let (signer, other) = (Signer::new(), Signer::new());
    let access = access(FILE, &signer).unwrap();
    let claims = |name: &'static str, value: Value| signer.token(move |claims| claims[name] = value);
    let without =
        |name: &'static str| signer.token(move |claims| drop(claims.as_object_mut().unwrap().remove(name)));
    let good: Value = json!({"iss": "https://gitlab.example.com", "aud": "plimsoll", "exp": YEAR_2100});
    let header = |header: Value| signer.sign(&header, &good);
    let right = signer.token(|_claims| ());
    let unsigned = format!("{}.", right.rsplit_once('.').unwrap().0);
    let not_signed = "is not signed by an issuer that is trusted here";
    let further_rules = "has crit or b64 in its header, which are not supported";
    let cases = [
        (claims("exp", json!(1_700_000_000)), "has expired"),
        (claims("nbf", json!(YEAR_2100)), "is not valid yet; look at the clocks"),
        (claims("aud", json!("other")), "is for another audience"),
        (without("aud"), "lacks an expiry, an issuer or an audience"),
        (without("exp"), "lacks an expiry, an issuer or an audience"),
        (claims("iss", json!("https://evil.example.com")), not_signed),
        (without("iss"), not_signed),
        (other.token(|_claims| ()), not_signed),
        (header(json!({"alg": "none", "kid": "one"})), "is not known here"),
        (header(json!({"alg": "HS256", "kid": "one"})), not_signed),
        (header(json!({"alg": "RS256", "kid": "one"})), not_signed),
        (header(json!({"alg": "ES256", "kid": "two"})), not_signed),
        (header(json!({"alg": "ES256", "kid": "one", "crit": ["exp"], "exp": 1})), further_rules),
        (header(json!({"alg": "ES256", "kid": "one", "crit": null})), further_rules),
        (header(json!({"alg": "ES256", "kid": "one", "b64": true})), further_rules),
        (unsigned, not_signed),
        (right.chars().take(right.len() - 10).collect(), not_signed),
        (right.chars().take(20).collect(), "is not known here"),
        ("x".repeat(16 * 1024 + 1), "is longer than 16 KiB"),
        (String::new(), "is not known here"),
        ("grafana".to_owned(), "is not known here"),
    ];
    for (token, expected) in cases {
        let denied = access.identify(Some(&token), &[], 0, Instant::now());
        assert_eq!(denied, Err(Denied::NotAccepted(expected)), "{token:.200}");
    }
    for unbounded in [without("job_id"), claims("job_id", json!(""))] {
        let denied = Denied::NotAccepted(
            "does not name its owner (project_path and job_id; repository, run_id and run_attempt; or sub)",
        );
        assert_eq!(access.identify(Some(&unbounded), &[], 0, Instant::now()), Err(denied));
    }
    let foreign = claims("project_path", json!("evil/spack"));
    assert_eq!(access.identify(Some(&foreign), &[], 0, Instant::now()), Err(Denied::NoGrant));
}

#[test]
fn a_checked_token_is_cached_until_it_expires() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    // the library looks at the clock of the machine, so "later" shows in the remembered tokens alone
    let token = signer.token(|_claims| ());
    assert!(access.identify(Some(&token), &[], 0, Instant::now()).is_ok());
    assert_eq!(access.checked_token_count(), 1);
    let identified = access.identify(Some(&token), &[], YEAR_2100 + 61, Instant::now());
    assert!(identified.is_ok(), "checked again, by the library");
    assert_eq!(access.checked_token_count(), 1);
}

#[test]
fn token_expiry_includes_leeway_and_accepts_fractions() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let expires = |at: Value| {
        let token = signer.token(|claims| claims["exp"] = at);
        access.identify(Some(&token), &[], 0, Instant::now()).map(|identity| identity.expires)
    };
    assert_eq!(expires(json!(YEAR_2100)), Ok(Some(YEAR_2100 + 61)), "60 s are what clocks may differ by");
    assert_eq!(expires(json!(4_102_444_800.25)), Ok(Some(YEAR_2100 + 61)));
    assert!(expires(json!(-4_102_444_800.5)).is_err() && expires(json!("4102444800")).is_err());
}

#[test]
fn static_tokens_and_certificates_identify_their_callers() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let grafana = access.identify(Some("secret"), &[], 0, Instant::now()).unwrap();
    assert_eq!((&*grafana.name, grafana.trusted), ("grafana", false));
    assert!(grafana.may_see("spack/x").is_ok());
    for hidden in ["spac", "other/spack/x", ""] {
        assert_eq!(grafana.may_see(hidden).unwrap_err().field, "project");
    }
    let names = ["other".to_owned(), "runner-1.example.com".to_owned()];
    assert!(access.identify(None, &names, 0, Instant::now()).unwrap().trusted);
    assert_eq!(access.identify(None, &names[..1], 0, Instant::now()), Err(Denied::Unidentified));
}

#[test]
fn kubernetes_tokens_are_granted_by_namespace_and_account() {
    let signer = Signer::new();
    let grant = "claims = { \"kubernetes.io/namespace\" = \"ci\", \"kubernetes.io/serviceaccount/name\" = \"agent\" }\n";
    let file = format!(
        "[[issuer]]\nissuer = \"https://gitlab.example.com\"\nkind = \"kubernetes\"\naudience = \"plimsoll\"\n\
         keys_file = \"keys.json\"\n[[issuer.grant]]\n{grant}roles = [\"agent\"]\nprojects = [\"spack/*\"]\n"
    );
    let access = access(&file, &signer).unwrap();
    let token = |namespace: &str, pod: &str| {
        signer.token(|claims| {
            claims["sub"] = json!("system:serviceaccount:ci:agent");
            let pod = json!({"name": pod, "uid": "1"});
            claims["kubernetes.io"] =
                json!({"namespace": namespace, "serviceaccount": {"name": "agent"}, "pod": pod});
        })
    };
    let known = access.identify(Some(&token("ci", "runner-1")), &[], 0, Instant::now()).unwrap();
    assert_eq!(&*known.name, "gitlab.example.com:system:serviceaccount:ci:agent/runner-1");
    assert!(known.sees("spack/packages") && !known.sees("other"));
    assert_eq!(known.bounds, Some(Bounds::OF_JOB));
    let other = access.identify(Some(&token("other", "runner-1")), &[], 0, Instant::now());
    assert_eq!(other, Err(Denied::NoGrant));
    let unlisted = signer.token(|claims| {
        claims["kubernetes.io"] = json!({"namespace": "ci", "serviceaccount": {"name": "agent"}});
    });
    assert!(access.identify(Some(&unlisted), &[], 0, Instant::now()).is_err());
}

#[test]
fn a_jobs_quota_is_far_below_a_fleets() {
    let signer = Signer::new();
    let access = access(FILE, &signer).unwrap();
    let job = access.identify(Some(&signer.token(|_claims| ())), &[], 0, Instant::now()).unwrap();
    let fleet = access.identify(None, &["runner-1.example.com".to_owned()], 0, Instant::now()).unwrap();
    let untrusted = FILE.replacen("roles = [\"agent\"]\n    trusted = true", "roles = [\"agent\"]", 1);
    let untrusted = self::access(&untrusted, &signer).unwrap();
    let untrusted =
        untrusted.identify(None, &["runner-1.example.com".to_owned()], 0, Instant::now()).unwrap();
    let now = Instant::now();
    // the attempt is the same, as is the job
    let count = |caller: &Identity, change: &dyn Fn(&mut Key, String)| {
        (0..=10_000).find_map(|n: u32| {
            let mut opened = attempt("gitlab.example.com:4711");
            change(&mut opened.key, n.to_string());
            caller.note(&opened, now).err().map(|exceeded| (exceeded.bound, n))
        })
    };
    let value = |key: &mut Key, value: String| drop(key.labels.insert("label".into(), value));
    let name = |key: &mut Key, name: String| drop(key.labels.insert(name, "value".into()));
    assert_eq!(count(&job, &value), Some((Bound::Labels, 2000)));
    assert_eq!(count(&job, &name), Some((Bound::Labels, 0)), "names count with values, for an hour");
    // one key is there already
    assert_eq!(count(&job, &|key, version| key.version = version), Some((Bound::Keys, 999)));
    // whose builds are not trusted has as much room as those together have, whatever the token is
    assert_eq!(count(&untrusted, &value), Some((Bound::Labels, 6250)));
    assert_eq!(count(&untrusted, &|key, version| key.version = version), Some((Bound::Keys, 6249)));
    for change in [&value as &dyn Fn(&mut Key, String), &name, &|key, version| key.version = version] {
        assert_eq!(count(&fleet, change), None);
    }
}

#[test]
fn single_project_callers_may_omit_the_project() {
    let of = |projects: &[&str], proven: &str| Identity {
        projects: projects.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().into(),
        proven: ProvenClaims { project: proven.to_owned(), ..ProvenClaims::default() },
        ..Identity::clone(&Identity::anyone())
    };
    // projects of the grant, the proven one, and what a question about one attempt and one about many gets
    let cases = [
        (&["a/b"][..], "", Some("a/b"), Some("a/b")),
        (&["a/*"], "a/b", Some("a/b"), Some("a/b")),
        (&[], "a/b", Some("a/b"), Some("")),
        (&[], "", Some(""), Some("")),
        (&["a/*"], "", None, None),
        (&["a/b", "a/c"], "", None, None),
    ];
    for (projects, proven, one, many) in cases {
        let caller = of(projects, proven);
        let (mut asked, mut filter) = (String::new(), String::new());
        let found =
            (caller.asks(&mut asked).ok().map(|()| asked), caller.filters(&mut filter).ok().map(|()| filter));
        assert_eq!((found.0.as_deref(), found.1.as_deref()), (one, many), "{projects:?} {proven}");
    }
    let refused = of(&["a/b", "a/c"], "").may_see("").unwrap_err().to_string();
    assert!(refused.starts_with("project: is missing; "), "{refused}");
    assert!(refused.ends_with("may see only a/b, a/c, so name one of them"), "{refused}");
}

#[test]
fn refusals_truncate_long_names() {
    let unknown = Identity { name: "n".repeat(6000).into(), ..Identity::clone(&Identity::unknown()) };
    let fault = unknown.may_see(&"ä".repeat(6000)).unwrap_err();
    assert!(fault.to_string().len() < 1000, "{}", fault.to_string().len());
}
