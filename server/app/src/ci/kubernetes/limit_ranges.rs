//! Reads the `LimitRange`s of the cluster in the background, with the service account of the server's pod. A review uses what was read
//! last, and never waits.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use axum::{
    body::Bytes,
    http::{Request, StatusCode, header},
};
use http_body_util::Empty;
use k8s_openapi::{List, api::core::v1::LimitRange};
use tokio::{
    sync::watch,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{LimitRanges, Settings};
use crate::runtime::{
    outgoing::{self, HttpClient, KeptPart},
    reload,
};

/// Directory with the token of the pod's service account (Kubernetes, "Accessing the Kubernetes API from a Pod").
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const READ_EVERY: Duration = Duration::from_secs(30);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer: some thousand `LimitRange`s.
const ANSWER_BYTES: usize = 8 << 20;

/// `LimitRange`s by namespace.
type ByNamespace = BTreeMap<String, Arc<LimitRanges>>;

/// The `LimitRange`s that were read last. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownLimitRanges(Arc<watch::Sender<ByNamespace>>);

impl KnownLimitRanges {
    pub(crate) fn of(&self, namespace: &str) -> Arc<LimitRanges> {
        self.0.borrow().get(namespace).map(Arc::clone).unwrap_or_default()
    }

    /// Reads them again and again until `end`. What cannot be read stays as it was, and is logged once.
    /// Errors: none; the type is that of all periodic tasks.
    pub(crate) async fn watch(self, settings: Settings, end: CancellationToken) -> anyhow::Result<()> {
        let (mut tick, mut logged) = (interval(READ_EVERY), None);
        while settings.listen.is_some() && end.run_until_cancelled(tick.tick()).await.is_some() {
            let reading = read_limit_ranges(&settings, Path::new(SERVICE_ACCOUNT));
            let Some((ranges, refused)) = end.run_until_cancelled(reading).await else { break };
            let why = refused.map(|error| format!("{error:#}"));
            let keeps_others = why.is_some();
            self.0.send_modify(|known| {
                known.retain(|_namespace, _ranges| keeps_others);
                known.extend(ranges);
            });
            if why.is_some() && logged != why {
                tracing::warn!(
                    why,
                    "LimitRanges are not read; admit_min_memory and admit_max_memory bound sizes"
                );
            }
            logged = why;
        }
        Ok(())
    }
}

/// The `LimitRange`s of the namespaces whose pods are changed, and why some are missing. The text says what to do.
pub(crate) async fn read_limit_ranges(
    settings: &Settings,
    account: &Path,
) -> (ByNamespace, Option<anyhow::Error>) {
    let everywhere = settings.namespaces.is_empty().then(|| "limitranges".to_owned());
    let of_each = settings.namespaces.iter().map(|name| format!("namespaces/{name}/limitranges"));
    let (mut found, mut refused) = (BTreeMap::<String, LimitRanges>::new(), None);
    for path in everywhere.into_iter().chain(of_each) {
        let address = format!("{}/api/v1/{path}", settings.api_server.trim_end_matches('/'));
        let answer = timeout(ANSWER_TIMEOUT, ask(&address, account)).await.context("no answer within 5 s");
        let answer = answer.flatten().with_context(|| format!("{address} (admit_api_server)"));
        for LimitRange { metadata, spec } in answer.map_err(|error| refused = Some(error)).unwrap_or_default()
        {
            let ranges = found.entry(metadata.namespace.unwrap_or_default()).or_default();
            ranges.0.extend(spec.unwrap_or_default().limits);
        }
    }
    (found.into_iter().map(|(namespace, ranges)| (namespace, Arc::new(ranges))).collect(), refused)
}

async fn ask(address: &str, account: &Path) -> anyhow::Result<Vec<LimitRange>> {
    let (token, ca) = (account.join("token"), account.join("ca.crt"));
    ensure!(
        token.try_exists()?,
        "this pod has no token of a service account: add the component limit-ranges"
    );
    let token = reload::secret(&token, "Bearer ", "the token of a service account")?;
    let ca = Some(ca.as_path()).filter(|file| file.is_file());
    let http: HttpClient = outgoing::http_client(ca)?;
    let request = Request::get(address).header(header::AUTHORIZATION, token).body(Empty::<Bytes>::new())?;
    let answer = http.request(request).await?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            bail!("the service account may not list limitranges: add the component limit-ranges")
        }
        other => bail!("status {}", other.as_u16()),
    }
    let body = outgoing::read(answer.into_body(), KeptPart::All(ANSWER_BYTES)).await;
    let body = body.ok().context("the answer broke off, or has more than 8 MiB")?;
    Ok(serde_json::from_slice::<List<LimitRange>>(&body).context("no list of LimitRanges")?.items)
}
