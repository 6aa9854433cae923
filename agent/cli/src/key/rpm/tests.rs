//! Keys of commands that build RPMs.

use super::*;

fn command(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

pub(in crate::key) fn described(words: &[&str]) -> Key {
    let mut key = Key::default();
    describe(&mut key, &command(words), Some(6));
    key
}

#[test]
fn defined_macros_set_owner_and_project() {
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
fn only_rpm_programs_and_their_options_are_read() {
    let key = described(&["rpmbuild", "-bb", "hello.spec"]);
    assert_eq!([key.package, key.version, key.arch], ["hello", "", ""]);
    assert_eq!(described(&["mock", "-repel-9-x86_64", "a-1-2.src.rpm"]).arch, "epel-9-x86_64");
    assert_eq!(described(&["mock", "--root=epel-9-x86_64"]).arch, "epel-9-x86_64");
    assert_eq!(described(&["make", "-r", "x", "a-1-2.src.rpm"]), Key::default());
    for odd in
        [&["mock"][..], &["mock", "-r"], &["mock", "--define"], &["mock", "src.rpm", ".src.rpm", "a.src.rpm"]]
    {
        assert_eq!(described(odd).package, "", "{odd:?}");
    }
}

#[test]
fn a_copr_mock_command_fills_the_key() {
    let (dir, file) = plimsoll_support::temporary::file_name("child.cfg");
    let lines = [
        "include('/etc/mock/fedora-42-x86_64.cfg')",
        "",
        "config_opts.setdefault('plugin_conf', {})",
        "config_opts['macros']['%vendor'] = 'Fedora Project COPR - group @team'",
        "config_opts['macros']['%copr_username'] = '@team'",
        "config_opts['macros']['%copr_projectname'] = 'apps'",
        "config_opts['macros']['%_smp_mflags'] = '-j5'",
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let source = "/r/hello-2.12-1.fc42.src.rpm";
    let words =
        ["unbuffer", "mock", "--rebuild", source, "--resultdir", "/r", "--uniqueext", "1.2", "-r", file];
    let Key { package, version, arch, owner, project, hints, .. } = described(&words);
    assert_eq!([package, version, arch], ["hello", "2.12", "fedora-42-x86_64"]);
    assert_eq!([owner, project], ["@team", "apps"]);
    assert_eq!(hints.unwrap().build_jobs, Some(5));
    let defined = [&words[..], &["-D", "copr_username me", "-D", "_smp_mflags -j3"]].concat();
    let Key { owner, project, hints, .. } = described(&defined);
    assert_eq!((owner.as_str(), project.as_str(), hints.unwrap().build_jobs), ("me", "apps", Some(3)));
    // the file is gone: what else is known stays
    drop(dir);
    let mut key = Key { owner: "bot".to_owned(), arch: "x86_64".to_owned(), ..Key::default() };
    describe(&mut key, &command(&words), None);
    assert_eq!([key.package, key.owner, key.project, key.arch], ["hello", "bot", "", "x86_64"]);
}

#[test]
fn chroots_are_read_only_from_mock() {
    let source = "hello-2.12-1.fc42.src.rpm";
    for words in [["rpmbuild", "-rb", source], ["rpmbuild", "--root=/srv/root", source]] {
        let key = described(&words);
        assert_eq!([key.package.as_str(), key.arch.as_str()], ["hello", ""], "{words:?}");
    }
    for words in
        [&["mock", "--buildsrpm", "--spec=hello.spec"][..], &["mock", "--spec", "/s/hello.spec", "--x.spec"]]
    {
        assert_eq!(described(words).package, "hello", "{words:?}");
    }
    let named = ["unbuffer", "-p", "/usr/bin/mock", "-r", "epel-9-x86_64"];
    assert_eq!(described(&named).arch, "epel-9-x86_64");
    assert_eq!((program(&command(&named)), program(&command(&["unbuffer", "make"]))), (Some("mock"), None));
}

#[test]
fn build_jobs_come_from_macros_or_processors() {
    let jobs = |words: &[&str]| described(words).hints.and_then(|hints| hints.build_jobs);
    // described() sets RPM_BUILD_NCPUS to 6
    for (words, expected) in [
        (&["rpmbuild", "-bb", "a.spec"][..], Some(6)),
        (&["rpmbuild", "-D", "_smp_mflags -j7"], Some(7)),
        (&["rpmbuild", "--define=_smp_mflags  -k -j 2"], Some(2)),
        (&["rpmbuild", "-D", "_smp_mflags %{nil}"], Some(1)),
        (&["rpmbuild", "-D", "_smp_mflags -j%{_smp_build_ncpus}"], Some(6)),
        (&["rpmbuild", "-D", "_smp_ncpus_max 4"], Some(4)),
        (&["rpmbuild", "-D", "_smp_ncpus_max 0"], Some(6)),
        (&["rpmbuild", "-D", "_smp_ncpus_max 9"], Some(6)),
        (&["mock", "-D", "_smp_ncpus_max 1"], Some(1)),
        (&["mock", "-D", "_smp_mflags -j{jobs}"], None),
        (&["mock", "a-1-2.src.rpm"], processors()),
        (&["make"], None),
    ] {
        assert_eq!(jobs(words), expected, "{words:?}");
    }
    assert!(processors().is_some_and(|processors| processors > 0));
}
