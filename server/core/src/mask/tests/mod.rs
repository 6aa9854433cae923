//! No planted secret survives, in whatever place, and what is no secret stays.

#![expect(clippy::string_slice, reason = "the planted logs are ASCII, and a panic is a failed test")]

mod made_up;
mod published;

use made_up::{Letters, Planted};
use proptest::prelude::*;

use super::*;
use crate::domain::{AttemptId, Bytes, Millis};

#[test]
fn the_patterns_are_ones() {
    assert!(shapes::patterns_compile() && named::patterns_compile());
    assert!(INVISIBLE.is_some());
}

/// Private keys, which the code knows.
const KEYS: [&str; 3] = [
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE{b60}\n{b64}\n{b40}==\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n  >> 12    {b70}\n  >> 13    {b70}\n-----END OPENSSH PRIVATE KEY-----",
    "\"-----BEGIN PRIVATE KEY-----\\n{A64}\\n{A40}\\n-----END PRIVATE KEY-----\\n\"",
];

/// Templates of which every text is hidden, and those of them of which a text without its end is, too.
static TEMPLATES: LazyLock<[Vec<String>; 2]> = LazyLock::new(|| {
    let file = published::file();
    let sure = || file.pattern.iter().filter(|pattern| !pattern.random && !pattern.both_cases);
    let with = |hides: Vec<&String>| {
        let hides = hides.into_iter().chain(&file.named.hides).cloned();
        hides.chain(KEYS.map(ToOwned::to_owned)).collect()
    };
    let cut = sure().filter(|pattern| pattern.cut).flat_map(|pattern| &pattern.hides).collect();
    [with(sure().flat_map(|pattern| &pattern.hides).collect()), with(cut)]
});

/// Whether eight letters in a row of the secret are in the text.
fn leaks(letters: &str, masked: &str) -> bool {
    Planted { text: String::new(), secrets: vec![letters.to_owned()] }.leaks(masked, 8)
}

#[test]
fn every_secret_shape_is_masked_in_place() {
    for template in &TEMPLATES[0] {
        let planted = Letters::new(7).fill(template);
        let log = format!("make: Entering directory\n{}\nx.c:1:2: error: no\n", planted.text);
        let masked = text(&log);
        assert!(!planted.leaks(&masked, 8) && masked.contains(MASK), "{masked}");
        assert!(masked.starts_with("make: Entering directory\n"), "{masked}");
        assert!(masked.ends_with("x.c:1:2: error: no\n"), "{masked}");
        assert_eq!(text(&masked), masked, "a second look finds nothing");
    }
}

#[test]
fn secrets_in_unusual_places_are_masked_too() {
    for line in [
        r#"{"log":"{\"password\":\"hunter2-more\"}"}"#,
        "DB_PASSWORD=$ecr-hunter2-more",
        "DB_PASSWORD=%-hunter2-more",
        "DB_PASSWORD=*hunter2-more",
        "SECRET_ID=6a174c20-f6de-a53c-74d2-6018fcceff64",
        "git clone https://bob:pa/ss?hunter2-more@gitlab.example/a",
        "git clone https://6a174c20f6dea@gitlab.example/a",
        "PASS\u{1b}(BWORD=hunter2-more",
        "curl -s -urobot:hunter2-more https://x.example",
        r"PASSWORD=one\ hunter2-more",
        "<password>hunter2-more</password>",
        "env[PASSWORD]=hunter2-more",
        "password%3Dhunter2-more",
        "sshpass -p hunter2-more ssh x",
        "PASS\u{200b}WORD=hunter2-more",
        "password=(hunter2)",
        "password={hunter2}",
        "password=<hunter2>;",
        "DB_PASSWORD='[hunter2]'",
        "password=(\"hunter2\")",
        "password==hunter2",
        "if password == \"hunter2\":",
        "curl --password (hunter2) x",
        "password=$hunter2more",
        "the password is hunter2-more",
        "Password for root is: hunter2-more",
        "passwort: hunter2-more",
        "Das Kennwort für root ist hunter2-more",
        "mot de passe : hunter2-more",
        "password for admin: 'hunter2-more'",
    ] {
        let masked = text(line);
        let leaks = ["hunter2", "6018fcceff64", "6a174c20f6dea"].iter().any(|secret| masked.contains(secret));
        assert!(!leaks && masked.contains(MASK), "{masked}");
    }
    for line in [
        "npm install http://registry.example:4873/@scope/name",
        "PASSWORD=$PASSWORD TOKEN=${TOKEN} SECRET=%SECRET% API_KEY=*** password=%s",
        "std::vector<token> items; x[token] = next",
        "password = $(cat file7) token=${TOKEN_2} secret=$K8S_TOKEN token=$token2 secret=$db2_secret",
        "if (password == null) { token == Token_Identifier; secret==nullptr }",
        "token = (const char *) malloc(7); token=(uint8_t)buf2; secret=[i for i in range2(7)]",
        "password={{ vault.password }} password={password} token=<your-token> secret=<SECRET>",
        "\"credentials\": {\"user1\":\"me7\"}, token = {}",
        "Collecting SecretStorage==3.3.1 tokenizers==0.20.0rc1",
        "error: unexpected token: (expr2_stmt)",
    ] {
        assert_eq!(text(line), line);
    }
}

#[test]
fn what_is_no_secret_stays() {
    for line in [
        "x.c:10:5: error: expected ';' before 'token'",
        "error: unexpected token: identifier",
        "SyntaxError: Unexpected token < in JSON at position 0",
        "ERROR: Job failed: exit code 1",
        "E: password: incorrect",
        "the password is incorrect; the passphrase is required, and this token is identifier2",
        "remote: HTTP Basic: Access denied. If a password was provided for Git authentication, the password was incorrect",
        "fatal: Authentication failed for 'https://gitlab.example/a/b.git/'",
        "fatal: could not read Password for 'https://robot@gitlab.example'",
        "git clone ssh://git@github.com/spack/spack.git",
        "export CI_JOB_TOKEN=$CI_JOB_TOKEN",
        "-DUSE_TOKEN=ON -DTOKEN_LENGTH=128 -DSECRET_FILE=/run/secrets/x",
        "==> Installing zlib-1.3-k5jcm7xq3tqo2fm4gwk2b7lylfqw4ppi",
        "sha256sum 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "g++: fatal error: Killed signal terminated program cc1plus",
        "java.lang.OutOfMemoryError: Java heap space",
        "/usr/bin/ld: final link failed: No space left on device",
        "-----BEGIN CERTIFICATE-----",
        "expected -----BEGIN PRIVATE KEY----- in key.pem",
        "make[2]: *** [CMakeFiles/token.dir/build.make:76: token.o] Error 1",
        "use --token TOKEN, see below",
    ] {
        let kept =
            line.replace("-----BEGIN PRIVATE KEY-----", MASK).replace("--token TOKEN,", "--token [MASKED]");
        assert_eq!(text(&format!("{line}\nnext line\nand one\n")), format!("{kept}\nnext line\nand one\n"));
    }
}

#[test]
fn masking_takes_linear_time() {
    for piece in [
        "token=",
        "token: ",
        "password=\"",
        "password=\\\"",
        "--token ",
        "secret==",
        "pass=(",
        "pass pass ",
        "token=hunter2more ",
        "_pwd='",
        "api-key-api-key=",
        "password=é",
    ] {
        let work = |times: usize| named::mask_and_count(&piece.repeat(times), named::SecretValues::All).1;
        let (once, more) = (work(1_000), work(8_000));
        assert!(more <= 9 * once + 9_000, "{piece:?}: {once} bytes, and of eight times as much {more}");
    }
}

#[test]
fn option_secrets_are_masked_at_any_byte_offset() {
    for letters in 55..66 {
        let masked = text(&format!("é{} --token hunter2-and-more", "a".repeat(letters))).into_owned();
        assert!(!masked.contains("hunter2"), "{letters}: {masked}");
    }
}

#[test]
fn secrets_behind_colour_codes_are_masked() {
    let letters = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9n";
    for begin in ["hf_", "hvs.", "sk-", "sk_live_", "eyJhbGci", "bearer ", "auth=", "Cookie: a="] {
        let log = format!("\u{1b}[1mghp_{letters}\u{1b}[0m\nword\u{1b}[0m\u{1b}[32m{begin}{letters}\n");
        let masked = text(&log);
        assert!(!leaks(letters, &masked), "{masked}");
        // and in two parts
        let (one, two) = letters.split_at(7);
        let log = format!("ghp_{letters}\nword\u{1b}[32m{begin}{one}\u{1b}[0m{two}\n");
        assert!(!leaks(letters, &text(&log)), "{}", text(&log));
    }
}

#[test]
fn several_private_keys_are_each_masked_separately() {
    let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
    let key = format!("{begin}\n{}\n{end}", "aB3dE6gH".repeat(6));
    assert_eq!(text(&format!("{key}\none\n{key}\ntwo\n{key}\n")), "[MASKED]\none\n[MASKED]\ntwo\n[MASKED]\n");
    // of the second one only the end is there
    let rest = format!("{}\n{end}", "hG6eD3bA".repeat(6));
    let log = format!("{key}\none\n{rest}\ntwo\n{key}\n");
    assert_eq!(text(&log), "[MASKED]\none\n[MASKED]\ntwo\n[MASKED]\n");
    // marks alone, before an end that is too far
    let words = "one two\n".repeat(4000);
    let masked = text(&format!("{}{words}{key}\nlast", format!("{begin} a: b\n").repeat(3))).into_owned();
    assert_eq!(masked, format!("{}{words}[MASKED]\nlast", "[MASKED] a: b\n".repeat(3)));
}

#[test]
fn all_reported_fields_of_an_attempt_are_masked() {
    let token = "glpat-aB3dE6gH9jK2mN5pQ8sT";
    let secret_text = || format!("is {token}");
    let labels =
        [("a".to_owned(), secret_text()), ("deploy_token".to_owned(), "aB3dE6gH9jK2mN5pQ8sT".to_owned())];
    let key = Key { package: secret_text(), git_ref: secret_text(), labels: labels.into(), ..Key::default() };
    let listed = vec![ListedRun {
        name: secret_text(),
        status: secret_text(),
        failure_reason: secret_text(),
        ..ListedRun::default()
    }];
    let masked = evidence(Evidence {
        key,
        listed,
        log_tail: secret_text(),
        failure_reason: secret_text(),
        container_reason: secret_text(),
        pod_reason: secret_text(),
        ..Evidence::about(AttemptId::parse("a").unwrap())
    });
    let shown = format!("{masked:?}");
    assert!(!shown.contains("aB3dE6gH"), "{shown}");
    assert_eq!(shown.matches(MASK).count(), 11, "{shown}");
    let mut named = vec![Phase { name: secret_text(), ..Phase::default() }];
    phases(&mut named);
    assert_eq!(named[0].name, "is [MASKED]");
    let mut process =
        LargestProcess { program: secret_text(), file: secret_text(), memory: Bytes(1), elapsed: Millis(1) };
    let mut rescue = Rescue { gave_up: secret_text(), ..Rescue::default() };
    processes(Some(&mut process), Some(&mut rescue));
    assert_eq!([process.program, process.file, rescue.gave_up], ["is [MASKED]"; 3]);
}

#[test]
fn only_secret_texts_in_json_are_masked() {
    let mut hook = serde_json::json!({
        "build_id": 7,
        "ref": "main",
        "build_name": "curl@8.15.0 /abcdefg",
        "project": {"web_url": "https://robot:s3cret-word@gitlab.example/x", "tags": ["glpat-aB3dE6gH9jK2mN5pQ8sT", null]},
    });
    json(&mut hook);
    let expected = serde_json::json!({
        "build_id": 7,
        "ref": "main",
        "build_name": "curl@8.15.0 /abcdefg",
        "project": {"web_url": "https://robot:[MASKED]@gitlab.example/x", "tags": ["[MASKED]", null]},
    });
    assert_eq!(hook, expected);
}

#[test]
fn identifying_key_fields_are_not_masked() {
    let labels = [("token_kind".to_owned(), "job".to_owned()), ("secret".to_owned(), "vault".to_owned())];
    let one = Key {
        package: "py-token".into(),
        variants: "+shared auth=munge secret=vault password=plain".into(),
        git_ref: "feature/token-2fa".into(),
        labels: labels.into(),
        ..Key::default()
    };
    let mut masked = one.clone();
    key(&mut masked);
    assert_eq!(masked, one);
}

#[test]
fn a_truncated_first_line_is_dropped() {
    let rest = "ok\n".repeat(30_000);
    let log = format!("rd-part-without-any-shape hunter\n{rest}");
    assert_eq!(log_tail(&log), rest);
    assert_eq!(log_tail("dE6gH9jK2mN5 more\nline"), "[MASKED] more\nline");
    assert_eq!(log_tail("cc1plus: error\n"), "cc1plus: error\n");
    let one = "x".repeat(40_000);
    assert_eq!(log_tail(&one).len(), 40_000 - (4 << 10), "a line without an end loses its first 4 KiB");
}

#[test]
fn named_secrets_in_key_fields_are_masked() {
    let secret_text = || "password=hunter2-and-more".to_owned();
    let labels = [("owner".to_owned(), secret_text()), ("db-password".to_owned(), "onlyletters".to_owned())];
    let mut one = Key {
        project: secret_text(),
        stack: secret_text(),
        package: secret_text(),
        version: "token: hunter2-and-more".into(),
        variants: "+shared api_key=hunter2-and-more auth=munge".into(),
        compiler: secret_text(),
        compiler_version: secret_text(),
        arch: secret_text(),
        build_system: secret_text(),
        git_ref: secret_text(),
        owner: secret_text(),
        labels: labels.into(),
        ..Key::default()
    };
    key(&mut one);
    let shown = format!("{one:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("onlyletters"), "{shown}");
    assert_eq!(one.variants, "+shared api_key=[MASKED] auth=munge");
    assert_eq!(one.version, "token: [MASKED]");
}

proptest! {
    #[test]
    fn no_planted_secret_survives(
        shape in 0..TEMPLATES[0].len(),
        seed in 1_u64..u64::MAX,
        before in "[ a-z\n]{0,60}[\n ]",
        behind in "[\n ][ a-z\n]{0,60}",
        ansi in 0_usize..300,
    ) {
        let planted = Letters::new(seed).fill(&TEMPLATES[0][shape]);
        let log = format!("{before}{}{behind}", planted.text);
        prop_assert!(!planted.leaks(&text(&log), 8), "{}", text(&log));
        // colours in it
        let secret = &planted.secrets[ansi % planted.secrets.len()];
        let colour = before.len() + planted.text.find(secret.as_str()).unwrap() + ansi % secret.len();
        let coloured = format!("{}\u{1b}[0m{}", &log[..colour], &log[colour..]);
        prop_assert!(!planted.leaks(&text(&coloured), 8), "{}", text(&coloured));
    }

    #[test]
    fn masking_never_panics_on_any_log(log in "(\\PC|\n|\u{1b}|token=|: |-----BEGIN |-----END |PRIVATE KEY-----|eyJ|://|@|\"){0,60}") {
        let once = text(&log).into_owned();
        prop_assert!(once.len() <= 4 * log.len() + 64);
        let _tail = log_tail(&log);
    }
}

proptest! {
    // each reads much text
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn no_part_of_a_truncated_secret_survives(
        shape in 0..TEMPLATES[1].len(),
        seed in 1_u64..u64::MAX,
        before in "[ a-z\n]{0,60}[\n ]",
        cut in 0_usize..300,
    ) {
        let planted = Letters::new(seed).fill(&TEMPLATES[1][shape]);
        let log = format!("{before}{}\n", planted.text);
        let secret = &planted.secrets[cut % planted.secrets.len()];
        let cut = before.len() + planted.text.find(secret.as_str()).unwrap() + cut % secret.len();
        let filler = "cc -c x.c\n".repeat(3600);
        let tail = log_tail(&format!("{}{filler}", &log[cut..]));
        prop_assert!(!planted.leaks(&tail, 8), "{}", &tail[..400]);
        // the other part, at the end of an earlier piece; what is too short for its shape is no secret
        let head = log_tail(&format!("{filler}{}", &log[..cut]));
        let kept = &head[head.len() - 60..];
        let long = Planted { secrets: planted.secrets.iter().filter(|secret| secret.len() >= 20).cloned().collect(), ..planted };
        prop_assert!(!long.leaks(kept, 20), "{kept}");
    }
}
