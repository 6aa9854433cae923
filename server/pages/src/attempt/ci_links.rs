//! Links to the CI system's pages about the job of an attempt: the rows of [`ci`](plimsoll_base::ci) say which.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use plimsoll_base::ci::NamedAttempt;
use plimsoll_proto::v1::Summary;

/// Characters that are escaped in a link.
const PATH_ESCAPES: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'\\').add(b'`');

/// Names and addresses of the pages. Empty for an attempt of no known CI system.
pub(super) fn ci_links(summary: &Summary) -> Vec<(String, String)> {
    let key = summary.key.clone().unwrap_or_default();
    let label = |name: &str| key.labels.get(name).map(String::as_str);
    let attempt = NamedAttempt { id: &summary.attempt, project: &key.project, label: &label };
    let link = |(system, name, address): (&str, String, String)| {
        (format!("{system}: {name}"), utf8_percent_encode(&address, PATH_ESCAPES).to_string())
    };
    attempt.links().into_iter().map(link).collect()
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
        let links = ci_links(&attempt("gitlab.example:4711", "group/my app", "12"));
        let [job, pipeline] = links.as_slice() else { unreachable!("{links:?}") };
        assert_eq!((job.0.as_str(), pipeline.0.as_str()), ("GitLab: job 4711", "GitLab: pipeline 12"));
        assert_eq!(job.1, "https://gitlab.example/group/my%20app/-/jobs/4711");
        assert_eq!(pipeline.1, "https://gitlab.example/group/my%20app/-/pipelines/12");
        assert_eq!(ci_links(&attempt("gitlab.example:4711", "group/app", "main")).len(), 1);
    }

    #[test]
    fn links_use_only_the_jobs_own_server_url() {
        let linked = |url: &str| {
            let mut summary = attempt("gitlab.example:4711", "group/app", "12");
            let labels = &mut summary.key.as_mut().unwrap().labels;
            labels.insert("ci_server_url".to_owned(), url.to_owned());
            ci_links(&summary).swap_remove(0).1
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
            assert!(ci_links(&attempt(id, project, "12")).is_empty(), "{id} {project}");
        }
    }
}
