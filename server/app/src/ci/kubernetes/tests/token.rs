//! The token of the agent beside a build, and the CA that it trusts.

use super::*;

fn with_token() -> Settings {
    let image = Some("registry/agent:1".to_owned());
    Settings { agent_image: image, agent_audience: Some("plimsoll".into()), ..on() }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn only_the_agent_mounts_the_token_file() {
    let (after, _) = patched(&pod(), &sizes((512, 1024), (500, 1000), 0.0), &with_token());
    let spec = &after["spec"];
    let agent = spec["initContainers"].as_array().unwrap().last().unwrap();
    let mount = json!({"name": "plimsoll-token", "mountPath": "/var/run/secrets/plimsoll", "readOnly": true});
    assert_eq!(agent["volumeMounts"].as_array().unwrap().last(), Some(&mount));
    let file = json!({"name": "PLIMSOLL_TOKEN_FILE", "value": "/var/run/secrets/plimsoll/token"});
    assert!(agent["env"].as_array().unwrap().contains(&file), "{agent}");
    let mut volumes = spec["volumes"].as_array().unwrap().iter();
    let volume = volumes.find(|volume| volume["name"] == "plimsoll-token").unwrap();
    let token = json!({"audience": "plimsoll", "expirationSeconds": 3600, "path": "token"});
    let sources = json!([{"serviceAccountToken": token}]);
    assert_eq!(volume, &json!({"name": "plimsoll-token", "projected": {"sources": sources}}));
    let all = spec.to_string();
    assert_eq!(all.matches("/var/run/secrets/plimsoll\"").count(), 1, "the build has it not: {all}");
    assert_eq!(all.matches("PLIMSOLL_TOKEN_FILE").count(), 1);
}

#[test]
fn no_token_without_audience_or_when_opted_out() {
    let prediction = sizes((512, 1024), (500, 1000), 0.0);
    let mut against = pod();
    against["metadata"]["annotations"]["plimsoll/agent-token"] = json!("off");
    let without = Settings { agent_audience: None, ..with_token() };
    for (pod, settings) in [(&against, &with_token()), (&pod(), &without)] {
        let (after, _) = patched(pod, &prediction, settings);
        assert!(names(&after["spec"]["initContainers"]).contains(&"plimsoll"), "{after}");
        assert!(!names(&after["spec"]["volumes"]).contains(&"plimsoll-token"), "{after}");
        assert!(!after.to_string().contains("PLIMSOLL_TOKEN_FILE"), "{after}");
    }
}

#[test]
fn a_second_look_adds_no_second_token() {
    let prediction = sizes((512, 1024), (500, 1000), 0.0);
    let (once, _) = patched(&pod(), &prediction, &with_token());
    let (twice, plan) = patched(&once, &prediction, &with_token());
    assert_eq!(twice, once);
    assert!(plan.patch.is_none());
    let mut taken = pod();
    let volumes = taken["spec"]["volumes"].as_array_mut().unwrap();
    volumes.push(json!({"name": "plimsoll-token", "emptyDir": {}}));
    let (after, _) = patched(&taken, &prediction, &with_token());
    assert!(!names(&after["spec"]["initContainers"]).contains(&"plimsoll"), "the name is taken: {after}");
}

#[test]
fn the_agent_trusts_the_ca_from_the_annotation() {
    let ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let settings = Settings { agent_ca: Some(ca.to_owned()), ..with_token() };
    let mut job = pod();
    // an annotation that the job chose counts for nothing
    job["metadata"]["annotations"]["plimsoll/ca"] = json!("of others");
    let (after, _) = patched(&job, &sizes((512, 1024), (500, 1000), 0.0), &settings);
    assert_eq!(after["metadata"]["annotations"]["plimsoll/ca"], ca);
    let spec = &after["spec"];
    let agent = spec["initContainers"].as_array().unwrap().last().unwrap();
    let file = json!({"name": "PLIMSOLL_CA", "value": "/etc/plimsoll-ca/ca.crt"});
    assert!(agent["env"].as_array().unwrap().contains(&file), "{agent}");
    let mount = json!({"name": "plimsoll-ca", "mountPath": "/etc/plimsoll-ca", "readOnly": true});
    assert!(agent["volumeMounts"].as_array().unwrap().contains(&mount), "{agent}");
    let mut volumes = spec["volumes"].as_array().unwrap().iter();
    let volume = volumes.find(|volume| volume["name"] == "plimsoll-ca").unwrap();
    let field = json!({"fieldPath": "metadata.annotations['plimsoll/ca']"});
    let items = json!([{"path": "ca.crt", "fieldRef": field}]);
    assert_eq!(volume, &json!({"name": "plimsoll-ca", "downwardAPI": {"items": items}}));
    let (twice, plan) = patched(&after, &sizes((512, 1024), (500, 1000), 0.0), &settings);
    assert!(twice == after && plan.patch.is_none());
}
