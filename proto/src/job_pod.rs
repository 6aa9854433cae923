//! Annotations and labels of a CI job's pod from which the job is known: those that GitLab's runner sets, and those into which Spack's
//! runners copy variables of the job. The admission webhook reads them from the pod; the import from Prometheus reads those that
//! kube-state-metrics exported.

use crate::job;

/// Annotations that the runner sets from GitLab's own data, each with its variable of the job. They take precedence over the environment.
pub const RUNNER_VARIABLES: [(&str, &str); 4] = [
    ("CI_JOB_ID", "job.runner.gitlab.com/id"),
    ("CI_JOB_NAME", "job.runner.gitlab.com/name"),
    ("CI_COMMIT_REF_NAME", "job.runner.gitlab.com/ref"),
    ("CI_COMMIT_SHA", "job.runner.gitlab.com/sha"),
];

/// Annotation with the address of the job's page: the project's address, `/-/jobs/` and the job's number. GitLab gives this address to the
/// runner; the runner's labels are less reliable, because it sets them from variables.
pub const JOB_URL_ANNOTATION: &str = "job.runner.gitlab.com/url";

/// Annotations and labels into which a variable of the job may have been copied.
pub const VARIABLE_COPIES: [(&str, &str); 13] = [
    ("CI_JOB_ID", "gitlab/ci_job_id"),
    ("CI_JOB_STAGE", "metrics/gitlab_ci_job_stage"),
    ("CI_COMMIT_REF_NAME", "metrics/gitlab_ci_commit_ref_name"),
    ("CI_PIPELINE_ID", "metrics/gitlab_ci_pipeline_id"),
    ("SPACK_CI_STACK_NAME", "metrics/spack_ci_stack_name"),
    ("SPACK_BUILD_JOBS", "metrics/spack_job_build_jobs"),
    ("SPACK_JOB_SPEC_PKG_NAME", "metrics/spack_job_spec_pkg_name"),
    ("SPACK_JOB_SPEC_PKG_VERSION", "metrics/spack_job_spec_pkg_version"),
    ("SPACK_JOB_SPEC_COMPILER_NAME", "metrics/spack_job_spec_compiler_name"),
    ("SPACK_JOB_SPEC_COMPILER_VERSION", "metrics/spack_job_spec_compiler_version"),
    ("SPACK_JOB_SPEC_ARCH", "metrics/spack_job_spec_arch"),
    (job::VARIANTS, "metrics/spack_job_spec_variants"),
    ("CI_SERVER_HOST", "gitlab/ci_server_host"),
];

/// Annotations with namespace and name of the project, used if the path is missing.
pub const PROJECT_PATH_PARTS: [[&str; 2]; 2] = [
    ["project.runner.gitlab.com/namespace", "project.runner.gitlab.com/name"],
    ["metrics/gitlab_ci_project_namespace", "metrics/gitlab_ci_project_name"],
];

/// Host (without port) and project in the address of a job's page.
pub fn host_and_project(url: &str) -> Option<(&str, &str)> {
    let (_, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let (project, _) = path.split_once("/-/jobs/")?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _port)| host);
    (!project.is_empty() && !host.is_empty()).then_some((host, project))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_urls_name_host_and_project() {
        let page = "https://gitlab.example:8443/group/sub/name/-/jobs/12345";
        assert_eq!(host_and_project(page), Some(("gitlab.example", "group/sub/name")));
        for wrong in [
            "",
            "gitlab.example/a/-/jobs/1",
            "https://gitlab.example/a",
            "https:///a/-/jobs/1",
            "https://h//-/jobs/1",
        ] {
            assert_eq!(host_and_project(wrong), None, "{wrong}");
        }
    }
}
