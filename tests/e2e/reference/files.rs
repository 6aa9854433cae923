//! The reference of the operator's files, `deploy/docs/files.md`: its tables have the keys that the programs read, its examples use each of
//! them, and its bounds are those of the programs. What a program reads is what its error lists when a table has an unknown key.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use plimsoll_core::{
    domain::{Cause, Key},
    placement::Placement,
    retry::{LogRules, RetryPolicy},
};
use plimsoll_lab::import::prometheus::PrometheusLabels;
use plimsoll_tests::{Programs, Server};
use toml::{Table, Value};

use crate::tools::repository;

/// What the page says of one file.
struct Described {
    /// Keys of each table, by the heading without its brackets; of the file itself by `""`.
    keys: BTreeMap<String, BTreeSet<String>>,
    example: String,
}

fn described(title: &str) -> Described {
    let page = fs::read_to_string(repository().join("deploy/docs/files.md")).unwrap();
    let (_, after) = page.split_once(&format!("\n## {title}\n")).unwrap();
    let (prose, example) = after.split_once("```toml\n").unwrap();
    let (mut keys, mut table) = (BTreeMap::<_, BTreeSet<_>>::new(), String::new());
    for line in prose.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            heading.trim_matches(['[', ']']).clone_into(&mut table);
        } else if let Some(key) = line.strip_prefix("| `").and_then(|row| row.split('`').next()) {
            keys.entry(table.clone()).or_default().insert(key.to_owned());
        }
    }
    Described { keys, example: example.split("```").next().unwrap().to_owned() }
}

/// The tables of a file that are like the one with this heading: `bounds` is one table in each place.
fn tables<'v>(file: &'v mut Value, heading: &str) -> Vec<&'v mut Table> {
    let is_like = |path: &str| match heading.strip_suffix(".NAME") {
        Some(above) => path.rsplit_once('.').is_some_and(|(before, _)| before == above),
        None => path.rsplit('.').next() == heading.rsplit('.').next(),
    };
    let (mut open, mut found) = (vec![(String::new(), file)], Vec::new());
    while let Some((path, value)) = open.pop() {
        let is_found = is_like(&path);
        match value {
            Value::Array(all) => open.extend(all.iter_mut().map(|one| (path.clone(), one))),
            Value::Table(table) => {
                if is_found {
                    found.push(table);
                    continue;
                }
                let below =
                    |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                open.extend(table.iter_mut().map(|(name, inner)| (below(name), inner)));
            }
            _ => {}
        }
    }
    found
}

/// Why a server does not start with this file of access.
fn access_refusal(text: &str) -> String {
    let (dir, file) = plimsoll_support::temporary::file_with("access.toml", text);
    let options = ["--access-file", file.to_str().unwrap()];
    let refused = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options);
    format!("{:#}", refused.unwrap_err())
}

/// Reads the text of a file, and gives the error.
type Refusal = fn(&str) -> String;

#[test]
fn file_tables_list_the_keys_that_are_read() {
    let files: [(&str, Refusal); 5] = [
        ("Access file", access_refusal),
        ("Pools file", |text| Placement::parse(text).unwrap_err()),
        ("Retry policy", |text| RetryPolicy::parse_terms(text).unwrap_err()),
        ("Rules for log lines", |text| {
            LogRules::extended(&[("own.toml".to_owned(), text.to_owned())]).unwrap_err().join("\n")
        }),
        ("Labels of Prometheus", |text| toml::from_str::<PrometheusLabels>(text).unwrap_err().to_string()),
    ];
    for (title, refusal) in files {
        let Described { keys, example } = described(title);
        for (heading, keys) in keys {
            let mut file: Value = toml::from_str(&example).unwrap();
            let mut found = tables(&mut file, &heading);
            let used: BTreeSet<String> = found.iter().flat_map(|table| table.keys().cloned()).collect();
            assert_eq!(used, keys, "the example uses each key: {title}, [{heading}]");
            found[0].insert("not_a_key".to_owned(), Value::Integer(1));
            let why = refusal(&toml::to_string(&file).unwrap());
            let listed = why.lines().find_map(|line| Some(line.split_once("unknown field")?.1));
            let (_, listed) =
                listed.and_then(|line| line.split_once(", expected ")).unwrap_or_else(|| panic!("{why}"));
            let read: BTreeSet<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            assert_eq!(read, keys, "the program reads them: {title}, [{heading}]");
        }
    }
}

#[test]
fn a_server_starts_with_every_reference_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("rules")).unwrap();
    for (title, file) in [
        ("Access file", "access.toml"),
        ("Pools file", "pools.toml"),
        ("Retry policy", "retry.toml"),
        ("Rules for log lines", "rules/own.toml"),
    ] {
        fs::write(path(file), described(title).example).unwrap();
    }
    fs::write(path("powerful.hosts"), "builder-3.example\n").unwrap();
    fs::write(path("resalloc-ca.crt"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    fs::write(
        path("builds-keys.json"),
        r#"{"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]}"#,
    )
    .unwrap();
    let options = [
        ["--access-file", &path("access.toml")],
        ["--pools-file", &path("pools.toml")],
        ["--retry-policy", &path("retry.toml")],
        ["--rules-dir", &path("rules")],
    ];
    let server =
        Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options.concat()).unwrap();
    assert_eq!(server.get("/livez").unwrap().0, 200);
    for (option, file) in options.map(|[option, file]| {
        (option, if file.ends_with("rules") { path("rules/own.toml") } else { file.to_owned() })
    }) {
        let right = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("not_a_key = 1\n{right}")).unwrap();
        let refused = Server::start_with(Programs::for_tests(), &dir.path().join("other"), &options.concat());
        let why = format!("{:#}", refused.unwrap_err());
        // rules are named by their file in the directory
        let named = Path::new(&file).file_name().unwrap().to_str().unwrap();
        assert!(why.contains(named), "{option}: {why}");
        fs::write(&file, right).unwrap();
    }
}

/// Numbers in the comments are those that the reader of the file obeys: the last value that is taken, and the first that is not.
#[test]
fn reference_bounds_and_defaults_match_the_program() {
    let pools = |text: &str| Placement::parse(text).is_ok();
    let retry = |text: &str| RetryPolicy::parse_terms(text).is_ok();
    let rules = |text: &str| LogRules::extended(&[("own.toml".to_owned(), text.to_owned())]).is_ok();
    let many = |table: &str, count: usize| {
        (0..count).map(|n| table.replace("NUMBER", &n.to_string())).collect::<String>()
    };
    let of_pool = |key: &str| format!("[[pool]]\nname = \"a\"\n{key}\n");
    let of_tickets = |key: &str| format!("[tickets]\n{key}\n");
    let (tags, names) = ("tag.tNUMBER = 1\n", "a".repeat(256));
    for (taken, refused) in [
        (many("[[pool]]\nname = \"pNUMBER\"\n", 64), many("[[pool]]\nname = \"pNUMBER\"\n", 65)),
        (
            format!("[[pool]]\nname = \"{}\"\n", "a".repeat(63)),
            format!("[[pool]]\nname = \"{}\"\n", "a".repeat(64)),
        ),
        (of_pool("price_gib_hour = 1e9"), of_pool("price_gib_hour = 1000000001.0")),
        (of_pool("price_core_hour = 0.0"), of_pool("price_core_hour = -0.001")),
        (of_pool("memory = \"1024TiB\""), of_pool("memory = \"1025TiB\"")),
        (of_pool("memory = \"1MiB\""), of_pool("memory = \"1048575\"")),
        (of_pool("cores = 0.001"), of_pool("cores = 0")),
        (of_pool("at_once = 1"), of_pool("at_once = 0")),
        (
            of_pool(&format!("allowed = ['{}']", "a".repeat(4096))),
            of_pool(&format!("allowed = ['{}']", "a".repeat(4097))),
        ),
        (of_tickets("at_once = 1"), of_tickets("at_once = 0")),
        (of_tickets("most_open = 1000000"), of_tickets("most_open = 1000001")),
        (of_tickets("ask_within = \"1s\""), of_tickets("ask_within = \"999ms\"")),
        (of_tickets("start_within = \"24h\""), of_tickets("start_within = \"24h 1s\"")),
        (of_tickets("silent_within = \"10s\""), of_tickets("silent_within = \"9s\"")),
        (of_tickets(&many(tags, 16)), of_tickets(&many(tags, 17))),
        (of_tickets(&format!("owner.{names} = 1")), of_tickets(&format!("owner.a{names} = 1"))),
    ] {
        assert!(pools(&taken), "{:?}", Placement::parse(&taken));
        assert!(!pools(&refused), "{refused}");
    }
    assert!(retry("[[terms]]\nretries = 100\njitter = 1.0\n"));
    assert!(!retry("[[terms]]\nretries = 101\n") && !retry("[[terms]]\njitter = 1.1\n"));
    let rule = "[[rule]]\nid = \"rNUMBER\"\ncause = \"infra\"\npattern = 'aNUMBER'\n";
    assert!(rules(&many(rule, 1000)) && !rules(&many(rule, 1001)));
    let placement = Placement::parse("").unwrap();
    let stated = Placement::parse(&of_tickets(
        "most_open = 100000\nask_within = \"2m\"\nstart_within = \"15m\"\nsilent_within = \"10m\"",
    ));
    assert_eq!(placement.terms(), stated.unwrap().terms());
    let jitter = RetryPolicy::default().terms(&Key::default(), Cause::Infra).jitter;
    assert_eq!(jitter.to_string(), "0.25");
}
