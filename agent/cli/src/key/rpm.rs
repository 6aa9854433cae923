//! The key of an RPM build, from the command `mock`, `rpmbuild` or `copr-rpmbuild` (`copr_task`), also behind `unbuffer`.
//!
//! | part of the key | from |
//! |---|---|
//! | package, version | the name of the source package: `hello-2.12-1.fc42.src.rpm`; of a spec file the package alone |
//! | arch | the chroot: `mock -r fedora-42-x86_64`, or what the file behind `-r` includes (`mock_config`) |
//! | owner, project | the macros `copr_username` and `copr_projectname`, which Copr's builder writes into that file |
//! | `build_system` | `rpm` |
//! | `build_jobs` | the macro `_smp_mflags`; or else `RPM_BUILD_NCPUS`, or the processors, at most `_smp_ncpus_max` |
//!
//! A macro comes from `--define`, or else from the file behind `-r`. Mock does not pass the agent's `RPM_BUILD_NCPUS` into its chroot, so
//! it counts for `rpmbuild` alone. Number of jobs: RPM's `macros.in`, `%_smp_build_ncpus`.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use plimsoll_proto::{
    job::{build_jobs, clean_and_cut},
    limits,
    v1::Key,
};

use super::{
    copr_task::{COPR_BUILDER, CoprTask},
    jobs_flag,
    mock_config::MockConfig,
    processors,
};

/// Programs that build RPMs.
const RPM_PROGRAMS: [&str; 2] = ["mock", "rpmbuild"];
/// Name of the program that runs another one on a terminal. Copr's builder calls mock with it.
const UNBUFFER: &str = "unbuffer";

/// Adds what the command shows about an RPM build to the key. Does nothing for other commands. `ncpus`: the variable `RPM_BUILD_NCPUS`.
pub(super) fn describe(key: &mut Key, command: &[OsString], ncpus: Option<u32>) {
    let words: Vec<&str> = behind_unbuffer(command).iter().skip(1).filter_map(|word| word.to_str()).collect();
    if behind_unbuffer(command).first().and_then(file_name) == Some(COPR_BUILDER) {
        describe_task(key, &CoprTask::of(|names| option(&words, names)));
        return;
    }
    let Some(program) = program(command) else { return };
    let is_mock = program == "mock";
    set(&mut key.build_system, "rpm");
    if let Some((package, version)) = words.iter().rev().find_map(|word| source(word)) {
        set(&mut key.package, package);
        set(&mut key.version, version);
    }
    // for rpmbuild, -r begins an action, and --root is a folder
    let chroot = option(&words, &["-r", "--root"]).last().copied().filter(|_| is_mock);
    let config = chroot.map(MockConfig::of).unwrap_or_default();
    if let Some(chroot) = &config.chroot {
        set(&mut key.arch, chroot);
    }
    let of_file = config.macros.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let defines = option(&words, &["-D", "--define"]);
    let defined = defines.iter().filter_map(|define| define.trim().split_once(char::is_whitespace));
    let macros: BTreeMap<&str, &str> =
        of_file.chain(defined).map(|(name, value)| (name, value.trim())).collect();
    if let Some(owner) = macros.get("copr_username") {
        set(&mut key.owner, owner);
    }
    if let Some(project) = macros.get("copr_projectname") {
        set(&mut key.project, project);
    }
    if let Some(jobs) = jobs(&macros, ncpus.filter(|_| !is_mock)) {
        key.hints.get_or_insert_default().build_jobs = Some(jobs);
    }
}

/// Puts a task of Copr into the key.
fn describe_task(key: &mut Key, task: &CoprTask) {
    set(&mut key.build_system, "rpm");
    if task.package_name.as_ref().is_some_and(|name| !name.is_empty()) {
        // a version that is known already may be that of another package
        key.version.clear();
    }
    for (field, value) in [
        (&mut key.package, task.package_name.as_deref()),
        (&mut key.version, task.version()),
        (&mut key.arch, task.chroot.as_deref()),
        (&mut key.owner, task.project_owner.as_deref()),
        (&mut key.project, task.project_name.as_deref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            set(field, value);
        }
    }
}

fn set(field: &mut String, value: &str) {
    *field = clean_and_cut(value, limits::KEY_FIELD_BYTES);
}

/// The program of a command that builds RPMs.
pub(crate) fn program(command: &[OsString]) -> Option<&str> {
    file_name(behind_unbuffer(command).first()?).filter(|name| RPM_PROGRAMS.contains(name))
}

/// The command without a leading `unbuffer` and its options.
pub(super) fn behind_unbuffer(command: &[OsString]) -> &[OsString] {
    match command.split_first() {
        Some((first, words)) if file_name(first) == Some(UNBUFFER) => {
            let is_option = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
            let options = words.iter().take_while(|word| is_option(word)).count();
            words.get(options..).unwrap_or_default()
        }
        _ => command,
    }
}

fn file_name(word: &OsString) -> Option<&str> {
    Path::new(word).file_name()?.to_str()
}

/// Number of parallel jobs, computed as RPM does. `None` if the agent itself sets it in the command: `_smp_mflags -j{jobs}`.
fn jobs(macros: &BTreeMap<&str, &str>, ncpus: Option<u32>) -> Option<u32> {
    let flags = macros.get("_smp_mflags").copied().unwrap_or_default();
    if macros.values().any(|value| value.contains("{jobs}")) {
        return None;
    }
    if flags == "%{nil}" {
        return Some(1);
    }
    let most = macros.get("_smp_ncpus_max").and_then(|most| build_jobs(most)).unwrap_or(limits::BUILD_JOBS);
    jobs_flag(flags.split_whitespace()).or_else(|| Some(ncpus.or_else(processors)?.min(most)))
}

/// Name and version of a source package, or the name of a spec file.
fn source(word: &str) -> Option<(&str, &str)> {
    let word = word.strip_prefix("--spec=").unwrap_or(word);
    if word.starts_with('-') {
        return None;
    }
    let file = Path::new(word).file_name()?.to_str()?;
    if let Some(package) = file.strip_suffix(".spec") {
        return Some((package, ""));
    }
    let name = file.strip_suffix(".src.rpm").or_else(|| file.strip_suffix(".nosrc.rpm"))?;
    let (name, _release) = name.rsplit_once('-')?;
    name.rsplit_once('-')
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
pub(super) mod tests;
