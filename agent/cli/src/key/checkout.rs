//! Project, package and version of the source in a directory, for builds that no CI system names. No program is started: only files are
//! read, at most [`FILE_BYTES`] of each, in the directory and, up to the one with `.git`, in those above it.
//!
//! | part | first of these that is known |
//! |---|---|
//! | package, version | `Cargo.toml`, `package.json`, `pyproject.toml`, `go.mod` (no version) |
//! | project | the path of the git remote `origin`, else of the first remote, without user and password |

use std::{
    fs,
    path::{Path, PathBuf},
};

use plimsoll_base::ci::git_remote;
use serde_json::Value;

use super::mock_config::read_start;

/// Most bytes of a file that are read.
const FILE_BYTES: u64 = 1 << 20;
/// Most directories above the current one that are looked at.
const PARENTS: usize = 32;

/// Name and version of what is built.
type Named = (String, String);

/// A file that names what is built.
struct Manifest {
    file: &'static str,
    /// `None` if the file names nothing. Errors: what is wrong with it.
    parse: fn(&str) -> Result<Option<Named>, String>,
}

const MANIFESTS: [Manifest; 4] = [
    Manifest { file: "Cargo.toml", parse: |text| of_toml(text, &["/package"]) },
    Manifest { file: "package.json", parse: |text| Ok(named(&json(text)?, &[""])) },
    Manifest { file: "pyproject.toml", parse: |text| of_toml(text, &["/project", "/tool/poetry"]) },
    Manifest { file: "go.mod", parse: |text| Ok(of_go(text)) },
];

/// What a directory says of the source in it. Texts are empty if they are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checkout {
    /// Path of the repository on its host.
    pub(super) project: String,
    pub(super) package: String,
    pub(super) version: String,
    /// The file that names the package.
    pub(super) manifest: &'static str,
}

impl Checkout {
    /// Reads a directory. A file that is not understood is passed over, with a line in the log.
    pub(super) fn read(directory: &Path) -> Self {
        let is_root = |dir: &Path| dir.join(".git").try_exists().is_ok_and(|exists| exists);
        let above: Vec<&Path> = directory.ancestors().take(PARENTS).collect();
        let root = above.iter().position(|dir| is_root(dir));
        let within = above.get(..=root.unwrap_or_default()).unwrap_or_default();
        let found = within.iter().find_map(|dir| of_manifests(dir)).unwrap_or_default();
        let repository = root.and_then(|at| above.get(at).copied());
        Self { project: repository.and_then(remote_of).unwrap_or_default(), ..found }
    }
}

fn of_manifests(dir: &Path) -> Option<Checkout> {
    MANIFESTS.iter().find_map(|Manifest { file, parse }| {
        let path = dir.join(file);
        let text = read_start(path.to_str()?, FILE_BYTES)?;
        let named = parse(&text).unwrap_or_else(|error| {
            tracing::warn!(file = %path.display(), error, "ignored a file that may name the build");
            None
        });
        let (package, version) = named?;
        Some(Checkout { package, version, manifest: file, ..Checkout::default() })
    })
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn of_toml(text: &str, places: &[&str]) -> Result<Option<Named>, String> {
    let value: Value = toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())?;
    Ok(named(&value, places))
}

/// The fields `name` and `version` in the first of these places that has a name. A version that stands elsewhere is unknown.
fn named(value: &Value, places: &[&str]) -> Option<Named> {
    let text =
        |place: &str, field: &str| value.pointer(&format!("{place}/{field}"))?.as_str().map(str::to_owned);
    let name = |place: &&str| Some((text(place, "name")?, text(place, "version").unwrap_or_default()));
    places.iter().find_map(name).filter(|(name, _)| !name.is_empty())
}

fn of_go(text: &str) -> Option<Named> {
    let module = text.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    let module = module.split("//").next().unwrap_or_default().trim().trim_matches('"');
    (!module.is_empty()).then(|| (module.to_owned(), String::new()))
}

/// The path of the repository's remote. In a worktree `.git` is a file that names a folder, which names that of the repository.
fn remote_of(root: &Path) -> Option<String> {
    let start = |path: PathBuf| read_start(path.to_str()?, FILE_BYTES);
    let git = root.join(".git");
    let folder = if fs::metadata(&git).ok()?.is_dir() {
        git
    } else {
        root.join(start(git)?.trim().strip_prefix("gitdir:")?.trim())
    };
    let common = start(folder.join("commondir")).map(|common| folder.join(common.trim()));
    let config = start(common.unwrap_or(folder).join("config"))?;
    let (mut remote, mut found) = ("", None);
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            remote =
                line.strip_prefix("[remote \"").and_then(|name| name.strip_suffix("\"]")).unwrap_or_default();
        }
        let url = line.strip_prefix("url").and_then(|rest| rest.trim_start().strip_prefix('='));
        let Some((_host, path)) = url.filter(|_| !remote.is_empty()).and_then(git_remote) else { continue };
        if remote == "origin" {
            return Some(path);
        }
        found.get_or_insert(path);
    }
    found
}
