//! Tokens of GitHub Actions, which are of a run.

use super::*;

const GITHUB: &str = r#"
    [[issuer]]
    issuer = "https://token.actions.githubusercontent.com"
    kind = "github"
    audience = "plimsoll"
    keys_file = "keys.json"

    [[issuer.grant]]
    claims = { repository_owner = "acme" }
    roles = ["agent", "caller"]
    trusted = true

    [[issuer.grant]]
    claims = { repository = "*" }
    roles = ["agent"]
"#;

/// Who a job of GitHub is, with these claims over those of a push.
fn github(claims: &Value) -> Result<Arc<Identity>, Denied> {
    github_in(GITHUB, claims)
}

/// The same with this access file.
fn github_in(file: &str, claims: &Value) -> Result<Arc<Identity>, Denied> {
    let signer = Signer::new();
    let token = signer.token(|all| {
        *all = json!({
            "iss": "https://token.actions.githubusercontent.com", "aud": "plimsoll", "exp": YEAR_2100, "actor": "eve",
            "repository": "acme/app", "repository_owner": "acme", "run_id": "12", "run_attempt": "2", "sha": "c0ffee",
            "ref": "refs/heads/main", "head_ref": "", "event_name": "push", "check_run_id": "77",
        });
        all.as_object_mut().unwrap().extend(claims.as_object().cloned().unwrap_or_default());
    });
    access(file, &signer).unwrap().identify(Some(&token), &[], 0, Instant::now())
}

#[test]
fn a_github_token_writes_jobs_of_its_run() {
    let identity = github(&json!({})).unwrap();
    assert!(identity.trusted && !identity.is_of_job);
    assert_eq!(&*identity.name, "github:acme/app:12.2/77");
    for own in
        ["github:acme/app:12.2/build", "github:acme/app:12.2/build-gcc-1f2e.2/3", "github:acme/app:12.2/_3"]
    {
        let mut opened = attempt(own);
        opened.key.labels =
            [("commit", "f00"), ("pipeline", "1")].map(|(name, value)| (name.into(), value.into())).into();
        identity.opens(&mut opened).unwrap_or_else(|error| panic!("{own}: {error:?}"));
        let key = &opened.key;
        assert_eq!((&*key.project, &*key.git_ref, &*key.owner), ("acme/app", "main", "eve"), "{own}");
        assert_eq!((&*key.labels["commit"], &*key.labels["pipeline"]), ("c0ffee", "12"), "{own}");
        assert!(opened.opening.proven && !opened.opening.untrusted, "{own}");
    }
    for other in [
        "github:acme/app:12.1/build",
        "github:acme/app:12.20/build",
        "github:acme/app:12.2",
        "github:acme/other:12.2/build",
        "github:git.example/acme/app:12.2/build",
        "gitlab.example.com:4711",
    ] {
        assert_eq!(identity.opens(&mut attempt(other)).unwrap_err().field, "attempt", "{other}");
    }
}

#[test]
fn a_github_event_decides_ref_and_trust() {
    for (event, head, full, trusted, git_ref) in [
        ("push", "", "refs/tags/v1", true, "v1"),
        ("pull_request", "fix", "refs/pull/7/merge", false, "fix"),
        ("merge_group", "", "refs/pull/7/merge", true, "7/merge"),
        ("schedule", "", "refs/heads/main", true, "main"),
        ("workflow_run", "", "refs/heads/main", false, "main"),
        ("issue_comment", "", "refs/heads/main", false, "main"),
        ("", "", "refs/heads/main", false, "main"),
        ("pull_request_target", "evil", "refs/heads/main", false, "evil"),
        ("pull_request_review", "evil", "refs/pull/7/merge", false, "evil"),
    ] {
        let identity = github(&json!({"event_name": event, "head_ref": head, "ref": full})).unwrap();
        assert_eq!((identity.trusted, &*identity.proven.git_ref), (trusted, git_ref), "{event}");
    }
    let fork = github(&json!({"repository": "eve/app", "repository_owner": "eve"})).unwrap();
    assert!(!fork.trusted && fork.opens(&mut attempt("github:acme/app:12.2/build")).is_err());
    for missing in ["repository", "run_id", "run_attempt"] {
        assert!(matches!(github(&json!({ missing: "" })), Err(Denied::NotAccepted(_))), "{missing}");
    }
}

#[test]
fn a_pull_request_is_trusted_by_name_alone() {
    let owner = "repository_owner = \"acme\"";
    for (event, is_trusted) in
        [("pull_request", true), ("pull_request_target", false), ("issue_comment", false)]
    {
        let file = GITHUB.replace(owner, &format!("{owner}, event_name = \"{event}\""));
        let identity = github_in(&file, &json!({"event_name": event})).unwrap();
        assert_eq!(identity.trusted, is_trusted, "{event}");
        let file = GITHUB.replace(owner, &format!("{owner}, event_name = \"pull_*\""));
        assert!(!github_in(&file, &json!({"event_name": event})).unwrap().trusted, "{event}");
    }
}

#[test]
fn a_github_grant_names_an_owner() {
    let refusal = |claims: &str| {
        let file = GITHUB.replace("claims = { repository = \"*\" }", claims);
        access(&file, &Signer::new()).map(drop)
    };
    for wrong in ["", "claims = { event_name = \"push\" }", "claims = { actor = \"eve\" }"] {
        assert!(refusal(wrong).unwrap_err().contains("must say whose jobs it is for"), "{wrong}");
    }
    assert_eq!(refusal("claims = { repository_owner_id = \"9919\" }"), Ok(()));
}

#[test]
fn forges_of_one_kind_share_no_host() {
    let with = |issuer: &str| {
        let table = GITHUB.replace("https://token.actions.githubusercontent.com", issuer);
        let first = GITHUB.replace("token.actions.githubusercontent.com", "git.example/_services/token");
        access(&format!("{first}{table}"), &Signer::new()).map(drop)
    };
    let refused = with("https://git.example/api/actions").unwrap_err();
    assert!(refused.contains("same host as another one of its kind"));
    assert_eq!(with("https://other.example/api/actions"), Ok(()));
    let cloud = GITHUB.replace("githubusercontent.com\"", "githubusercontent.com/acme\"");
    assert_eq!(access(&format!("{GITHUB}{cloud}"), &Signer::new()).map(drop), Ok(()));
}
