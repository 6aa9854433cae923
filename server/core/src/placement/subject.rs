//! What rules look at: the key of an attempt in the words of the file, and what the attempt is predicted to need.

use super::{
    kind::{BuildKind, is_security},
    os::OperatingSystem,
};
use crate::domain::{Bytes, Cores, Key, Millis, Prediction};

/// What an attempt is predicted to need, or asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceNeeds {
    /// Memory to request.
    pub memory_request: Bytes,
    /// Memory limit.
    pub memory_limit: Bytes,
    /// CPU to request.
    pub cpu_request: Cores,
    /// Disk to request; 0 if that is not known.
    pub disk: Bytes,
    /// Wall time that half of the attempts need.
    pub wall_p50: Millis,
    /// Wall time that 95 % of the attempts need.
    pub wall_p95: Millis,
}

impl ResourceNeeds {
    /// What a prediction says.
    pub fn of(prediction: &Prediction) -> Self {
        Self {
            memory_request: Bytes(prediction.memory_request.value),
            memory_limit: Bytes(prediction.memory_limit.value),
            cpu_request: cores(prediction.cpu_request.value),
            disk: Bytes(0),
            wall_p50: Millis(prediction.wall_p50.value),
            wall_p95: Millis(prediction.wall_p95.value),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 thousandths of a core")]
fn cores(milli: u64) -> Cores {
    Cores(milli as f64 / 1000.0)
}

/// A key as rules see it.
#[derive(Debug, Clone)]
pub struct RuleSubject<'k> {
    /// The key itself.
    pub key: &'k Key,
    /// `owner/project`: the project alone where it holds both.
    pub owner_project: String,
    /// `owner/project/arch/package`, as Copr writes it.
    pub whole: String,
    /// Class of the branch or tag: a word of [`REF_CLASSES`].
    pub ref_class: &'static str,
    /// Why it is built.
    pub kind: BuildKind,
    /// It mends a hole.
    pub security: bool,
    /// What it runs on.
    pub os: OperatingSystem,
    /// Family of its processors; empty if the key says nothing of them, [`OTHER`] if it names some of no family that is known.
    pub family: &'static str,
}

/// Processors that are named and not known: those of a pool that names its own are others.
const OTHER: &str = "other";
/// What architectures are called that say nothing of processors: those of packages of Fedora, Debian, Arch and Conda.
const ANY: [&str; 4] = ["noarch", "all", "any", "generic"];

/// The classes of branches and tags: where work comes together, what is released, what is proposed, all others, and no
/// name at all.
pub(super) const REF_CLASSES: [&str; 5] = ["default", "release", "change", "other", "unknown"];

impl<'k> RuleSubject<'k> {
    /// The key in the words of rules.
    pub fn of(key: &'k Key) -> Self {
        let owner_project = match (key.project.contains('/'), key.owner.is_empty()) {
            (true, _) | (_, true) => key.project.clone(),
            (false, false) => format!("{}/{}", key.owner, key.project),
        };
        Self {
            whole: format!("{owner_project}/{}/{}", key.arch, key.package),
            owner_project,
            ref_class: ref_class(&key.git_ref),
            kind: BuildKind::of(key),
            security: is_security(key),
            os: OperatingSystem::of_arch(&key.arch),
            family: named(&key.arch),
            key,
        }
    }

    /// Its processors, for people.
    pub(super) fn processors(&self) -> &str {
        match self.family {
            "" => "its processors",
            OTHER => &self.key.arch,
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
    // `pr123_x` is what Spack's mirror of pull requests calls them
    if starts(&["refs/pull/", "refs/merge-requests/", "merge-requests/", "pull/", "github/pr"])
        || digit_after("pr")
    {
        return "change";
    }
    // what begins with a version is a release: v1.2, 2.0.1
    let version = (digit_after("v") || digit_after("")) && short.contains('.');
    if version || starts(&["release/", "releases/", "release-", "stable/", "stable-"]) {
        return "release";
    }
    "other"
}

/// Words in the names of architectures, and the family that they belong to. The names of single processors are those of
/// Spack's archspec.
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

/// The family that an architecture names: empty if it says nothing of processors, [`OTHER`] if it names some that are not known.
pub(super) fn named(arch: &str) -> &'static str {
    match family(arch) {
        "" if !arch.trim().is_empty() && !ANY.contains(&arch.trim()) => OTHER,
        family => family,
    }
}

/// The family of processors in the name of an architecture or a chroot, for example that of `linux-debian12-x86_64_v3`.
/// Empty if none of its words is known, in whatever case it is written.
pub(super) fn family(arch: &str) -> &'static str {
    // with a hyphen it would be two words
    let arch = arch.to_ascii_lowercase().replace("x86-64", "x86_64");
    let of_word = |word: &str| {
        let known = FAMILIES.iter().find(|(_, words)| words.contains(&word));
        let level = || if word.starts_with("x86_64_v") { Some("x86_64") } else { None };
        let is_arm = ["neoverse", "cortex_a", "armv8", "armv9"].iter().any(|start| word.starts_with(start));
        let arm = || is_arm.then_some("aarch64");
        known.map(|(family, _)| *family).or_else(level).or_else(arm)
    };
    // the processor stands at the end
    arch.rsplit(['-', '/', ':', ' ']).find_map(of_word).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_found_in_names_of_spack_copr_and_kubernetes() {
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
            assert_eq!(family(arch), expected, "{arch}");
        }
    }

    #[test]
    fn processors_that_are_named_and_not_known_are_others_and_no_name_says_nothing() {
        for (arch, expected, words) in [
            ("aarch64", "aarch64", "aarch64"),
            ("linux-mars9-mips", OTHER, "linux-mars9-mips"),
            ("", "", "its processors"),
            (" ", "", "its processors"),
            ("noarch", "", "its processors"),
        ] {
            let key = Key { arch: arch.into(), ..Key::default() };
            let subject = RuleSubject::of(&key);
            assert_eq!((subject.family, subject.processors()), (expected, words), "{arch}");
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
        assert_eq!(RuleSubject::of(&key("kernel", "@asahi")).whole, "@asahi/kernel/fedora-40-x86_64/kernel");
        assert_eq!(RuleSubject::of(&key("spack/packages", "bot")).owner_project, "spack/packages");
    }
}
