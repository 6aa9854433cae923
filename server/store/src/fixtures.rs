//! Stores on a disk as tests look at them: one that was kept, and the bytes of all files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::FORMAT_VERSION;

/// Where the store of the present format lies: in files, those whose names end in `.zst` packed.
pub fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/stores/v{FORMAT_VERSION}"))
}

/// Makes `to` a copy of that store, unpacked.
pub fn unpack(to: &Path) -> io::Result<()> {
    copy(&stored(), to, false)
}

/// Packs or unpacks a directory and those below it.
pub fn copy(from: &Path, to: &Path, pack: bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            copy(&path, &to.join(name), pack)?;
        } else if name == "plimsoll.lock" {
        } else if pack && name != "plimsoll.json" {
            let packed = zstd::encode_all(fs::File::open(&path)?, 19)?;
            fs::write(to.join(format!("{name}.zst")), packed)?;
        } else if let Some(name) = name.strip_suffix(".zst") {
            fs::write(to.join(name), zstd::decode_all(fs::File::open(&path)?)?)?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Files and their bytes, but for the lock.
pub fn contents(dir: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        if path.is_dir() {
            all.extend(contents(&path)?);
        } else if !path.ends_with("plimsoll.lock") {
            all.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(all)
}
