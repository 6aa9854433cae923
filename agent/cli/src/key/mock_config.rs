//! What mock's `-r` names: a chroot, or a file with its configuration.
//!
//! Copr's builder writes such a file (`mock.cfg.j2` of its `copr_rpmbuild`), with these lines among others:
//!
//! ```text
//! include('/etc/mock/fedora-42-x86_64.cfg')
//! config_opts['macros']['%copr_username'] = '@team'
//! ```
//!
//! The file is a program in Python. Only such lines are read, and none of it is run.

use std::path::Path;

use plimsoll_measure::kernel;

/// Most bytes that are read of a file. The files of Copr's builder are shorter than 4 KiB.
const FILE_BYTES: u64 = 64 << 10;
/// Suffix of the names of mock's configuration files.
const CONFIG_SUFFIX: &str = ".cfg";
/// Fewest dashes in the name of a chroot: distribution, release, architecture.
const CHROOT_DASHES: usize = 2;

/// What the agent reads from a configuration of mock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MockConfig {
    /// The chroot, for example `fedora-42-x86_64`.
    pub(super) chroot: Option<String>,
    /// Macros without their `%`, and their values, in the order of the file.
    pub(super) macros: Vec<(String, String)>,
}

impl MockConfig {
    /// The configuration that `-r` names. Of a file that cannot be read only its name is used.
    pub(super) fn of(named: &str) -> Self {
        if !named.contains('/') && !named.ends_with(CONFIG_SUFFIX) {
            return Self { chroot: Some(named.to_owned()), macros: Vec::new() };
        }
        let mut config = read_start(named, FILE_BYTES).map(|text| Self::parse(&text)).unwrap_or_default();
        let own = || chroot(named).filter(|name| name.matches('-').count() >= CHROOT_DASHES);
        config.chroot = config.chroot.or_else(|| own().map(str::to_owned));
        config
    }

    fn parse(text: &str) -> Self {
        let text = text.replace('"', "'");
        let mut config = Self::default();
        for line in text.lines().map(str::trim) {
            // mock's own files include templates, which end in .tpl
            if let Some(included) =
                line.strip_prefix("include('").and_then(|rest| rest.split_once(CONFIG_SUFFIX))
            {
                config.chroot = chroot(included.0).map(str::to_owned);
            }
            config.macros.extend(macro_of(line));
        }
        config
    }
}

/// The name and the value of a macro that a line of the file sets: `config_opts['macros']['%name'] =
/// 'value'`.
fn macro_of(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.strip_prefix("config_opts['macros']['%")?.split_once("']")?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('\'')?;
    let (value, _comment) = value.split_once('\'')?;
    Some((name.to_owned(), value.to_owned()))
}

/// The name of a chroot from the path of its file: `fedora-42-x86_64` for `/etc/mock/fedora-42-x86_64.cfg`.
fn chroot(file: &str) -> Option<&str> {
    let name = Path::new(file).file_name()?.to_str()?;
    Some(name.strip_suffix(CONFIG_SUFFIX).unwrap_or(name))
}

/// The first bytes of a file, at most `most`. `None` for a pipe or a device, which could block.
pub(super) fn read_start(path: &str, most: u64) -> Option<String> {
    let bytes = kernel::read_regular(Path::new(path), most).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_macros_and_the_included_chroot_are_read() {
        let config = MockConfig::parse(
            "include('templates/fedora-42.tpl')\n\
             include(\"/etc/mock/fedora-42-x86_64.cfg\")\n\
             config_opts['macros']['%vendor'] = 'Copr'  # where from\n\
             config_opts[\"macros\"][\"%copr_username\"]=\"@team\"\n\
             #config_opts['macros']['%copr_username'] = 'old'\n\
             config_opts['macros']['%odd'] = value\n\
             config_opts['rpmbuild_networking'] = True\n",
        );
        let macros = [("vendor", "Copr"), ("copr_username", "@team")];
        let macros = macros.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = MockConfig { chroot: Some("fedora-42-x86_64".to_owned()), macros: macros.to_vec() };
        assert_eq!(config, expected);
        assert_eq!(MockConfig::parse("include('templates/fedora-42.tpl')\n"), MockConfig::default());
    }

    #[test]
    fn mock_config_reads_are_bounded_regular_files() {
        let (dir, path) = plimsoll_support::temporary::file_name("child.cfg");
        let line = "config_opts['macros']['%copr_username'] = 'me'\n";
        fs::write(&path, format!("{line}{}\n{line}", "#".repeat(64 << 10))).unwrap();
        assert_eq!(MockConfig::of(path.to_str().unwrap()).macros.len(), 1);
        for unreadable in [dir.path().to_str().unwrap(), "/nowhere/child.cfg"] {
            assert_eq!(MockConfig::of(unreadable), MockConfig::default(), "{unreadable}");
        }
    }
}
