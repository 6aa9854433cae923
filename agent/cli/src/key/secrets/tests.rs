//! What is masked, and what is not.

use super::*;

fn secrets(variables: &[(&str, &str)]) -> Secrets {
    Secrets::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
}

fn text(secrets: &Secrets, log: &[u8]) -> String {
    String::from_utf8(secrets.mask(log, log.len())).unwrap()
}

#[test]
fn a_secret_does_not_leave_with_the_log() {
    let secrets = secrets(&[
        ("CI_JOB_TOKEN", "glcbt-12345678"),
        ("aws_secret_access_key", "glcbt-12345678+more"),
        ("DEPLOY_PRIVATE_KEY", "-----BEGIN KEY-----\nAAAABBBBCCCC\n"),
        ("PATH", "/usr/local/bin"),
        ("SHORT_PASSWORD", "abc"),
    ]);
    let log =
        b"curl https://u:glcbt-12345678@x/ glcbt-12345678+more\nAAAABBBBCCCC /usr/local/bin abc".to_vec();
    let masked = text(&secrets, &log);
    assert_eq!(masked, "curl https://u:[MASKED]@x/ [MASKED]\n[MASKED] /usr/local/bin abc");
    assert_eq!(format!("{secrets:?}"), "Secrets(4)");
}

#[test]
fn no_tail_of_a_cut_secret_remains() {
    let secrets = secrets(&[("A_TOKEN", "0123456789abcdef")]);
    let log = b"before 0123456789abcdef, 0123456789abcdef!";
    for (most, expected) in [(19, ", [MASKED]!"), (23, ", [MASKED]!"), (30, "[MASKED], [MASKED]!")] {
        let masked = secrets.mask(log, most);
        assert!(masked.len() <= most, "{most}");
        let masked = String::from_utf8(masked).unwrap();
        // of the first, so much is behind the cut that the mask has room, or nothing is
        let without = expected.strip_prefix("[MASKED]").unwrap_or(expected);
        assert!(masked == expected || masked == without, "{most}: {masked}");
    }
}

#[test]
fn a_long_secret_file_does_not_displace_tokens() {
    let lines: Vec<String> = (0..40_000).map(|n| format!("line-{n:05}")).collect();
    let file = lines.join("\n");
    let secrets = secrets(&[("A_SSH_KEY", &file), ("CI_JOB_TOKEN", "glcbt-12345678")]);
    assert_eq!(text(&secrets, b"glcbt-12345678 line-00007"), "[MASKED] [MASKED]");
    assert!(secrets.0.iter().map(Vec::len).sum::<usize>() <= ALL_SECRETS_BYTES);
}

#[test]
fn only_secret_variable_names_are_recognized() {
    for name in
        ["GITHUB_PAT", "NPM_AUTH", "ID_RSA_SSH_KEY", "DOCKER_AUTH_CONFIG", "my_private_key", "DB_PASS"]
    {
        assert!(is_secret(name), "{name}");
    }
    for name in ["PATH", "PWD", "SSH_AUTH_SOCK", "XAUTHORITY", "BYPASS_CACHE", "COMPASS", "CI_COMMIT_AUTHOR"]
    {
        assert!(!is_secret(name), "{name}");
    }
}

#[test]
fn schemeless_passwords_before_a_host_are_secrets() {
    let secrets = secrets(&[
        ("DATABASE", "robot:s3cr3t-word@db:5432/app"),
        ("IMAGE", "registry.example/build:release-1@sha256:c3ab8ff13720"),
        ("SPECS", "builtin:py-torch-2@2.1 git@github.com:spack-packages"),
    ]);
    let log = b"robot:s3cr3t-word@db release-1 py-torch-2 spack-packages";
    assert_eq!(text(&secrets, log), "robot:[MASKED]@db release-1 py-torch-2 spack-packages");
}

#[test]
fn passwords_in_urls_and_json_logins_are_secrets() {
    let secrets = secrets(&[
        ("MIRRORS", "https://reader:s3cr3t-word@one/x git+https://ghp_0123456789@two https://three/a@b"),
        ("DOCKER_AUTH_CONFIG", r#"{"auths": {"registry.example": {"auth": "dXNlcjpwYXNz"}}}"#),
    ]);
    let log = b"s3cr3t-word ghp_0123456789 dXNlcjpwYXNz reader registry.example three/a@b";
    assert_eq!(text(&secrets, log), "[MASKED] [MASKED] [MASKED] reader registry.example three/a@b");
}
