//! The two programs, built by cargo with the features of the whole workspace, which are those of the tests: nothing is compiled twice.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context as _, ensure};

/// How the programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As `cargo build`.
    Dev,
    /// As `cargo build --release`.
    Release,
}

/// Where the two programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `plimsoll-server`.
    pub server: PathBuf,
    /// `plimsoll`.
    pub agent: PathBuf,
}

impl Programs {
    /// Builds both. Tests of one process build once.
    pub fn build(profile: Profile) -> anyhow::Result<Self> {
        let release = profile == Profile::Release;
        let mut cargo = cargo();
        cargo.args([
            "build",
            "--quiet",
            "--locked",
            "--workspace",
            "--bin",
            "plimsoll-server",
            "--bin",
            "plimsoll",
        ]);
        cargo.args(release.then_some("--release"));
        // beside this program, with what was compiled for it
        let own = env::current_exe()?;
        let target = own
            .ancestors()
            .find(|dir| dir.file_name().is_some_and(|name| name == "debug" || name == "release"));
        let target =
            target.and_then(Path::parent).context("this program is not in a cargo target directory")?;
        cargo.arg("--target-dir").arg(target);
        ensure!(cargo.status()?.success(), "cargo could not build the programs");
        let dir = target.join(if release { "release" } else { "debug" });
        Ok(Self { server: dir.join("plimsoll-server"), agent: dir.join("plimsoll") })
    }

    /// The programs for tests, built once.
    #[expect(clippy::expect_used, reason = "without the programs no test can run")]
    pub fn for_tests() -> &'static Self {
        static BUILT: OnceLock<Programs> = OnceLock::new();
        BUILT.get_or_init(|| Self::build(Profile::Dev).expect("the programs must build"))
    }
}

/// Beginnings of the variables in which cargo describes the program that it runs.
const OF_THIS_PROGRAM: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Cargo, as it was used to build this program, in the workspace.
pub(crate) fn cargo() -> Command {
    #[expect(clippy::disallowed_methods, reason = "cargo tells where it is through the environment")]
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cargo = Command::new(program);
    // what `cargo run` and `cargo test` say of this program would have `ring` built anew, and all that needs it
    let names = env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| OF_THIS_PROGRAM.iter().any(|of| name.to_string_lossy().starts_with(of))) {
        cargo.env_remove(name);
    }
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo
}
