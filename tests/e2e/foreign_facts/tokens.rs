//! Callers who may not speak of the attempt that is attacked: each kind of token that is good for something else, or for nothing.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use plimsoll_tests::unix_now;
use serde_json::json;

use super::{site::Site, twins::Job};

/// Who speaks of whom: a caller without or with a token of this kind, of an attempt of `b/N`.
pub(super) const KINDS: [&str; 16] = [
    "no token",
    "a made-up token",
    "the job's token, expired",
    "the job's token, its signature forged",
    "the job's token, unsigned",
    "the job's token for another audience",
    "the job's token of another issuer",
    "a viewer of the same project",
    "a viewer of another project",
    "the hook of another project",
    "an agent of another project",
    "a caller of another project",
    "all roles for another project",
    "a job of another project",
    "a pull request's job of the same project",
    "a fork's job",
];

/// The grants of jobs: those of protected refs are learned from.
pub(crate) const GRANTS: &str = r#"
    kind = "gitlab"
    audience = "plimsoll"

    [[issuer.grant]]
    claims = { ref_protected = "true" }
    roles = ["agent", "caller", "reader"]
    trusted = true

    [[issuer.grant]]
    roles = ["agent", "caller", "reader"]
"#;

/// The number of the job of a caller of this kind.
pub(super) fn own_number(kind: &str, number: u64) -> u64 {
    let first = match kind {
        "a pull request's job of the same project" => 600_000,
        "a fork's job" => 700_000,
        _ => 500_000,
    };
    first + number
}

pub(super) fn token(site: &Site, kind: &str, victim: &Job, number: u64) -> String {
    let project = victim.project.as_str();
    let (issuer, own) = (site.issuer(), own_number(kind, number));
    let of_victim = |claims: serde_json::Value| {
        let mut all = json!({"project_path": project});
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        issuer.token(victim.number, all)
    };
    match kind {
        "no token" => String::new(),
        "a made-up token" => "b-every-".to_owned(),
        "the job's token, expired" => of_victim(json!({"exp": unix_now() - 3600})),
        "the job's token, its signature forged" => {
            let (good, other) = (of_victim(json!({})), of_victim(json!({"ref": "other"})));
            let (message, _) = good.rsplit_once('.').unwrap();
            format!("{message}.{}", other.rsplit_once('.').unwrap().1)
        }
        "the job's token, unsigned" => {
            let good = of_victim(json!({}));
            let claims = good.split('.').nth(1).unwrap();
            format!("{}.{claims}.", BASE64.encode(json!({"alg": "none", "kid": "one"}).to_string()))
        }
        "the job's token for another audience" => of_victim(json!({"aud": "another"})),
        "the job's token of another issuer" => of_victim(json!({"iss": "http://127.0.0.1:1"})),
        "a viewer of the same project" => "b-reader".to_owned(),
        "a viewer of another project" => "a-reader".to_owned(),
        "the hook of another project" => "a-hook".to_owned(),
        "an agent of another project" => "a-agent".to_owned(),
        "a caller of another project" => "a-caller".to_owned(),
        "all roles for another project" => "a-every".to_owned(),
        "a job of another project" => issuer.token(own, json!({"project_path": "a/one"})),
        "a pull request's job of the same project" => {
            let claims = json!({"project_path": project, "ref_protected": "false", "ref": "topic"});
            issuer.token(own, claims)
        }
        "a fork's job" => issuer.token(own, json!({"project_path": "evil/fork", "ref_protected": "false"})),
        other => unreachable!("no token of the kind {other:?}"),
    }
}
