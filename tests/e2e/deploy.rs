//! What stands in `deploy/` is what a cluster takes: every overlay is rendered, and every object checked against the schema of
//! Kubernetes.
//!
//! Needs `kubectl` (1.21 or later) and `kubernetes-validate` (from `PyPI`); skipped with a reason without them, unless
//! `PLIMSOLL_DEPLOY_REQUIRED` is set.

mod combinations;

use std::{fs, path::PathBuf, process::Command};

use plimsoll_tests::{Answer, Programs, Server, assert_has};
use yaml_rust2::YamlLoader;

use crate::tools::{self, repository};

/// The releases against whose schemas objects are checked.
const KUBERNETES: [&str; 5] = ["1.30", "1.31", "1.32", "1.33", "1.34"];

/// What a cluster can be given.
const OVERLAYS: [&str; 9] = [
    "base",
    "access",
    "webhook",
    "webhook-access",
    "cluster",
    "monitoring",
    "monitoring-access",
    "keda",
    "restore",
];

/// Whether a program is there.
fn has(program: &str, words: &[&str]) -> bool {
    tools::has(program, words, Some("PLIMSOLL_DEPLOY_REQUIRED"))
}

/// Checks files of objects against every release; gives the complaints, which include kinds that are not Kubernetes' own.
pub(crate) fn complaints(objects: &[PathBuf]) -> Option<Vec<String>> {
    if !has("kubernetes-validate", &["--version"]) {
        return None;
    }
    let checked = KUBERNETES.map(|release| {
        let mut command = Command::new("kubernetes-validate");
        let output = command.args(["--strict", "-k", release]).args(objects).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("passed"), "nothing was checked: {text}");
        text.lines().filter(|line| !line.starts_with("INFO")).map(ToOwned::to_owned).collect::<Vec<_>>()
    });
    Some(checked.concat())
}

/// Kinds of cert-manager, of `CloudNativePG`, of the Prometheus operator and of KEDA.
const FOREIGN: [&str; 8] = [
    "Certificate",
    "Cluster",
    "Issuer",
    "PrometheusRule",
    "ScaledJob",
    "ScaledObject",
    "ServiceMonitor",
    "TriggerAuthentication",
];

/// Every object of these files fits the schemas.
fn assert_fits(files: &[PathBuf]) {
    let Some(complaints) = complaints(files) else { return };
    let is_foreign =
        |line: &&String| FOREIGN.iter().any(|kind| line.contains(&format!("schema for kind {kind} ")));
    let own: Vec<_> = complaints.iter().filter(|line| !is_foreign(line)).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[test]
fn every_overlay_renders_to_schema_valid_objects() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for overlay in OVERLAYS {
        let Some(all) = rendered(overlay) else { return };
        let file = dir.path().join(format!("{overlay}.yaml"));
        fs::write(&file, all).unwrap();
        files.push(file);
    }
    assert_fits(&files);
}

#[test]
fn the_base_blocks_unauthenticated_pod_access() {
    let Some(all) = rendered("base") else { return };
    let objects = YamlLoader::load_from_str(&all).unwrap();
    let policies: Vec<_> =
        objects.iter().filter(|object| object["kind"].as_str() == Some("NetworkPolicy")).collect();
    assert_eq!(policies.len(), 1);
    let spec = &policies[0]["spec"];
    assert_eq!((spec["ingress"].as_vec().unwrap().len(), spec["egress"].as_vec().unwrap().len()), (0, 0));
    let types: Vec<_> = spec["policyTypes"].as_vec().unwrap().iter().map(|kind| kind.as_str()).collect();
    assert_eq!(types, [Some("Ingress"), Some("Egress")]);
}

/// An overlay as the cluster gets it; `None` where nothing renders it.
fn rendered(overlay: &str) -> Option<String> {
    if !has("kubectl", &["kustomize", "--help"]) {
        return None;
    }
    let place = repository().join("deploy/kubernetes").join(overlay);
    let output = Command::new("kubectl").arg("kustomize").arg(place).output().unwrap();
    assert!(output.status.success(), "{overlay}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What the server is started with in an overlay: its file of settings, and its variables.
fn started_with(rendered: &str) -> (String, Vec<(String, String)>) {
    let objects = YamlLoader::load_from_str(rendered).unwrap();
    let of_kind = |kind: &str| {
        objects.iter().filter(|object| object["kind"].as_str() == Some(kind)).collect::<Vec<_>>()
    };
    let settings = of_kind("ConfigMap").into_iter().find_map(|map| map["data"]["plimsoll.toml"].as_str());
    let server = [of_kind("StatefulSet"), of_kind("Deployment")].concat();
    let container = &server[0]["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_vec().into_iter().flatten().map(|variable| {
        let part = |name: &str| variable[name].as_str().unwrap().to_owned();
        (part("name"), part("value"))
    });
    (settings.unwrap().to_owned(), variables.collect())
}

/// The settings in force in an overlay, as the server reads them; it refuses those that contradict each other.
fn in_force(rendered: &str) -> String {
    let (settings, variables) = started_with(rendered);
    let (_dir, file) = plimsoll_support::temporary::file_with("plimsoll.toml", settings);
    Answer::of(Server::program().envs(variables).arg("--config").arg(&file).arg("--print-config")).done()
}

/// What overlays hold, and what not.
struct Promise {
    what: &'static str,
    overlays: &'static [&'static str],
    /// Lines of the settings in force.
    settings: &'static [&'static str],
    has: &'static [&'static str],
    lacks: &'static [&'static str],
}

const EMPTY: Promise = Promise { what: "", overlays: &[], settings: &[], has: &[], lacks: &[] };

const PROMISES: [Promise; 12] = [
    Promise {
        what: "what is deployed gets no rights in the cluster and no part of a node",
        overlays: &["webhook", "monitoring"],
        lacks: &[
            "kind: Role\n",
            "kind: RoleBinding\n",
            "kind: ClusterRole\n",
            "kind: ClusterRoleBinding\n",
            "hostPath",
            "hostNetwork",
            "hostPID",
            "privileged: true",
            "type: LoadBalancer",
            "type: NodePort",
        ],
        ..EMPTY
    },
    Promise {
        what: "the server is confined, and one replica that must be there would keep its node from being drained for ever",
        overlays: &["webhook"],
        has: &[
            "automountServiceAccountToken: false",
            "readOnlyRootFilesystem: true",
            "runAsNonRoot: true",
            "pod-security.kubernetes.io/enforce: restricted",
            "maxUnavailable: 1",
            "failurePolicy: Ignore",
        ],
        ..EMPTY
    },
    Promise {
        what: "pods of others in a namespace of builds are not asked about",
        overlays: &["webhook"],
        has: &["container.name == \"build\"", "key: plimsoll/admit\n      operator: NotIn"],
        ..EMPTY
    },
    Promise {
        what: "access has a file of access and still no rights in the cluster",
        overlays: &["access"],
        has: &["value: /etc/plimsoll-access/access.toml", "path: token", "port: 6443", "access.toml: |"],
        lacks: &["automountServiceAccountToken: true", "kind: Role", "kind: ClusterRole"],
        ..EMPTY
    },
    Promise {
        what: "where access is in force no token crosses the network in plain text",
        overlays: &["access", "webhook-access"],
        settings: &["plain_text = \"off\"", "tls_cert_file = \"/run/plimsoll-server-tls/tls.crt\""],
        lacks: &["value: http://", "h2c", "scheme: HTTP\n"],
        ..EMPTY
    },
    Promise {
        what: "a token for metrics crosses it over TLS",
        overlays: &["monitoring-access"],
        has: &["scheme: https\n", "name: plimsoll-metrics\n", "serverName: plimsoll.plimsoll.svc\n"],
        ..EMPTY
    },
    Promise {
        what: "the cluster is three servers without a volume over a database that loses nothing with its primary",
        overlays: &["cluster"],
        settings: &[
            "store_url = \"postgres://plimsoll@plimsoll-database-rw:5432/plimsoll?sslmode=require\"",
            "store_password_file = \"/run/plimsoll-database/password\"",
            "store_ca_file = \"/run/plimsoll-database/ca.crt\"",
            "plain_text = \"off\"",
        ],
        has: &["kind: Deployment\n", "replicas: 3\n", "port: 5432\n", "dataDurability: required\n"],
        lacks: &["kind: StatefulSet", "volumeClaimTemplates", "serviceName: plimsoll\n"],
    },
    Promise {
        what: "the Service leads to the one that serves, the only ready pod, whose node can be drained all the same",
        overlays: &["cluster"],
        has: &["path: /readyz\n", "maxUnavailable: 100%\n", "unhealthyPodEvictionPolicy: AlwaysAllow\n"],
        ..EMPTY
    },
    Promise {
        what: "webhook and access are one overlay",
        overlays: &["webhook-access"],
        settings: &[
            "admit_agent_server = \"https://plimsoll.plimsoll.svc:7410\"",
            "admit_agent_audience = \"plimsoll\"",
            "admit_agent_ca_file = \"/run/plimsoll-server-tls/ca.crt\"",
            "admit_secret_file = \"/run/plimsoll-admit/secret\"",
        ],
        ..EMPTY
    },
    Promise {
        what: "the note of the webhook's secret is not sent",
        overlays: &["webhook-access"],
        lacks: &["local-config"],
        ..EMPTY
    },
    Promise {
        what: "the webhook begins by learning and changes no size",
        overlays: &["webhook", "webhook-access"],
        settings: &["admit_mode = \"on\"", "shadow = \"on\"", "admit_agent_image = \"registry.example/"],
        ..EMPTY
    },
    Promise {
        what: "monitoring comes beside any server and brings none",
        overlays: &["monitoring", "monitoring-access"],
        has: &["kind: ServiceMonitor\n", "kind: PrometheusRule\n"],
        lacks: &["kind: StatefulSet\n", "kind: MutatingWebhookConfiguration\n", "kind: Certificate\n"],
        ..EMPTY
    },
];

#[test]
fn every_overlay_holds_what_it_promises() {
    for Promise { what, overlays, settings, has, lacks } in PROMISES {
        for overlay in overlays {
            let Some(all) = rendered(overlay) else { return };
            let missing: Vec<_> = has.iter().filter(|part| !all.contains(**part)).collect();
            let there: Vec<_> = lacks.iter().filter(|part| all.contains(**part)).collect();
            assert!(missing.is_empty(), "{overlay}: {what}: {missing:?} {there:?}: {all}");
            assert!(there.is_empty(), "{overlay}: {what}: {missing:?} {there:?}: {all}");
            if !settings.is_empty() {
                let in_force = in_force(&all);
                let missing: Vec<_> = settings.iter().filter(|line| !in_force.contains(**line)).collect();
                assert!(missing.is_empty(), "{overlay}: {what}: {missing:?}: {in_force}");
            }
        }
    }
}

#[test]
fn webhook_and_access_use_one_secret() {
    let Some(all) = rendered("webhook-access") else { return };
    let secret =
        fs::read_to_string(repository().join("deploy/kubernetes/webhook-access/secret.yaml")).unwrap();
    let secret = secret.lines().find_map(|line| line.strip_prefix("  secret: ")).unwrap();
    assert_has(&all, [format!("path: /admit/{secret}\n"), format!("stringData:\n  secret: {secret}\n")]);
    // the server refuses what stands there until a secret is written there
    assert!(secret.bytes().any(|byte| byte.is_ascii_uppercase()), "{secret}");
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    // not every machine that runs tests has it
    if !tools::has("systemd-analyze", &["--version"], None) {
        return;
    }
    let programs = Programs::for_tests();
    let dir = tempfile::tempdir().unwrap();
    for (unit, name, binary) in [
        ("plimsoll-server.service", "plimsoll-server", &programs.server),
        ("plimsoll-attach@.service", "plimsoll", &programs.agent),
    ] {
        let text = fs::read_to_string(repository().join("deploy/systemd").join(unit)).unwrap();
        let start = format!("ExecStart=/usr/local/bin/{name} ");
        assert!(text.contains(&start), "{text}");
        let here = format!("ExecStart={} ", binary.display());
        let file = dir.path().join(unit);
        fs::write(&file, text.replace(&start, &here)).unwrap();
        let output =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
        let words_there = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let about: Vec<&str> = words_there.lines().filter(|line| line.contains(unit)).collect();
        assert!(output.status.success() && about.is_empty(), "{words_there}");
    }
}

#[test]
fn deployment_settings_are_server_settings() {
    let settings = repository().join("deploy/kubernetes/base/plimsoll.toml");
    let known = Server::call(&["--config", settings.to_str().unwrap(), "--print-config"]).done();
    let of = |component: &str| {
        let place = repository().join("deploy/kubernetes/components").join(component).join("server.yaml");
        fs::read_to_string(place).unwrap()
    };
    let overlay = ["webhook", "access", "webhook-access", "backup"].map(of).concat();
    let variables: Vec<&str> =
        overlay.split("name: PLIMSOLL_").skip(1).filter_map(|rest| rest.split(',').next()).collect();
    assert!(variables.len() >= 12, "{variables:?}");
    for name in variables {
        let setting = name.to_ascii_lowercase();
        assert!(known.contains(&format!("{setting} ")), "PLIMSOLL_{name} is not a setting");
    }
}
