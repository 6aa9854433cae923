//! The input of rules: the fields of the key under the names that the operator's file uses, and the predicted need.

use super::{
    kind::{BuildKind, is_security},
    os::OperatingSystem,
};
use crate::domain::{Bytes, Cores, Key, Millis, Prediction};

/// What an attempt is predicted to need, or what it requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceNeeds {
    /// Memory to request.
    pub memory_request: Bytes,
    /// Memory limit.
    pub memory_limit: Bytes,
    /// CPU to request.
    pub cpu_request: Cores,
    /// Ephemeral storage to request; 0 if unknown.
    pub disk: Bytes,
    /// Median wall time.
    pub wall_p50: Millis,
    /// 95th percentile of the wall time.
    pub wall_p95: Millis,
}

impl ResourceNeeds {
    /// The needs that a prediction contains.
    pub fn of(prediction: &Prediction) -> Self {
        Self {
            memory_request: Bytes(prediction.memory_request.value),
            memory_limit: Bytes(prediction.memory_limit.value),
            cpu_request: cores_from_milli(prediction.cpu_request.value),
            disk: Bytes(0),
            wall_p50: Millis(prediction.wall_p50.value),
            wall_p95: Millis(prediction.wall_p95.value),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 thousandths of a core")]
fn cores_from_milli(milli: u64) -> Cores {
    Cores(milli as f64 / 1000.0)
}

/// A key with the fields that rules compare.
#[derive(Debug, Clone)]
pub struct RuleSubject<'k> {
    /// The key.
    pub key: &'k Key,
    /// `owner/project`; the project alone if it contains the owner already.
    pub owner_project: String,
    /// `owner/project/arch/package`, as Copr writes it.
    pub copr_path: String,
    /// Class of the branch or tag, one of [`REF_CLASSES`].
    pub ref_class: &'static str,
    /// Kind of the build.
    pub kind: BuildKind,
    /// Whether the build is a security fix.
    pub security: bool,
    /// The operating system that the build runs on.
    pub os: OperatingSystem,
    /// Architecture family of the build; empty if the key names none, [`OTHER_FAMILY`] if it names an unknown one.
    pub family: &'static str,
}

/// Family of an architecture that is named but unknown: no pool with an architecture of its own runs it.
const OTHER_FAMILY: &str = "other";
/// Architecture names that mean "independent of the processor": those in packages of Fedora, Debian, Arch and Conda.
const ANY_ARCH_NAMES: [&str; 4] = ["noarch", "all", "any", "generic"];

/// The classes of branches and tags: main branches, releases, proposed changes, all others, and none.
pub(super) const REF_CLASSES: [&str; 5] = ["default", "release", "change", "other", "unknown"];

impl<'k> RuleSubject<'k> {
    /// Computes the fields that rules compare from a key.
    pub fn of(key: &'k Key) -> Self {
        let owner_project = match (key.project.contains('/'), key.owner.is_empty()) {
            (true, _) | (_, true) => key.project.clone(),
            (false, false) => format!("{}/{}", key.owner, key.project),
        };
        Self {
            copr_path: format!("{owner_project}/{}/{}", key.arch, key.package),
            owner_project,
            ref_class: ref_class(&key.git_ref),
            kind: BuildKind::of(key),
            security: is_security(key),
            os: OperatingSystem::of_arch(&key.arch),
            family: named_family(&key.arch),
            key,
        }
    }

    /// Name of the build's architecture, for people.
    pub(super) fn arch_words(&self) -> &str {
        match self.family {
            "" => "its processors",
            OTHER_FAMILY => &self.key.arch,
            family => family,
        }
    }
}

fn ref_class(name: &str) -> &'static str {
    let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name);
    let starts = |all: &[&str]| all.iter().any(|start| short.starts_with(start));
    let digit_after = |start: &str| {
        short.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if short.is_empty() {
        return "unknown";
    }
    if ["main", "master", "develop", "trunk"].contains(&short) {
        return "default";
    }
    // `pr123_x` is how Spack's mirror names branches of pull requests
    if starts(&["refs/pull/", "refs/merge-requests/", "merge-requests/", "pull/", "github/pr"])
        || digit_after("pr")
    {
        return "change";
    }
    // a name that starts with a version, such as v1.2 or 2.0.1, is a release
    let version = (digit_after("v") || digit_after("")) && short.contains('.');
    if version || starts(&["release/", "releases/", "release-", "stable/", "stable-"]) {
        return "release";
    }
    "other"
}

/// Architecture families, each with the words that name it. Names of single processors are those of Spack's archspec.
const FAMILIES: [(&str, &[&str]); 9] = [
    (
        "x86_64",
        &[
            "x86_64",
            "amd64",
            "x64",
            "nocona",
            "k10",
            "mic_knl",
            "cannonlake",
            "icelake_client",
            "graniterapids",
            "zen",
            "zen2",
            "zen3",
            "zen4",
            "zen5",
            "nehalem",
            "westmere",
            "sandybridge",
            "ivybridge",
            "haswell",
            "broadwell",
            "skylake",
            "skylake_avx512",
            "cascadelake",
            "icelake",
            "sapphirerapids",
            "core2",
            "bulldozer",
            "piledriver",
            "steamroller",
            "excavator",
        ],
    ),
    (
        "aarch64",
        &[
            "aarch64",
            "arm64",
            "a64fx",
            "thunderx2",
            "graviton",
            "graviton2",
            "graviton3",
            "graviton4",
            "m1",
            "m2",
            "m3",
            "m4",
        ],
    ),
    ("ppc64le", &["ppc64le", "ppc64el", "power8le", "power9le", "power10le"]),
    ("ppc64", &["ppc64", "power7", "power8", "power9", "power10"]),
    ("s390x", &["s390x"]),
    ("riscv64", &["riscv64", "riscv64gc", "u74mc"]),
    ("loong64", &["loong64", "loongarch64"]),
    ("armv7", &["arm", "armv7", "armv7l", "armv7hl", "armhf", "armhfp"]),
    ("i686", &["386", "x86", "i386", "i486", "i586", "i686"]),
];

/// The family that an architecture names; empty if the text names none, [`OTHER_FAMILY`] if the family is unknown.
pub(super) fn named_family(arch: &str) -> &'static str {
    match family_of_arch(arch) {
        "" if !arch.trim().is_empty() && !ANY_ARCH_NAMES.contains(&arch.trim()) => OTHER_FAMILY,
        family => family,
    }
}

/// The processor family in the name of an architecture or a chroot, such as `linux-debian12-x86_64_v3`. Upper and lower case are equal.
/// Empty if no word of the name is known.
pub(super) fn family_of_arch(arch: &str) -> &'static str {
    // with its hyphen, `x86-64` would be split into two words
    let arch = arch.to_ascii_lowercase().replace("x86-64", "x86_64");
    let of_word = |word: &str| {
        let known = FAMILIES.iter().find(|(_, words)| words.contains(&word));
        let level = || if word.starts_with("x86_64_v") { Some("x86_64") } else { None };
        let is_arm = ["neoverse", "cortex_a", "armv8", "armv9"].iter().any(|start| word.starts_with(start));
        let arm = || is_arm.then_some("aarch64");
        known.map(|(family, _)| *family).or_else(level).or_else(arm)
    };
    // the architecture is at the end of a name
    arch.rsplit(['-', '/', ':', ' ']).find_map(of_word).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_family_is_recognized_in_arch_names() {
        for (arch, expected) in [
            ("linux-debian12-x86_64_v3", "x86_64"),
            ("linux-ubuntu24.04-neoverse_v1", "aarch64"),
            ("fedora-rawhide-s390x", "s390x"),
            ("linux/arm64", "aarch64"),
            ("x86_64", "x86_64"),
            ("AMD64", "x86_64"),
            ("linux-x86-64-v3", "x86_64"),
            ("linux-sles15-Zen4", "x86_64"),
            ("linux-rhel9-power9", "ppc64"),
            ("", ""),
            ("mars", ""),
        ] {
            assert_eq!(family_of_arch(arch), expected, "{arch}");
        }
    }

    #[test]
    fn unrecognized_processors_are_other_and_absent_ones_unknown() {
        for (arch, expected, words) in [
            ("aarch64", "aarch64", "aarch64"),
            ("linux-mars9-mips", OTHER_FAMILY, "linux-mars9-mips"),
            ("", "", "its processors"),
            (" ", "", "its processors"),
            ("noarch", "", "its processors"),
        ] {
            let key = Key { arch: arch.into(), ..Key::default() };
            let subject = RuleSubject::of(&key);
            assert_eq!((subject.family, subject.arch_words()), (expected, words), "{arch}");
        }
    }

    #[test]
    fn branches_and_tags_have_a_class() {
        for (name, expected) in [
            ("develop", "default"),
            ("refs/heads/main", "default"),
            ("pr4711_fix", "change"),
            ("refs/pull/7/head", "change"),
            ("releases/v1.0", "release"),
            ("v0.22.1", "release"),
            ("2024.1", "release"),
            ("private-thing", "other"),
            ("", "unknown"),
        ] {
            assert_eq!(ref_class(name), expected, "{name}");
            assert!(REF_CLASSES.contains(&expected));
        }
    }

    #[test]
    fn a_project_without_its_owner_gets_it() {
        let key = |project: &str, owner: &str| Key {
            project: project.into(),
            owner: owner.into(),
            arch: "fedora-40-x86_64".into(),
            package: "kernel".into(),
            ..Key::default()
        };
        let kernel = key("kernel", "@asahi");
        assert_eq!(RuleSubject::of(&kernel).copr_path, "@asahi/kernel/fedora-40-x86_64/kernel");
        assert_eq!(RuleSubject::of(&key("spack/packages", "bot")).owner_project, "spack/packages");
    }
}
