//! Operating system of a build and of a pool's builders.
//!
//! The first word of a build's architecture names it, as Spack writes it (`windows-windows10-x86_64`); for a pod, the node selector does.
//! The default is Linux, because builds are measured there and most runners use it.

use plimsoll_base::named_enum;

named_enum! {
    /// An operating system.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum OperatingSystem {
        /// Linux, which is also the default.
        #[default]
        Linux => "linux",
        /// Windows.
        Windows => "windows",
        /// macOS, which Spack calls darwin.
        Darwin => "darwin",
        /// FreeBSD.
        FreeBsd => "freebsd",
    }
}

impl OperatingSystem {
    /// The operating system with this name, in upper or lower case.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.trim();
        if word.eq_ignore_ascii_case("macos") {
            return Some(Self::Darwin);
        }
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(word))
    }

    /// The operating system that the text of an architecture starts with.
    pub fn of_arch(arch: &str) -> Self {
        arch.split(['-', '/', ':']).next().and_then(Self::parse).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_prefixes_the_arch_default_linux() {
        for (arch, expected) in [
            ("windows-windows10-x86_64", OperatingSystem::Windows),
            ("Windows/amd64", OperatingSystem::Windows),
            ("darwin-ventura-m1", OperatingSystem::Darwin),
            ("linux-debian12-x86_64_v3", OperatingSystem::Linux),
            ("fedora-40-x86_64", OperatingSystem::Linux),
            ("x86_64", OperatingSystem::Linux),
            ("", OperatingSystem::Linux),
        ] {
            assert_eq!(OperatingSystem::of_arch(arch), expected, "{arch}");
        }
    }
}
