//! Settings that are right each by itself, and wrong together.

use super::{Config, Mistake, NO_TRACES};
use crate::gantry;

impl Config {
    /// What is wrong with addresses and certificates.
    pub(super) fn unsafe_listeners(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, place: &str, text: &str| {
            if wrong {
                found.push(Mistake { place: place.to_owned(), text: text.to_owned() });
            }
        };
        let same = self.grpc_listen == self.http_listen && self.grpc_listen.port() != 0;
        check(same, "http_listen", "is the same address as grpc_listen; each listener needs its own");
        let tls = &self.tls;
        check(
            tls.certificate.is_some() != tls.key.is_some(),
            "tls_cert_file",
            "and tls_key_file belong together",
        );
        let wrong = tls.certificate.is_none() && tls.client_ca.is_some();
        check(wrong, "tls_client_ca_file", "needs tls_cert_file: without TLS no client shows a certificate");
        let wrong = tls.client_ca.is_none() && tls.client_required;
        check(
            wrong,
            "tls_client_required",
            "needs tls_client_ca_file, which says whose certificates are good",
        );
        for (name, address) in [("grpc_listen", self.grpc_listen), ("http_listen", self.http_listen)] {
            let wrong = tls.certificate.is_none() && !self.plain_text && !address.ip().is_loopback();
            let text = "can be reached by others, who would be served in plain text: set tls_cert_file and tls_key_file, or \
                        plain_text = on where the network keeps strangers out";
            check(wrong, name, text);
        }
        found
    }

    /// Which settings do not go together.
    pub(super) fn contradictions(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, place: &str, text: &str| {
            if wrong {
                found.push(Mistake { place: place.to_owned(), text: text.to_owned() });
            }
        };
        let wrong = self.retain.full_for > self.retain.keep_for;
        check(
            wrong,
            "series_full_for",
            "is above series_keep_for: samples would go before they become fewer",
        );
        let wrong = self.retain.summaries_for.is_some_and(|time| time < self.retain.keep_for);
        check(
            wrong,
            "summaries_keep_for",
            "is below series_keep_for: an attempt would go before its samples",
        );
        let gitlab = &self.gitlab;
        let wrong = gitlab.url.is_some() != gitlab.token_file.is_some();
        check(wrong, "gitlab_url", "needs gitlab_token_file, and gitlab_token_file needs gitlab_url");
        let gantry = &self.gantry;
        let wrong =
            gantry.extras.contains(&gantry::Extra::EphemeralStorage) && gantry.ephemeral_storage.is_empty();
        check(
            wrong,
            "allocation_extras",
            "names ephemeral_storage, which nobody measures: say how much with allocation_ephemeral_storage",
        );
        let admission = &self.admission;
        let (certificate, key) = (admission.certificate.is_some(), admission.key.is_some());
        let wrong = admission.listen.is_some() && !(certificate && key);
        check(
            wrong,
            "admit_listen",
            "needs admit_cert_file and admit_key_file: the API server speaks only TLS",
        );
        let wrong = self.otlp_endpoint.is_some() && !cfg!(feature = "otlp");
        check(wrong, "otlp_endpoint", NO_TRACES);
        let wrong = !self.shadow.on && !self.shadow.apply.is_empty();
        check(wrong, "shadow_apply", "needs shadow = on: without it predictions are in force for all builds");
        let predict = &self.predict;
        let wrong = predict.memory_request > predict.memory_limit;
        check(wrong, "default_memory_request", "is above default_memory_limit");
        let wrong = predict.memory_cap.is_some_and(|cap| cap < predict.memory_limit);
        check(wrong, "memory_cap", "is below default_memory_limit");
        let wrong = self.stats.currency.is_empty() != self.stats.prices.is_free();
        check(wrong, "currency", "and prices belong together: set both, or none");
        found
    }
}
