//! Checks that GitLab answers and accepts the token.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::{
    body::Bytes,
    http::{Request, StatusCode},
};
use http_body_util::Empty;
use tokio::{runtime::Builder, time::timeout};

use super::{CheckLine, line_of};
use crate::{
    ci::gitlab::web_host,
    runtime::{
        outgoing,
        outgoing::KeptPart,
        reload,
        settings::by_module::gitlab::{BaseUrl, Settings},
    },
};

/// Time limit for GitLab.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of the answer that are read.
const PROBE_BYTES: usize = 1 << 20;
/// A request that a token with the scope `read_api` may make.
const PROBE_PATH: &str = "projects?per_page=1&simple=true";

/// The result of the check; `None` if GitLab is not configured.
/// Errors: the runtime for the request cannot be started.
pub(super) fn check_gitlab(settings: &Settings) -> anyhow::Result<Option<CheckLine>> {
    let Some(place) = &settings.url else { return Ok(None) };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(Some(line_of("GitLab", runtime.block_on(ask_gitlab(settings, place)))))
}

async fn ask_gitlab(settings: &Settings, place: &BaseUrl) -> anyhow::Result<String> {
    let file = settings.token_file.as_deref().context("gitlab_url needs gitlab_token_file")?;
    let token = reload::secret(file, "", "a token with the scope read_api").context("gitlab_token_file")?;
    let http = outgoing::http_client(settings.ca_file.as_deref()).context("gitlab_ca_file")?;
    let address = place.api(PROBE_PATH);
    let request = Request::get(&address).header("PRIVATE-TOKEN", token).body(Empty::<Bytes>::new())?;
    let host = place.host();
    let answered = timeout(ANSWER_PATIENCE, http.request(request)).await;
    let answered =
        answered.map_err(|_late| anyhow!("{host} does not answer within 10 s: check gitlab_url"))?;
    let answer = answered.with_context(|| format!("{host} cannot be reached: check gitlab_url"))?;
    match answer.status() {
        StatusCode::OK => {
            let body =
                timeout(ANSWER_PATIENCE, outgoing::read(answer.into_body(), KeptPart::All(PROBE_BYTES)))
                    .await;
            let named = body
                .ok()
                .and_then(Result::ok)
                .and_then(|body| web_host(&body))
                .filter(|name| !name.eq_ignore_ascii_case(host));
            let also = named
                .map_or(String::new(), |name| format!("; its own name is {name}, which hooks and jobs have"));
            Ok(format!("{host} answers, and takes the token{also}"))
        }
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => bail!(
            "{host} refuses the token in {} (status {}): write one with the scope read_api into it",
            file.display(),
            status.as_u16()
        ),
        other => bail!("{host} answers with status {}: check gitlab_url", other.as_u16()),
    }
}
