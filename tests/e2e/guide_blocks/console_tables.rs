//! What the run of the guides' commands must know beside the guides: what cannot run, what ends otherwise than with 0, and what readers
//! have that a test has not.

/// Commands that are not run, by their beginning, each with the reason.
pub(super) const NOT_RUN: [(&str, &str); 21] = [
    (".ci/run", "runs this test"),
    ("apt-get ", "needs a network and root"),
    ("chown -R plimsoll", "needs root, and writes into /etc"),
    ("cargo ", "builds the repository, for minutes; the options are read by cargo alone"),
    ("curl -H \"PRIVATE-TOKEN", "needs a GitLab; gitlab.rs asks for a verdict with its list of jobs"),
    ("curl -sk https://127.0.0.1:7443/admit", "needs a webhook; admission sends the review of the guide"),
    ("deploy/release/build", "needs root, and compiles for minutes; .ci/run makes the agent's image with it"),
    ("grpcurl ", "is a program of others; any_client.rs lists the services by reflection"),
    ("install -m 0644 deploy/systemd", "writes into /etc"),
    ("kubectl ", "needs a cluster; deploy.rs renders what is applied"),
    ("plimsoll attach --cgroup", "needs a cgroup of a build; attach.rs makes one"),
    ("plimsoll attach --pid", "needs a process of a build; attach.rs starts one"),
    ("plimsoll recommend --project spack/spack-packages", "needs a file of classes; recommend.rs has one"),
    ("plimsoll watch", "runs until it is stopped; see.rs reads what it shows"),
    (
        "plimsoll-server --data-dir /var/lib/plimsoll import --project",
        "reads what sqlite3 writes of a database of Gantry; the tests of the import do",
    ),
    ("plimsoll-server import --prometheus", "needs a Prometheus; prometheus_import.rs starts one"),
    ("rustup ", "needs a network"),
    ("skopeo ", "needs a registry"),
    ("sqlite3 ", "needs a database of Gantry; the tests of the import make one"),
    ("systemctl ", "needs systemd and root"),
    ("useradd ", "needs root"),
];

/// Exit status of commands that do not end with 0, by their beginning, each with the reason.
pub(super) const ENDS_WITH: [(&str, i32, &str); 3] = [
    ("plimsoll recommend -o csv --into sizes.csv --summary", 10, "the file changed"),
    ("plimsoll should-retry gitlab.com", 10, "the build is broken: no retry helps"),
    ("plimsoll-server projects rename", 1, "no build here is of this project"),
];

/// Database in the guides. Without PostgreSQL on the machine, commands with it are not run.
pub(super) const DATABASE: &str = "postgres://plimsoll@db.example.com/plimsoll";

/// What a guide says, and what stands for it here.
pub(super) const REPLACED: [(&str, &str); 4] = [
    ("/var/lib/plimsoll", "ROOT/var/lib/plimsoll"),
    ("/etc/plimsoll", "ROOT/etc/plimsoll"),
    // the data directory of the first try belongs to no other command
    ("--data-dir plimsoll-data", "--data-dir ROOT/first-try"),
    // the day on which the builds of the test's file ran
    ("--day 2026-11-20", "--day 2026-11-21"),
];

/// The build that readers look at, by its id, and how it was made. The server knows the builds of the lab, too.
pub(super) const BEFORE: (&str, &str) = (
    "gitlab.com:12345",
    "plimsoll run --attempt gitlab.com:12345 --key package=zlib -- sh -c 'exit 2' || true",
);

/// Commands whose output a guide shows word by word.
pub(super) const EXACT: [&str; 1] = ["plimsoll predict --key package=walkdir"];
