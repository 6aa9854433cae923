//! The scheduled jobs that keep sizes in git, as `deploy/` has them: their script runs with a real git, real proposals, and an API that
//! records what it is asked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, http::Request};
use plimsoll_tests::{Answer, Programs, assert_has};
use yaml_rust2::YamlLoader;

use crate::{
    recommend::{Recommended, site},
    tools::repository,
};

/// A system that has scheduled jobs and requests to merge.
#[derive(Clone, Copy)]
struct Forge {
    file: &'static str,
    /// Keys of the YAML on the way to the script.
    script: &'static [&'static str],
    /// What the API answers where a request to merge is open, and the path of that request.
    open: (&'static str, &'static str),
    /// The field with the summary.
    text: &'static str,
}

const GITLAB: Forge = Forge {
    file: "gitlab/plimsoll-sizes.gitlab-ci.yml",
    script: &["plimsoll-sizes", "script"],
    open: (r#"[{"id":901,"iid":7,"project_id":3}]"#, "PUT /projects/3/merge_requests/7"),
    text: "description",
};
const GITHUB: Forge = Forge {
    file: "github/plimsoll-sizes.yml",
    script: &["jobs", "sizes", "steps"],
    open: (
        r#"[{"url": "u", "id": 901, "number": 7, "head": {"repo": {"id": 3}}}]"#,
        "PATCH /repos/group/app/pulls/7",
    ),
    text: "body",
};

/// Runs git; gives what it printed.
fn git(dir: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@example"]).args(words).current_dir(dir);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = git.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Requests to the API: method with path, and body.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A remote repository with a file of sizes, a server that proposes others, and the API.
struct Project {
    forge: Forge,
    site: Recommended,
    api: String,
    requests: Requests,
    /// What the API answers to a GET.
    open: Arc<Mutex<&'static str>>,
}

impl Project {
    async fn start(forge: Forge) -> Self {
        let site = site(&[]).await;
        let (requests, open) = (Requests::default(), Arc::new(Mutex::new("[]")));
        let (recorded, answer) = (Arc::clone(&requests), Arc::clone(&open));
        let api = Router::new().fallback(async move |request: Request<axum::body::Body>| {
            let is_question = request.method() == "GET";
            let name = format!("{} {}", request.method(), request.uri().path());
            let query = request.uri().query().unwrap_or_default().to_owned();
            // a request of a fork has the same branch
            assert!(
                !is_question || query.contains("created_by_me") || query.contains("head=group"),
                "{query}"
            );
            let body: Bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            recorded.lock().unwrap().push((name, String::from_utf8(body.to_vec()).unwrap()));
            if is_question { *answer.lock().unwrap() } else { "{}" }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, api).await });
        let project = Self { forge, site, api: address, requests, open };
        git(project.dir(), &["init", "--quiet", "--bare", "--initial-branch=main", "group/app.git"]);
        project.edit("sizes: first", "main", |checkout| {
            fs::write(checkout.join("ours.txt"), "by hand\n").unwrap();
        });
        project
    }

    fn dir(&self) -> &Path {
        self.site.site.dir.path()
    }

    fn remote(&self) -> PathBuf {
        self.dir().join("group/app.git")
    }

    /// Commits a change of another person to a branch.
    fn edit(&self, message: &str, branch: &str, change: impl Fn(&Path)) {
        let checkout = tempfile::tempdir().unwrap();
        let remote = self.remote().display().to_string();
        git(checkout.path(), &["clone", "--quiet", &remote, "."]);
        if !git(&self.remote(), &["branch", "--list", branch]).is_empty() {
            git(checkout.path(), &["checkout", "--quiet", branch]);
        }
        change(checkout.path());
        git(checkout.path(), &["add", "."]);
        git(checkout.path(), &["commit", "--quiet", "--message", message]);
        git(checkout.path(), &["push", "--quiet", "origin", &format!("HEAD:{branch}")]);
    }

    /// Runs the job's script.
    fn run(&self) -> Answer {
        let text = fs::read_to_string(repository().join("deploy").join(self.forge.file)).unwrap();
        let mut at = &YamlLoader::load_from_str(&text).unwrap()[0];
        for key in self.forge.script {
            at = &at[*key];
        }
        let step = &at[0];
        let script = step.as_str().or_else(|| step["run"].as_str()).unwrap();
        let command = self.site.site.agent.command(&[]);
        let mut shell = Command::new("sh");
        shell.env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        drop(command);
        let programs = Programs::for_tests().agent.parent().unwrap().display().to_string();
        let path = std::env::var_os("PATH").unwrap();
        shell
            .env("PATH", format!("{programs}:{}", path.display()))
            .args(["-c", script])
            .current_dir(self.dir());
        let remote = format!("file://{}", self.dir().display());
        for (name, value) in [
            ("PLIMSOLL_SIZES_FILE", "sizes.yml"),
            ("PLIMSOLL_SIZES_FORM", "gitlab"),
            ("PLIMSOLL_SIZES_BRANCH", "plimsoll/sizes"),
            ("PLIMSOLL_SIZES_TOKEN", "secret"),
            ("CI_PROJECT_URL", &format!("{remote}/group/app")),
            ("CI_PROJECT_PATH", "group/app"),
            ("CI_PROJECT_ID", "3"),
            ("CI_API_V4_URL", &self.api),
            ("CI_DEFAULT_BRANCH", "main"),
            ("CI_SERVER_URL", "https://gitlab.example"),
            ("GITHUB_API_URL", &self.api),
            ("GITHUB_SERVER_URL", &remote),
            ("GITHUB_REPOSITORY", "group/app"),
            ("GITHUB_REPOSITORY_OWNER", "group"),
            ("SIZES_TOKEN", "secret"),
            ("DEFAULT_BRANCH", "main"),
        ] {
            shell.env(name, value);
        }
        Answer::of(&mut shell)
    }

    /// The requests since the last call, without questions.
    fn changes(&self) -> Vec<(String, String)> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.into_iter().filter(|(name, _)| !name.starts_with("GET ")).collect()
    }

    /// The commit of a branch of the remote repository; empty if there is none.
    fn head(&self, branch: &str) -> String {
        git(&self.remote(), &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
    }
}

async fn opens_one_request_and_updates_it(forge: Forge) {
    let project = Project::start(forge).await;
    tokio::task::block_in_place(|| {
        let main = project.head("main");
        let first = project.run();
        assert_eq!(first.code, Some(0), "{first:?}");
        let changes = project.changes();
        assert_eq!(changes.len(), 1, "{changes:?}");
        let (name, body) = &changes[0];
        assert!(name.starts_with("POST "), "{name}");
        assert_has(body, ["main", "zlib", "Sizes", forge.text]);
        let proposed = project.head("plimsoll/sizes");
        assert_eq!(project.head("main"), main, "nothing is merged");
        let files = git(&project.remote(), &["diff", "--name-only", "main", "plimsoll/sizes"]);
        assert_eq!(files, "sizes.yml");

        *project.open.lock().unwrap() = forge.open.0;
        let second = project.run();
        assert_eq!(second.code, Some(0), "{second:?}");
        let names: Vec<_> = project.changes().into_iter().map(|(name, _)| name).collect();
        assert_eq!((names, project.head("plimsoll/sizes")), (vec![forge.open.1.to_owned()], proposed));

        // what another person adds to the branch stays
        project.edit("mine", "plimsoll/sizes", |checkout| fs::write(checkout.join("mine"), "1").unwrap());
        let theirs = project.head("plimsoll/sizes");
        let third = project.run();
        assert_has(&third.printed(), ["has commits of others"]);
        assert_eq!(third.code, Some(0));
        assert_eq!(project.changes().len(), 0);
        assert_eq!(project.head("plimsoll/sizes"), theirs);

        // what is proposed is on the default branch already: the request is closed, and its branch goes
        git(&project.remote(), &["update-ref", "refs/heads/main", "refs/heads/plimsoll/sizes"]);
        let fourth = project.run();
        assert_has(&fourth.printed(), ["no size changes"]);
        let closed = project.changes();
        assert_eq!((fourth.code, closed.len(), closed[0].0.as_str()), (Some(0), 1, forge.open.1));
        assert_has(&closed[0].1, ["close"]);
        assert_eq!(project.head("plimsoll/sizes"), "");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn gitlab_gets_one_merge_request() {
    opens_one_request_and_updates_it(GITLAB).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn github_gets_one_pull_request() {
    opens_one_request_and_updates_it(GITHUB).await;
}

async fn a_failed_job_says_why(forge: Forge) {
    let mut project = Project::start(forge).await;
    let server = std::mem::replace(&mut project.api, "http://127.0.0.1:9".to_owned());
    tokio::task::block_in_place(|| {
        let refused = project.run();
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_has(&refused.stderr, ["refuses the request"]);
        git(&project.remote(), &["branch", "-D", "plimsoll/sizes"]);
        project.api = server;
        // the file is one that cannot be read as sizes
        let broken = |checkout: &Path| fs::write(checkout.join("sizes.yml"), "<<<<<<< a\n").unwrap();
        project.edit("broken", "main", broken);
        let unread = project.run();
        assert_eq!((unread.code, project.head("plimsoll/sizes")), (Some(1), String::new()), "{unread:?}");
        assert_has(&unread.stderr, ["nothing is pushed"]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_of_gitlab_say_why() {
    a_failed_job_says_why(GITLAB).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_of_github_say_why() {
    a_failed_job_says_why(GITHUB).await;
}
