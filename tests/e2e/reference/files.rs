//! The reference of the operator's files, `deploy/docs/files.md`: written from the structs that they are read into. Each has a complete
//! example, which the program reads here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use plimsoll_core::{
    domain::{Cause, Key},
    placement::Placement,
    retry::{LogRules, RetryPolicy},
};
use plimsoll_tests::{Programs, Server};

use super::structs::{Field, read_structs};

const HEAD: &str = "# Files of the server

Settings stand on a [page of their own](settings.md). They name these files. All are TOML, of at most 1 MiB each. The server reads them again when
they change. A file with a mistake is named in the log, and the one before it stays in force; at the start a mistake ends the program.
A key that is not listed here is a mistake.

How values are written: sizes as `64GiB`, times as `90s`, `10m` or `2h`, cores as `2`, `0.5` or `\"500m\"`. An expression is a regular expression.
";

/// A file: its heading, what is said of it, the struct that it is read into, the files that declare it, and its example.
struct Described {
    title: &'static str,
    about: &'static str,
    root: &'static str,
    declared_in: &'static [&'static str],
    example: &'static str,
}

const FILES: [Described; 5] = [
    Described {
        title: "Access file",
        about: "The setting `access_file` names it. It says who may call what: [security.md](security.md). Paths in it begin at its folder. \
                `bounds` is the same table wherever it stands; untrusted callers have less by default: \
                [security.md](security.md#bounds).",
        root: "AccessFile",
        declared_in: &["server/app/src/access/identity/file.rs", "server/app/src/access/identity/bounds.rs"],
        example: "access.toml",
    },
    Described {
        title: "Pools file",
        about: "The setting `pools_file` names it. It says where builds run, and how many at once: \
                [pools-and-tickets.md](pools-and-tickets.md). `plimsoll-server rules test FILE --key ...` tries it out. Expressions match \
                whole texts and have at most 4,096 bytes. A build goes to the cheapest pool that fits where no rule takes it. \
                `tolerations` is the same table in a pool and a kind.",
        root: "PlacementFile",
        declared_in: &["server/core/src/placement/file/tables.rs", "server/core/src/placement/node.rs"],
        example: "pools.toml",
    },
    Described {
        title: "Retry policy",
        about: "The setting `retry_policy` names it. It changes retries of some projects, stacks or causes.",
        root: "PolicyFile",
        declared_in: &["server/core/src/retry/policy.rs"],
        example: "retry.toml",
    },
    Described {
        title: "Rules for log lines",
        about: "The setting `rules_dir` names a directory with at most 64 files: these (`*.toml`), and Spack's error taxonomy as it is (`*.yaml`). A line of a log is matched \
                without its colours.",
        root: "RulesFile",
        declared_in: &["server/core/src/retry/rules.rs", "server/core/src/retry/rule.rs"],
        example: "rules.toml",
    },
    Described {
        title: "Labels of Prometheus",
        about: "The option `--prometheus-labels` of `plimsoll-server import` names it: how labels are named in this cluster \
                ([import.md](import.md#history-that-prometheus-has)). It is read once.",
        root: "PrometheusLabels",
        declared_in: &["server/lab/src/import/prometheus/labels.rs"],
        example: "prometheus-labels.toml",
    },
];

type Structs = BTreeMap<String, Vec<Field>>;

/// The text of an example.
fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/files").join(name)).unwrap()
}

/// How the heading of a table is written: `[[pool]]`, `[kind.NAME]`, `[tickets]`.
fn heading(path: &str, field: &Field) -> String {
    let path = format!("{path}{}", field.name);
    match field.plain_kind() {
        kind if kind.starts_with("Vec<") => format!("[[{path}]]"),
        kind if kind.starts_with("BTreeMap<") => format!("[{path}.NAME]"),
        _ => format!("[{path}]"),
    }
}

/// What a key may be.
fn value(field: &Field, structs: &Structs) -> String {
    let kind = field.plain_kind();
    let of_kind = match kind.as_str() {
        "String" => "text",
        "bool" => "true or false",
        "u32" => "whole number",
        "f64" => "number",
        "Vec<String>" => "list of texts",
        "BTreeMap<String, String>" => "table of texts",
        kind if structs.contains_key(&field.inner_kind()) && kind.starts_with("Vec<") => "tables",
        _ if structs.contains_key(&field.inner_kind()) => "table",
        _ => "",
    };
    let value = field.value.as_deref().unwrap_or(of_kind);
    assert!(!value.is_empty(), "{}: its comment must say what it may be (Value: ...)", field.name);
    match value {
        "cause" => Cause::ALL.map(|cause| format!("`{}`", cause.as_str())).join(", "),
        value => value.to_owned(),
    }
}

/// What holds without the key.
fn default(field: &Field) -> String {
    if let Some(default) = &field.default {
        return default.clone();
    }
    match field.plain_kind().as_str() {
        _ if !field.is_optional => "required".to_owned(),
        "bool" => "`false`".to_owned(),
        "f64" => "`0`".to_owned(),
        _ => "none".to_owned(),
    }
}

/// The defaults of `[bounds]`, which depend on the caller: the constants of both kinds.
fn default_bounds(name: &str) -> String {
    let text = include_str!("../../../server/app/src/access/identity/bounds.rs");
    let [job, fleet] = ["OF_JOB", "OF_FLEET"].map(|constant| {
        let (_, rest) = text.split_once(&format!("const {constant}: Self = Self {{")).unwrap();
        let (_, rest) = rest.split_once(&format!(" {name}: ")).unwrap();
        let factors = rest.split(",\n").next().unwrap().split('*');
        factors.map(|factor| factor.trim().replace('_', "").parse::<u64>().unwrap()).product::<u64>()
    });
    format!("`{job}` for a job's or a pod's token, `{fleet}` for others")
}

fn write_table(page: &mut String, structs: &Structs, name: &str, path: &str, written: &mut BTreeSet<String>) {
    if !written.insert(name.to_owned()) {
        return;
    }
    write!(page, "| key | value | default | meaning |\n|---|---|---|---|\n").unwrap();
    for field in &structs[name] {
        assert!(!field.about.is_empty(), "{name}.{} has no comment", field.name);
        let default = if name == "BoundsTable" { default_bounds(&field.name) } else { default(field) };
        let cells = [&value(field, structs), &default, &field.about].map(|cell| cell.replace('|', "\\|"));
        writeln!(page, "| `{}` | {} |", field.name, cells.join(" | ")).unwrap();
    }
    for field in structs[name].iter().filter(|field| structs.contains_key(&field.inner_kind())) {
        if !written.contains(&field.inner_kind()) {
            write!(page, "\n### {}\n\n", heading(path, field)).unwrap();
            let below = if field.plain_kind().starts_with("BTreeMap<") { ".NAME." } else { "." };
            let below = format!("{path}{}{below}", field.name);
            write_table(page, structs, &field.inner_kind(), &below, written);
        }
    }
}

/// All keys of the file that `text` uses, each with the struct that it stands in.
fn note_used(structs: &Structs, name: &str, value: &toml::Value, used: &mut BTreeSet<(String, String)>) {
    if let toml::Value::Array(all) = value {
        for one in all {
            note_used(structs, name, one, used);
        }
        return;
    }
    let table = value.as_table().unwrap();
    for field in &structs[name] {
        let Some(value) = table.get(&field.name) else { continue };
        used.insert((name.to_owned(), field.name.clone()));
        let inner = field.inner_kind();
        if structs.contains_key(&inner) {
            if field.plain_kind().starts_with("BTreeMap<") {
                value.as_table().unwrap().values().for_each(|one| note_used(structs, &inner, one, used));
            } else {
                note_used(structs, &inner, value, used);
            }
        }
    }
}

#[test]
fn the_reference_of_files_is_what_is_declared_and_its_examples_use_every_key() {
    let mut page = HEAD.to_owned();
    for file in &FILES {
        let (structs, example) = (read_structs(file.declared_in, file.root), example(file.example));
        write!(page, "\n## {}\n\n{}\n\n", file.title, file.about).unwrap();
        write_table(&mut page, &structs, file.root, "", &mut BTreeSet::new());
        write!(page, "\n### Example: {}\n\n```toml\n{}\n```\n", file.example, example.trim_end()).unwrap();

        let mut used = BTreeSet::new();
        note_used(&structs, file.root, &toml::from_str(&example).unwrap(), &mut used);
        let all = structs
            .iter()
            .flat_map(|(name, fields)| fields.iter().map(move |field| (name.clone(), field.name.clone())));
        let unused: Vec<_> = all.filter(|key| !used.contains(key)).collect();
        assert!(unused.is_empty(), "{} does not use {unused:?}", file.example);
    }
    super::assert_is_the_page(&page, "files.md");
}

#[test]
fn a_server_starts_with_every_file_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("rules")).unwrap();
    for (name, file) in [
        ("access.toml", "access.toml"),
        ("pools.toml", "pools.toml"),
        ("retry.toml", "retry.toml"),
        ("rules.toml", "rules/own.toml"),
    ] {
        fs::write(path(file), example(name)).unwrap();
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
fn bounds_and_defaults_of_the_reference_are_those_of_the_program() {
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
