//! Masking secrets changes no class of a failure.

use super::*;
use crate::{mask, retry::matching::log_rules};

/// What a log can have before and behind the line that says what went wrong.
const SECRETS: [&str; 4] = [
    "curl -H 'PRIVATE-TOKEN: glpat-aB3dE6gH9jK2mN5pQ8sT' https://robot:s3cret@gitlab.example/x",
    "export DB_PASSWORD=\"correct horse\" AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCY",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAwJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY1234\n-----END RSA PRIVATE KEY-----",
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
];

#[test]
fn masking_secrets_changes_no_classification() {
    let rules = log_rules::built_in().unwrap();
    let examples: Vec<String> =
        rules.into_iter().flat_map(|rule| rule.matches.into_iter().chain(rule.spares)).collect();
    assert!(examples.len() > 100);
    for (example, secret) in examples.iter().zip(SECRETS.iter().cycle()) {
        let class = |evidence: &Evidence| {
            let Verdict { cause, action, .. } = judged(evidence);
            (cause, action)
        };
        let plain = code(1, &format!("building\n{example}\n"));
        let masked = mask::evidence(plain.clone());
        assert_eq!(class(&masked), class(&plain), "{}", masked.log_tail);
        let around = mask::evidence(code(1, &format!("{secret}\n{example}\n{secret}\n")));
        assert_eq!(class(&around), class(&plain), "{}", around.log_tail);
    }
}
