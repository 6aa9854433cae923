//! A spec as stock Spack asks for it, as the key under which the agent measures the same job.
//!
//! ```text
//! {name}@{version} {variants} arch={platform-os-target}%{compiler}@{compiler version}
//! ```
//!
//! Every release of Spack writes all six parts, in this order. What people write on a command line may leave parts out, put them
//! elsewhere, or mean several builds: read as one build it would be another than was meant, so it is refused, with the way out.
//!
//! The agent gets the same pieces one by one, as variables of the job. Both must come to the same key, and neither may depend on
//! the release of Spack: 1.x writes `name:=a,b` for what 0.23 writes as `name=a,b`, and names a compiler `none` where there is
//! none. The build system is a variant to Spack and a part of the key here.

use plimsoll_proto::{limits, spack};

use super::variants;
use crate::domain::{Fault, Key};

const ARCH: &str = " arch=";
const FORM: &str = "write NAME@VERSION VARIANTS arch=PLATFORM-OS-TARGET%COMPILER@VERSION";
/// What a version may begin with that names a commit, a branch or a tag: only such a one holds a slash.
const GIT: &str = "git.";

/// The key of a spec; its project is empty.
///
/// # Errors
/// Says which part is missing, too long or not understood, and what to write.
pub(crate) fn parse(spec: &str) -> Result<Key, Fault> {
    read(spec.trim_matches(' ')).map_err(|text| Fault::new("spec", text))
}

fn read(spec: &str) -> Result<Key, String> {
    if let Some(space) = spec.chars().find(|c| c.is_whitespace() && *c != ' ') {
        return Err(format!("holds {space:?}; write plain spaces"));
    }
    // a value in quotes may hold anything, so the last one counts
    let Some((build, target)) = spec.rsplit_once(ARCH) else {
        let what = match spec.find("arch=") {
            Some(0) => "has no name",
            Some(_) => "has no space before arch=",
            None => "has no arch",
        };
        return Err(format!("{what}; {FORM}"));
    };
    let (head, variant_text) = build.split_once(' ').unwrap_or((build, ""));
    let (package, version) = head.split_once('@').unwrap_or((head, ""));
    if package.is_empty() {
        return Err(format!("has no name; {FORM}"));
    }
    is_package(package)?;
    if version.is_empty() {
        return Err(format!("has no version; write {package}@VERSION"));
    }
    is_version("version", version)?;
    let (arch, compiler) = target.split_once('%').unwrap_or((target, ""));
    is_arch(arch)?;
    let (compiler, compiler_version) = compiler.split_once('@').unwrap_or((compiler, ""));
    plain("compiler", compiler, "._-")?;
    if compiler.is_empty() || compiler_version.is_empty() {
        let name = if compiler.is_empty() { "COMPILER" } else { compiler };
        let what = if compiler.is_empty() { "has no compiler" } else { "has no version of its compiler" };
        return Err(format!("{what}; write arch={arch}%{name}@VERSION, or %none@none without a compiler"));
    }
    is_version("compiler version", compiler_version)?;
    variants::check(variant_text)?;
    let (variants, build_system) = spack::variants(variant_text);
    within("variants", &variants, limits::VARIANTS_BYTES)?;
    within("build_system", &build_system, limits::KEY_FIELD_BYTES)?;
    Ok(Key {
        package: package.to_owned(),
        version: version.to_owned(),
        variants,
        compiler: spack::compiler(compiler).to_owned(),
        compiler_version: spack::compiler(compiler_version).to_owned(),
        arch: arch.to_owned(),
        build_system,
        ..Key::default()
    })
}

fn is_package(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some((_, package)) = name.rsplit_once('.').filter(|(namespace, _)| namespace.starts_with(is_word))
    {
        return Err(format!("its package {name:?} has a namespace; write {package}"));
    }
    plain("package", name, "_-")
}

/// One version, as Spack allows it: `1.2`, `git.BRANCH`, `git.BRANCH=1.2`, `COMMIT=1.2`.
fn is_version(what: &str, version: &str) -> Result<(), String> {
    within(what, version, limits::KEY_FIELD_BYTES)?;
    if let Some(at) = version.find(['+', '~']) {
        let (version, variants) = version.split_at(at);
        return Err(if what == "version" {
            format!("has no space between version and variants; write @{version} {variants}")
        } else {
            format!("has variants behind the compiler; write {variants} before arch=")
        });
    }
    if version.contains(' ') {
        return Err(format!("has more behind the compiler; {FORM}"));
    }
    if version.contains([':', ',']) {
        return Err(format!("its {what} {version:?} is a range or a list; write one version"));
    }
    if let Some(exact) = version.strip_prefix('=') {
        return Err(format!("its {what} {version:?} begins with =; write @{exact}"));
    }
    if version.ends_with('=') || version.contains("==") {
        return Err(format!("its {what} {version:?} ends nowhere; write @REFERENCE=VERSION"));
    }
    plain(what, version, if version.starts_with(GIT) { "._-=/" } else { "._-=" })
}

/// Platform, system and target. Several parts may belong to the system's name.
fn is_arch(arch: &str) -> Result<(), String> {
    plain("arch", arch, "._-")?;
    if arch.split('-').filter(|part| !part.is_empty()).count() < 3 || arch.split('-').any(str::is_empty) {
        return Err(format!(
            "its arch {arch:?} is not whole; write PLATFORM-OS-TARGET, as linux-debian12-x86_64_v3"
        ));
    }
    Ok(())
}

fn within(name: &str, text: &str, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("its {name} has {} bytes, at most {most} are allowed", text.len()));
    }
    Ok(())
}

fn plain(name: &str, word: &str, marks: &str) -> Result<(), String> {
    within(name, word, limits::KEY_FIELD_BYTES)?;
    match word.chars().find(|c| !c.is_ascii_alphanumeric() && !marks.contains(*c)) {
        Some(c) => Err(format!("its {name} {word:?} holds {c:?}; allowed are A-Z a-z 0-9 {marks}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_spellings_of_one_build_are_one_key() {
        let newer = "curl@8.15.0 ~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl \
            arch=linux-debian12-x86_64_v3%gcc@12.2.0";
        let key = parse(newer).unwrap();
        let said = [&key.package, &key.version, &key.variants, &key.compiler, &key.compiler_version];
        assert_eq!(
            said,
            ["curl", "8.15.0", "~gssapi+nghttp2 libs=shared,static tls=openssl", "gcc", "12.2.0"]
        );
        assert_eq!([&key.arch, &key.build_system], ["linux-debian12-x86_64_v3", "autotools"]);
        assert_eq!(parse(&newer.replace(":=", "=")).unwrap(), key);
    }

    #[test]
    fn values_in_quotes_stay_whole() {
        let text = "gcc@15.1.0 ~binutils+bootstrap build_system=autotools languages:='c,c++,for tran' x='a arch=b:=c' \
            arch=linux-debian12-x86_64_v3%gcc@12.2.0";
        let key = parse(text).unwrap();
        assert_eq!(key.variants, "~binutils+bootstrap languages='c,c++,for tran' x='a arch=b:=c'");
    }

    #[test]
    fn none_is_not_known_and_a_version_may_be_a_reference() {
        let key =
            parse("ca-certificates-mozilla@2025-08-12 build_system=generic arch=a-b-c%none@none").unwrap();
        assert_eq!([key.compiler, key.compiler_version, key.variants].concat(), "");
        for (spec, version) in [
            ("zlib@1.3 arch=a-b-c%gcc@1", "1.3"),
            ("zlib@1.3  arch=a-b-c%gcc@1", "1.3"),
            ("zlib@git.feature/x=1.3 arch=a-b-c%gcc@1", "git.feature/x=1.3"),
            (
                "zlib@0123456789abcdef0123456789abcdef01234567=develop arch=a-b-c%gcc@1",
                "0123456789abcdef0123456789abcdef01234567=develop",
            ),
        ] {
            let key = parse(spec).unwrap();
            assert_eq!(
                (key.package.as_str(), key.version.as_str(), key.variants.as_str()),
                ("zlib", version, "")
            );
        }
        let key = parse("a@git.0c=1.0 b=c=d patches:=26090f4,b231fcc arch=a-b-c%gcc@1").unwrap();
        assert_eq!(
            (key.version.as_str(), key.variants.as_str()),
            ("git.0c=1.0", "b=c=d patches=26090f4,b231fcc")
        );
    }

    /// What is no spec of one build, and what the refusal says of it.
    const ODD: [(&str, &str); 37] = [
        ("emacs@29.2+json arch=a-b-c%gcc@1", "no space between version and variants; write @29.2 +json"),
        ("emacs@29.2~x +json arch=a-b-c%gcc@1", "no space between version and variants"),
        ("emacs@29.2 +json", "has no arch; write NAME@VERSION"),
        ("emacs@29.2 +jsonarch=a-b-c%gcc@1", "has no space before arch="),
        ("emacs +json arch=a-b-c%gcc@1", "has no version; write emacs@VERSION"),
        ("emacs@ +json arch=a-b-c%gcc@1", "has no version; write emacs@VERSION"),
        ("@29.2 arch=a-b-c%gcc@1", "has no name"),
        (" arch=a-b-c%gcc@1", "has no name"),
        ("../../etc/passwd arch=a-b-c%gcc@1", "holds '.'"),
        ("builtin.emacs@29.2 arch=a-b-c%gcc@1", "has a namespace; write emacs"),
        ("emacs@29:30 arch=a-b-c%gcc@1", "is a range or a list; write one version"),
        ("emacs@29,30 arch=a-b-c%gcc@1", "is a range or a list; write one version"),
        ("emacs@=29.2 arch=a-b-c%gcc@1", "begins with =; write @29.2"),
        ("emacs@29.2@30 arch=a-b-c%gcc@1", "holds '@'"),
        ("emacs@29\u{fc} arch=a-b-c%gcc@1", "version"),
        ("emacs@29.2 arch=%gcc@1", "its arch \"\" is not whole; write PLATFORM-OS-TARGET"),
        ("emacs@29.2 arch=x86_64%gcc@1", "is not whole; write PLATFORM-OS-TARGET"),
        ("emacs@29.2 arch=a-b-c", "has no compiler; write arch=a-b-c%COMPILER@VERSION, or %none@none"),
        ("emacs@29.2 arch=a-b-c%gcc", "has no version of its compiler; write arch=a-b-c%gcc@VERSION"),
        ("emacs@29.2 arch=a-b-c%gcc@", "has no version of its compiler"),
        ("emacs@29.2 arch=a-b-c %gcc@1", "arch"),
        ("emacs@29.2 arch=a-b-c%gcc@12: +json", "behind the compiler"),
        ("emacs@29.2 arch=a-b-c%gcc@12+json", "write +json before arch="),
        (
            "emacs@29.2 %gcc@12 +json arch=a-b-c%gcc@1",
            "compiler among the variants; write it behind the arch",
        ),
        ("emacs@29.2 +json ^zlib@1.3 arch=a-b-c%gcc@1", "has a dependency (^zlib@1.3)"),
        ("emacs@29.2 +json /abcdefg arch=a-b-c%gcc@1", "has a hash (/abcdefg)"),
        ("emacs@29.2 @30 arch=a-b-c%gcc@1", "has a second version (@30)"),
        ("emacs@29.2 arch=a-b-d arch=a-b-c%gcc@1", "has arch= among the variants"),
        ("emacs@29.2 target=zen4 arch=a-b-c%gcc@1", "has target= among the variants"),
        ("emacs@29.2 -json arch=a-b-c%gcc@1", "is off; write ~json"),
        ("emacs@29.2 json arch=a-b-c%gcc@1", "write +NAME, ~NAME or NAME=VALUE"),
        ("emacs@29.2 + json arch=a-b-c%gcc@1", "write +NAME or NAME=VALUE"),
        ("emacs@29.2 +json~json arch=a-b-c%gcc@1", "\"json\" stands twice"),
        ("emacs@29.2 gui= arch=a-b-c%gcc@1", "\"gui\" has no value; write gui=VALUE"),
        ("emacs@29.2 gui='x arch=a-b-c%gcc@1", "has a quote that does not end"),
        ("emacs@29.2 gui=a;b arch=a-b-c%gcc@1", "holds ';'; put the value in quotes"),
        ("emacs@29.2\t+json arch=a-b-c%gcc@1", "write plain spaces"),
    ];

    #[test]
    fn what_is_no_spec_of_one_build_is_refused_with_the_way_out() {
        for (spec, words) in ODD {
            let fault = parse(spec).unwrap_err();
            assert!(fault.field == "spec" && fault.description.contains(words), "{spec}: {fault}");
        }
        let long = format!("a@1 +{} arch=a-b-c%gcc@1", "x".repeat(limits::VARIANTS_BYTES + 1));
        assert!(parse(&long).unwrap_err().description.contains("variants"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_a_fault(text in ".{0,200}") {
            let _either = parse(&text);
            if let Ok(key) = parse(&format!("zlib@1 {text} arch=a-b-c%gcc@1")) {
                prop_assert_eq!([key.package, key.version, key.compiler_version], ["zlib", "1", "1"]);
            }
        }
    }
}
