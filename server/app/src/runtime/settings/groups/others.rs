//! Settings of GitLab, and of statistics.

use super::super::{
    checks,
    setting::{Setting, settings},
};

pub(super) const GITLAB: &[Setting] = settings! {
    /// File with the secret token of GitLab's job hook. Without it every hook is accepted.
    "collect_token_file" => gantry.token_file, "FILE";
    /// File with the signing token of GitLab's job hook (`whsec_..`). With it every hook must be signed.
    "collect_signing_file" => gantry.signing_file, "FILE";
    /// GitLab's address, to read the logs of failed jobs (https://gitlab.example). Needs `gitlab_token_file`.
    "gitlab_url" => gitlab.url, "URL";
    /// File with a GitLab token that has the scope `read_api`.
    "gitlab_token_file" => gitlab.token_file, "FILE";
    /// PEM file of the CA that signs GitLab's certificate, in addition to those that the system trusts.
    "gitlab_ca_file" => gitlab.ca_file, "FILE";
};

pub(super) const STATISTICS: &[Setting] = settings! {
    /// Price of a GiB and of a core for an hour, as 0.005/0.04. Pools with other prices follow: 0.005/0.04, big=0.006/0.05.
    "prices" => stats.prices, "PRICES";
    /// Currency of the prices, for example EUR.
    "currency" => stats.currency, "NAME", read checks::currency;
    /// Classes of branches and tags for statistics: NAME=PATTERN, separated by spaces. The first match counts; refs without a match
    /// are "other".
    "ref_classes" => stats.ref_classes, "CLASSES";
};
