//! A spec as stock Spack asks for it, as the key under which the agent measures the same job.
//!
//! ```text
//! {name}@{version} {variants} arch={platform-os-target}%{compiler}@{compiler version}
//! ```
//!
//! The agent gets the same pieces one by one, as variables of the job. Both must come to the same key, and neither may depend on
//! the release of Spack: 1.x writes `name:=a,b` for what 0.23 writes as `name=a,b`, and names a compiler `none` where there is
//! none. The build system is a variant to Spack and a part of the key here.

use plimsoll_proto::{limits, spack};

use crate::domain::{Fault, Key};

const ARCH: &str = " arch=";

/// The key of a spec; its project is empty.
///
/// # Errors
/// Says which part is missing, too long or not understood.
pub(crate) fn parse(spec: &str) -> Result<Key, Fault> {
    let fault = |text: &str| Fault::new("spec", text);
    let spec = spec.trim();
    // a value in quotes may hold anything, so the last one counts
    let (build, place) = spec
        .rsplit_once(ARCH)
        .ok_or_else(|| fault("has no arch; write NAME@VERSION VARIANTS arch=ARCH%COMPILER"))?;
    let (arch, compiler) = place.rsplit_once('%').unwrap_or((place, ""));
    let (compiler, compiler_version) = compiler.split_once('@').unwrap_or((compiler, ""));
    let (head, variant_text) = build.split_once(char::is_whitespace).unwrap_or((build, ""));
    let (package, version) = head.split_once('@').unwrap_or((head, ""));
    let words = [
        ("name", package, "._-"),
        ("version", version, "._-+:=/"),
        ("arch", arch, "._-+"),
        ("compiler", compiler, "._-"),
        ("compiler version", compiler_version, "._-+:=/"),
    ];
    for (name, word, marks) in words {
        plain(name, word, marks).map_err(|text| fault(&text))?;
    }
    if package.is_empty() {
        return Err(fault("has no name; write NAME@VERSION VARIANTS arch=ARCH%COMPILER"));
    }
    let (variants, build_system) = spack::variants(variant_text);
    within("variants", &variants, limits::VARIANTS_BYTES).map_err(|text| fault(&text))?;
    within("build_system", &build_system, limits::KEY_FIELD_BYTES).map_err(|text| fault(&text))?;
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
    fn none_is_not_known_and_what_is_missing_is_empty() {
        let key =
            parse("ca-certificates-mozilla@2025-08-12 build_system=generic arch=a-b-c%none@none").unwrap();
        assert_eq!([key.compiler, key.compiler_version, key.variants].concat(), "");
        for (spec, version) in
            [("zlib@1.3 arch=a%gcc@1", "1.3"), ("zlib@1.3  arch=a", "1.3"), ("zlib arch=a", "")]
        {
            let key = parse(spec).unwrap();
            assert_eq!(
                (key.package.as_str(), key.version.as_str(), key.variants.as_str()),
                ("zlib", version, "")
            );
        }
        let key = parse("a@git.0c=1.0 b=c=d patches:=26090f4,b231fcc arch=a%gcc@1").unwrap();
        assert_eq!(
            (key.version.as_str(), key.variants.as_str()),
            ("git.0c=1.0", "b=c=d patches=26090f4,b231fcc")
        );
    }

    #[test]
    fn what_is_no_spec_is_refused_in_words() {
        let long = format!("a@1 {} arch=a%gcc@1", "x".repeat(limits::VARIANTS_BYTES + 1));
        for (spec, words) in [
            ("zlib", "arch"),
            ("../../etc/passwd arch=a", "holds '/'"),
            ("@1.0 arch=a", "no name"),
            (" arch=a%gcc", "arch"),
            ("a@1\u{fc} arch=a", "version"),
            ("a arch=b c%gcc", "arch"),
            ("a arch=b%gcc 1@2", "compiler"),
            (&long, "variants"),
        ] {
            let fault = parse(spec).unwrap_err();
            assert!(fault.field == "spec" && fault.description.contains(words), "{spec}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_a_fault(text in ".{0,200}") {
            let _either = parse(&text);
            if let Ok(key) = parse(&format!("zlib@1 {text} arch=a-b-c%gcc@1")) {
                prop_assert_eq!(key.package, "zlib");
            }
        }
    }
}
