//! Reads the operator's rule files, and detects changes of them. Number and size of the files are
//! limited.

use std::{fs, io, path::Path, sync::Arc};

use anyhow::{Context as _, anyhow, bail};
use plimsoll_core::retry::{LogRules, PolicyException, RetryPolicy};

use super::RuleSources;
use crate::runtime::reload::{FileStamp, stamp, text};

/// Most rule files in a directory.
const MAX_FILES: usize = 64;
/// The built-in rules and the rules of the files in a directory.
/// Errors: the directory or a file cannot be read, or a file is invalid; the text names all mistakes.
pub(crate) fn read_rules(dir: &Path) -> anyhow::Result<Arc<LogRules>> {
    let files = rule_files(dir)?;
    let rules = LogRules::extended(&files).map(Arc::new).map_err(|wrong| anyhow!(wrong.join("\n")));
    rules.context("rules_dir")
}

/// The rule files in a directory, each with its name and its text.
/// Errors: the directory or a file cannot be read, or is too large.
pub(crate) fn rule_files(dir: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let read = || {
        let stamps = stamps_in(dir)?;
        if stamps.len() > MAX_FILES {
            bail!("{} holds {} files of rules, at most {MAX_FILES} are read", dir.display(), stamps.len());
        }
        let mut files = Vec::new();
        for FileStamp { name, bytes, .. } in stamps {
            let path = dir.join(&name);
            files.push((name, text(&path, bytes)?));
        }
        Ok(files)
    };
    read().context("rules_dir")
}

/// The retry terms of a policy file.
/// Errors: the file cannot be read, or is invalid.
pub(super) fn read_terms(path: &Path) -> anyhow::Result<Vec<PolicyException>> {
    let read = || {
        let bytes = stamp(path)?.bytes;
        let text = text(path, bytes)?;
        RetryPolicy::parse_terms(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
    };
    read().context("retry_policy")
}

/// Both results; or the error, or both errors together.
pub(super) fn both_results<A, B>(one: anyhow::Result<A>, other: anyhow::Result<B>) -> anyhow::Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(anyhow!("{one:#}\n{other:#}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// The states on disk of all files that would be read.
/// Errors: A file or directory cannot be read; the text names it.
pub(super) fn file_stamps(sources: &RuleSources) -> anyhow::Result<Vec<FileStamp>> {
    let mut stamps = Vec::new();
    if let Some(dir) = &sources.rules_dir {
        stamps.extend(stamps_in(dir).context("rules_dir")?);
    }
    if let Some(path) = &sources.policy_file {
        stamps.push(stamp(path).context("retry_policy")?);
    }
    Ok(stamps)
}

/// The states on disk of the rule files in a directory, by name.
fn stamps_in(dir: &Path) -> anyhow::Result<Vec<FileStamp>> {
    let list = || -> io::Result<Vec<FileStamp>> {
        let mut stamps = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let rules = [".toml", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
            if !rules || name.starts_with('.') {
                continue;
            }
            // follows links: Kubernetes mounts a ConfigMap as links
            let about = fs::metadata(entry.path())?;
            if !about.is_file() {
                return Err(io::Error::other(format!("{name} is not a regular file")));
            }
            stamps.push(FileStamp::of(name, &about));
        }
        stamps.sort();
        Ok(stamps)
    };
    list().with_context(|| dir.display().to_string())
}
