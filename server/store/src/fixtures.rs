//! Stores on a disk as tests look at them: those that earlier versions wrote, and the bytes of all files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Where the store lies that a format left: in files, those whose names end in `.zst` packed.
pub fn stored(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/stores/v{format}"))
}

/// Makes `to` a copy of the store that a format left, unpacked.
pub fn unpack(format: u32, to: &Path) -> io::Result<()> {
    copy(&stored(format), to, false)
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
