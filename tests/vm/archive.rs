//! Writes the archive from which a kernel fills its first file system: cpio in the "newc" format, as the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst` has it.

use std::{fs, io, path::Path};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive in the making.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    directories: Vec<String>,
}

impl Archive {
    /// Adds a directory and those above it, once. Paths are absolute.
    pub(crate) fn directory(&mut self, path: &str) {
        for (end, _slash) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            let above = &path[..end];
            if !above.is_empty() && !self.directories.iter().any(|known| known == above) {
                self.directories.push(above.to_owned());
                self.entry(above, DIRECTORY, &[]);
            }
        }
    }

    /// Adds an executable file.
    pub(crate) fn program(&mut self, path: &str, content: &[u8]) {
        self.directory(path.rsplit_once('/').unwrap().0);
        self.entry(path, PROGRAM, content);
    }

    /// Ends the archive and writes it to a file.
    pub(crate) fn write(mut self, path: &Path) -> io::Result<()> {
        self.entry("/TRAILER!!!", 0, &[]);
        fs::write(path, self.bytes)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        let name = path.trim_start_matches('/');
        self.entries += 1;
        let length = |bytes: usize| u32::try_from(bytes).unwrap();
        // inode, mode, user, group, links, time, size, four device numbers, name with its zero, no checksum
        let fields =
            [self.entries, mode, 0, 0, 1, 0, length(content.len()), 0, 0, 0, 0, length(name.len() + 1), 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[test]
fn an_archive_lists_each_directory_once_before_files() {
    let mut archive = Archive::default();
    archive.program("/lib/x/one", b"12345");
    archive.program("/lib/x/two", b"");
    let bytes = archive.bytes;
    let text = String::from_utf8(bytes).unwrap();
    let names = text.split("070701").skip(1).map(|entry| entry[104..].split('\0').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["lib", "lib/x", "lib/x/one", "lib/x/two"]);
    assert_eq!(text.len() % 4, 0);
    assert!(text.contains("12345\0\0\x00070701"), "content is padded to four bytes");
}
