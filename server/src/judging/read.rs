//! The files of the operator: which there are, whether they have changed, and what they say. Every file is bounded.

use std::{fs, io, io::Read as _, path::Path, sync::Arc, time::SystemTime};

use anyhow::{Context as _, anyhow, bail};

use super::Sources;
use crate::retry::{Exception, Policy, Rules};

/// Most files of rules.
const FILES: usize = 64;
/// Largest file of rules or terms, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// What tells that a file has changed: name, bytes, time of the last change.
pub(super) type Stamp = (String, u64, Option<SystemTime>);

/// The rules of the program and of the files in a directory.
///
/// # Errors
/// The directory or a file cannot be read, or a file is wrong: all mistakes of all files.
pub(crate) fn rules(dir: &Path) -> anyhow::Result<Arc<Rules>> {
    let read = || {
        let stamps = stamps_in(dir)?;
        if stamps.len() > FILES {
            bail!("{} holds {} files of rules, at most {FILES} are read", dir.display(), stamps.len());
        }
        let mut files = Vec::new();
        for (name, bytes, _) in stamps {
            let path = dir.join(&name);
            files.push((name, text(&path, bytes)?));
        }
        Rules::extended(&files).map(Arc::new).map_err(|wrong| anyhow!(wrong.join("\n")))
    };
    read().context("rules_dir")
}

/// The terms of a policy file.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub(super) fn terms(path: &Path) -> anyhow::Result<Vec<Exception>> {
    let read = || {
        let bytes = stamp(path)?.1;
        let text = text(path, bytes)?;
        Policy::parse_terms(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
    };
    read().context("retry_policy")
}

/// Both of two, or what is wrong with either of them.
pub(super) fn both<A, B>(one: anyhow::Result<A>, other: anyhow::Result<B>) -> anyhow::Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(anyhow!("{one:#}\n{other:#}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// The stamps of all files that would be read.
///
/// # Errors
/// Names what cannot be looked at.
pub(super) fn stamps(sources: &Sources) -> anyhow::Result<Vec<Stamp>> {
    let mut stamps = Vec::new();
    if let Some(dir) = &sources.rules_dir {
        stamps.extend(stamps_in(dir).context("rules_dir")?);
    }
    if let Some(path) = &sources.policy_file {
        stamps.push(stamp(path).context("retry_policy")?);
    }
    Ok(stamps)
}

/// What a file says that had so many bytes when it was looked at.
pub(super) fn text(path: &Path, bytes: u64) -> anyhow::Result<String> {
    let name = path.display();
    if bytes > FILE_BYTES {
        bail!("{name} has {bytes} bytes, at most {FILE_BYTES} are read");
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_string(&mut text));
    read.with_context(|| name.to_string())?;
    // it may have grown since it was looked at
    if text.len() as u64 > FILE_BYTES {
        bail!("{name} has more than {FILE_BYTES} bytes, which is what is read at most");
    }
    Ok(text)
}

fn stamp(path: &Path) -> anyhow::Result<Stamp> {
    let about = fs::metadata(path).with_context(|| path.display().to_string())?;
    if !about.is_file() {
        // opening a pipe would wait for somebody to write
        bail!("{} is not a regular file", path.display());
    }
    Ok((path.display().to_string(), about.len(), about.modified().ok()))
}

/// The files of rules in a directory, by name.
fn stamps_in(dir: &Path) -> anyhow::Result<Vec<Stamp>> {
    let list = || -> io::Result<Vec<Stamp>> {
        let mut stamps = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let rules = [".toml", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
            if !rules || name.starts_with('.') {
                continue;
            }
            // through links: Kubernetes mounts a ConfigMap as links
            let about = fs::metadata(entry.path())?;
            if !about.is_file() {
                return Err(io::Error::other(format!("{name} is not a regular file")));
            }
            stamps.push((name, about.len(), about.modified().ok()));
        }
        stamps.sort();
        Ok(stamps)
    };
    list().with_context(|| dir.display().to_string())
}
