//! Mistakes in a file of pools are reported with their lines, and nothing makes the reader panic.

use super::*;

/// The warnings about a file that is taken over.
fn warnings(pools: &Placement) -> Vec<String> {
    pools.warnings().iter().map(ToString::to_string).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each mistake")]
fn every_mistake_is_reported_with_its_line() {
    let text = mistakes(
        r#"
[[pool]]
name = "big"
memory = "0"
at_once = 0
arch = "mars"
[[pool]]
name = "two words"
price_gib_hour = -1.0
tolerations = [{ operator = "Equal" }]
[kind.lazy]
[kind.auto]
node_selector = { zone = "a" }
at_once = 0
raised_priority_class = "no name"
[[pool]]
name = "elsewhere"
node_selector = { zone = "b" }
[[rule]]
package = 'x('
pool = "moon"
[[rule]]
name = "explodes"
package = '((a{100}){100}){100}'
tags = ["unused"]
when_busy = "sun"
wall_p50_over = "long"
[[rule]]
name = "no aim"
busy_from = 0
"#,
    );
    for part in [
        "line 38: pool big is there twice",
        "line 39: pool big: memory: \"0\" is less than 1 MiB",
        "line 38: pool big: at_once is 0",
        "line 38: pool big: arch \"mars\" is not known",
        "line 43: pool \"two words\"",
        "line 43: pool two words: price_gib_hour is -1",
        "line 43: pool two words: toleration: operator Equal needs a key",
        "kind \"lazy\" is none of scratch, explicit, auto, isolated, orchestrator",
        "kind auto: at_once is 0",
        "kind auto: raised_priority_class \"no name\" is not 1 to 253",
        "line 52: pool elsewhere: label \"zone\" is another than \"a\", which kind auto wants",
        "line 55: rule number 1: package: 'x('",
        "line 54: rule number 1: pool \"moon\" is not there; there are big, small, arm",
        "line 59: rule explodes: package: '((a{100}){100}){100}': takes more than",
        "line 57: rule explodes: no pool has the tag \"unused\"",
        "line 57: rule explodes: when_busy: pool \"sun\" is not there",
        "line 57: rule explodes: wall_p50_over: \"long\" is not a time",
        "line 63: rule no aim: needs a pool, or tags",
        "line 63: rule no aim: busy_from is 0",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(mistakes("[[rule]]\npol = 'x'\n").contains("pol"));
    let entries = "{'pattern': 'x', 'tags': ['large']}, ".repeat(400);
    let many = format!("[[rule]]\ncopr = \"\"\"\n[{entries}]\n\"\"\"\n").repeat(3);
    assert!(mistakes(&many).ends_with("more than 1000 expressions in one file"), "{}", mistakes(&many));
    let copr = "[[rule]]\nname = \"c\"\ncopr = '''\n[{'pattern': 'x',\n  'tags': ['unused']}]\n'''\n";
    let unused = mistakes(copr);
    assert!(unused.contains("line 39: rule c: copr: no pool has the tag \"unused\""), "{unused}");
}

#[test]
fn invalid_kubernetes_names_are_refused_with_their_line() {
    let text = mistakes(
        "[[pool]]\nname = \"k\"\nnode_selector = { \"bad key\" = \"x\", zone = \"a/b\" }\n\
         priority_class = \"Low\"\ntolerations = [{ key = \"a b\" }, { key = \"a\", value = \"b c\" }]\n",
    );
    for part in [
        "line 37: pool k: node_selector: label \"bad key\" is not 1 to 63",
        "line 37: pool k: node_selector: zone: \"a/b\" is not 1 to 63",
        "line 37: pool k: priority_class \"Low\" is not 1 to 253",
        "line 37: pool k: toleration: key: \"a b\" is not 1 to 63",
        "line 37: pool k: toleration: value: \"b c\" is not 1 to 63",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn unmatchable_and_unreachable_rules_are_reported() {
    let pools = parse(
        r#"
[[rule]]
name = "all of gcc"
package = 'gcc.*'
pool = "big"
[[rule]]
name = "some of gcc"
package = 'gcc-runtime|gcc'
memory_over = "8GiB"
pool = "small"
[[rule]]
name = "nothing"
package = '[^\s\S]'
pool = "big"
[[rule]]
name = "no such class"
ref_class = 'nightly'
pool = "big"
[[rule]]
name = "more than p95"
wall_p95_over = "1h"
pool = "big"
[[rule]]
name = "more than p50"
wall_p50_over = "2h"
pool = "small"
[[rule]]
name = "for a few"
pool = "powerful"
[[rule]]
name = "arm"
pool = "arm"
"#,
    );
    assert_eq!(
        warnings(&pools),
        [
            "line 25: pool arm: has no price, and others have: it counts as the cheapest",
            "line 30: pool powerful: has no price, and others have: it counts as the cheapest",
            "line 41: rule some of gcc: never reached, rule all of gcc (line 37) takes all that it would",
            "line 46: rule nothing: no package can match '[^\\s\\S]'",
            "line 50: rule no such class: no ref_class can match 'nightly'",
            "line 58: rule more than p50: never reached, rule more than p95 (line 54) takes all that it would",
        ]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a rule for each mistake")]
fn rules_entries_and_pools_without_effect_are_reported() {
    let pools = parse(
        r#"
[[rule]]
name = "together"
tags = ["powerful", "large"]
[[rule]]
name = "copr"
copr = '''
[{'pattern': 'a', 'tags': ['large', 'x86']},
 {'pattern': 'b', 'tags': ['large', 'powerful']}]
'''
[[rule]]
name = "other processors"
arch = '.*-(aarch64|neoverse_v1)'
pool = "small"
[[rule]]
name = "not let in"
project = 'spack/.*'
pool = "powerful"
[[rule]]
name = "no name"
labels = { "" = 'b' }
pool = "big"
[[rule]]
name = "good"
labels = { x = 'b' }
arch = '.*-x86_64'
pool = "big"
[[rule]]
name = "wrong side"
arch = 'linux-aarch64|arm64'
tags = ["x86"]
[[rule]]
name = "unknown side"
arch = 'mars'
pool = "arm"
[[rule]]
name = "table"
copr = '''
[{'pattern': 'a', 'tags': ['x86']},
 {'pattern': 'b{2000}', 'tags': ['x86']}]
'''
[[rule]]
name = "every kind"
kind = 'scratch|explicit|auto|isolated|orchestrator'
package = '.*'
pool = "big"
[[rule]]
name = "behind it"
stack = 'x'
pool = "small"
"#,
    );
    assert_eq!(
        warnings(&pools)[1..],
        [
            "line 30: pool powerful: has no price, and others have: it counts as the cheapest",
            "line 30: pool powerful: only a rule puts builds there (by_rule), and none does",
            "line 37: rule together: no pool has all of the tags powerful, large",
            "line 44: rule copr: copr: no pool has all of the tags large, powerful",
            "line 46: rule other processors: nothing that matches arch '.*-(aarch64|neoverse_v1)' runs in small (x86_64)",
            "line 50: rule not let in: project 'spack/.*' matches no project that its pools allow (powerful)",
            "line 54: rule no name: no labels. can match 'b'",
            "line 63: rule wrong side: nothing that matches arch 'linux-aarch64|arm64' runs in big (x86_64), small (x86_64)",
            "line 67: rule unknown side: nothing that matches arch 'mars' runs in arm (aarch64)",
            "line 75: rule table: copr: no key can match 'b{2000}'",
            "line 82: rule behind it: never reached, rule every kind (line 77) takes all that it would",
        ]
    );
    let looked = pools.trace_rules(&RuleSubject::of(&key("a/b", "x86_64", "c")), &needs(1, 1.0, 1), &|_| 0);
    assert_eq!(looked[0].why, "takes it, but no pool has all of the tags powerful, large");
}

#[test]
fn a_rule_reported_as_unreachable_never_matches() {
    use proptest::prelude::*;
    let word = prop::sample::select(vec![".*", "a", "a|b", "b.*", "[ab]", "c?"]);
    let rule = (
        proptest::option::of(word.clone()),
        proptest::option::of(word),
        proptest::option::of(1_u64..4),
        prop::sample::select(vec!["big", "small", "arm", "powerful"]),
    );
    let value = prop::sample::select(vec!["a", "b", "ba", "c", ""]);
    let asked = (value.clone(), value, 1_u64..6, prop::sample::select(vec!["x86_64", "aarch64", ""]));
    proptest!(|(rules in prop::collection::vec(rule, 1..5), asked in prop::collection::vec(asked, 1..20))| {
        let mut text = String::new();
        for (package, stack, gib, pool) in rules {
            text.push_str("[[rule]]\n");
            for (name, pattern) in [("package", package), ("stack", stack)] {
                text.extend(pattern.map(|pattern| format!("{name} = '{pattern}'\n")));
            }
            text.extend(gib.map(|gib| format!("memory_over = \"{gib}GiB\"\n")));
            text.extend(["pool = \"", pool, "\"\n"]);
        }
        let pools = parse(&text);
        let dead: Vec<usize> = pools.warnings().iter().map(|warning| warning.line).collect();
        for (package, stack, gib, arch) in asked {
            let key = Key { stack: stack.into(), ..key("team/heavy", arch, package) };
            let looked = pools.trace_rules(&RuleSubject::of(&key), &needs(gib, 1.0, 0), &|_| 0);
            prop_assert!(looked.iter().all(|rule| !rule.decides || !dead.contains(&rule.line)), "{text}\n{looked:?}");
        }
    });
}

#[test]
fn each_host_is_in_one_bounded_pool() {
    let pools = Placement::parse(
        "[[pool]]\nname = \"a\"\nat_once = 9\nhosts = [\"one\", \"10.0.0.1\", \"::1\"]\nreuse_max_count = 2\n[[pool]]\nname = \"b\"\n",
    )
    .unwrap();
    let [a, b] = ["a", "b"].map(|name| pools.pool(name).unwrap());
    assert_eq!(
        (a.at_once, a.hosts.names.len(), a.hosts.check_port, a.hosts.reuse_max_ms),
        (Some(3), 3, 22, 3_600_000)
    );
    assert_eq!((b.at_once, b.hosts.names.len()), (None, 0));
    let wrong = Placement::parse(
        "[[pool]]\nname = \"a\"\nhosts = [\"one\", \"ONE.\"]\n[[pool]]\nname = \"b\"\ncheck_port = 0\nhosts = [\"two\", \"one\", \"a b\", \"\"]\n",
    )
    .unwrap_err();
    for part in [
        "line 3: pool a: host \"ONE.\" is there twice",
        "line 6: pool b: check_port is 0; it must be 1 to 65535",
        "line 7: pool b: host \"one\" is also in pool a",
        "host \"a b\" is no name",
        "host \"\" is no name",
    ] {
        assert!(wrong.contains(part), "{part} is missing in\n{wrong}");
    }
}

#[test]
fn hosts_are_names_or_addresses_in_canonical_form() {
    let parse = |host: &str| {
        let pools = Placement::parse(&format!("[[pool]]\nname = \"a\"\nhosts = [{host:?}]\n"))?;
        Ok::<_, String>(pools.pool("a").unwrap().hosts.names.join(" "))
    };
    for (written, read) in [("Build-1.Example.", "build-1.example"), ("::1", "::1"), ("FD00:0::1", "fd00::1")]
    {
        assert_eq!(parse(written).as_deref(), Ok(read));
    }
    for wrong in ["one:22", "10.0.0.1:22", "[::1]", "-one", ".", "1::2::3"] {
        let expected = format!("line 3: pool a: host {wrong:?} is no name or address");
        assert_eq!(parse(wrong), Err(expected));
    }
}

#[test]
fn a_hosts_file_reports_errors_by_line() {
    let text = "[[pool]]\nname = \"a\"\nhosts = [\"one\"]\nhosts_file = \"list\"\n";
    let parse = |list: Result<&str, &str>| {
        let mut list = |name: &str| {
            assert_eq!(name, "list");
            list.map(str::to_owned).map_err(str::to_owned)
        };
        let placement = Placement::parse_with(text, &mut list)?;
        let pool = placement.pool("a").unwrap();
        Ok::<_, String>((pool.hosts.names.join(" "), pool.at_once))
    };
    let read = parse(Ok("# builders\ntwo  # the new one\r\n\n  10.0.0.3\n"));
    assert_eq!(read, Ok(("one two 10.0.0.3".to_owned(), Some(3))));
    let twice = "line 4: pool a: list line 2: host \"one\" is there twice";
    assert_eq!(parse(Ok("two\none\n")), Err(twice.into()));
    assert_eq!(parse(Ok("# none\n")), Err("line 4: pool a: hosts_file \"list\" names no host".into()));
    assert_eq!(parse(Err("no such file")), Err("line 4: pool a: hosts_file: no such file".into()));
    assert!(Placement::parse(text).unwrap_err().contains("hosts_file: \"list\" is not read here"));
    let errors = |list: &str| parse(Ok(list)).unwrap_err().lines().map(str::to_owned).collect::<Vec<_>>();
    let wrong = errors(&"a b\n".repeat(99));
    assert_eq!(wrong.len(), 10);
    assert_eq!(wrong[9].as_str(), "line 4: pool a: list line 10: host \"a b\" is no name or address");
    let many = (0..1010).map(|n| format!("host{n}")).collect::<Vec<_>>().join("\n");
    assert_eq!(errors(&many), ["line 4: pool a: list line 1000: more than 1000 hosts in one file"]);
}
