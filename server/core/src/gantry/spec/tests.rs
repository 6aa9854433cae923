//! Specs as stock clients write them.

use proptest::prelude::*;

use super::*;

#[test]
fn both_spellings_of_one_build_are_one_key() {
    let newer = "curl@8.15.0 ~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl \
        arch=linux-debian12-x86_64_v3%gcc@12.2.0";
    let key = parse(newer).unwrap();
    let answer_text = [&key.package, &key.version, &key.variants, &key.compiler, &key.compiler_version];
    assert_eq!(
        answer_text,
        ["curl", "8.15.0", "~gssapi+nghttp2 libs=shared,static tls=openssl", "gcc", "12.2.0"]
    );
    assert_eq!([&key.arch, &key.build_system], ["linux-debian12-x86_64_v3", "autotools"]);
    assert_eq!(parse(&newer.replace(":=", "=")).unwrap(), key);
}

#[test]
fn the_arch_may_be_the_target_alone() {
    let key = parse("emacs@29.2 +json+native+treesitter arch=x86_64%gcc@11.4.0").unwrap();
    assert_eq!([&key.arch, &key.compiler, &key.compiler_version], ["x86_64", "gcc", "11.4.0"]);
    assert_eq!(key.variants, "+json+native+treesitter");
}

#[test]
fn values_in_quotes_stay_whole() {
    let text = "gcc@15.1.0 ~binutils+bootstrap build_system=autotools languages:='c,c++,for tran' x='a arch=b:=c' \
        arch=linux-debian12-x86_64_v3%gcc@12.2.0";
    let key = parse(text).unwrap();
    assert_eq!(key.variants, "~binutils+bootstrap languages='c,c++,for tran' x='a arch=b:=c'");
}

#[test]
fn none_means_unknown_and_versions_may_be_references() {
    let key = parse("ca-certificates-mozilla@2025-08-12 build_system=generic arch=a-b-c%none@none").unwrap();
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
        assert_eq!(key.package.as_str(), "zlib");
        assert_eq!(key.version.as_str(), version);
        assert_eq!(key.variants.as_str(), "");
    }
    let key = parse("a@git.0c=1.0 b=c=d patches:=26090f4,b231fcc arch=a-b-c%gcc@1").unwrap();
    assert_eq!(key.version.as_str(), "git.0c=1.0");
    assert_eq!(key.variants.as_str(), "b=c=d patches=26090f4,b231fcc");
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
    ("emacs@29.2 arch=linux-%gcc@1", "is not whole; write PLATFORM-OS-TARGET"),
    ("emacs@29.2 arch=a-b-c", "has no compiler; write arch=a-b-c%COMPILER@VERSION, or %none@none"),
    ("emacs@29.2 arch=a-b-c%gcc", "has no version of its compiler; write arch=a-b-c%gcc@VERSION"),
    ("emacs@29.2 arch=a-b-c%gcc@", "has no version of its compiler"),
    ("emacs@29.2 arch=a-b-c %gcc@1", "arch"),
    ("emacs@29.2 arch=a-b-c%gcc@12: +json", "behind the compiler"),
    ("emacs@29.2 arch=a-b-c%gcc@12+json", "write +json before arch="),
    ("emacs@29.2 %gcc@12 +json arch=a-b-c%gcc@1", "compiler among the variants; write it behind the arch"),
    ("emacs@29.2 +json ^zlib@1.3 arch=a-b-c%gcc@1", "has a dependency (^zlib@1.3)"),
    ("emacs@29.2 +json /abcdefg arch=a-b-c%gcc@1", "has a hash (/abcdefg)"),
    ("emacs@29.2 @30 arch=a-b-c%gcc@1", "has a second version (@30)"),
    ("emacs@29.2 arch=a-b-d arch=a-b-c%gcc@1", "has arch= among the variants"),
    ("emacs@29.2 target=zen4 arch=a-b-c%gcc@1", "has target= among the variants"),
    ("emacs@29.2 -json arch=a-b-c%gcc@1", "is off; write ~json"),
    ("emacs@29.2 json arch=a-b-c%gcc@1", "write +NAME, ~NAME or NAME=VALUE"),
    ("emacs@29.2 + json arch=a-b-c%gcc@1", "write +NAME or NAME=VALUE"),
    ("emacs@29.2 +json~json arch=a-b-c%gcc@1", "\"json\" is given twice"),
    ("emacs@29.2 gui= arch=a-b-c%gcc@1", "\"gui\" has no value; write gui=VALUE"),
    ("emacs@29.2 gui='x arch=a-b-c%gcc@1", "has a quote that does not end"),
    ("emacs@29.2 gui=a;b arch=a-b-c%gcc@1", "holds ';'; put the value in quotes"),
    ("emacs@29.2\t+json arch=a-b-c%gcc@1", "write plain spaces"),
];

#[test]
fn invalid_specs_are_refused_with_a_hint() {
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
