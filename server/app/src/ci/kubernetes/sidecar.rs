//! Adds the agent to the pod as a native sidecar: an init container that keeps running beside the
//! build.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource,
        EnvVar, ObjectFieldSelector, Pod, PodSpec, ProjectedVolumeSource, ResourceRequirements,
        SecurityContext, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use plimsoll_base::quantity;
use plimsoll_core::placement::OperatingSystem;

use super::{
    PodJob, Settings,
    pod::{BUILD_CONTAINER, OPT_OUT, annotation},
    system,
};

/// Name of the agent's container, and of the volume for its spool.
const AGENT_NAME: &str = "plimsoll";
/// Annotation: `off` adds no agent.
const AGENT_ANNOTATION: &str = "plimsoll/agent";
/// Directory in which the agent spools samples.
const SPOOL_DIR: &str = "/tmp/plimsoll";
/// Size of the spool: a day of samples at the default interval.
const SPOOL_BYTES: &str = "64Mi";
/// Annotation: `off` gives the agent no token.
const TOKEN_ANNOTATION: &str = "plimsoll/agent-token";
/// Name of the volume with the agent's token.
const TOKEN_VOLUME: &str = "plimsoll-token";
/// Directory with the file of the token.
const TOKEN_DIR: &str = "/var/run/secrets/plimsoll";
const TOKEN_FILE: &str = "token";
/// Annotation with the CA certificates that the agent trusts. The agent reads it as a file, so that
/// build namespaces need no config map.
const CA_ANNOTATION: &str = "plimsoll/ca";
/// Name of the volume with the CA certificates.
const CA_VOLUME: &str = "plimsoll-ca";
/// Directory with the file of the CA certificates.
const CA_DIR: &str = "/etc/plimsoll-ca";
const CA_FILE: &str = "ca.crt";
/// Validity of the agent's token, seconds. The kubelet renews it when a fifth of the time is left,
/// and the agent reads it for each connection.
const TOKEN_SECONDS: i64 = 3600;

/// Adds the agent, if an image is configured and nothing in the pod prevents it. The containers
/// then share a process namespace, so that the agent finds the build. Returns whether the agent was
/// added.
pub(super) fn add_agent(pod: &mut Pod, job: &PodJob, settings: &Settings, pool: &str) -> bool {
    let Some(image) = &settings.agent_image else { return false };
    if annotation(pod, AGENT_ANNOTATION) == Some(OPT_OUT) {
        return false;
    }
    let no_token = annotation(pod, TOKEN_ANNOTATION) == Some(OPT_OUT);
    let Some(spec) = pod.spec.as_mut() else { return false };
    let Some(rights) = security_context(spec, job).filter(|_| !prevents_agent(spec)) else { return false };
    let mut variables = size_variables(spec, job);
    variables.extend(Some(("PLIMSOLL_POOL", pool.to_owned())).filter(|_| !pool.is_empty()));
    let audience = settings.agent_audience.as_ref().filter(|_| !no_token);
    variables.extend(audience.map(|_| ("PLIMSOLL_TOKEN_FILE", format!("{TOKEN_DIR}/{TOKEN_FILE}"))));
    variables.extend(settings.agent_ca.as_ref().map(|_| ("PLIMSOLL_CA", format!("{CA_DIR}/{CA_FILE}"))));
    let mut container = agent_container(image, job, settings, rights, variables);
    let (mounts, volumes) =
        (container.volume_mounts.get_or_insert_default(), spec.volumes.get_or_insert_default());
    if let Some(audience) = audience {
        mounts.push(read_only_mount(TOKEN_VOLUME, TOKEN_DIR));
        volumes.push(token(audience));
    }
    if let Some(ca) = &settings.agent_ca {
        mounts.push(read_only_mount(CA_VOLUME, CA_DIR));
        volumes.push(ca_volume());
        pod.metadata.annotations.get_or_insert_default().insert(CA_ANNOTATION.to_owned(), ca.clone());
    }
    spec.share_process_namespace = Some(true);
    spec.init_containers.get_or_insert_default().push(container);
    spec.volumes.get_or_insert_default().push(Volume {
        name: AGENT_NAME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(SPOOL_BYTES.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    });
    true
}

fn read_only_mount(volume: &str, place: &str) -> VolumeMount {
    let (name, mount_path) = (volume.to_owned(), place.to_owned());
    VolumeMount { name, mount_path, read_only: Some(true), ..VolumeMount::default() }
}

/// A volume that shows the pod's annotation [`CA_ANNOTATION`] as a file.
fn ca_volume() -> Volume {
    let field = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{CA_ANNOTATION}']"),
        api_version: None,
    };
    let file = DownwardAPIVolumeFile {
        path: CA_FILE.to_owned(),
        field_ref: Some(field),
        ..DownwardAPIVolumeFile::default()
    };
    let source = DownwardAPIVolumeSource { items: Some(vec![file]), default_mode: None };
    Volume { name: CA_VOLUME.to_owned(), downward_api: Some(source), ..Volume::default() }
}

/// A volume with a token that proves the pod's service account to this server only. Only the agent
/// mounts it. But the build can read the agent's files through `/proc`, because it runs as the same
/// user in the same process namespace.
fn token(audience: &str) -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(audience.to_owned()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: TOKEN_FILE.to_owned(),
    };
    let source = VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    let projected = ProjectedVolumeSource { sources: Some(vec![source]), ..ProjectedVolumeSource::default() };
    Volume { name: TOKEN_VOLUME.to_owned(), projected: Some(projected), ..Volume::default() }
}

/// Whether the agent cannot be added: a name is in use, the pod forbids a shared process namespace
/// or uses the node's, or it is not for Linux.
fn prevents_agent(spec: &PodSpec) -> bool {
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut volumes = spec.volumes.iter().flatten();
    containers.any(|container| container.name == AGENT_NAME)
        || volumes.any(|volume| [AGENT_NAME, TOKEN_VOLUME, CA_VOLUME].contains(&volume.name.as_str()))
        || spec.share_process_namespace == Some(false)
        || spec.host_pid == Some(true)
        || system::system_of(spec).is_some_and(|os| os != OperatingSystem::Linux)
}

/// Security context of the agent: no more rights than the build's, so that every policy that admits
/// the build admits it too. The kernel lets a process inspect another one of the same user if that
/// has no further capabilities. `None` if the agent cannot know the build's user: the image sets
/// it, and it must not be root.
fn security_context(spec: &PodSpec, job: &PodJob) -> Option<SecurityContext> {
    let build = spec.containers.get(job.container)?.security_context.clone().unwrap_or_default();
    let of_pod = spec.security_context.as_ref();
    let user = build.run_as_user.or_else(|| of_pod?.run_as_user);
    let not_root = build.run_as_non_root.or_else(|| of_pod?.run_as_non_root);
    if user.is_none() && not_root == Some(true) {
        return None;
    }
    // images build as root unless they set a user
    let user = user.unwrap_or(0);
    let dropped = build.capabilities.and_then(|capabilities| capabilities.drop);
    let dropped = if user == 0 { dropped } else { Some(vec!["ALL".to_owned()]) };
    Some(SecurityContext {
        run_as_user: Some(user),
        capabilities: dropped.map(|drop| Capabilities { drop: Some(drop), add: None }),
        privileged: None,
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        ..build
    })
}

/// The build's requests and limits as environment variables for the agent.
fn size_variables(spec: &PodSpec, job: &PodJob) -> Vec<(&'static str, String)> {
    let sizes = spec.containers.get(job.container).and_then(|build| build.resources.as_ref());
    let of = |list: Option<&BTreeMap<String, Quantity>>, name: &str| Some(list?.get(name)?.0.clone());
    let (requests, limits) =
        (sizes.and_then(|sizes| sizes.requests.as_ref()), sizes.and_then(|sizes| sizes.limits.as_ref()));
    let all = [
        ("KUBERNETES_MEMORY_REQUEST", of(requests, "memory")),
        ("KUBERNETES_MEMORY_LIMIT", of(limits, "memory")),
        ("KUBERNETES_CPU_REQUEST", of(requests, "cpu")),
        ("KUBERNETES_CPU_LIMIT", of(limits, "cpu")),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn agent_container(
    image: &str,
    job: &PodJob,
    settings: &Settings,
    rights: SecurityContext,
    asked: Vec<(&'static str, String)>,
) -> Container {
    let own =
        [("PLIMSOLL_SERVER", settings.agent_server.clone()), ("PLIMSOLL_SPOOL_DIR", SPOOL_DIR.to_owned())];
    let all = own.into_iter().chain(job.variables.iter().cloned()).chain(asked);
    let env =
        all.map(|(name, value)| EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() });
    let cpu = settings.min_cpu.map_or(settings.agent_cpu.0, |least| least.0.max(settings.agent_cpu.0));
    let memory = settings.min_memory.unwrap_or_default().max(settings.agent_memory);
    // requests equal limits, so that a pod of the class Guaranteed stays in this class
    let (cpu, memory) =
        (format!("{}m", quantity::rounded_millicores(cpu)), quantity::written_bytes(memory.0));
    let sizes: BTreeMap<String, Quantity> =
        [("cpu", cpu), ("memory", memory)].map(|(name, size)| (name.to_owned(), Quantity(size))).into();
    Container {
        name: AGENT_NAME.to_owned(),
        image: Some(image.to_owned()),
        args: Some(["attach", "--container-name", BUILD_CONTAINER].map(ToOwned::to_owned).into()),
        restart_policy: Some("Always".to_owned()),
        env: Some(env.collect()),
        resources: Some(ResourceRequirements {
            requests: Some(sizes.clone()),
            limits: Some(sizes),
            ..ResourceRequirements::default()
        }),
        security_context: Some(rights),
        volume_mounts: Some(vec![VolumeMount {
            name: AGENT_NAME.to_owned(),
            mount_path: SPOOL_DIR.to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}
