//! Reloads the operator's files while the server runs: after a change, and at SIGHUP.

mod kept;

use std::{fs, io::Read as _, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use anyhow::{Context as _, anyhow, bail, ensure};
use axum::http::HeaderValue;
pub(crate) use kept::ReloadedValue;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::runtime::audit::AUDIT;

/// How often files are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Largest file that is read, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// State of a file by which a change is detected. Size and time of modification alone do not do: a file of a Nix store, of an image or of
/// `rsync -a` may replace one with the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileStamp {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Device and inode.
    identity: (u64, u64),
    /// Times of the last modification of the content, and of the last change of the inode: seconds and nanoseconds since 1970.
    times: [(i64, i64); 2],
}

impl FileStamp {
    /// The state of a file with this name, links followed.
    pub(crate) fn of(name: String, about: &fs::Metadata) -> Self {
        let times = [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())];
        Self { name, bytes: about.len(), identity: (about.dev(), about.ino()), times }
    }
}

/// Calls `look` every two seconds until `end`, with `false`; and at each SIGHUP, with `true`.
/// `what` names the files in the log.
/// Errors: the signal handler cannot be installed.
pub(crate) async fn watch_files(
    what: &'static str,
    end: CancellationToken,
    look: impl Fn(bool) + Clone + Send + 'static,
) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut tick = tokio::time::interval(CHECK_INTERVAL);
    loop {
        let asked = tokio::select! {
            () = end.cancelled() => return Ok(()),
            _ = hangup.recv() => {
                tracing::info!(target: AUDIT, what, "asked by a signal to read files again");
                true
            }
            _ = tick.tick() => false,
        };
        let look = look.clone();
        // on a thread of its own, because a network file system that hangs must not block the
        // server
        let looking = tokio::task::spawn_blocking(move || look(asked));
        let looked = tokio::select! {
            () = end.cancelled() => return Ok(()),
            looked = looking => looked,
        };
        if let Err(error) = looked {
            tracing::error!(%error, what, "the check for changed files stopped unexpectedly");
        }
    }
}

/// The present state of a regular file.
/// Errors: the file cannot be read, or is not a regular file.
pub(crate) fn stamp(path: &Path) -> anyhow::Result<FileStamp> {
    let about = fs::metadata(path).with_context(|| path.display().to_string())?;
    if !about.is_file() {
        // not opened: opening a named pipe would wait for a writer
        bail!("{} is not a regular file", path.display());
    }
    Ok(FileStamp::of(path.display().to_string(), &about))
}

/// The text of a file. `bytes` is its size in its [`FileStamp`].
/// Errors: the file cannot be read, or is too large.
pub(crate) fn text(path: &Path, bytes: u64) -> anyhow::Result<String> {
    let name = path.display();
    if bytes > FILE_BYTES {
        bail!("{name} has {bytes} bytes, at most {FILE_BYTES} are read");
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_string(&mut text));
    read.with_context(|| name.to_string())?;
    // the file may have grown since its size was read
    if text.len() as u64 > FILE_BYTES {
        bail!("{name} has more than {FILE_BYTES} bytes, which is what is read at most");
    }
    Ok(text)
}

/// The text of a file with secrets. Errors do not contain the file's name: a secret may have been written in its place.
/// Errors: the file does not exist, cannot be read, or is too large.
pub(crate) fn secret_text(file: &Path) -> anyhow::Result<String> {
    fs::metadata(file).map_err(|error| {
        anyhow!("names no file ({}); write the secret into a file, and its name here", error.kind())
    })?;
    text(file, stamp(file)?.bytes)
}

/// The secret in a file as a header value, with `prefix` before it; it is never logged. `what`
/// names it in errors.
/// Errors: the file cannot be read, is empty, or its content cannot be in a header. The error does not quote the content.
pub(crate) fn secret(file: &Path, prefix: &str, what: &str) -> anyhow::Result<HeaderValue> {
    let (name, text) = (file.display(), secret_text(file)?);
    let secret = text.trim();
    ensure!(!secret.is_empty(), "{name} is empty; write {what} into it");
    let mut header = HeaderValue::from_str(&format!("{prefix}{secret}"))
        .map_err(|_hidden| anyhow!("{name} holds what no token holds"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, time::SystemTime};

    use super::*;

    #[test]
    fn replaced_files_with_equal_metadata_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            fs::write(at(name), text).unwrap();
            fs::File::open(at(name)).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        for name in ["old", "new"] {
            fs::create_dir(at(name)).unwrap();
            write(&format!("{name}/file"), name);
        }
        symlink("old", at("now")).unwrap();
        let swap = || {
            symlink("new", at("next")).unwrap();
            fs::rename(at("next"), at("now")).unwrap();
        };
        let rename = || {
            write("copy", "cpy");
            fs::rename(at("copy"), at("new/file")).unwrap();
        };
        let nothing = || {};
        let cases: [(&str, &dyn Fn(), bool); 4] = [
            ("nothing", &nothing, false),
            ("the link of the directory is swapped", &swap, true),
            ("the file is replaced by rename", &rename, true),
            ("it stays", &nothing, false),
        ];
        for (case, change, is_seen) in cases {
            let before = stamp(&at("now/file")).unwrap();
            change();
            assert_eq!(stamp(&at("now/file")).unwrap() != before, is_seen, "{case}");
        }
    }

    #[test]
    fn a_secret_is_never_empty_and_never_shown() {
        let (_dir, file) = plimsoll_support::temporary::file_name("token");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            secret(&file, "Bearer ", "a token").map_err(|error| format!("{error:#}"))
        };
        let right = read(" s3cret\n").unwrap();
        assert!(right == "Bearer s3cret" && right.is_sensitive());
        assert!(read(" \n").unwrap_err().ends_with("token is empty; write a token into it"));
        let wrong = read("s3cret\nof two lines").unwrap_err();
        assert!(wrong.ends_with("token holds what no token holds"), "{wrong}");
        let itself = secret(Path::new("s3cret"), "Bearer ", "a token").unwrap_err();
        let expected = "names no file (entity not found); write the secret into a file, and its name here";
        assert_eq!(format!("{itself:#}"), expected);
    }
}
