//! Stock Spack asks and GitLab tells: the two HTTP endpoints as unmodified clients use them.

use plimsoll_tests::{
    Agent, Programs, Sender, Server,
    http::{self, HttpAnswer},
    quoted_by_python,
};
use serde_json::Value;

/// What clients of 0.23 and 1.x ask for, by kind: many variants, both spellings of lists, quotes with a plus inside, no compiler,
/// dates and letters in versions, capitals and dashes in variants, none at all.
const SPECS: &[&str] = &[
    "hdf5@1.14.6 ~cxx~fortran~hl~ipo~java~map~mpi+shared~szip~threadsafe+tools api=default build_system=cmake \
        build_type=Release generator=make arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "curl@8.15.0 ~gssapi~ldap+nghttp2 build_system=autotools libs:=shared,static tls:=openssl arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "curl@8.10.1 ~gssapi~ldap+nghttp2 build_system=autotools libs=shared,static tls=openssl arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "berkeley-db@18.1.40 +cxx~docs+stl build_system=autotools patches:=26090f4,b231fcc arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "ca-certificates-mozilla@2025-08-12 build_system=generic arch=linux-debian12-x86_64_v3%none@none",
    "ncurses@6.5-20250705 ~symlinks+termlib abi=none build_system=autotools patches:=7a351bc arch=linux-debian12-neoverse_v1%gcc@12.2.0",
    "gcc@15.1.0 ~binutils+bootstrap build_system=autotools build_type=RelWithDebInfo languages:='c,c++,fortran' \
        arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "openjdk@17.0.11_9 build_system=generic certs=none arch=linux-debian12-icelake%none@none",
    "openssh@9.9p1 +gssapi build_system=autotools arch=linux-debian12-x86_64%clang@18.1.3",
    "libxcvt@compat-2023-12-09 ~X build_system=meson arch=darwin-sequoia-m1%apple-clang@16.0.0",
    "mumps@5.7.3 +fortran-bindings~X_y build_system=generic cflags=='-O2 -g' arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "zlib@1.3.1 arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "zlib@1.3.1  arch=linux-debian12-x86_64_v3%gcc@12.2.0",
    "py-wheel@0.45.1 build_system=generic arch=linux-debian12-x86_64_v3%none@none",
    "gcc-runtime@12.2.0 build_system=generic arch=linux-debian12-x86_64_v3%none@none",
    "compiler-wrapper@1.0 build_system=generic arch=linux-debian12-x86_64_v3%none@none",
    "tau@git.2024-develop=2.34 +x a=b=c build_system=generic arch=linux-debian12-x86_64_v3%gcc@12.2.0",
];

fn start(options: &[&str]) -> (tempfile::TempDir, Server) {
    // the defaults after 50 ms are right, and would make a stalled machine fail a test
    Server::fresh(&[&["--allocation-within", "10min"], options].concat()).unwrap()
}

/// As Spack asks.
fn ask(server: &Server, spec: &str, header: &str) -> Value {
    let request = format!(
        "GET /v1/allocation?spec={} HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: {}\r\nUser-Agent: Spackbot/1.1.0\r\n{header}Connection: close\r\n\r\n",
        quoted_by_python(spec),
        server.http
    );
    let answer = http::send(server.http, request.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{spec}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// As GitLab tells of a job.
pub(crate) fn post_hook(server: &Server, headers: &str, body: &str) -> (u16, String) {
    post_event(server, "Job Hook", headers, body)
}

/// As GitLab sends a hook.
pub(crate) fn post_event(server: &Server, event: &str, headers: &str, body: &str) -> (u16, String) {
    post(server, &format!("X-Gitlab-Event: {event}\r\n{headers}"), body)
}

fn post(server: &Server, headers: &str, body: &str) -> (u16, String) {
    let headers = format!("Content-Type: application/json\r\n{headers}");
    let answer = server.send("POST", "/v1/collect", &headers, body).unwrap();
    (answer.status, answer.body)
}

#[test]
fn every_stock_client_spec_gets_string_variables() {
    let (_dir, server) = start(&[]);
    for spec in SPECS {
        let answer = ask(&server, spec, "");
        assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
        let variables = answer["variables"].as_object().unwrap();
        let names: Vec<_> = variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["KUBERNETES_CPU_REQUEST", "KUBERNETES_MEMORY_REQUEST"], "{spec}");
        assert!(variables.values().all(Value::is_string), "{answer}");
    }
}

#[test]
fn measurements_are_found_under_the_requested_spec() {
    let (dir, server) = start(&["--allocation-extras", "memory_limit,cpu_limit,build_jobs"]);
    let spack = "CI_PROJECT_PATH=spack/spack SPACK_JOB_SPEC_PKG_NAME=gcc SPACK_JOB_SPEC_PKG_VERSION=15.1.0 \
        SPACK_JOB_SPEC_COMPILER_NAME=none SPACK_JOB_SPEC_COMPILER_VERSION=none SPACK_JOB_SPEC_ARCH=linux-debian12-zen4";
    let variants = "~x+bootstrap build_system=autotools languages:='c,c++' libs:=shared,static";
    let mut agent = Agent::new(Programs::for_tests(), server.url(), &dir.path().join("spool"));
    agent = agent.with("SPACK_JOB_SPEC_VARIANTS", variants);
    for (name, value) in spack.split_whitespace().filter_map(|word| word.split_once('=')) {
        agent = agent.with(name, value);
    }
    let run = agent.run("--attempt first", "sleep 1");
    assert_eq!(run.code, Some(0), "{run:?}");
    let spec = format!("gcc@15.1.0 {variants} arch=linux-debian12-zen4%none@none");
    let newer = ask(&server, &spec, "");
    assert!(newer["variables"]["KUBERNETES_MEMORY_LIMIT"].is_string(), "{newer}");
    assert!(newer["variables"]["SPACK_BUILD_JOBS"].is_null(), "how many jobs it runs is not known: {newer}");
    assert_eq!(ask(&server, &spec.replace(":=", "="), ""), newer);
    let (_, metrics) = server.get("/metrics").unwrap();
    assert!(metrics.contains("plimsoll_predictions_total{kind=\"exact\"} 2\n"), "{metrics}");
    ask(&server, &spec, "Plimsoll-Project: other/project\r\n");
    let (_, metrics) = server.get("/metrics").unwrap();
    assert!(metrics.contains("plimsoll_allocations_total{kind=\"other_project\"} 1\n"), "{metrics}");
    assert!(metrics.contains("plimsoll_predictions_total{kind=\"exact\"} 2\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_below_the_confidence_floor_use_defaults() {
    let spec = "zlib@1.3 arch=linux-debian12-zen4%gcc@12.2.0";
    let requests = async |options: &[&str]| {
        let (_dir, server) = start(options);
        Sender::delivered(&server.url(), ("first", "zlib"), 3, Some(0)).await.unwrap();
        let answer = ask(&server, spec, "")["variables"]["KUBERNETES_MEMORY_REQUEST"].clone();
        (answer, server.get("/metrics").unwrap().1)
    };
    let (known, metrics) = requests(&[]).await;
    assert_ne!(known, "2048Mi");
    assert!(metrics.contains("plimsoll_allocations_total{kind=\"answered\"} 1\n"), "{metrics}");
    let (floored, metrics) = requests(&["--allocation-confidence", "100%"]).await;
    assert_eq!(floored, "2048Mi");
    assert!(metrics.contains("plimsoll_allocations_total{kind=\"unsure\"} 1\n"), "{metrics}");
}

#[test]
fn bad_requests_fail_naming_the_field() {
    let (_dir, server) = start(&[]);
    let huge = format!(
        "/v1/allocation?spec={}",
        quoted_by_python(&format!("a@1 +{} arch=a-b-c%gcc@1", "x".repeat(4000)))
    );
    let asked = |spec: &str| format!("/v1/allocation?spec={}", quoted_by_python(spec));
    let glued = asked("emacs@29.2+json arch=linux-debian12-x86_64_v3%gcc@12.2.0");
    let part = asked("emacs@29.2 +json arch=a-b-c");
    let too_huge = format!("/v1/allocation?spec={}", "a".repeat(100_000));
    for (method, path, status, words) in [
        ("GET", "/v1/allocation", 400, "spec: is missing"),
        ("GET", "/v1/allocation?spec=", 400, "spec: is empty"),
        ("GET", "/v1/allocation?spec=%zz", 400, "spec: "),
        ("GET", "/v1/allocation?spec=%ff%fe", 400, "spec: is not UTF-8"),
        ("GET", "/v1/allocation?spec=a%00", 400, "spec: "),
        ("GET", "/v1/allocation?spec=zlib", 400, "spec: has no arch"),
        ("GET", "/v1/allocation?spec=../../etc/passwd%20arch=a", 400, "spec: its package"),
        ("GET", &glued, 400, "spec: has no space between version and variants; write @29.2 +json"),
        ("GET", &part, 400, "spec: has no compiler; write arch=a-b-c%COMPILER@VERSION"),
        ("GET", "/v1/allocation?spec=a%20arch=a&spec=b%20arch=b", 400, "spec: is given twice"),
        ("GET", &huge, 400, "spec: "),
        ("POST", "/v1/allocation?spec=a%20arch=a", 405, "method: POST"),
        ("GET", "/v1/collect", 405, "method: GET"),
        ("GET", "/v1/allocation/", 404, "path: "),
        ("GET", "/v1/../../etc/passwd", 404, "path: "),
    ] {
        let shown: String = path.chars().take(60).collect();
        let HttpAnswer { status: seen, body, .. } = server.send(method, path, "", "").unwrap();
        assert_eq!(seen, status, "{shown}: {body}");
        assert!(body.contains(words), "{shown}: {body}");
        if !words.is_empty() {
            let error: Value = serde_json::from_str(&body).unwrap();
            assert!(error["error"].is_string(), "{shown}: {body}");
        }
    }
    // refused before it is routed: as a line or as a head, by how much of it has come when it is too long
    let send = |request: &str| http::send(server.http, request.as_bytes()).unwrap().status;
    let refused = send(&format!("GET {too_huge} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!([414, 431].contains(&refused), "{refused}");
    let headers = "X: y\r\n".repeat(500);
    assert_eq!(server.send("GET", "/v1/allocation", &headers, "").unwrap().status, 431);
    let endless = format!("GET /v1/allocation?spec={}", "+x".repeat(1 << 19));
    assert_eq!(send(&endless), 431);
    assert_eq!(ask(&server, SPECS[0], "")["variables"].as_object().unwrap().len(), 2, "still serves");
}
