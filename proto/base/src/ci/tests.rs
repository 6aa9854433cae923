//! Recorded environments and log lines, with what follows from them, written by hand from the documentation at the rows. In a file of
//! environments, `== NAME` begins a job; then come its variables, perhaps the event's file and the current directory, and what is expected.

use std::collections::HashMap;

use super::*;

const RECORDED: [&str; 8] = [
    include_str!("recorded/gitlab.txt"),
    include_str!("recorded/github.txt"),
    include_str!("recorded/buildkite.txt"),
    include_str!("recorded/circleci.txt"),
    include_str!("recorded/azure.txt"),
    include_str!("recorded/woodpecker.txt"),
    include_str!("recorded/tekton.txt"),
    include_str!("recorded/jenkins.txt"),
];

/// What a job is taken for: as the files have it behind `> `.
fn seen(sources: &Sources<'_>) -> String {
    let Recognized { system, note } = recognize(sources);
    let Some(system) = system else { return "none".to_owned() };
    let job = system.job(sources);
    let number = job.number.map(|number| number.to_string()).unwrap_or_default();
    let id = job.id.unwrap_or_default();
    let fields = [
        ("project", &job.project),
        ("stack", &job.stack),
        ("job", &job.job),
        ("ref", &job.git_ref),
        ("owner", &job.owner),
        ("id", &id),
        ("number", &number),
    ];
    let fields = fields.iter().filter(|(_, value)| !value.is_empty());
    let mut line = system.name.to_owned();
    line.extend(fields.map(|(name, value)| format!(" {name}={value}")));
    line += if job.is_foreign { " foreign" } else { "" };
    let labels: Vec<String> = job.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    [Some(line), Some(labels.join(" ")), note].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[test]
fn recorded_jobs_get_their_documented_key() {
    let mut jobs = 0;
    for job in RECORDED.iter().flat_map(|file| file.split("== ").skip(1)) {
        let value = |mark: &str| job.lines().find_map(|line| line.strip_prefix(mark));
        let variables: HashMap<&str, &str> = job
            .lines()
            .skip(1)
            .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
            .filter_map(|line| line.split_once('='))
            .collect();
        let sources = Sources {
            variable: &|name| variables.get(name).map(|value| (*value).to_owned()),
            file: &|path| value("file ").filter(|_| path == "/event.json").map(str::to_owned),
            directory: value("directory ").unwrap_or_default(),
        };
        let expected: Vec<&str> = job.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        assert_eq!(seen(&sources), expected.join("\n"), "{}", job.lines().next().unwrap());
        jobs += 1;
    }
    assert!(jobs > 25, "{jobs}");
}

#[test]
fn recorded_log_lines_begin_their_phases() {
    let lines: Vec<&str> = include_str!("recorded/logs.txt").lines().collect();
    for pair in lines.chunks(2) {
        let (name, text) = pair[0].split_once(' ').unwrap();
        let tool = SYSTEMS.iter().find(|system| system.name == name).unwrap().phases.unwrap();
        let mark = (tool.parse)(LogLine { text: text.as_bytes(), line_end: b'\n' });
        let found = match &mark {
            Some(LogMark::Phase(name)) => format!("> phase {name}"),
            Some(LogMark::PhaseEnd) => "> end".to_owned(),
            _ => "> none".to_owned(),
        };
        assert_eq!(found, pair[1], "{text}");
        let is_looked_at = tool.words.iter().any(|word| text.contains(word));
        assert!(mark.is_none() || is_looked_at, "{text} is not looked at");
    }
}

#[test]
fn empty_strange_or_huge_values_never_panic() {
    let huge = "x:y/\u{7}".repeat(1 << 18);
    for value in ["", "None", "a\nb", "$(x)", "://", "@", "..", "ä:ö", &huge] {
        for system in SYSTEMS {
            let marker = system.recognized_by.unwrap_or_default();
            // any address is one of Jenkins
            let known = if marker.1.is_empty() { "https://ci.example/" } else { marker.1 };
            let variable = |name: &str| Some(if name == marker.0 { known } else { value }.to_owned());
            let sources =
                Sources { variable: &variable, file: &|_| Some(value.to_owned()), directory: value };
            let job = system.job(&sources);
            let id = job.id.unwrap_or_default();
            assert!(*system == GITLAB || id.is_empty() || is_system_id(&id), "{} {value:.20}", system.name);
            let label = |_: &str| Some(value);
            let links = NamedAttempt { id: &id, project: value, label: &label }.links();
            assert!(links.iter().all(|(_, _, url)| url.starts_with("https://") && !url.contains("..")));
        }
    }
}

#[test]
fn reports_hold_no_commands_of_their_viewer() {
    let text = "a\n  ::error::x\n  ##[group]y\n";
    assert_eq!(github::GITHUB.plain(text), "a\n  : :error::x\n  # #[group]y\n");
    assert_eq!(azure::AZURE.plain("::x"), ": :x");
    assert_eq!(GITLAB.plain(text), text);
}

#[test]
fn an_annotation_names_file_and_line() {
    let github = |text: &str| github::GITHUB.annotation(text).unwrap();
    let expected = "::error file=a%2Cb.c,line=3,title=Plimsoll::a,b.c:3:5: error: 50 %25";
    assert_eq!(github("a,b.c:3:5: error: 50 %"), expected);
    for plain in ["out of memory", "make: *** [all] Error 2", "ld: 3: no", "a b:3:", "a::b", ":3:", ""] {
        let marked = github(plain);
        assert!(marked == format!("::error title=Plimsoll::{plain}") || plain == ":3:", "{marked}");
    }
    assert_eq!(github("x\n::add-mask::y"), "::error title=Plimsoll::x%0A::add-mask::y");
    assert_eq!(GITLAB.annotation("x"), None);
}

#[test]
fn a_token_and_a_job_begin_equally() {
    let job = |server: &str| {
        let variables =
            [("GITHUB_SERVER_URL", server), ("GITHUB_REPOSITORY", "acme/app.js"), ("GITHUB_JOB", "x")];
        let more = [("GITHUB_RUN_ID", "12"), ("GITHUB_RUN_ATTEMPT", "2")];
        let find = |name: &str| variables.iter().chain(&more).find(|(known, _)| *known == name);
        let lookup = |name: &str| find(name).map(|(_, value)| (*value).to_owned());
        github::GITHUB.job(&Sources::of_variables(&lookup)).id.unwrap()
    };
    for (issuer, server) in [
        ("https://token.actions.githubusercontent.com", "https://github.com"),
        ("https://token.actions.githubusercontent.com/acme", "https://github.com"),
        ("https://token.actions.acme.ghe.com", "https://acme.ghe.com"),
        ("https://git.example:8443/_services/token", "https://git.example:8443"),
        ("https://forge.example/git/api/actions", "https://forge.example/git"),
        ("https://forge.example/api/actions/", "https://forge.example/"),
    ] {
        let (place, run) = github_run(issuer, "acme/app.js", "12", "2");
        assert_eq!(format!("{place}:{run}x"), job(server), "{issuer}");
    }
    assert_ne!(github_run("https://other.example", "acme/app.js", "12", "2").0, "github:acme/app.js");
}

#[test]
fn remotes_lose_their_credentials() {
    for (address, expected) in [
        ("https://github.com/acme/app.git", Some("github.com acme/app")),
        ("https://me:s3cret@GitHub.com:443/acme/app", Some("github.com acme/app")),
        ("git@gitlab.example:group/sub/app.git", Some("gitlab.example group/sub/app")),
        ("ssh://git@host:22/acme/app.git/", Some("host acme/app")),
        ("https://x@host/acme/app?token=s3cret#y", Some("host acme/app")),
        ("/srv/git/app.git", None),
        ("../app", None),
        ("file:///srv/app", None),
        ("https://host", None),
        ("https://user:pa/ss@host/acme/app", None),
        ("user:token@host:acme/app", None),
        ("host:", None),
        ("", None),
    ] {
        let found = git_remote(address).map(|(host, path)| format!("{host} {path}"));
        assert_eq!(found.as_deref(), expected, "{address}");
    }
}

#[test]
fn jobs_link_to_the_pages_of_their_system() {
    for (id, expected) in [
        ("github:octocat/app:12.1/build", Some("https://github.com/octocat/app/actions/runs/12")),
        ("buildkite:acme/app:e44f-9784", Some("https://buildkite.com/acme/app/builds/7")),
        ("github:git.example/octocat/app:12.1/build", None),
        ("github:../app:12.1/build", None),
        ("github:octocat/app:x.1/build", None),
        ("jenkins:host/app:7/build", None),
        ("01JC000000000000000000000", None),
    ] {
        let links = NamedAttempt { id, project: "a/b", label: &|_| Some("7") }.links();
        assert_eq!(links.first().map(|(_, _, address)| address.as_str()), expected, "{id}");
    }
}

/// The rows of a table in a document, as the systems' rows say them.
fn table(cells: fn(&CiSystem) -> Vec<String>) -> String {
    let line = |system: &&CiSystem| format!("| {} |\n", cells(system).join(" | "));
    SYSTEMS.iter().map(line).collect()
}

#[test]
fn guides_have_the_tables_of_the_rows() {
    let of_agent = table(|system| {
        let by = match system.recognized_by {
            Some((name, "")) => format!("`{name}`"),
            Some((name, value)) => format!("`{name}={value}`"),
            None => "the command".to_owned(),
        };
        let Columns { key, id, untrusted } = &system.columns;
        vec![system.title.to_owned(), by, (*key).to_owned(), (*id).to_owned(), (*untrusted).to_owned()]
    });
    let of_all = table(|system| {
        let Support { measured, judged, sized, retried } = &system.support;
        [system.title, measured, judged, sized, retried].map(str::to_owned).to_vec()
    });
    let agent = include_str!("../../../../deploy/docs/agent.md");
    assert!(agent.contains(&of_agent), "deploy/docs/agent.md needs these rows:\n{of_agent}");
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&of_all), "README.md needs these rows:\n{of_all}");
}
