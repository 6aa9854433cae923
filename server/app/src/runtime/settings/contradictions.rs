//! Finds settings that are valid each by itself, but contradict each other.

use plimsoll_core::gantry;

use super::{Config, Mistake, NO_TRACES, groups};

impl Config {
    /// Mistakes in addresses and certificates that would make the server unsafe.
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
        let wrong = tls.certificate.is_some() != tls.key.is_some();
        check(wrong, "tls_cert_file", "and tls_key_file belong together");
        let wrong = tls.certificate.is_none() && tls.client_ca.is_some();
        check(wrong, "tls_client_ca_file", "needs tls_cert_file: without TLS no client shows a certificate");
        let wrong = tls.client_ca.is_none() && tls.client_required;
        check(wrong, "tls_client_required", "needs tls_client_ca_file, which names the authorities to trust");
        let wrong = self.backup_remote && (tls.certificate.is_none() || self.access_file.is_none());
        let text = "needs access_file and tls_cert_file: a backup has everything that builds sent, and only operators may take it";
        check(wrong, "backup_remote", text);
        for (name, address) in [("grpc_listen", self.grpc_listen), ("http_listen", self.http_listen)] {
            let wrong = tls.certificate.is_none() && !self.plain_text && !address.ip().is_loopback();
            let text = "can be reached by others, who would be served in plain text: set tls_cert_file and tls_key_file, or \
                        plain_text = on where the network keeps strangers out";
            check(wrong, name, text);
        }
        found
    }

    /// Passes mistakes to `check`: settings that must be ordered and are not. The text names both
    /// values, because one of them is often a default.
    fn disordered(&self, mut check: impl FnMut(bool, &str, &str)) {
        let (predict, retain) = (&self.predict, &self.retain);
        let mut ordered = |wrong: bool, names: [&str; 2], what: &str| {
            if wrong {
                let [first, second] = names.map(|name| self.written(name));
                let [name, other] = names;
                check(true, name, &format!("{first} {what} {other}, which is {second}"));
            }
        };
        let wrong = predict.memory_request > predict.memory_limit;
        ordered(wrong, ["default_memory_request", "default_memory_limit"], "is above");
        let wrong = predict.memory_cap.is_some_and(|cap| cap < predict.memory_limit);
        ordered(wrong, ["memory_cap", "default_memory_limit"], "is below");
        let wrong = retain.full_for > retain.keep_for;
        let what = "is longer, so that samples would go before they become fewer, than";
        ordered(wrong, ["series_full_for", "series_keep_for"], what);
        let wrong = retain.summaries_for.is_some_and(|time| time < retain.keep_for);
        let what = "is shorter, so that an attempt would go before its samples, than";
        ordered(wrong, ["summaries_keep_for", "series_keep_for"], what);
    }

    /// The value of a setting, with its source.
    fn written(&self, name: &str) -> String {
        let value = groups::named(name).map(|setting| (setting.get)(self)).unwrap_or_default();
        match self.places.get(name).map_or("default", String::as_str) {
            "default" => format!("{value} (the default)"),
            place => format!("{value} ({place})"),
        }
    }

    /// Finds settings that contradict each other.
    pub(super) fn contradictions(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut check = |wrong: bool, place: &str, text: &str| {
            if wrong {
                found.push(Mistake { place: place.to_owned(), text: text.to_owned() });
            }
        };
        self.disordered(&mut check);
        let files =
            [("store_password_file", &self.store_password_file), ("store_ca_file", &self.store_ca_file)];
        for (name, file) in files {
            let wrong = file.is_some() && self.store_url.is_none();
            check(wrong, name, "needs store_url, the database that it belongs to");
        }
        let gitlab = &self.gitlab;
        let wrong = gitlab.url.is_some() != gitlab.token_file.is_some();
        check(wrong, "gitlab_url", "needs gitlab_token_file, and gitlab_token_file needs gitlab_url");
        let gantry = &self.gantry;
        let wrong = gantry.extras.contains(&gantry::ExtraVariable::EphemeralStorage)
            && gantry.ephemeral_storage.is_empty();
        let text =
            "names ephemeral_storage, which is not measured: set its size with allocation_ephemeral_storage";
        check(wrong, "allocation_extras", text);
        let admission = &self.admission;
        let (certificate, key) = (admission.certificate.is_some(), admission.key.is_some());
        let wrong = admission.listen.is_some() && !(certificate && key);
        let text = "needs admit_cert_file and admit_key_file: the API server speaks only TLS";
        check(wrong, "admit_listen", text);
        let proven = admission.secret_file.is_some() || admission.client_ca.is_some();
        let wrong = admission.listen.is_some() && self.access_file.is_some() && !proven;
        check(
            wrong,
            "admit_listen",
            "needs admit_secret_file or admit_client_ca_file where there is an access_file: without them anyone on the network is \
             answered as the API server is",
        );
        let is_above = admission.min_memory.zip(admission.max_memory).is_some_and(|(min, max)| min > max);
        check(is_above, "admit_min_memory", "is more than admit_max_memory");
        let is_above = admission.min_cpu.zip(admission.max_cpu).is_some_and(|(min, max)| min.0 > max.0);
        check(is_above, "admit_min_cpu", "is more than admit_max_cpu");
        let wrong = self.otlp_endpoint.is_some() && !cfg!(feature = "otlp");
        check(wrong, "otlp_endpoint", NO_TRACES);
        let wrong = !self.shadow.is_on && !self.shadow.apply.is_empty();
        check(wrong, "shadow_apply", "needs shadow = on: without it predictions are in force for all builds");
        let wrong = self.stats.currency.is_empty() != self.stats.prices.is_free();
        check(wrong, "currency", "and prices belong together: set both, or none");
        found
    }
}
