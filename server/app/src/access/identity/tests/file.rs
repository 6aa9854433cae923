//! The file of access: what is in it, what is wrong with it, and what is said of that.

use super::*;

#[test]
fn the_guides_example_access_file_is_valid() {
    let guide = include_str!("../../../../../../deploy/docs/security.md");
    let mut blocks = guide.split("```").filter_map(|block| block.strip_prefix("toml\n"));
    let example = blocks.find(|block| block.starts_with("[[token]]")).unwrap();
    let signer = Signer::new();
    let read = |path: &PathBuf| {
        assert_eq!(path, &PathBuf::from("kubernetes-keys.json"));
        Ok(signer.key_set())
    };
    let sources = Sources {
        read: &read,
        usages: &Usages::default(),
        moment: Instant::now(),
        fetched: &|_origin| Arc::default(),
    };
    // the hash of no token
    let example = example.replace("\"...\"", &format!("{:?}", "0".repeat(64)));
    let access = Access::new(AccessFile::parse(&example).unwrap(), sources).unwrap();
    assert_eq!(format!("{access:?}"), "Access(1 tokens, 2 issuers, 1 certificates)");
    let runner = access.identify(None, &["runner-1.example".to_owned()], 0, Instant::now()).unwrap();
    assert!(runner.roles.has(Role::Agent));
    assert!(runner.bounds.is_some_and(|bounds| bounds.limit_of(Bound::Streams) == 100));
}

#[test]
fn an_invalid_file_is_rejected_with_all_errors() {
    let signer = Signer::new();
    let error = |file: &str| access(file, &signer).err().unwrap();
    assert!(error("[[token]]\nname = \"x\"\n").contains("line 1"));
    assert!(error("[[tokens]]\n").contains("line 1: unknown field, expected one of `anonymous`, `token`"));
    let twice =
        FILE.replace("2bb8", "zzzz") + "[[certificate]]\ndns_name = \"runner-1.example.com\"\nroles = []\n";
    let both = error(&twice);
    assert!(both.contains("[[token]] 1: sha256"), "{both}");
    assert!(both.contains("[[certificate]] 2: is there twice"), "{both}");
    let shared = FILE.replace("audience = ", "algorithms = [\"HS256\"]\n    audience = ");
    assert!(error(&shared).contains("algorithms must be some of"));
    let read =
        |_path: &PathBuf| Ok(json!({"keys": [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}]}).to_string());
    let sources = Sources {
        read: &read,
        usages: &Usages::default(),
        moment: Instant::now(),
        fetched: &|_origin| Arc::default(),
    };
    let secret = Access::new(AccessFile::parse(FILE).unwrap(), sources);
    assert!(secret.err().unwrap().contains("secret key \"s\""));
}

#[test]
fn secrets_in_name_fields_are_not_shown() {
    let signer = Signer::new();
    let table = |name: &str, sha256: &str| {
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\nroles = []\n")
    };
    let issuer = |issuer: &str, rest: &str| {
        format!(
            "[[issuer]]\nissuer = \"{issuer}\"\nkind = \"gitlab\"\naudience = \"x\"\n{rest}\n\
             [[issuer.grant]]\nroles = []\n"
        )
    };
    let certificate = "[[certificate]]\ndns_name = \"s3cr3t\"\nroles = []\n".repeat(2);
    let hash = hash("s3cr3t");
    let cases = [
        (table("s3cr3t", "s3cr3t"), "[[token]] 1: sha256 must be 64 hexadecimal digits"),
        (table("x", &hash) + &table("s3cr3t", "x"), "[[token]] 2: sha256 must be"),
        (table("s3cr3t", &hash), "[[token]] 1: name is the token itself"),
        (table("x", &hash) + &table("y", &hash), "[[token]] 2: sha256 is that of another one"),
        (certificate, "[[certificate]] 2: is there twice"),
        (table("s3cr3t", &super::hash("")), "[[token]] 1: sha256 is that of an empty token"),
        (issuer("s3cr3t", ""), "[[issuer]] 1: its keys cannot be fetched: must be an address"),
        (issuer("x", "keys_url = \"s3cr3t\""), "[[issuer]] 1: keys_url: must be an address"),
    ];
    for (text, message) in cases {
        let wrong = access(&text, &signer).err().unwrap();
        assert!(wrong.contains(message) && !wrong.contains("s3cr3t"), "{text}: {wrong}");
    }
}

#[test]
fn unmatchable_patterns_are_refused_by_field() {
    let signer = Signer::new();
    let token = |projects: &str| {
        let sum = "0".repeat(64);
        format!("[[token]]\nname = \"x\"\nsha256 = \"{sum}\"\nroles = []\nprojects = [{projects}]\n")
    };
    let grant = |line: &str| {
        format!(
            "[[issuer]]\nissuer = \"https://x.example\"\nkind = \"gitlab\"\naudience = \"x\"\n\
             [[issuer.grant]]\nroles = []\n[[issuer.grant]]\nroles = [\"agent\"]\n{line}\n"
        )
    };
    let certificate = "[[certificate]]\ndns_name = \"x\"\nroles = []\nprojects = [\"*/s3cr3t\"]\n";
    for (text, field) in [
        (token("\"a/*\", \"s3cr3t/*/*\""), "[[token]] 1: projects 2 can never match"),
        (grant("claims = { project_path = \"*/*\" }"), "[[issuer]] 1: grant 2: claims 1 can never match"),
        (grant("projects = [\"*s3cr3t\"]"), "[[issuer]] 1: grant 2: projects 1 can never match"),
        (certificate.to_owned(), "[[certificate]] 1: projects 1 can never match"),
    ] {
        let wrong = access(&text, &signer).err().unwrap();
        assert!(wrong.contains(field) && !wrong.contains("s3cr3t"), "{text}: {wrong}");
    }
    assert!(access(&token("\"a/*\", \"*\", \"b\""), &signer).is_ok());
    assert!(access(&grant("claims = { ref = \"release/*\", ref_protected = \"true\" }"), &signer).is_ok());
}

#[test]
fn anonymous_callers_need_a_grant_and_are_untrusted() {
    let signer = Signer::new();
    let open = access("[anonymous]\nroles = [\"caller\"]\n", &signer).unwrap();
    let anyone = open.identify(None, &[], 0, Instant::now()).unwrap();
    assert!(anyone.roles.has(Role::Caller) && !anyone.roles.has(Role::Agent) && !anyone.trusted);
    assert!(!format!("{open:?}{anyone:?}").contains("secret"));
}

#[test]
fn misplaced_tokens_are_not_repeated_in_errors() {
    for line in [
        "token = \"plain-secret\"",
        "sha256 = \"a\"\nroles = \"plain-secret\"",
        "sha256 = \"plain-secret",
        "roles = [\"plain-secret\"]",
    ] {
        let wrong = AccessFile::parse(&format!("[[token]]\nname = \"x\"\n{line}\n")).unwrap_err();
        assert!(!wrong.contains("plain-secret") && wrong.starts_with("line "), "{wrong}");
    }
}

#[test]
fn the_deployed_access_file_grants_least_privilege() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/kubernetes/components/access/access.toml");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(AccessFile::parse(&text).is_ok());
    // with keys that are here
    let fetched = ["keys_url", "ca_file", "bearer_file"];
    let lines = text.lines().filter(|line| !fetched.iter().any(|name| line.starts_with(name)));
    let kept: Vec<&str> = lines.collect();
    let local = kept.join("\n").replace(
        "issuer = \"https://kubernetes.default.svc.cluster.local\"",
        "issuer = \"https://gitlab.example.com\"\nkeys_file = \"keys.json\"",
    );
    let signer = Signer::new();
    let access = access(&local, &signer).unwrap();
    let roles = |namespace: &str, account: &str| {
        let token = signer.token(|claims| {
            claims["sub"] = json!(format!("system:serviceaccount:{namespace}:{account}"));
            claims["kubernetes.io"] = json!({"namespace": namespace, "serviceaccount": {"name": account}});
        });
        let known = access.identify(Some(&token), &[], 0, Instant::now()).ok()?;
        assert!(!known.trusted, "{account}");
        let all = [Role::Agent, Role::Caller, Role::Reader, Role::Hook, Role::Operator];
        Some(all.map(|role| known.roles.has(role)))
    };
    let (ci, reader) = ([true, true, false, false, false], [false, false, true, false, false]);
    assert_eq!(roles("ci-builds", "default"), Some(ci));
    assert_eq!(roles("ci-builds", "plimsoll-operator"), Some(ci), "whatever a job's account is called");
    assert_eq!(roles("plimsoll", "plimsoll-reader"), Some(reader));
    assert_eq!(roles("plimsoll", "plimsoll-operator"), Some([false, false, true, false, true]));
    assert_eq!((roles("plimsoll", "default"), roles("other", "plimsoll-operator")), (None, None));
    assert_eq!(access.identify(None, &[], 0, Instant::now()), Err(Denied::Unidentified));
}

#[test]
fn grants_wider_than_written_are_refused() {
    let signer = Signer::new();
    let none = "projects = []\n";
    let token = format!("[[token]]\nname = \"x\"\nsha256 = {:?}\nroles = []\n{none}", "0".repeat(64));
    let certificate = format!("[[certificate]]\ndns_name = \"x\"\nroles = []\n{none}");
    let issuer = |issuer: &str, rest: &str| {
        format!(
            "[[issuer]]\nissuer = \"{issuer}\"\nkind = \"gitlab\"\naudience = \"x\"\nkeys_file = \"keys.json\"\n\
             [[issuer.grant]]\nroles = []\n{rest}"
        )
    };
    let gitlab = issuer("https://gitlab.example", "");
    for (text, message) in [
        (token, "[[token]] 1: projects is empty"),
        (certificate, "[[certificate]] 1: projects is empty"),
        (issuer("https://gitlab.example", none), "[[issuer]] 1: projects is empty"),
        (
            gitlab.clone() + &issuer("https://GitLab.example:8443/sub", ""),
            "[[issuer]] 2: is on the same host",
        ),
    ] {
        let wrong = access(&text, &signer).err().unwrap();
        assert!(wrong.contains(message), "{text}: {wrong}");
    }
    let kubernetes = issuer("https://gitlab.example:6443", "projects = [\"a/*\"]\n")
        .replace("gitlab\"\n", "kubernetes\"\n");
    for other in [issuer("https://gitlab.example.org", ""), kubernetes] {
        assert_eq!(access(&(gitlab.clone() + &other), &signer).err(), None, "{other}");
    }
}

#[test]
fn an_empty_token_is_none() {
    for header in ["Bearer", "Bearer ", "bearer   ", "Basic Og==", "Basic YW55Og=="] {
        assert_eq!(bearer(header), Err(Denied::NotAccepted("is empty")), "{header}");
    }
}
