//! Where slips are typed: servers as the guides start them, and a directory with the files of a reader.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use plimsoll_tests::{Programs, Server};

use crate::access::TOKENS;

/// Ends a program that should have refused a slip and serves instead, seconds.
const LONGEST: &str = "300";

/// Files in the directory: name and text.
const FILES: [(&str, &str); 9] = [
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
    dir: tempfile::TempDir,
    /// Without an access file.
    open: Server,
    /// With an access file, in plain text.
    guarded: Server,
    /// As `init` has made it.
    with_tls: Server,
}

/// Whether examples with `curl` can run.
pub(super) fn has_curl() -> bool {
    Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Site {
    pub(super) fn start() -> Self {
        let (dir, programs) = (tempfile::tempdir().unwrap(), Programs::for_tests());
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        symlink(&programs.agent, path("bin/plimsoll")).unwrap();
        symlink(&programs.server, path("bin/plimsoll-server")).unwrap();
        for (name, text) in FILES {
            fs::write(path(name), text).unwrap();
        }
        fs::write(path("access.toml"), TOKENS).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        symlink(root.join("../deploy/pools.toml"), path("pools.toml")).unwrap();
        symlink(root.join("data/lab_builds.csv"), path("builds.csv")).unwrap();
        fs::write(path("wrong.csv"), "package,wall_ms,peak_bytes\nzlib,1000,2000000\nzlib,soon,3\n").unwrap();
        fs::write(
            path("no_cpu.csv"),
            "package,wall_ms,peak_bytes,requested_bytes,start_ms\nzlib,1000,2000000,4000000,1000\n",
        )
        .unwrap();
        let word = |name: &str| path(name).display().to_string();
        let hook = ["--collect-token-file", &word("hook-secret")];
        let open = Server::start_with(programs, &path("open"), &hook).unwrap();
        let access = ["--access-file", &word("access.toml")];
        let guarded = Server::start_with(programs, &path("guarded"), &access).unwrap();
        let made = Command::new(&programs.server)
            .args(["init", "etc", "--name", "plimsoll.example"])
            .current_dir(dir.path())
            .output();
        assert!(made.unwrap().status.success());
        let config = word("etc/plimsoll.toml");
        let with_tls = Server::start_with(programs, &path("tls"), &["--config", &config]).unwrap();
        Self { dir, open, guarded, with_tls }
    }

    /// What a command prints on both of its streams.
    pub(super) fn run(&self, command: &str) -> String {
        let dir = self.dir.path();
        let mut shell = Command::new("timeout");
        shell.args([LONGEST, "sh", "-c", command]).current_dir(dir).env_clear().stdin(Stdio::null());
        shell.env("PATH", format!("{}/bin:/usr/bin:/bin", dir.display())).env("HOME", dir);
        for (name, server) in [("OPEN", &self.open), ("GUARDED", &self.guarded), ("TLS", &self.with_tls)] {
            shell.env(name, server.grpc.to_string()).env(format!("{name}_HTTP"), server.http.to_string());
        }
        // no program listens there
        shell.env("DOWN", "127.0.0.1:9");
        // at the usual ports a server of this machine may listen
        shell.env("PLIMSOLL_GRPC_LISTEN", "127.0.0.1:0").env("PLIMSOLL_HTTP_LISTEN", "127.0.0.1:0");
        let answer = shell.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr))
    }
}
