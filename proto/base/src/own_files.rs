//! Opens files of a program in its own directories, so that nothing is written through a link.
//!
//! Another program may have created a link under such a name: a symbolic link, or a hard link to a file that has another name. Writing to
//! it would change that other file, with the rights of this process.
//!
//! | what is opened | what happens to a link |
//! |---|---|
//! | a new file under a name that no other process uses | [`create_new`] fails if anything has the name, also a link |
//! | a new file that replaces one left behind | [`create`] first removes what has the name; if that is a link, the file that it leads to stays |
//! | a file that is replaced in one step | [`replace`] gives its name to a new file; a link is replaced too, and the file that it leads to stays |
//! | a file that a user names for output | [`replace_named`] fails if it is a symbolic link; of a hard link, only this name gets the new file |
//! | a file that stays (lock, witness, spool) | [`open`] and [`open_or_create`] fail if it is a symbolic link, or a file with a second name |
//! | a directory | [`make_dir`] fails if it is a link |
//!
//! Links in the directories above a path are followed, because the user chose that path.

use std::{
    error::Error,
    fmt,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

/// File mode: only the owner may read and write.
const OWNERS_FILE: u32 = 0o600;
const OWNERS_DIRECTORY: u32 = 0o700;

/// Why a name is refused: writing to it could change another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The name is a symbolic link.
    Symbolic,
    /// The file has a second name (a hard link).
    Hard,
    /// A pipe, a device, or a directory instead of a file; or a file instead of a directory.
    OtherKind,
}

impl fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Symbolic => {
                "it is a symbolic link, and nothing is written through a link: remove it, or put what it leads to in its place"
            }
            Self::Hard => {
                "the file has a second name (a hard link), and what is written here would change both: put a copy in its place"
            }
            Self::OtherKind => "something else has this name: move it away",
        })
    }
}

impl Error for LinkRefusal {}

impl From<LinkRefusal> for io::Error {
    fn from(refusal: LinkRefusal) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refusal)
    }
}

impl LinkRefusal {
    /// Why a file was refused for a link, if that caused the error.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Creates a file that only its owner can read, and opens it for reading and writing.
/// Errors: the name exists, or the file cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    // O_EXCL does not follow links (open(2))
    OpenOptions::new().read(true).write(true).create_new(true).mode(OWNERS_FILE).open(path)
}

/// Creates a file as [`create_new`] does, and removes a file that an earlier run left there. Of a link, only the link itself is removed.
/// Errors: the name is a directory, or the file cannot be removed or created.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Replaces the content of the file `path` by `bytes`, durably: a crash leaves the old file or the new one. `new` is the name, in the same
/// directory, of the new file while it is written.
/// Errors: the file cannot be written or renamed.
pub fn replace(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(new, path));
    if written.is_err() {
        // the error of writing is returned, whether or not the unfinished file can be removed
        drop(fs::remove_file(new));
    }
    written?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(dir)?.sync_all()
}

/// Gives a path that a user named a new file with these bytes, in one step: the old file stays until the new one is complete. It
/// keeps the mode of the old file; a new one has that of the umask.
/// Errors: the name is a symbolic link or no plain file ([`LinkRefusal`]), or the directory cannot be written to.
pub fn replace_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => return Err(LinkRefusal::Symbolic.into()),
        Ok(found) if !found.is_file() => return Err(LinkRefusal::OtherKind.into()),
        Ok(found) => Some(found.permissions()),
        Err(_) => None,
    };
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    let draft = path.with_file_name(name);
    // the ids of processes in containers repeat, so an earlier run may have left the name
    drop(fs::remove_file(&draft));
    let made = File::create_new(&draft).and_then(|mut file| {
        mode.map_or(Ok(()), |mode| file.set_permissions(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if made.is_err() {
        drop(fs::remove_file(&draft));
    }
    made
}

/// Opens a file for reading and writing.
/// Errors: the file does not exist, is a link or has another name ([`LinkRefusal`]), or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file for reading and writing, and creates it if it does not exist. Only the owner can read a new file.
/// Errors: the file is a link or has another name ([`LinkRefusal`]), or cannot be opened.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    open_as(path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNERS_FILE))
}

fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.custom_flags(no_follow).open(path).map_err(|error| {
        if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            LinkRefusal::Symbolic.into()
        } else {
            error
        }
    })?;
    refuse_links(&file.metadata()?)?;
    Ok(file)
}

/// Refuses everything except a plain file with a single name. `found`: metadata of the open file, or of the name itself
/// (`symlink_metadata`).
/// Errors: A [`LinkRefusal`] that says why.
pub fn refuse_links(found: &Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return Err(LinkRefusal::Symbolic.into());
    }
    if !found.is_file() {
        return Err(LinkRefusal::OtherKind.into());
    }
    if found.nlink() > 1 { Err(LinkRefusal::Hard.into()) } else { Ok(()) }
}

/// Creates a directory that only its owner can read, if it does not exist.
/// Errors: the name is a link or no directory ([`LinkRefusal`]), or the directory cannot be created.
pub fn make_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OWNERS_DIRECTORY).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path)?;
            if found.is_dir() {
                return Ok(());
            }
            Err(if found.is_symlink() { LinkRefusal::Symbolic } else { LinkRefusal::OtherKind }.into())
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const PRECIOUS: &[u8] = b"of another program";

    /// Makes a link to the first path at the second.
    type Linking = fn(&Path, &Path);

    /// What has a name before it is used.
    const KINDS: [(&str, Linking); 3] = [
        ("symbolic link", |other, path| symlink(other, path).unwrap()),
        ("link to nothing", |other, path| symlink(other.with_file_name("nothing"), path).unwrap()),
        ("hard link", |other, path| fs::hard_link(other, path).unwrap()),
    ];

    fn write(file: io::Result<File>) -> io::Result<()> {
        let mut file = file?;
        file.set_len(0)?;
        file.write_all(b"ours")
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        type Opened = fn(&Path) -> io::Result<()>;
        let ways: [(&str, Opened, bool); 6] = [
            ("create_new", |path| write(create_new(path)), false),
            ("replace_named", |path| replace_named(path, b"ours"), true),
            ("create", |path| write(create(path)), true),
            ("replace", |path| replace(&path.with_extension("new"), path, b"ours"), true),
            ("open_or_create", |path| write(open_or_create(path)), false),
            ("make_dir", make_dir, false),
        ];
        for ((kind, link), (name, way, takes_the_name)) in
            KINDS.into_iter().flat_map(|kind| ways.map(|way| (kind, way)))
        {
            let dir = tempfile::tempdir().unwrap();
            let (other, path) = (dir.path().join("other"), dir.path().join("ours"));
            fs::write(&other, PRECIOUS).unwrap();
            link(&other, &path);
            let done = way(&path);
            let takes_the_name = takes_the_name && (name != "replace_named" || kind == "hard link");
            assert_eq!(done.is_ok(), takes_the_name, "{name} at a {kind}: {done:?}");
            assert_eq!(fs::read(&other).unwrap(), PRECIOUS, "{name} at a {kind}");
            assert!(!dir.path().join("nothing").try_exists().unwrap(), "{name} at a {kind}");
            if takes_the_name {
                assert_eq!(fs::read(&path).unwrap(), b"ours");
                assert!(fs::symlink_metadata(&path).unwrap().is_file());
            }
        }
    }

    #[test]
    fn replacing_a_file_ignores_links_at_its_draft() {
        for (kind, link) in KINDS {
            let dir = tempfile::tempdir().unwrap();
            let (other, path, new) =
                (dir.path().join("other"), dir.path().join("ours"), dir.path().join("ours.new"));
            fs::write(&other, PRECIOUS).unwrap();
            link(&other, &new);
            replace(&new, &path, b"ours").unwrap();
            assert_eq!(fs::read(&other).unwrap(), PRECIOUS.to_vec());
            assert_eq!(fs::read(&path).unwrap(), b"ours".to_vec());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{kind}");
        }
    }

    #[test]
    fn a_file_without_links_is_opened_privately() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ours");
        assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        write(open_or_create(&path)).unwrap();
        open_or_create(&path).unwrap();
        open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let other = dir.path().join("second name");
        fs::hard_link(&path, other).unwrap();
        assert_eq!(LinkRefusal::of(&open(&path).unwrap_err()), Some(LinkRefusal::Hard));
        make_dir(&dir.path().join("folder")).unwrap();
        make_dir(&dir.path().join("folder")).unwrap();
    }
}
