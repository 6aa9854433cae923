//! Where slips are typed: servers as the guides start them, and a directory with the files of a reader.

use std::{fs, os::unix::fs::symlink};

use plimsoll_tests::{Answer, Programs, Server};

use crate::{access::tokens, guide_dir::GuideDir, tools::repository};

/// Files in the directory: name and text.
const FILES: [(&str, &str); 10] = [
    ("wrong.csv", "package,wall_ms,peak_bytes\nzlib,1000,2000000\nzlib,soon,3\n"),
    ("hook-secret", "right\n"),
    ("reader-token", "reader-secret\n"),
    ("typo.toml", "grpc_liste = \"127.0.0.1:7410\"\n"),
    ("typo-access.toml", "[[token]]\nname = \"x\"\nsha = \"\"\nroles = [\"agent\"]\n"),
    ("role-access.toml", "[[token]]\nname = \"x\"\nsha256 = \"\"\nroles = [\"raeder\"]\n"),
    ("plain-access.toml", "[[token]]\nname = \"x\"\nsha256 = \"secret\"\nroles = [\"agent\"]\n"),
    ("number-pools.toml", "[[pool]]\nname = \"small\"\nmemory = 8\n"),
    ("unit-pools.toml", "[[pool]]\nname = \"small\"\nmemory = \"8\"\n"),
    (
        "rule-pools.toml",
        "[[pool]]\nname = \"small\"\n[[rule]]\nname = \"r\"\npackage = \"gcc\"\npool = \"big\"\n",
    ),
];

/// The servers and the directory.
pub(super) struct Site {
    dir: GuideDir,
    /// Without an access file.
    open: Server,
    /// With an access file, in plain text.
    guarded: Server,
    /// As `init` has made it.
    with_tls: Server,
}

impl Site {
    pub(super) fn start() -> Self {
        let (dir, programs) = (GuideDir::new(), Programs::for_tests());
        let path = |name: &str| dir.path(name);
        for (name, text) in FILES {
            fs::write(path(name), text).unwrap();
        }
        fs::write(path("access.toml"), tokens().text()).unwrap();
        for (file, name) in [("deploy/pools.toml", "pools.toml"), ("tests/data/lab_builds.csv", "builds.csv")]
        {
            symlink(repository().join(file), path(name)).unwrap();
        }
        let word = |name: &str| dir.name(name);
        let hook = ["--collect-token-file", &word("hook-secret")];
        let open = Server::start_with(programs, &path("open"), &hook).unwrap();
        let access = ["--access-file", &word("access.toml")];
        let guarded = Server::start_with(programs, &path("guarded"), &access).unwrap();
        Answer::of(&mut dir.shell("plimsoll-server init etc --name plimsoll.example")).done();
        let config = word("etc/plimsoll.toml");
        let with_tls = Server::start_with(programs, &path("tls"), &["--config", &config]).unwrap();
        Self { dir, open, guarded, with_tls }
    }

    /// What a command prints on both of its streams.
    pub(super) fn run(&self, command: &str) -> String {
        let mut shell = self.dir.shell(command);
        for (name, server) in [("OPEN", &self.open), ("GUARDED", &self.guarded), ("TLS", &self.with_tls)] {
            shell.env(name, server.grpc.to_string()).env(format!("{name}_HTTP"), server.http.to_string());
        }
        // no program listens there
        shell.env("DOWN", "127.0.0.1:9");
        // at the usual ports a server of this machine may listen
        shell.env("PLIMSOLL_GRPC_LISTEN", "127.0.0.1:0").env("PLIMSOLL_HTTP_LISTEN", "127.0.0.1:0");
        Answer::of(&mut shell).printed()
    }
}
