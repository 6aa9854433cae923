//! The key of an RPM build, from the command `mock` or `rpmbuild`.
//!
//! | part of the key | from |
//! |---|---|
//! | package, version | the name of the source package: `hello-2.12-1.fc42.src.rpm`; of a spec file the package alone |
//! | arch | the chroot: `mock -r fedora-42-x86_64`, or the name of its file |
//! | owner, project | `--define 'copr_username @team'`, `--define 'copr_projectname apps'`, which Copr's builder sets |
//! | `build_system` | `rpm` |

use std::{ffi::OsString, path::Path};

use plimsoll_proto::{job::fitting, limits, v1::Key};

/// Programs that build RPMs.
const PROGRAMS: [&str; 2] = ["mock", "rpmbuild"];

/// Puts what the command says into the key. Does nothing for other commands.
pub(super) fn describe(key: &mut Key, command: &[OsString]) {
    let name = command.first().and_then(|program| Path::new(program).file_name()?.to_str());
    if !name.is_some_and(|name| PROGRAMS.contains(&name)) {
        return;
    }
    let words: Vec<&str> = command.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let set = |field: &mut String, value: &str| *field = fitting(value, limits::KEY_FIELD_BYTES);
    set(&mut key.build_system, "rpm");
    if let Some((package, version)) = words.iter().rev().find_map(|word| source(word)) {
        set(&mut key.package, package);
        set(&mut key.version, version);
    }
    if let Some(chroot) = option(&words, &["-r", "--root"]).last() {
        set(&mut key.arch, chroot_name(chroot));
    }
    for define in option(&words, &["-D", "--define"]) {
        match define.trim().split_once(char::is_whitespace) {
            Some(("copr_username", owner)) => set(&mut key.owner, owner.trim()),
            Some(("copr_projectname", project)) => set(&mut key.project, project.trim()),
            _ => {}
        }
    }
}

/// Name and version of a source package, or the name of a spec file.
fn source(word: &str) -> Option<(&str, &str)> {
    let file = Path::new(word).file_name()?.to_str()?;
    if let Some(package) = file.strip_suffix(".spec") {
        return Some((package, ""));
    }
    let name = file.strip_suffix(".src.rpm").or_else(|| file.strip_suffix(".nosrc.rpm"))?;
    let (name, _release) = name.rsplit_once('-')?;
    name.rsplit_once('-')
}

/// `fedora-42-x86_64`, also where its file is named: `/etc/mock/fedora-42-x86_64.cfg`.
fn chroot_name(chroot: &str) -> &str {
    let file = Path::new(chroot).file_name().and_then(|file| file.to_str()).unwrap_or(chroot);
    file.strip_suffix(".cfg").unwrap_or(file)
}

/// The values of an option: `-r X`, `-rX`, `--root X`, `--root=X`.
fn option<'w>(words: &[&'w str], names: &[&str]) -> Vec<&'w str> {
    let mut values = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let joined = |name: &&str| {
            let rest = word.strip_prefix(*name)?;
            if name.starts_with("--") {
                rest.strip_prefix('=')
            } else {
                Some(rest).filter(|rest| !rest.is_empty())
            }
        };
        if names.contains(word) {
            values.extend(words.get(at + 1));
        } else {
            values.extend(names.iter().find_map(joined));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(words: &[&str]) -> Key {
        let mut key = Key::default();
        describe(&mut key, &words.iter().map(OsString::from).collect::<Vec<_>>());
        key
    }

    #[test]
    fn a_build_of_copr_names_package_version_chroot_owner_and_project() {
        let key = described(&[
            "/usr/bin/mock",
            "-r",
            "/var/lib/copr-rpmbuild/fedora-42-x86_64.cfg",
            "--define",
            "copr_username @team",
            "--define=copr_projectname apps",
            "--rebuild",
            "/tmp/python-3.x-tools-2.12.1-4.fc42.src.rpm",
        ]);
        let Key { package, version, arch, owner, project, build_system, .. } = key;
        assert_eq!([package, version, arch], ["python-3.x-tools", "2.12.1", "fedora-42-x86_64"]);
        assert_eq!([owner, project, build_system], ["@team", "apps", "rpm"]);
    }

    #[test]
    fn rpmbuild_and_short_options_are_read_and_other_programs_are_not() {
        let key = described(&["rpmbuild", "-bb", "hello.spec"]);
        assert_eq!([key.package, key.version, key.arch], ["hello", "", ""]);
        assert_eq!(described(&["mock", "-repel-9-x86_64", "a-1-2.src.rpm"]).arch, "epel-9-x86_64");
        assert_eq!(described(&["mock", "--root=epel-9-x86_64"]).arch, "epel-9-x86_64");
        assert_eq!(described(&["make", "-r", "x", "a-1-2.src.rpm"]), Key::default());
        for odd in [
            &["mock"][..],
            &["mock", "-r"],
            &["mock", "--define"],
            &["mock", "src.rpm", ".src.rpm", "a.src.rpm"],
        ] {
            assert_eq!(described(odd).package, "", "{odd:?}");
        }
    }
}
