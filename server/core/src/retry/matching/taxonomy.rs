//! Parses Spack's error taxonomy: `error_taxonomy.yaml` of spack-infrastructure.
//!
//! Only that file's structure is parsed, line by line, so nesting cannot be too deep: `error_classes:` with a list `grep_for:` in each
//! class, and `deconflict_order:`. The order in `deconflict_order` is not used, because it puts a class that only reports a failed build
//! before the class with the reason. The table below maps the classes to causes.

use crate::domain::Cause;
use crate::retry::matching::rule::{OutOfMemorySign, Rule};

/// The cause of each class, and whether the class is weak: it only reports a failure, or matches words that any log may contain. A class
/// that is not listed is weak and has no cause.
const CAUSES_OF_REASONS: &[(&str, Cause, bool)] = &[
    ("oidc_certificate_expired", Cause::Infra, false),
    ("dns_error", Cause::Infra, false),
    ("network_timeout", Cause::Infra, false),
    ("network_error", Cause::Infra, true),
    ("no_space", Cause::DiskFull, false),
    ("invalid_pipeline_yaml", Cause::Deterministic, false),
    ("checksum_mismatch", Cause::Deterministic, false),
    ("concretization_error", Cause::Deterministic, false),
    ("no_binary_for_spec", Cause::Deterministic, false),
    ("db_match", Cause::Deterministic, false),
    ("db_hash", Cause::Deterministic, false),
    ("no_spec", Cause::Deterministic, false),
    ("failed_to_get_specs", Cause::Infra, false),
    ("ref_not_found", Cause::Deterministic, false),
    ("cmd_not_found", Cause::Deterministic, false),
    ("module_not_found", Cause::Deterministic, false),
    ("setup_env", Cause::Deterministic, false),
    ("spack_root", Cause::Deterministic, false),
    ("write_lock_timeout", Cause::Contention, false),
    ("reloc_path_too_long", Cause::Deterministic, false),
    ("build_error", Cause::Deterministic, true),
    ("spack_error", Cause::Deterministic, true),
    ("pipeline_generation", Cause::Deterministic, false),
    ("killed", Cause::Oom, true),
    ("deprecated_stack_bug", Cause::Deterministic, false),
    ("aborted_terminated", Cause::Infra, false),
    ("oom", Cause::Oom, true),
    ("gitlab_down", Cause::Infra, false),
    ("github_down", Cause::Infra, false),
    ("artifacts", Cause::Infra, true),
    ("fatal", Cause::Infra, true),
    ("pod_exec", Cause::Infra, false),
    ("pod_timeout", Cause::Infra, false),
    ("spot_reclamation", Cause::Preempted, false),
    ("pod_cleanup", Cause::Infra, true),
    ("pod_not_found", Cause::Infra, false),
    ("pod_failed", Cause::Infra, false),
    ("pod_invalid", Cause::Configuration, true),
    ("helper_container_not_found", Cause::Infra, false),
    ("image_pull", Cause::Infra, false),
    ("docker_daemon", Cause::Infra, false),
    ("docker_format", Cause::Configuration, false),
    ("rpc_failure", Cause::Infra, false),
    ("dial_backend", Cause::Infra, false),
    ("remote_disconnect", Cause::Infra, false),
    ("aws_access_denied", Cause::Configuration, false),
    ("nvidia_detection_error", Cause::Infra, false),
    ("execution_timeout", Cause::Timeout, false),
    ("5XX", Cause::Infra, true),
    ("gpg_fail_open_files", Cause::Infra, true),
    ("gpg_no_valid_ids", Cause::Configuration, false),
    ("unallowed_image", Cause::Configuration, false),
    ("limit_exceeded", Cause::Deterministic, false),
    ("sha256sum_not_found", Cause::Deterministic, false),
    ("file_not_found", Cause::Deterministic, true),
];

/// The section of the file that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaxonomySection {
    Head,
    Classes,
    Order,
}

/// Parses the classes of the taxonomy as rules.
/// Errors: Names the first line with an unexpected structure.
pub(in crate::retry) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let (mut part, mut classes): (TaxonomySection, Vec<(String, Vec<String>)>) =
        (TaxonomySection::Head, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let fail = |what: &str| format!("line {}: {what}", at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || matches!(line, "---" | "taxonomy:" | "grep_for:") {
            continue;
        }
        if let Some(item) = line.strip_prefix("- ") {
            let item = scalar(item.trim()).ok_or_else(|| fail("is no plain or quoted text"))?;
            match (part, classes.last_mut()) {
                (TaxonomySection::Classes, Some((_, patterns))) => patterns.push(item),
                (TaxonomySection::Order, _) => {}
                _ => return Err(fail("belongs to no class")),
            }
            continue;
        }
        match line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("error_classes", "")) => part = TaxonomySection::Classes,
            Some(("deconflict_order", "")) => part = TaxonomySection::Order,
            Some(("version", _)) if part == TaxonomySection::Head => {}
            Some((name, "" | "null" | "~")) if part == TaxonomySection::Classes => {
                let name = scalar(name).ok_or_else(|| fail("is no name of a class"))?;
                classes.push((name, Vec::new()));
            }
            _ => return Err(fail("is not of the form of Spack's error_taxonomy.yaml")),
        }
    }
    if part == TaxonomySection::Head {
        return Err("has no error_classes; it is not of the form of Spack's error_taxonomy.yaml".to_owned());
    }
    Ok(classes.into_iter().filter(|(_, patterns)| !patterns.is_empty()).map(rule_of_class).collect())
}

fn rule_of_class((class, patterns): (String, Vec<String>)) -> Rule {
    let known = CAUSES_OF_REASONS.iter().find(|(name, _, _)| *name == class);
    let (cause, weak) = known.map_or((Cause::Unknown, true), |(_, cause, weak)| (*cause, *weak));
    let pattern = patterns.iter().map(|pattern| format!("(?:{pattern})")).collect::<Vec<_>>().join("|");
    Rule {
        id: format!("spack/{class}"),
        cause,
        pattern,
        unless: None,
        weak,
        place: matches!(cause, Cause::DiskFull | Cause::Timeout | Cause::Preempted),
        summary: false,
        own: false,
        test: false,
        answered: false,
        silent: false,
        sign: cause.is_memory().then_some(OutOfMemorySign::Kill),
        mend: None,
        matches: Vec::new(),
        spares: Vec::new(),
    }
}

/// A plain, single-quoted or double-quoted YAML scalar on one line.
fn scalar(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('\'') {
        return Some(rest.strip_suffix('\'')?.replace("''", "'"));
    }
    let Some(rest) = text.strip_prefix('"') else {
        return Some(text.split(" #").next()?.trim_end().to_owned()).filter(|plain| !plain.is_empty());
    };
    let (mut plain, mut escaped) = (String::new(), false);
    for letter in rest.strip_suffix('"')?.chars() {
        match (std::mem::take(&mut escaped), letter) {
            (false, '\\') => escaped = true,
            (false, '"') => return None,
            (true, 'n') => plain.push('\n'),
            (true, 't') => plain.push('\t'),
            (true, '\\' | '"' | '/') | (false, _) => plain.push(letter),
            (true, _) => return None,
        }
    }
    (!escaped).then_some(plain)
}
