//! Components combine: each choice of them that makes sense is rendered as an overlay of its own.

use std::{fs, process::Command};

use plimsoll_support::files_below;

use super::{assert_fits, has, in_force};
use crate::tools::repository;

/// The components of `deploy/kubernetes` in every order of choice that makes sense.
fn combinations() -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for callers in [&[][..], &["open-clients"], &["access"], &["access", "own-certificate"]] {
        let has_access = callers.contains(&"access");
        let webhook: &[&str] =
            if has_access { &["webhook", "webhook-access"] } else { &["webhook", "limit-ranges"] };
        let more: &[&[&'static str]] = if has_access {
            &[&[], &["ingress"], &["backup"], &["ingress", "backup", "backup-s3"]]
        } else {
            &[&[]]
        };
        let priorities = [&[][..], &["priority"]];
        let two =
            [&[][..], webhook].into_iter().flat_map(|webhook| more.iter().map(move |more| (webhook, *more)));
        let three = two.flat_map(|(webhook, more)| priorities.map(|priority| (webhook, more, priority)));
        all.extend(
            three.map(|(webhook, more, priority)| [callers, webhook, more, priority, &["images"]].concat()),
        );
    }
    all
}

#[test]
fn components_combine_without_a_copy_of_any_file() {
    if !has("kubectl", &["kustomize", "--help"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let here = repository().join("deploy/kubernetes");
    for file in files_below(&here) {
        let copy = dir.path().join(file.strip_prefix(&here).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&file, copy).unwrap();
    }
    let mut written = Vec::new();
    for (number, components) in combinations().into_iter().enumerate() {
        let place = dir.path().join(format!("own-{number}"));
        fs::create_dir(&place).unwrap();
        let webhook_access = components.contains(&"webhook-access");
        let lines: String =
            components.iter().map(|name| format!("\n  - ../components/{name}")).collect::<Vec<_>>().concat();
        if webhook_access {
            // the secret stands beside the overlay, as an overlay of one's own has it
            fs::copy(here.join("webhook-access/secret.yaml"), place.join("secret.yaml")).unwrap();
        }
        let secret = if webhook_access { "\n  - secret.yaml" } else { "" };
        let text = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: plimsoll\n\
             resources:\n  - ../base{secret}\ncomponents:{lines}\n"
        );
        fs::write(place.join("kustomization.yaml"), text).unwrap();
        let output = Command::new("kubectl").arg("kustomize").arg(&place).output().unwrap();
        assert!(output.status.success(), "{components:?}: {}", String::from_utf8_lossy(&output.stderr));
        let all = String::from_utf8(output.stdout).unwrap();
        assert_combination(&components, &all);
        let file = dir.path().join(format!("own-{number}.yaml"));
        fs::write(&file, all).unwrap();
        written.push(file);
    }
    assert!(written.len() >= 40, "{}", written.len());
    assert_fits(&written);
}

/// What each combination promises.
fn assert_combination(components: &[&str], all: &str) {
    let has = |component: &str| components.contains(&component);
    let opens = has("access") || has("open-clients");
    assert_eq!(all.contains("plimsoll/client: \"true\""), opens, "{components:?}: pods of clients get in");
    let own = has("access") && !has("own-certificate");
    assert_eq!(all.contains("name: plimsoll-server-ca\n"), own, "{components:?}: cert-manager's CA");
    assert_eq!(all.contains("priorityClassName: plimsoll-server\n"), has("priority"), "{components:?}");
    assert_eq!(all.contains("kind: Ingress\n"), has("ingress"), "{components:?}");
    assert_eq!(all.contains("kind: CronJob\n"), has("backup"), "{components:?}");
    assert_eq!(all.contains("name: copy-to-s3\n"), has("backup-s3"), "{components:?}");
    if has("backup") {
        assert!(in_force(all).contains("backup_remote = \"on\""), "{components:?}");
        // the copy comes behind the backup, and the job gets the CA and no private key
        let place = |word: &str| all.find(word).unwrap_or(usize::MAX);
        assert!(place("name: backup\n") < place("name: copy-to-s3\n"), "{components:?}");
        assert!(all.contains("key: ca.crt\n") && all.contains("serviceAccountName: plimsoll-operator\n"));
    }
    let probes = if has("access") { (3, 0) } else { (0, 1) };
    let found = (all.matches("scheme: HTTPS").count(), all.matches("grpc:\n").count());
    assert_eq!(found, probes, "{components:?}: probes speak TLS where the server does");
    for (right, of_component) in
        [("Role", false), ("RoleBinding", false), ("ClusterRole", true), ("ClusterRoleBinding", true)]
    {
        let given = of_component && has("limit-ranges");
        assert_eq!(all.contains(&format!("kind: {right}\n")), given, "{components:?}: {right}");
    }
}
