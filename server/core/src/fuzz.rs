//! Parsers of untrusted bytes in this crate, as fuzz targets: they need no clock, file or network. Crates that use this one list their own
//! targets.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use plimsoll_base::quantity;

use crate::{
    domain::{AttemptId, Evidence, Exit, Key},
    gantry, mask,
    placement::Placement,
    retry::{self, LogRules},
};

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, and of the folder with its corpus.
    pub name: &'static str,
    /// Runs the parser on any bytes.
    pub run: fn(&[u8]),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The targets of this crate.
pub const TARGETS: [Target; 8] = [
    target("spec", |bytes| drop(gantry::parse_spec(&text(bytes)))),
    target("query", |bytes| drop(gantry::parameter(&text(bytes), "spec"))),
    target("pools", |bytes| drop(Placement::parse(&text(bytes)))),
    target("rules", rules),
    target("quantity", quantity),
    target("retry_policy", |bytes| drop(retry::RetryPolicy::parse_terms(&text(bytes)))),
    target("log", log),
    target("mask", masks),
];

/// A target with this name and parser.
pub const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// The bytes as text; invalid UTF-8 is replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses sizes as people and Kubernetes write them. Formatting and parsing again must give the same size.
fn quantity(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(size) = quantity::bytes(&text) {
        assert_eq!(quantity::bytes(&quantity::written_bytes(size)), Ok(size), "{text:?}");
    }
    if let Ok(cores) = quantity::parse_cores(&text) {
        let written = quantity::parse_cores(&format!("{}m", quantity::rounded_millicores(cores)));
        assert!(written.is_ok_and(|written| written <= cores + 1e-6), "{text:?}: {cores}");
    }
}

/// Parses a file of log rules in both formats, ours and Spack's.
fn rules(bytes: &[u8]) {
    for name in ["rules.toml", "error_taxonomy.yaml"] {
        let _rules = LogRules::extended(&[(name.to_owned(), text(bytes))]).is_ok();
    }
}

/// Masks the end of a log, matches it with all rules and judges it. Masking twice must not change the matches.
fn log(bytes: &[u8]) {
    static RULES: LazyLock<Arc<LogRules>> = LazyLock::new(LogRules::built_in);
    let log = text(bytes);
    let masked = mask::log_tail(&log);
    assert!(masked.len() <= log.len().saturating_mul(4).saturating_add(64), "masking makes a log long");
    let mut evidence = Evidence::about(AttemptId::unnamed());
    evidence.exit = Some(Exit::Code(1));
    evidence.log_tail = masked;
    let finding = retry::classify(&evidence, &RULES);
    assert!((0.0..=1.0).contains(&finding.confidence), "{}", finding.confidence);
    evidence.log_tail = mask::text(&evidence.log_tail).into_owned();
    let again = retry::classify(&evidence, &RULES);
    assert_eq!(again, finding, "masking a log again changes what is found in it");
}

/// Masks other texts: a key with secrets in its fields and labels, and a hook.
fn masks(bytes: &[u8]) {
    let word = text(bytes);
    let labels = [("token".to_owned(), word.clone()), ("job".to_owned(), word.clone())].into();
    let mut key = Key { package: word.clone(), variants: word, labels, ..Key::default() };
    mask::key(&mut key);
    if let Ok(mut hook) = serde_json::from_slice(bytes) {
        mask::json(&mut hook);
    }
}
