//! Settings of the admission webhook for pods of CI jobs.

use super::super::{
    checks, parse,
    setting::{Setting, settings},
};

pub(super) const ADMISSION: &[Setting] = settings! {
    /// Address of the admission webhook of Kubernetes, with TLS. Without it there is no webhook.
    "admit_listen" => admission.listen, "IP:PORT";
    /// PEM file of the webhook's certificate. It is read again when it changes.
    "admit_cert_file" => admission.certificate, "FILE";
    /// PEM file of its private key. It is read again when it changes.
    "admit_key_file" => admission.key, "FILE";
    /// PEM file of the CA that signs the API server's certificate. Without it clients need no certificate.
    "admit_client_ca_file" => admission.client_ca, "FILE";
    /// File with the secret behind /admit/ in the path that the API server calls. With it every other path is refused.
    "admit_secret_file" => admission.secret_file, "FILE";
    /// What happens to the pod of a job: `dry-run` only logs and counts, `on` changes it.
    "admit_mode" => admission.mode, "MODE";
    /// Namespaces whose pods are changed.
    "admit_namespaces" => admission.namespaces, "LIST", read checks::namespaces, unset "all that the cluster sends";
    /// Sizes that are set: any of `memory_request,memory_limit,cpu_request,cpu_limit`.
    "admit_sizes" => admission.sizes, "LIST";
    /// Largest memory of a build's container, for example that of the namespace's `LimitRange`.
    "admit_max_memory" => admission.max_memory, "SIZE";
    /// Most CPU of a build's container.
    "admit_max_cpu" => admission.max_cpu, "CORES";
    /// Least memory of a container that is sized or added, for example the least of the namespace's `LimitRange`. The server raises it
    /// to what a `LimitRange` demands that it may read.
    "admit_min_memory" => admission.min_memory, "SIZE";
    /// Least CPU of a container that is sized or added.
    "admit_min_cpu" => admission.min_cpu, "CORES";
    /// on: a pod of the class Guaranteed stays in it: the request of its build is its limit. off: it may become Burstable.
    "admit_keep_guaranteed" => admission.keep_guaranteed, "on|off";
    /// Address of the API server, which is asked for the `LimitRange`s of namespaces if the pod of this server has a token for it.
    "admit_api_server" => admission.api_server, "URL", read checks::address;
    /// Least confidence of a prediction that changes a pod: share of builds expected to stay within its limit.
    "admit_confidence" => admission.confidence, "SHARE", read parse::up_to_all;
    /// on: a job's variables may say its project, owner, kind and whether it mends a hole, for its pool and priority.
    "admit_trust_variables" => admission.trust_variables, "on|off";
    /// Kueue ends a build after this many times the wall time that 95 % of similar builds need (label
    /// kueue.x-k8s.io/max-exec-time-seconds); from 1 to 100. Without it Kueue gets no time.
    "admit_max_time" => admission.max_time, "NUMBER", read checks::factor;
    /// Builds are long if 95 % of similar builds need more than this. Long and short builds prefer different nodes (label
    /// plimsoll/length). Without it pods get no such label.
    "admit_long_from" => admission.long_from, "TIME";
    /// Longest time for an answer. After it the pod is admitted unchanged.
    "admit_within" => admission.answer_within, "TIME";
    /// Image of the agent that is added beside builds. Without it no agent is added.
    "admit_agent_image" => admission.agent_image, "IMAGE", read checks::plain;
    /// CPU of that agent, request and limit.
    "admit_agent_cpu" => admission.agent_cpu, "CORES";
    /// Memory of that agent, request and limit.
    "admit_agent_memory" => admission.agent_memory, "SIZE";
    /// Address at which that agent finds this server; of several servers over one database that have no common address, all of them,
    /// separated by commas.
    "admit_agent_server" => admission.agent_server, "URL", read checks::address;
    /// PEM file of the CA certificates by which that agent knows this server, if its address is https. Read once. Without it the agent trusts
    /// the CA certificates in its image.
    "admit_agent_ca_file" => admission.agent_ca_file, "FILE";
    /// Audience of the service account token that the agent beside a build sends, as `access_file` names it for an issuer of the kind
    /// kubernetes. Without it the agent sends no token.
    "admit_agent_audience" => admission.agent_audience, "WORD", read checks::plain;
};
