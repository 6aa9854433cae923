//! The file that keeps one attempt until the server has sealed it.
//!
//! The bytes of the file, which never change for version 1:
//!
//! ```text
//! 8 bytes "plimsoll", u32 BE version = 1
//! record  Hello
//! record  Batch, for each sample as it comes; `attempt` is left empty, because Hello names it
//! record  Finish, if the agent saw the end; `lost` is left 0, because it depends on what the server has
//! ```
//!
//! A record is a length, a checksum and a message; `record.rs` has the bytes. The first Batch need not have number 1: samples that the
//! server has are dropped from the front, all but the newest of them (`compact.rs`). If an attempt ends badly:
//!
//! - The agent is killed: every sample that was added and not dropped is in the file, because it is written there before anything else is
//!   done with it. There is no Finish.
//! - Power is cut: any part at the end may be missing or incomplete, because the file is never synced; samples that the server has
//!   acknowledged are safe there. A file that was just compacted may be empty. Reading stops at the first record that is not complete.
//! - The disk is full: the incomplete record is removed, the sample stays in memory only, and a later sample may be written once there is
//!   space. The numbers between are missing in the file, and are declared lost if memory does not have them either.
//!
//! A file is created as `.draft`, locked, and then renamed to `.spool`, so the agent of a `.spool` file that is not locked is dead.
//! `.spool` becomes `.refused` if the server will never accept the attempt, or if the beginning of the file is damaged.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use bytesize::ByteSize;
use plimsoll_base::own_files;
use plimsoll_proto::v1::{Batch, Finish, Hello, Sample, agent_message::Message};
use prost::Message as _;
use rustix::process::geteuid;

use super::{
    destination::SpoolDestination,
    front::SpoolFront,
    quota::{DRAFT_SUFFIX, REFUSED_SUFFIX, SPOOL_SUFFIX, SpoolQuota},
    record,
};

/// User id of root, which owns directories that all users share.
const ROOT_USER_ID: u32 = 0;
/// Mode bit of a directory: every user may add and remove files.
const WRITABLE_BY_ALL: u32 = 0o002;
/// Mode bit of a directory: only the owner of a file may remove or replace it.
const STICKY_BIT: u32 = 0o1000;
/// The first bytes of a spool file: name and version.
const MAGIC: &[u8; 12] = b"plimsoll\0\0\0\x01";
/// Offset of the first record, which is Hello.
const HELLO_AT: u64 = MAGIC.len() as u64;

/// An open and locked spool file.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(super) file: File,
    pub(crate) path: PathBuf,
    /// Bytes of complete records: the offset at which the next record is written.
    pub(super) len: u64,
    pub(super) front: SpoolFront,
    pub(super) quota: SpoolQuota,
    write_error: Option<String>,
}

/// What was read so far from a spool file of an earlier run.
#[derive(Debug)]
pub(super) struct SpoolContents {
    pub(super) hello: Hello,
    /// Number and sample of the last sample record.
    pub(super) last: Option<(u64, Sample)>,
    pub(super) finish: Option<Finish>,
    offset: u64,
}

/// What still fits in one batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchBounds {
    /// Number of samples that still fit.
    pub(super) samples: usize,
    /// Bytes of the encoded message that still fit.
    pub(super) bytes: usize,
}

impl BatchBounds {
    /// Counts one more sample; returns false if it does not fit.
    pub(super) fn admit(&mut self, sample: &Sample) -> bool {
        // a tag and a length precede each sample; two bytes are enough for the length
        let bytes = sample.encoded_len().saturating_add(4);
        if self.samples == 0 || bytes > self.bytes {
            return false;
        }
        self.samples = self.samples.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// The result of taking over a file of an earlier run.
#[derive(Debug)]
pub(super) enum AdoptedSpool {
    /// Another agent uses or delivers the file, or a newer version wrote it: it is left as it is.
    Busy,
    /// The file contains nothing that could be sent.
    Damaged(Spool),
    /// The file waits for delivery.
    Orphan(Spool, Box<SpoolContents>),
}

impl Spool {
    /// Creates a spool file without a destination in its name.
    pub(crate) fn create(dir: &Path, bytes: u64, hello: &Hello) -> io::Result<Self> {
        Self::create_for(dir, bytes, hello, None)
    }

    /// Creates the file of a new attempt, with its `destination` in the name. `bytes`: the limit for all files of `dir` together.
    pub(super) fn create_for(
        dir: &Path,
        bytes: u64,
        hello: &Hello,
        destination: Option<&SpoolDestination>,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        refuse_shared(dir)?;
        let name = file_name(hello, destination);
        let draft = dir.join(&name).with_extension(DRAFT_SUFFIX);
        let file = own_files::create_new(&draft)?;
        let (front, room) = (SpoolFront::default(), SpoolQuota::new(dir, bytes));
        let mut spool = Self { file, path: draft, len: 0, front, quota: room, write_error: None };
        let made = spool.write_start(hello, &dir.join(name));
        if made.is_err() {
            drop(fs::remove_file(&spool.path));
        }
        made.map(|()| spool)
    }

    fn write_start(&mut self, hello: &Hello, path: &Path) -> io::Result<()> {
        lock(&self.file);
        let mut start = MAGIC.to_vec();
        start.extend(record::encode(Message::Hello(hello.clone())));
        self.write(&start)?;
        self.front = SpoolFront::new(self.len);
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        Ok(())
    }

    /// Takes over a file that an earlier run of the same user left behind. Its samples are delivered with this run's token, so files of
    /// other users, symbolic links, and files with a second hard link are refused.
    pub(super) fn adopt(path: &Path) -> io::Result<AdoptedSpool> {
        let file = own_files::open(path)?;
        refuse_owner(file.metadata()?.uid(), geteuid().as_raw())?;
        // between opening and locking, the file may have been replaced or delivered
        if file.try_lock().is_err() || !is_file_at(&file, path)? {
            return Ok(AdoptedSpool::Busy);
        }
        Ok(Self::classify_file(file, path))
    }

    /// Reads the beginning of an open file, and classifies the file.
    pub(super) fn classify_file(file: File, path: &Path) -> AdoptedSpool {
        let mut magic = [0; MAGIC.len()];
        let whole = file.read_exact_at(&mut magic, 0).is_ok();
        if whole && magic.starts_with(b"plimsoll") && magic != *MAGIC {
            return AdoptedSpool::Busy;
        }
        let (front, room) = (SpoolFront::default(), SpoolQuota::none());
        let mut spool = Self { file, path: path.to_owned(), len: 0, front, quota: room, write_error: None };
        match record::read_at(&spool.file, HELLO_AT).filter(|_| magic == *MAGIC) {
            Some((Message::Hello(hello), offset)) => {
                spool.front = SpoolFront::new(offset);
                AdoptedSpool::Orphan(
                    spool,
                    Box::new(SpoolContents { hello, last: None, finish: None, offset }),
                )
            }
            _ => AdoptedSpool::Damaged(spool),
        }
    }

    /// Reads at most `records` more records of a file of an earlier run. Returns false at the end of the readable records.
    pub(super) fn look_through(&self, contents: &mut SpoolContents, records: usize) -> bool {
        for _ in 0..records {
            match record::read_at(&self.file, contents.offset) {
                Some((Message::Batch(batch), next)) => {
                    contents.last = numbered(&batch).last().or(contents.last);
                    contents.offset = next;
                }
                Some((Message::Finish(finish), next)) => {
                    contents.finish = Some(finish);
                    contents.offset = next;
                }
                Some((Message::Hello(_), _)) | None => return false,
            }
        }
        true
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why records cannot be written to the file, as text for people; `None` if they can.
    pub(super) fn write_error(&self) -> Option<&str> {
        self.write_error.as_deref()
    }

    /// Writes one sample; returns false if that failed.
    pub(super) fn append_sample(&mut self, number: u64, sample: Sample) -> bool {
        let batch = Batch { first_sequence: number, samples: vec![sample], ..Batch::default() };
        self.append(Message::Batch(batch))
    }

    /// Writes the end of the attempt; returns false if that failed.
    pub(super) fn append_finish(&mut self, finish: &Finish) -> bool {
        // `keeps_ticket` is false in the file: if a later run delivers it, the ticket no longer has its slot
        self.append(Message::Finish(Finish { attempt: String::new(), keeps_ticket: false, ..finish.clone() }))
    }

    fn append(&mut self, message: Message) -> bool {
        match self.write(&record::encode(message)) {
            Ok(()) => true,
            Err(error) => {
                let trouble = format!("cannot keep samples in {}: {error}", self.path.display());
                if self.write_error.is_none() {
                    tracing::warn!(path = %self.path.display(), %error, "cannot keep samples on disk");
                }
                self.write_error = Some(trouble);
                false
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let more = bytes.len() as u64;
        if !self.quota.admits(&self.path, self.len, more) {
            let bound = ByteSize(self.quota.bytes());
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, format!("the spool is full ({bound})")));
        }
        if let Err(error) = self.file.write_all_at(bytes, self.len) {
            // this removes the incomplete record, so that it does not end up between two complete ones
            drop(self.file.set_len(self.len));
            return Err(error);
        }
        self.len = self.len.saturating_add(more);
        Ok(())
    }

    /// Reads the samples from number `from` on: as many as `bounds` allow, without a gap between them, and below number `before`. Reading
    /// begins at `offset` (0 is the beginning of the file), which is then set to where the next call has to begin.
    pub(super) fn read_run(
        &self,
        offset: &mut u64,
        from: u64,
        before: u64,
        bounds: BatchBounds,
    ) -> Vec<(u64, Sample)> {
        let mut run: Vec<(u64, Sample)> = Vec::new();
        let mut left = bounds;
        let mut at = self.front.place_of(*offset);
        while let Some((message, next)) = record::read_at(&self.file, at) {
            let more: Vec<_> = match &message {
                Message::Batch(batch) => numbered(batch).filter(|(number, _)| *number >= from).collect(),
                Message::Hello(_) | Message::Finish(_) => Vec::new(),
            };
            let reached = more.first().is_some_and(|(number, _)| *number >= before);
            if reached || !continues_run(&run, &more) || !more.iter().all(|(_, sample)| left.admit(sample)) {
                break;
            }
            run.extend(more);
            at = next;
        }
        *offset = self.front.offset_of(at);
        run
    }

    /// Deletes the file, because the server has everything.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove a delivered spool file");
        }
    }

    /// Renames the file to `.refused`, so that no later run tries to deliver it again. `why` is logged.
    pub(super) fn set_aside(&mut self, why: &str) {
        let aside = self.path.with_extension(REFUSED_SUFFIX);
        tracing::warn!(path = %aside.display(), why, "set a spool file aside");
        match fs::rename(&self.path, &aside) {
            Ok(()) => self.path = aside,
            Err(error) => tracing::debug!(%error, "cannot rename a refused spool file"),
        }
    }
}

/// Refuses to deliver a file of the user `owner`, if this process runs as another user, `own`.
fn refuse_owner(owner: u32, own: u32) -> io::Result<()> {
    if owner == own {
        return Ok(());
    }
    let reason = format!(
        "it belongs to user {owner}, and this agent runs as user {own}: give each user a spool directory of its own"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// The directory for this user's spool files: `dir`, or a directory in it if all users may create and replace files in `dir`, as in an
/// `emptyDir` of Kubernetes.
pub(crate) fn own_dir(dir: &Path) -> PathBuf {
    let is_open =
        fs::metadata(dir).is_ok_and(|found| found.mode() & (WRITABLE_BY_ALL | STICKY_BIT) == WRITABLE_BY_ALL);
    let own = dir.join(format!("user-{}", geteuid()));
    let is_link = fs::symlink_metadata(&own).is_ok_and(|found| found.is_symlink());
    // another user may have created a symbolic link with this name; `dir` is then used unchanged, and refused later
    if is_open && !is_link { own } else { dir.to_owned() }
}

/// Refuses a directory in which another user could replace our files. Directories of root are accepted, because `/tmp` is one, and so are
/// directories with the sticky bit.
fn refuse_shared(dir: &Path) -> io::Result<()> {
    let found = fs::metadata(dir)?;
    if found.mode() & (WRITABLE_BY_ALL | STICKY_BIT) == WRITABLE_BY_ALL {
        let reason = "every user can replace the files in it: give each user a spool directory of its own, or set its sticky bit";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    match found.uid() {
        ROOT_USER_ID => Ok(()),
        owner => refuse_owner(owner, geteuid().as_raw()),
    }
}

fn numbered(batch: &Batch) -> impl Iterator<Item = (u64, Sample)> + '_ {
    (batch.first_sequence..).zip(batch.samples.iter().copied())
}

/// Whether the samples `more` follow `run` without a gap. Any samples follow an empty run.
fn continues_run(run: &[(u64, Sample)], more: &[(u64, Sample)]) -> bool {
    match (run.last(), more.first()) {
        (Some((last, _)), Some((first, _))) => *first == last.saturating_add(1),
        _ => true,
    }
}

/// Locks a new file, so that runs that search for files of dead agents do not take it. On a file system without locks, those runs cannot
/// lock it either.
pub(super) fn lock(file: &File) {
    if let Err(TryLockError::Error(error)) = file.try_lock() {
        tracing::debug!(%error, "spool file cannot be locked");
    }
}

/// Whether `file` is the file that `path` now names.
pub(super) fn is_file_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, there) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// Makes a file name that is valid on all file systems. The session makes it unique; the last part names the server that the file is for.
/// The attempt's id may be changed in the name, so readers take it from the file's Hello.
fn file_name(hello: &Hello, destination: Option<&SpoolDestination>) -> String {
    let safe = |text: &str, most: usize| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
        text.chars().take(most).map(plain).collect()
    };
    let waits_for =
        destination.map(|destination| format!("{}.", destination.name_part())).unwrap_or_default();
    format!("{}-{}.{waits_for}{SPOOL_SUFFIX}", safe(&hello.attempt, 128), safe(&hello.session, 64))
}

#[cfg(test)]
mod tests;
