//! Parses a spec, as stock Spack sends it, to the same key under which the agent measures the job.
//!
//! ```text
//! {name}@{version} {variants} arch={platform-os-target}%{compiler}@{compiler version}
//! ```
//!
//! Every release of Spack writes all six parts, in this order. Specs written by hand may omit or reorder parts or match several builds.
//! Those are refused with advice, because the answer to a guess could be for another build.
//!
//! The agent gets the same parts one by one, as variables of the job. Both must give the same key, whatever the release of Spack: 1.x
//! writes `name:=a,b` where 0.23 writes `name=a,b`, and names a compiler `none` where there is none. The build system is a variant in Spack
//! and a field of the key here.

use plimsoll_proto::{limits, spack};

use super::variants;
use crate::domain::{FieldViolation, Key};

const ARCH: &str = " arch=";
const EXPECTED_FORM: &str = "write NAME@VERSION VARIANTS arch=PLATFORM-OS-TARGET%COMPILER@VERSION";
/// Prefix of a version that names a commit, branch or tag; only those may contain a slash.
const GIT_PREFIX: &str = "git.";

/// Parses a spec to a key without a project.
/// Errors: Names the part that is missing, too long or invalid, and the expected form.
pub fn parse(spec: &str) -> Result<Key, FieldViolation> {
    read(spec.trim_matches(' ')).map_err(|text| FieldViolation::new("spec", text))
}

fn read(spec: &str) -> Result<Key, String> {
    if let Some(space) = spec.chars().find(|c| c.is_whitespace() && *c != ' ') {
        return Err(format!("holds {space:?}; write plain spaces"));
    }
    // a quoted value may contain ` arch=`, so the last occurrence separates
    let Some((build, target)) = spec.rsplit_once(ARCH) else {
        let what = match spec.find("arch=") {
            Some(0) => "has no name",
            Some(_) => "has no space before arch=",
            None => "has no arch",
        };
        return Err(format!("{what}; {EXPECTED_FORM}"));
    };
    let (head, variant_text) = build.split_once(' ').unwrap_or((build, ""));
    let (package, version) = head.split_once('@').unwrap_or((head, ""));
    if package.is_empty() {
        return Err(format!("has no name; {EXPECTED_FORM}"));
    }
    check_package(package)?;
    if version.is_empty() {
        return Err(format!("has no version; write {package}@VERSION"));
    }
    check_version("version", version)?;
    let (arch, compiler) = target.split_once('%').unwrap_or((target, ""));
    check_arch(arch)?;
    let (compiler, compiler_version) = compiler.split_once('@').unwrap_or((compiler, ""));
    check_characters("compiler", compiler, "._-")?;
    if compiler.is_empty() || compiler_version.is_empty() {
        let name = if compiler.is_empty() { "COMPILER" } else { compiler };
        let what = if compiler.is_empty() { "has no compiler" } else { "has no version of its compiler" };
        return Err(format!("{what}; write arch={arch}%{name}@VERSION, or %none@none without a compiler"));
    }
    check_version("compiler version", compiler_version)?;
    variants::check_variants(variant_text)?;
    let (variants, build_system) = spack::variants(variant_text);
    check_length("variants", &variants, limits::VARIANTS_BYTES)?;
    check_length("build_system", &build_system, limits::KEY_FIELD_BYTES)?;
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

fn check_package(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some((_, package)) = name.rsplit_once('.').filter(|(namespace, _)| namespace.starts_with(is_word))
    {
        return Err(format!("its package {name:?} has a namespace; write {package}"));
    }
    check_characters("package", name, "_-")
}

/// Checks that the text is one version, as Spack allows it: `1.2`, `git.BRANCH`, `git.BRANCH=1.2`, `COMMIT=1.2`.
fn check_version(what: &str, version: &str) -> Result<(), String> {
    check_length(what, version, limits::KEY_FIELD_BYTES)?;
    if let Some(at) = version.find(['+', '~']) {
        let (version, variants) = version.split_at(at);
        return Err(if what == "version" {
            format!("has no space between version and variants; write @{version} {variants}")
        } else {
            format!("has variants behind the compiler; write {variants} before arch=")
        });
    }
    if version.contains(' ') {
        return Err(format!("has more behind the compiler; {EXPECTED_FORM}"));
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
    check_characters(what, version, if version.starts_with(GIT_PREFIX) { "._-=/" } else { "._-=" })
}

/// Checks that the text is platform, system and target, or the target alone. The system's name may consist of several parts.
fn check_arch(arch: &str) -> Result<(), String> {
    check_characters("arch", arch, "._-")?;
    if arch.split('-').any(str::is_empty) {
        return Err(format!(
            "its arch {arch:?} is not whole; write PLATFORM-OS-TARGET, as linux-debian12-x86_64_v3"
        ));
    }
    Ok(())
}

fn check_length(name: &str, text: &str, most: usize) -> Result<(), String> {
    if text.len() > most {
        return Err(format!("its {name} has {} bytes, at most {most} are allowed", text.len()));
    }
    Ok(())
}

fn check_characters(name: &str, word: &str, marks: &str) -> Result<(), String> {
    check_length(name, word, limits::KEY_FIELD_BYTES)?;
    match word.chars().find(|c| !c.is_ascii_alphanumeric() && !marks.contains(*c)) {
        Some(c) => Err(format!("its {name} {word:?} holds {c:?}; allowed are A-Z a-z 0-9 {marks}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
