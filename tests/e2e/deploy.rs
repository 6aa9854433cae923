//! What stands in `deploy/` is what a cluster takes: every overlay is rendered, and every object checked against the schema of
//! Kubernetes.
//!
//! Needs `kubectl` (1.21 or later) and `kubernetes-validate` (from `PyPI`); skipped with a reason without them, unless
//! `PLIMSOLL_DEPLOY_REQUIRED` is set.

mod combinations;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use yaml_rust2::YamlLoader;

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

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Whether a program is there; if not, why the test is skipped.
fn has(program: &str, words: &[&str]) -> bool {
    let there = Command::new(program).args(words).output().is_ok_and(|output| output.status.success());
    let required = std::env::var_os("PLIMSOLL_DEPLOY_REQUIRED").is_some();
    assert!(there || !required, "{program} is missing, and PLIMSOLL_DEPLOY_REQUIRED is set");
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
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
fn every_overlay_renders_and_every_object_fits_the_schema_of_each_release() {
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
fn the_base_lets_no_pod_reach_a_server_that_asks_no_caller_who_it_is() {
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

#[test]
fn what_is_deployed_gets_no_rights_in_the_cluster_and_holds_up_no_node() {
    let Some((webhook, monitoring)) = rendered("webhook").zip(rendered("monitoring")) else { return };
    let all = [webhook, monitoring].join("---\n");
    for right in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
        assert!(!all.contains(&format!("kind: {right}\n")), "{right}");
    }
    for word in
        ["hostPath", "hostNetwork", "hostPID", "privileged: true", "type: LoadBalancer", "type: NodePort"]
    {
        assert!(!all.contains(word), "{word}");
    }
    let words_there = [
        "automountServiceAccountToken: false",
        "readOnlyRootFilesystem: true",
        "runAsNonRoot: true",
        "pod-security.kubernetes.io/enforce: restricted",
        // one replica that must be there would keep its node from being drained for ever
        "maxUnavailable: 1",
        "failurePolicy: Ignore",
    ];
    for word in words_there {
        assert!(all.contains(word), "{word}");
    }
    // pods of others in a namespace of builds are not asked about
    for word in ["container.name == \"build\"", "key: plimsoll/admit\n      operator: NotIn"] {
        assert!(all.contains(word), "{word}");
    }
    // the certificate that is renewed is not the one that the API server trusts
    let leaf = all.split("---\n").find(|object| {
        object.contains("kind: Certificate\n") && object.contains("secretName: plimsoll-webhook\n")
    });
    assert!(leaf.unwrap().contains("name: plimsoll-webhook-ca\n"), "{leaf:?}");
}

#[test]
fn the_overlay_of_access_has_a_file_of_access_and_still_no_rights_in_the_cluster() {
    let Some(all) = rendered("access") else { return };
    for word in ["value: /etc/plimsoll-access/access.toml", "path: token", "port: 6443", "access.toml: |"] {
        assert!(all.contains(word), "{word}");
    }
    for word in ["automountServiceAccountToken: true", "kind: Role", "kind: ClusterRole"] {
        assert!(!all.contains(word), "{word}");
    }
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
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plimsoll.toml");
    fs::write(&file, settings).unwrap();
    let mut server = Command::new(&plimsoll_tests::Programs::for_tests().server);
    server.env_clear().envs(variables).arg("--config").arg(&file).arg("--print-config");
    let output = server.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn where_access_is_in_force_no_token_crosses_the_network_in_plain_text() {
    for overlay in ["access", "webhook-access"] {
        let Some(all) = rendered(overlay) else { return };
        let settings = in_force(&all);
        for line in ["plain_text = \"off\"", "tls_cert_file = \"/run/plimsoll-server-tls/tls.crt\""] {
            assert!(settings.contains(line), "{overlay}: {line}: {settings}");
        }
        for word in ["value: http://", "h2c", "scheme: HTTP\n"] {
            assert!(!all.contains(word), "{overlay}: {word}");
        }
        // each probe speaks TLS
        assert_eq!(
            (all.matches("scheme: HTTPS").count(), all.matches("grpc:\n").count()),
            (3, 0),
            "{overlay}"
        );
    }
    let Some(monitoring) = rendered("monitoring-access") else { return };
    for line in ["scheme: https\n", "name: plimsoll-metrics\n", "serverName: plimsoll.plimsoll.svc\n"] {
        assert!(monitoring.contains(line), "{line}: {monitoring}");
    }
}

#[test]
fn the_cluster_is_three_servers_without_a_volume_over_a_database_that_loses_nothing_with_its_primary() {
    let Some(all) = rendered("cluster") else { return };
    let settings = in_force(&all);
    for line in [
        "store_url = \"postgres://plimsoll@plimsoll-database-rw:5432/plimsoll?sslmode=require\"",
        "store_password_file = \"/run/plimsoll-database/password\"",
        "store_ca_file = \"/run/plimsoll-database/ca.crt\"",
        "plain_text = \"off\"",
    ] {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    for word in [
        "kind: Deployment\n",
        "replicas: 3\n",
        // the Service leads to the one that serves
        "path: /readyz\n",
        // the one that serves is the only ready pod, and its node can be drained all the same
        "maxUnavailable: 100%\n",
        "unhealthyPodEvictionPolicy: AlwaysAllow\n",
        "port: 5432\n",
        "dataDurability: required\n",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
    for word in ["kind: StatefulSet", "volumeClaimTemplates", "serviceName: plimsoll\n"] {
        assert!(!all.contains(word), "{word}");
    }
}

#[test]
fn webhook_and_access_are_one_overlay_that_says_its_secret_once() {
    let Some(all) = rendered("webhook-access") else { return };
    let settings = in_force(&all);
    for line in [
        "admit_agent_server = \"https://plimsoll.plimsoll.svc:7410\"",
        "admit_agent_audience = \"plimsoll\"",
        "admit_agent_ca_file = \"/run/plimsoll-server-tls/ca.crt\"",
        "admit_secret_file = \"/run/plimsoll-admit/secret\"",
    ] {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    let words_there = "deploy/kubernetes/webhook-access/secret.yaml";
    let secret = fs::read_to_string(repository().join(words_there)).unwrap();
    let secret = secret.lines().find_map(|line| line.strip_prefix("  secret: ")).unwrap();
    assert!(all.contains(&format!("path: /admit/{secret}\n")), "{all}");
    assert!(all.contains(&format!("stringData:\n  secret: {secret}\n")), "{all}");
    assert!(!all.contains("local-config"), "the note of the secret is not sent");
    // the server refuses what stands there until a secret is written there
    assert!(secret.bytes().any(|byte| byte.is_ascii_uppercase()), "{secret}");
}

#[test]
fn the_webhook_begins_by_learning_and_changes_no_size() {
    for overlay in ["webhook", "webhook-access"] {
        let Some(all) = rendered(overlay) else { return };
        let settings = in_force(&all);
        for line in ["admit_mode = \"on\"", "shadow = \"on\"", "admit_agent_image = \"registry.example/"] {
            assert!(settings.contains(line), "{overlay}: {line}: {settings}");
        }
    }
}

#[test]
fn monitoring_comes_beside_any_server_and_brings_none() {
    for overlay in ["monitoring", "monitoring-access"] {
        let Some(all) = rendered(overlay) else { return };
        for kind in ["StatefulSet", "MutatingWebhookConfiguration", "Certificate"] {
            assert!(!all.contains(&format!("kind: {kind}\n")), "{overlay}: {kind}");
        }
        assert!(all.contains("kind: ServiceMonitor\n") && all.contains("kind: PrometheusRule\n"));
    }
}

/// All files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_address_of_the_images_is_in_one_file() {
    let kubernetes = repository().join("deploy/kubernetes");
    let names = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains("registry.example"));
    let found: Vec<PathBuf> = files(&kubernetes).into_iter().filter(names).collect();
    assert_eq!(found, [kubernetes.join("components/images/kustomization.yaml")]);
    let text = fs::read_to_string(&found[0]).unwrap();
    let version = concat!("newTag: ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(text.matches(version).count(), 2, "{text}");
}

#[test]
fn no_instance_of_the_agent_keeps_its_spool_where_another_does() {
    let unit = fs::read_to_string(repository().join("deploy/systemd/plimsoll-attach@.service")).unwrap();
    let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let directory = value("StateDirectory=");
    assert!(
        directory.ends_with("/%i"),
        "with DynamicUser each instance would take it from the last: {directory}"
    );
    assert_eq!(value("Environment=PLIMSOLL_SPOOL_DIR="), format!("%S/{directory}"));
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    // not every machine that runs tests has it
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|output| output.status.success())
    {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let programs = plimsoll_tests::Programs::for_tests();
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
fn the_settings_of_the_deployment_are_settings_of_the_server() {
    let programs = plimsoll_tests::Programs::for_tests();
    let settings = repository().join("deploy/kubernetes/base/plimsoll.toml");
    let output = Command::new(&programs.server)
        .env_clear()
        .arg("--config")
        .arg(settings)
        .arg("--print-config")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let known = String::from_utf8(output.stdout).unwrap();
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

#[test]
fn whether_plain_text_will_do_says_a_file_that_can_be_changed_and_not_the_image() {
    // a variable wins over the file that is mounted, which could then not ask for TLS
    let image = fs::read_to_string(repository().join("deploy/release/server.Containerfile")).unwrap();
    let instructions = image.lines().filter(|line| !line.starts_with('#'));
    assert!(!instructions.collect::<String>().contains("PLAIN_TEXT"));
    let settings = fs::read_to_string(repository().join("deploy/kubernetes/base/plimsoll.toml")).unwrap();
    assert!(settings.contains("plain_text = \"on\""));
}
