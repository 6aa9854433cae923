//! Settings of listeners, access and logs.

use super::super::{
    checks,
    setting::{Setting, settings},
};

pub(super) const LISTENERS: &[Setting] = settings! {
    /// Address for gRPC.
    "grpc_listen" => grpc_listen, "IP:PORT";
    /// Address for HTTP: the web page, /v1/allocation, /v1/collect, /metrics, /livez, /readyz.
    "http_listen" => http_listen, "IP:PORT";
    /// PEM file of the certificate for gRPC and HTTP, with its chain. It is read again when it changes.
    "tls_cert_file" => tls.certificate, "FILE";
    /// PEM file of the certificate's private key.
    "tls_key_file" => tls.key, "FILE";
    /// PEM file of the CA certificates for client certificates. A client is who its certificate says.
    "tls_client_ca_file" => tls.client_ca, "FILE";
    /// on: clients without a certificate are refused.
    "tls_client_required" => tls.client_required, "on|off";
    /// Folder with static builds of the agent, `plimsoll-linux-amd64` and `plimsoll-linux-arm64`. Jobs fetch them at GET
    /// /agent/linux-amd64, without a token. Read at the start.
    "agent_dir" => agent_dir, "DIR";
    /// on: allows listeners on other than loopback addresses without TLS. Only for networks that keep strangers out.
    "plain_text" => plain_text, "on|off";
    /// Time for running requests to end when the server stops.
    "drain_timeout" => drain_timeout, "TIME";
    /// Connections to the HTTP port at once. More than 1024 get at most a half of the files that the server may have open. At most a
    /// quarter of them is for jobs and pods that wait for their tickets as clients of Resalloc, and half for others that do.
    "http_connections" => http_connections, "N", number 1_usize..=65_536;
};

pub(super) const ACCESS: &[Setting] = settings! {
    /// File that says who may call what: tokens, token issuers, certificates. Changes take effect while the server runs. Without it
    /// every caller may do everything.
    "access_file" => access_file, "FILE";
    /// Names by which clients reach the HTTP port of a server without an access file, separated by commas. Localhost and IP addresses are
    /// always answered. Other names are refused: a web page of another site can make its name mean this machine.
    "http_hosts" => http_hosts, "NAMES", read checks::hosts;
    /// on: operators may take backups from other machines, over TLS. Needs access_file and tls_cert_file. Without it a backup is given
    /// to callers on the server's own machine only.
    "backup_remote" => backup_remote, "on|off";
    /// Labels whose values are shown only to operators and to readers of the attempt's project. Separated by commas; `customer*`
    /// matches all names that begin with it.
    "private_labels" => private.labels, "NAMES", read checks::labels;
    /// on: the same for log lines in verdicts.
    "private_logs" => private.logs, "on|off";
};

pub(super) const LOGS: &[Setting] = settings! {
    /// Log filter, for example info or `plimsoll_server=debug`, which covers all crates of the server.
    "log" => log, "FILTER", read checks::log_filter;
    /// Format of log lines.
    "log_format" => log_format, "text|json";
    /// OTLP collector that receives spans over gRPC, for example http://127.0.0.1:4317. Needs a build with `--features otlp`.
    "otlp_endpoint" => otlp_endpoint, "URL", read checks::collector;
};
