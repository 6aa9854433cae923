//! The reference of the interface, `deploy/docs/api.md`: the contract of gRPC with its comments, and what the server serves over HTTP.

use std::{fmt::Write as _, fs, path::Path};

use plimsoll_tests::Server;

const HEAD: &str = "# Interface of the server

gRPC: package `plimsoll.v1`, by default at port 7410. The `.proto` files are in [proto/plimsoll/v1](../../proto/plimsoll/v1); reflection
and `grpc.health.v1` are served too. HTTP: by default at port 7411.

A request that is wrong gets `INVALID_ARGUMENT` with `google.rpc.BadRequest`, which names the field. A server that is busy answers
`RESOURCE_EXHAUSTED` or `UNAVAILABLE` with `google.rpc.RetryInfo`. New fields may be added; none is renamed or removed.
";

const FILES: [&str; 6] = ["collector", "introspection", "predictor", "placement", "stats", "types"];

/// A service, message or enumeration: its name, what is said of it, and its lines as cells.
struct Declared {
    kind: &'static str,
    name: String,
    about: String,
    rows: Vec<[String; 3]>,
}

impl Declared {
    fn write(&self, page: &mut String) {
        let depth = if self.kind == "service" { "##" } else { "###" };
        write!(page, "\n{depth} {}\n\n", self.name).unwrap();
        if !self.about.is_empty() {
            write!(page, "{}\n\n", self.about).unwrap();
        }
        if !self.rows.is_empty() {
            let head = match self.kind {
                "service" => "| rpc | request and answer | meaning |",
                "enum" => "| value | number | meaning |",
                _ => "| field | type | meaning |",
            };
            write!(page, "{head}\n|---|---|---|\n").unwrap();
            for [name, kind, about] in &self.rows {
                writeln!(page, "| `{name}` | {kind} | {} |", about.replace('|', "\\|")).unwrap();
            }
        }
    }
}

/// What a line declares within `kind`: its name and its type.
fn declared(kind: &str, line: &str) -> Option<(String, String)> {
    if kind == "service" {
        let (name, rest) = line.strip_prefix("rpc ")?.split_once('(')?;
        let (asked, rest) = rest.split_once(')')?;
        let answer = rest.trim().strip_prefix("returns (")?.split(')').next()?;
        return Some((name.to_owned(), format!("{asked} → {answer}")));
    }
    let (before, number) = line.strip_suffix(';')?.split_once(" = ")?;
    if kind == "enum" {
        return Some((before.to_owned(), number.to_owned()));
    }
    let (typed, name) = before.rsplit_once(' ')?;
    Some((name.to_owned(), typed.to_owned()))
}

/// All that a file of the contract declares, in its order.
fn parse(text: &str) -> Vec<Declared> {
    let (mut all, mut open, mut about) = (Vec::new(), None::<Declared>, Vec::new());
    // a oneof within a message
    let mut is_within = false;
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            about.push(comment.trim());
            continue;
        }
        let begun = ["service", "message", "enum"]
            .into_iter()
            .find_map(|kind| Some((kind, line.strip_prefix(kind)?.strip_prefix(' ')?.split(' ').next()?)));
        match (&mut open, begun) {
            (None, Some((kind, name))) => {
                let declared =
                    Declared { kind, name: name.to_owned(), about: about.join(" "), rows: Vec::new() };
                if line.ends_with("{}") { all.push(declared) } else { open = Some(declared) }
            }
            (Some(_), _) if line == "}" && !is_within => all.extend(open.take()),
            (Some(_), _) if line == "}" || line.starts_with("oneof ") => is_within = line != "}",
            (Some(inside), _) => {
                let comment = about.join(" ");
                inside.rows.extend(declared(inside.kind, line).map(|(name, kind)| [name, kind, comment]));
            }
            _ => {}
        }
        about.clear();
    }
    all
}

#[test]
fn the_api_reference_matches_what_is_served() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut page = HEAD.to_owned();
    for file in FILES {
        let text = fs::read_to_string(repository.join(format!("proto/plimsoll/v1/{file}.proto"))).unwrap();
        let all = parse(&text);
        if all.iter().all(|declared| declared.kind != "service") {
            page += "\n## Shared types\n";
        }
        for declared in &all {
            declared.write(&mut page);
        }
    }
    let (_dir, server) = Server::fresh(&[]).unwrap();
    let (status, listed) = server.get("/").unwrap();
    assert_eq!(status, 200);
    write!(page, "\n## HTTP\n\n```text\n{}\n```\n", listed.trim_end()).unwrap();
    super::assert_is_the_page(&page, "api.md");
}
