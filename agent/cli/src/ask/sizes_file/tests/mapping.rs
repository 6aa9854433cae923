//! Reads the `ci` section as Spack does: by the schema of its documentation, and by the order in which it applies sections.

use std::collections::BTreeMap;

use yaml_rust2::{Yaml, YamlLoader};

use super::*;

/// The sections of a file, after a check against the `ci` section of Spack's documentation (pipelines.rst, `spack.schema.ci`).
fn sections(text: &str) -> Vec<Yaml> {
    let document = YamlLoader::load_from_str(text).unwrap().remove(0);
    let sections = document["ci"]["pipeline-gen"].as_vec().unwrap().clone();
    for section in &sections {
        let keys: Vec<&str> = section.as_hash().unwrap().keys().map(|key| key.as_str().unwrap()).collect();
        if keys == ["build-job"] {
            check_job(&section["build-job"]);
            continue;
        }
        assert_eq!(keys, ["match_behavior", "submapping"]);
        assert!(["first", "merge"].contains(&section["match_behavior"].as_str().unwrap()));
        for group in section["submapping"].as_vec().unwrap() {
            for (key, value) in group.as_hash().unwrap() {
                match key.as_str().unwrap() {
                    "match" => assert!(value.as_vec().unwrap().iter().all(|spec| spec.as_str().is_some())),
                    "build-job" | "build-job-remove" => check_job(value),
                    other => panic!("{other} is no key of a group"),
                }
            }
            assert!(!group["match"].as_vec().unwrap().is_empty());
        }
    }
    sections
}

fn check_job(job: &Yaml) {
    let texts = |list: &Yaml| list.as_vec().unwrap().iter().all(|text| text.as_str().is_some());
    assert!(job["tags"].is_badvalue() || texts(&job["tags"]), "{job:?}");
    for (name, value) in job["variables"].as_hash().into_iter().flatten() {
        let letters = |name: &str| name.chars().all(|of| of.is_ascii_alphanumeric() || "_-.".contains(of));
        assert!(letters(name.as_str().unwrap()) && value.as_str().is_some(), "{name:?} {value:?}");
    }
}

/// Specs of a file with their memory requests, in its order.
pub(super) fn requests(text: &str) -> Vec<(String, String)> {
    let text = if text.trim_start().starts_with("# plimsoll") {
        format!("ci:\n  pipeline-gen:\n{text}")
    } else {
        text.to_owned()
    };
    let mut found = Vec::new();
    for section in sections(&text).iter().filter(|section| section["submapping"].as_vec().is_some()) {
        for group in section["submapping"].as_vec().unwrap() {
            let request = group["build-job"]["variables"]["KUBERNETES_MEMORY_REQUEST"].as_str().unwrap();
            for spec in group["match"].as_vec().unwrap() {
                found.push((spec.as_str().unwrap().to_owned(), request.to_owned()));
            }
        }
    }
    found
}

/// Tags and variables of a job. Sections apply from the last to the first; of those that match in one section, only one does: the last of
/// the list in stock Spack, the first by its documentation.
fn job(
    sections: &[Yaml],
    package: &str,
    variants: &[&str],
    takes_last: bool,
) -> (Vec<String>, BTreeMap<String, String>) {
    let (mut tags, mut variables) = (Vec::new(), BTreeMap::new());
    let mut apply = |job: &Yaml, removed: &Yaml| {
        let list = |job: &Yaml| -> Vec<String> {
            job["tags"].as_vec().into_iter().flatten().map(|tag| tag.as_str().unwrap().to_owned()).collect()
        };
        let removed = list(removed);
        tags.retain(|tag| !removed.contains(tag));
        let new: Vec<String> = list(job).into_iter().filter(|tag| !tags.contains(tag)).collect();
        tags.extend(new);
        for (name, value) in job["variables"].as_hash().into_iter().flatten() {
            variables.insert(name.as_str().unwrap().to_owned(), value.as_str().unwrap().to_owned());
        }
    };
    let matches =
        |spec: &str| spec == package || variants.iter().any(|variant| *spec == format!("{package}{variant}"));
    for section in sections.iter().rev() {
        if let Some(groups) = section["submapping"].as_vec() {
            let is_match = |group: &&Yaml| {
                group["match"].as_vec().unwrap().iter().any(|spec| matches(spec.as_str().unwrap()))
            };
            let found =
                if takes_last { groups.iter().rev().find(is_match) } else { groups.iter().find(is_match) };
            if let Some(group) = found {
                apply(&group["build-job"], &group["build-job-remove"]);
            }
        } else {
            apply(&section["build-job"], &Yaml::BadValue);
        }
    }
    tags.sort();
    (tags, variables)
}

#[test]
fn each_spec_gets_its_class_in_either_order() {
    let text = spack_file(&answer(several()), &Classes::parse(POOLS, "medium").unwrap()).unwrap();
    let sections = sections(&text);
    for (package, variants, class, jobs, request) in [
        ("zlib", [].as_slice(), "small", "1", "384Mi"),
        ("on", &[], "small", "1", "384Mi"),
        ("null", &[], "small", "1", "384Mi"),
        ("1.0", &[], "medium", "4", "8192Mi"),
        ("trilinos", &["~cuda", "@=1.0"], "medium", "4", "5120Mi"),
        ("trilinos", &["+cuda"], "large", "12", "34816Mi"),
        ("llvm", &[], "large", "12", "30720Mi"),
        ("unknown", &[], "medium", "4", "16384Mi"),
    ] {
        for takes_last in [true, false] {
            let (tags, variables) = job(&sections, package, variants, takes_last);
            assert_eq!(tags, [class, "spack"].map(str::to_owned), "{package} {variants:?} {takes_last}");
            let of = |name: &str| variables[name].as_str();
            let found = [of("CI_JOB_SIZE"), of("SPACK_BUILD_JOBS"), of("KUBERNETES_MEMORY_REQUEST")];
            assert_eq!(found, [class, jobs, request], "{package} {variants:?}");
        }
    }
}

#[test]
fn a_variant_keeps_its_own_size() {
    let kept = Kept::spack("");
    let both = |large: f64| vec![row("trilinos", vec![build("~cuda", 3.0, 0.0), build("+cuda", large, 0.0)])];
    let (_, text) = kept.update(both(40.0));
    let own = |(spec, request): &(String, String)| spec == "trilinos+cuda" && request == "40960Mi";
    assert!(requests(&text).iter().any(own), "{text}");
    assert_eq!(kept.update(both(39.5)).0, 0);
    // less, so that both would get the same: the spec stays, and follows
    let (_, text) = kept.update(both(3.0));
    assert_eq!(requests(&text).iter().filter(|(_, request)| request == "3072Mi").count(), 2, "{text}");
    // not built in the window
    assert_eq!(kept.update(vec![flat("trilinos", 3.0)]).1, text);
}

#[test]
fn the_cheapest_class_depends_on_prices() {
    let unpriced = Classes::parse(&POOLS.replace("price_", "# price_"), "").unwrap();
    let rows = || answer(vec![row("a", vec![build("", 3.0, 0.1)])]);
    let file = |classes: &Classes| requests(&spack_file(&rows(), classes).unwrap());
    // without prices the least memory, which is that of one job; with prices four jobs, which share the time
    assert_eq!(file(&unpriced), [("a".to_owned(), "3328Mi".to_owned())]);
    assert_eq!(file(&classes()), [("a".to_owned(), "3584Mi".to_owned())]);
    // memory costs more than cores: many jobs hold it for a shorter time
    let dear = Classes::parse(&POOLS.replace("core_hour = 0.05", "core_hour = 0.0001"), "").unwrap();
    let text = spack_file(&rows(), &dear).unwrap();
    assert!(text.contains("CI_JOB_SIZE: 'large'"), "{text}");
    let too_large = spack_file(&answer(vec![flat("a", 100.0)]), &classes()).unwrap();
    assert_eq!(requests(&too_large), [("a".to_owned(), "65536Mi".to_owned())]);
}
