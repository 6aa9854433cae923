//! Links to GitLab's pages about the job of an attempt. The attempt's id names host and job
//! ([`job::gitlab_job`]), its key the project and the pipeline.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use plimsoll_proto::{job, v1::Summary};

/// Characters that are escaped in the path of a link.
const PATH_ESCAPES: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'\\').add(b'`');

/// Names and addresses of GitLab's pages: the job and, if known, its pipeline. Empty for an attempt that is not of
/// a GitLab job. The addresses begin with `https://` and the host, unless the job has reported an `http` address of
/// the same host.
pub(super) fn gitlab_links(summary: &Summary) -> Vec<(String, String)> {
    let Some((host, job)) = job::gitlab_job(&summary.attempt) else { return Vec::new() };
    let key = summary.key.clone().unwrap_or_default();
    let project = key.project.trim_matches('/');
    if project.is_empty() || project.contains("..") {
        return Vec::new();
    }
    let plain = key.labels.get(job::SERVER_URL_LABEL).filter(|url| is_address_of_host(url, host));
    let server = plain.map_or_else(|| format!("https://{host}"), |url| url.trim_end_matches('/').to_owned());
    let base = format!("{server}/{}/-", utf8_percent_encode(project, PATH_ESCAPES));
    let pipeline = key.labels.get("pipeline").filter(|pipeline| is_number(pipeline));
    let link = |kind: &str, id: &str| (format!("{kind} {id}"), format!("{base}/{kind}s/{id}"));
    [Some(link("job", job)), pipeline.map(|id| link("pipeline", id))].into_iter().flatten().collect()
}

/// Whether the address is `http`, of this host, with an optional port. No other address may become a link.
fn is_address_of_host(url: &str, host: &str) -> bool {
    let rest = url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').strip_prefix(host));
    rest.is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::Key;

    use super::*;

    fn attempt(id: &str, project: &str, pipeline: &str) -> Summary {
        let labels = [("pipeline".to_owned(), pipeline.to_owned())].into();
        let key = Key { project: project.to_owned(), labels, ..Key::default() };
        Summary { attempt: id.to_owned(), key: Some(key), ..Summary::default() }
    }

    #[test]
    fn a_gitlab_attempt_links_job_and_pipeline() {
        let links = gitlab_links(&attempt("gitlab.example:4711", "group/my app", "12"));
        let [job, pipeline] = links.as_slice() else { unreachable!("{links:?}") };
        assert_eq!((job.0.as_str(), pipeline.0.as_str()), ("job 4711", "pipeline 12"));
        assert_eq!(job.1, "https://gitlab.example/group/my%20app/-/jobs/4711");
        assert_eq!(pipeline.1, "https://gitlab.example/group/my%20app/-/pipelines/12");
        assert_eq!(gitlab_links(&attempt("gitlab.example:4711", "group/app", "main")).len(), 1);
    }

    #[test]
    fn links_use_only_the_jobs_own_server_url() {
        let linked = |url: &str| {
            let mut summary = attempt("gitlab.example:4711", "group/app", "12");
            let labels = &mut summary.key.as_mut().unwrap().labels;
            labels.insert(job::SERVER_URL_LABEL.to_owned(), url.to_owned());
            gitlab_links(&summary).swap_remove(0).1
        };
        assert_eq!(linked("http://gitlab.example:8080/"), "http://gitlab.example:8080/group/app/-/jobs/4711");
        assert_eq!(linked("http://gitlab.example"), "http://gitlab.example/group/app/-/jobs/4711");
        for url in [
            "http://evil.example",
            "http://gitlab.example.evil",
            "http://gitlab.example:80@evil",
            "javascript:x",
        ] {
            assert_eq!(linked(url), "https://gitlab.example/group/app/-/jobs/4711", "{url}");
        }
    }

    #[test]
    fn attempts_outside_gitlab_get_no_link() {
        for (id, project) in [
            ("01JC000000000000000000000", "group/app"),
            ("gitlab.example:4711x", "group/app"),
            ("gitlab.example:", "group/app"),
            ("evil.example/x?:4711", "group/app"),
            ("user@evil.example:4711", "group/app"),
            ("localhost:4711", "group/app"),
            ("another-ci/ci.example:4711", "group/app"),
            ("gitlab.example:4711", ""),
            ("gitlab.example:4711", "../../admin"),
        ] {
            assert!(gitlab_links(&attempt(id, project, "12")).is_empty(), "{id} {project}");
        }
    }
}
