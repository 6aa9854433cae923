//! What is said of an attempt by each path.

use serde_json::{Value, json};

use super::{
    Attack, AttackOutcome,
    site::{HOST, hook_body, http},
};
use crate::admission::pod;

impl Attack<'_> {
    /// Says what can be said by a path.
    pub(super) async fn by_path(&self, path: &str) -> Vec<AttackOutcome> {
        match path {
            "/v1/collect" => self.hooks(),
            "/admit" => self.pods("/admit").await,
            "/admit/{secret}" => self.pods(&self.site.webhook().path).await,
            "/RPC2" => self.numbered_tickets(),
            "/v1/allocation" => {
                vec![self.get("asks for a size", "/v1/allocation?spec=zlib@1%20arch=a-b-c%25gcc@1")]
            }
            "/admin/backup" => vec![self.get("takes a backup", path)],
            // those need no identity, and take nothing
            "/livez" | "/readyz" | "/readyz/reads" | "/assets/{name}" | "/agent/{platform}" => Vec::new(),
            "/"
            | "/packages"
            | "/attempts"
            | "/running"
            | "/settings"
            | "/metrics"
            | "/api/stats"
            | "/api/packages"
            | "/api/attempts"
            | "/api/running"
            | "/api/settings"
            | "/failures"
            | "/savings"
            | "/api/recommendations" => {
                let asked = format!("{path}?range=all&project={}", self.victim.project);
                vec![self.get("asks in the name of its project", &asked), self.post(path)]
            }
            "/packages/{*name}" | "/api/packages/{*name}" => {
                let asked = path.replace("{*name}", "zlib") + "?range=all&project=" + &self.victim.project;
                vec![self.get("asks for its package", &asked)]
            }
            "/attempts/{*id}" | "/api/attempts/{*id}" => {
                let asked = path.replace("{*id}", &self.victim.id);
                vec![self.get("asks for it", &asked), self.post(&asked)]
            }
            other => unreachable!(
                "no attack covers the path {other}: say in this table what can be said of an attempt by it"
            ),
        }
    }

    fn bearer(&self) -> String {
        let header = |token: &str| format!("Authorization: Bearer {token}\r\n");
        if self.token.is_empty() { String::new() } else { header(self.token) }
    }

    fn get(&self, what: &'static str, path: &str) -> AttackOutcome {
        (what, http(self.site.server().http, "GET", path, &self.bearer(), "").to_string())
    }

    fn post(&self, path: &str) -> AttackOutcome {
        let head = self.bearer() + "Content-Type: application/json\r\n";
        let body = json!({"attempt": self.victim.id, "outcome": "succeeded"}).to_string();
        ("posts an end", http(self.site.server().http, "POST", path, &head, &body).to_string())
    }

    /// What a client of Resalloc calls.
    fn numbered_tickets(&self) -> Vec<AttackOutcome> {
        let (id, sandbox) = (&self.victim.id, format!("{}--ann", self.victim.project));
        let text = |text: &str| format!("<param><value><string>{text}</string></value></param>");
        let no_tags = "<param><value><array><data></data></array></value></param>";
        let mut attacks = Vec::new();
        for (what, method, arguments) in [
            ("takes a ticket in its name", "takeTicket", no_tags.to_owned() + &text(&sandbox)),
            ("collects its ticket", "collectTicket", text(id)),
            ("closes its ticket by its id", "closeTicket", text(id)),
            ("closes the first ticket", "closeTicket", text("1")),
        ] {
            let head = self.bearer() + "Content-Type: text/xml\r\n";
            let body = format!(
                "<methodCall><methodName>{method}</methodName><params>{arguments}</params></methodCall>"
            );
            attacks.push((what, http(self.site.server().http, "POST", "/RPC2", &head, &body).to_string()));
        }
        attacks
    }

    fn hooks(&self) -> Vec<AttackOutcome> {
        let own = "a/one";
        let theirs = self.victim.project.as_str();
        let mut attacks = Vec::new();
        for (what, project, status) in [
            ("a hook of its own project says that the job succeeded", own, "success"),
            ("a hook of its own project says that the job failed", own, "failed"),
            ("a hook of its own project says that the job was canceled", own, "canceled"),
            ("a hook in the victim's name says that the job succeeded", theirs, "success"),
            ("a hook in the victim's name says that the job was canceled", theirs, "canceled"),
            ("a hook without a project says that the job succeeded", "", "success"),
        ] {
            for number in [self.victim.number, self.victim.unmeasured_number()] {
                let body = hook_body(number, project, status);
                let head = self.bearer() + "Content-Type: application/json\r\n";
                let came = http(self.site.server().http, "POST", "/v1/collect", &head, &body);
                attacks.push((what, came.to_string()));
            }
        }
        let head = format!(
            "X-Gitlab-Token: {}\r\nX-Gitlab-Instance: http://{HOST}\r\nContent-Type: application/json\r\n",
            self.token
        );
        let body = hook_body(self.victim.number, theirs, "success");
        let came = http(self.site.server().http, "POST", "/v1/collect", &head, &body);
        attacks
            .push(("its secret, a hook in the victim's name says that the job succeeded", came.to_string()));
        attacks
    }

    /// Pods as the API server tells of them: of other namespaces, or of other projects.
    async fn pods(&self, path: &str) -> Vec<AttackOutcome> {
        let theirs = self.victim.project.as_str();
        let mut attacks = Vec::new();
        for (what, namespace, project) in [
            ("a pod of another namespace in the victim's name has little memory", "elsewhere", theirs),
            ("a pod of another project has little memory", "ci-builds", "a/one"),
            ("a pod of another namespace and project has little memory", "elsewhere", "a/one"),
        ] {
            let review = review(namespace, &pod_of(self.victim.unmeasured_number(), project));
            let (status, _) = self.site.webhook().post(path, &review.to_string()).await;
            attacks.push((what, status.to_string()));
        }
        attacks
    }
}

/// The pod of a run of a job of this project.
fn pod_of(run: u64, project: &str) -> Value {
    let mut pod = pod();
    for name in ["job.runner.gitlab.com/id", "gitlab/ci_job_id"] {
        pod["metadata"]["annotations"][name] = json!(run.to_string());
    }
    let (group, name) = project.split_once('/').unwrap();
    pod["metadata"]["labels"]["metrics/gitlab_ci_project_namespace"] = json!(group);
    pod["metadata"]["labels"]["metrics/gitlab_ci_project_name"] = json!(name);
    for variable in pod["spec"]["containers"][0]["env"].as_array_mut().unwrap() {
        match variable["name"].as_str().unwrap() {
            "CI_JOB_ID" => variable["value"] = json!(run.to_string()),
            "CI_PROJECT_PATH" => variable["value"] = json!(project),
            "CI_SERVER_HOST" => variable["value"] = json!(HOST),
            _ => {}
        }
    }
    pod["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "memory": "64Mi" }, "requests": { "memory": "64Mi" } });
    pod
}

fn review(namespace: &str, pod: &Value) -> Value {
    let mut review = crate::admission::review(pod);
    review["request"]["namespace"] = json!(namespace);
    review
}
