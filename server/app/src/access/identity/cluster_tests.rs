//! The tokens of service accounts that agents beside builds show, as a cluster makes them.

use serde_json::{Value, json};

use super::{
    signer::{Signer, YEAR_2100},
    *,
};

const FILE: &str = r#"
    [[issuer]]
    issuer = "https://kubernetes.default.svc.cluster.local"
    kind = "kubernetes"
    audience = "plimsoll"
    keys_file = "kubernetes-keys.json"

    [[issuer.grant]]
    claims = { "kubernetes.io/namespace" = "ci-builds" }
    roles = ["agent"]
    projects = ["spack/*"]
"#;

/// A projected token of a pod of GitLab's runner.
fn claims() -> Value {
    json!({
        "iss": "https://kubernetes.default.svc.cluster.local", "aud": ["plimsoll"], "exp": YEAR_2100,
        "iat": 1_700_000_000, "nbf": 1_700_000_000, "jti": "0b1f8d6c",
        "sub": "system:serviceaccount:ci-builds:runner",
        "kubernetes.io": {
            "namespace": "ci-builds", "node": {"name": "node-1", "uid": "1"}, "pod": {"name": "runner-1", "uid": "2"},
            "serviceaccount": {"name": "runner", "uid": "3"},
        },
    })
}

#[test]
fn an_agent_is_identified_by_its_service_account() {
    let signer = Signer::new();
    let (read, fetched) = (|_: &_| Ok(signer.key_set()), |_origin| Arc::default());
    let file = AccessFile::parse(FILE).unwrap();
    let access = Access::new(
        file,
        Sources { read: &read, usages: &Usages::default(), moment: Instant::now(), fetched: &fetched },
    )
    .unwrap();
    let identify = |change: fn(&mut Value)| {
        let mut claims = claims();
        change(&mut claims);
        let token = signer.sign(&json!({"alg": "ES256", "kid": "one"}), &claims);
        access.identify(Some(&token), &[], 1_800_000_000, Instant::now())
    };
    let agent = identify(|_claims| ()).unwrap();
    assert!(agent.roles.has(Role::Agent) && !agent.roles.has(Role::Caller) && !agent.trusted);
    let of_cluster = AttemptId::parse("gitlab.example:1").unwrap();
    assert!(agent.may_write(&of_cluster).is_ok(), "of any job of the cluster");
    assert!(agent.sees("spack/packages") && !agent.sees("other") && !agent.sees(""));
    for wrong in [
        |claims: &mut Value| claims["aud"] = json!(["https://kubernetes.default.svc"]),
        |claims: &mut Value| claims["kubernetes.io"]["namespace"] = json!("default"),
        |claims: &mut Value| drop(claims.as_object_mut().unwrap().remove("kubernetes.io")),
        |claims: &mut Value| claims["exp"] = json!(1_700_000_000),
        |claims: &mut Value| claims["iss"] = json!("https://elsewhere"),
    ] {
        assert!(identify(wrong).is_err());
    }
}

#[test]
fn pod_grants_to_write_require_projects() {
    let signer = Signer::new();
    let (read, fetched) = (|_: &_| Ok(signer.key_set()), |_origin| Arc::default());
    let error = |projects: &str, role: &str| {
        let file = FILE.replace("projects = [\"spack/*\"]", projects).replace("agent", role);
        let file = AccessFile::parse(&file).unwrap();
        Access::new(
            file,
            Sources { read: &read, usages: &Usages::default(), moment: Instant::now(), fetched: &fetched },
        )
        .err()
    };
    for role in ["agent", "caller"] {
        assert!(error("", role).unwrap().contains("needs projects"), "{role}");
        assert_eq!(error("projects = [\"*\"]", role), None, "{role}");
    }
    assert_eq!(error("", "reader"), None);
}
