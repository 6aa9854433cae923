//! The task that Copr's builder works on, from the command line of `copr-rpmbuild` and the file that it names.
//!
//! | part of the key | first of these |
//! |---|---|
//! | package, version | `package_name` and `package_version` of the task, without epoch and release |
//! | arch | `--chroot`, the task's `chroot`, the end of `--task-url` (`.../get-build-task/7-fedora-42-x86_64`) |
//! | owner, project | `project_owner` and `project_name` of the task, `--copr` (`@group/project`) |
//!
//! The task is the JSON of `--task-file` (`get_task` in Copr's `rpmbuild/main.py`). An address is never asked: with `--task-url` and
//! `--build-id` only the words of the command are known.

use serde::Deserialize;

use super::mock_config::read_start;

/// Name of the program that builds for Copr.
pub(super) const COPR_BUILDER: &str = "copr-rpmbuild";

/// Most bytes of a task that are read. Tasks have some KiB, and the list of their repositories can be long.
const TASK_BYTES: u64 = 1 << 20;

/// The fields of a Copr task that the agent uses. Copr writes `null` for a value that it does not know.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CoprTask {
    pub(super) project_owner: Option<String>,
    pub(super) project_name: Option<String>,
    /// Name of the project, and after a colon the directory in it.
    project_dirname: Option<String>,
    pub(super) package_name: Option<String>,
    /// Version of the package as `epoch:version-release`, with or without epoch and release.
    package_version: Option<String>,
    pub(super) chroot: Option<String>,
}

impl CoprTask {
    /// Reads the task from the options of `copr-rpmbuild`, and from the file that `--task-file` names. `option` returns the values of an
    /// option, given all its names.
    pub(super) fn of<'w>(option: impl Fn(&[&str]) -> Vec<&'w str>) -> Self {
        let last = |names: &[&str]| option(names).last().copied();
        let file = last(&["--task-file"]).and_then(|path| read_start(path, TASK_BYTES));
        let mut task: Self = file.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let chroot = last(&["-r", "--chroot"]).map(str::to_owned);
        let of_address = || chroot_of_address(last(&["--task-url"])?).map(str::to_owned);
        task.chroot = chroot.or(task.chroot).or_else(of_address);
        if let Some((owner, project)) = last(&["--copr"]).and_then(|copr| copr.rsplit_once('/')) {
            task.project_owner.get_or_insert_with(|| owner.to_owned());
            task.project_name.get_or_insert_with(|| project.to_owned());
        }
        let of_directory = task.project_dirname.as_deref().and_then(|name| name.split(':').next());
        task.project_name = task.project_name.or_else(|| of_directory.map(str::to_owned));
        task
    }

    /// The version of the package without epoch and release.
    pub(super) fn version(&self) -> Option<&str> {
        let version = self.package_version.as_deref()?;
        let version = version.split_once(':').map_or(version, |(_epoch, version)| version);
        Some(version.split_once('-').map_or(version, |(version, _release)| version))
    }
}

/// `fedora-42-x86_64` of an address that ends with the task `7-fedora-42-x86_64`. Sources are made in no chroot: their task is a number.
/// What follows `?` or `#` may be secret.
fn chroot_of_address(address: &str) -> Option<&str> {
    let path = address.split(['?', '#']).next()?;
    let (build, chroot) = path.rsplit('/').next()?.split_once('-')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    (build.bytes().all(|byte| byte.is_ascii_digit()) && chroot.bytes().all(is_name)).then_some(chroot)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use plimsoll_proto::v1::Key;

    use super::super::rpm::{describe, tests::described};

    /// A task as Copr's frontend makes it (`get_build_record`), cut.
    const TASK: &str = r#"{"task_id": "7-fedora-42-x86_64", "build_id": 7, "project_owner": "@team", "sandbox": "@team/apps--me",
        "background": false, "chroot": "fedora-42-x86_64", "tags": ["arch_x86_64"], "arch": "x86_64", "project_dirname": "apps:custom:1",
        "project_name": "apps", "submitter": "me", "repos": [], "git_repo": "@team/apps/hello", "git_hash": "c0ffee", "source_type": 8,
        "source_json": "{}", "package_name": "hello", "package_version": "1:2.12-1.fc42", "timeout": 18000, "isolation": null}"#;

    #[test]
    fn a_task_file_fills_the_key() {
        let (_dir, file) = plimsoll_support::temporary::file_with("task.json", TASK);
        let named = format!("--task-file={}", file.display());
        let key = described(&["/usr/bin/copr-rpmbuild", "--verbose", "--drop-resultdir", &named]);
        assert_eq!([key.package, key.version, key.arch], ["hello", "2.12", "fedora-42-x86_64"]);
        assert_eq!([key.owner, key.project, key.build_system], ["@team", "apps", "rpm"]);
        let chroot = described(&["copr-rpmbuild", &named, "--chroot", "epel-9-x86_64"]).arch;
        assert_eq!(chroot, "epel-9-x86_64", "as for Copr, the option wins");
        let repositories = format!("[\"{}\"]", "x".repeat(100 << 10));
        std::fs::write(&file, TASK.replace("\"repos\": []", &format!("\"repos\": {repositories}"))).unwrap();
        assert_eq!(described(&["copr-rpmbuild", &named]).package, "hello", "a long task");
        std::fs::write(&file, TASK.replace("\"project_name\": \"apps\",", "")).unwrap();
        assert_eq!(described(&["copr-rpmbuild", &named]).project, "apps");
    }

    #[test]
    fn without_a_task_file_only_options_are_read() {
        let url = "https://copr.example.org/backend/get-build-task/7-fedora-42-x86_64";
        for words in [
            &["copr-rpmbuild", "--task-url", url][..],
            &["copr-rpmbuild", "--task-url", url, "--chroot", "fedora-42-x86_64", "--detached"],
            &["copr-rpmbuild", "--task-url", &format!("{url}?token=a/b-c")],
            &["copr-rpmbuild", "--task-url", &format!("{url}#7-other")],
            &["copr-rpmbuild", "--build-id", "7", "-r", "fedora-42-x86_64"],
            &["copr-rpmbuild", "--copr", "@team/apps", "-r", "fedora-42-x86_64"],
        ] {
            let key = described(words);
            assert_eq!(key.arch.as_str(), "fedora-42-x86_64", "{words:?}");
            assert_eq!(key.build_system.as_str(), "rpm", "{words:?}");
            let is_named = words.contains(&"--copr");
            let expected = if is_named { ["@team", "apps"] } else { ["", ""] };
            assert_eq!([key.owner, key.project], expected, "{words:?}");
        }
        let sources =
            described(&["copr-rpmbuild", "--srpm", "--task-url", "https://x/get-srpm-build-task/7"]);
        assert_eq!([sources.arch, sources.package], ["", ""]);
        let odd =
            described(&["copr-rpmbuild", "--task-url", "https://x/get-build-task/7-fedora;token=c0ffee"]);
        assert_eq!(odd.arch, "");
    }

    #[test]
    fn a_new_package_drops_the_known_version() {
        let (_dir, file) = plimsoll_support::temporary::file_name("task.json");
        let command = ["copr-rpmbuild", "--task-file", file.to_str().unwrap()].map(OsString::from);
        let known =
            Key { package: "zlib".into(), version: "1.3".into(), owner: "me".into(), ..Key::default() };
        for (text, package, version) in [
            (r#"{"package_name": "", "package_version": "", "project_owner": ""}"#, "zlib", "1.3"),
            (r#"{"package_name": "hello"}"#, "hello", ""),
        ] {
            std::fs::write(&file, text).unwrap();
            let mut key = known.clone();
            describe(&mut key, &command, None);
            assert_eq!([key.package.as_str(), &key.version, &key.owner], [package, version, "me"], "{text}");
        }
    }

    #[test]
    fn an_invalid_task_file_only_names_rpm() {
        let (_dir, file) = plimsoll_support::temporary::file_name("task.json");
        for text in ["", "null", "[]", "{", r#"{"package_name": 7}"#, "{\"chroot\": null}"] {
            std::fs::write(&file, text).unwrap();
            let key = described(&["copr-rpmbuild", "--task-file", file.to_str().unwrap()]);
            assert_eq!([key.package.as_str(), &key.arch, &key.build_system], ["", "", "rpm"], "{text:?}");
        }
        assert_eq!(described(&["copr-rpmbuild", "--task-file", "/nowhere"]).package, "");
    }
}
