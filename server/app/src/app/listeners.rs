//! The listeners of the server, with their certificates.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use tokio::net::TcpListener;

use super::Addresses;
use crate::{
    door::{agent_files::AgentFiles, net::Listener},
    runtime::{
        settings::{Config, TlsFiles},
        tls::{Certificate, ClientCertificates, Tls},
    },
};

#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) grpc: Listener,
    pub(super) http: Listener,
    pub(super) admission: Option<Listener>,
    /// Files that the HTTP listener offers to jobs.
    pub(super) agent_files: AgentFiles,
}

impl Listeners {
    /// Binds all listeners.
    /// Errors: an address is in use, or a certificate or the agent's file cannot be used.
    pub(super) async fn bind(config: &Config) -> anyhow::Result<Self> {
        let (grpc, http) = (("grpc_listen", config.grpc_listen), ("http_listen", config.http_listen));
        let agent_files = config.agent_dir.as_deref().map(AgentFiles::read).transpose();
        Ok(Self {
            grpc: Listener { tcp: bind_address(grpc).await?, tls: load_tls(&config.tls, &[b"h2"])? },
            http: Listener {
                tcp: bind_address(http).await?,
                tls: load_tls(&config.tls, &[b"h2", b"http/1.1"])?,
            },
            admission: admission(config).await?,
            agent_files: agent_files.context("agent_dir")?.unwrap_or_default(),
        })
    }

    /// The certificates of the listeners that use TLS.
    pub(super) fn certificates(&self) -> Arc<[Tls]> {
        let all = [Some(&self.grpc), Some(&self.http), self.admission.as_ref()];
        all.into_iter().flatten().filter_map(|listener| listener.tls.clone()).collect()
    }

    /// The bound addresses, with the actual ports.
    pub(super) fn addresses(&self) -> io::Result<Addresses> {
        let admission = self.admission.as_ref().map(|listener| listener.tcp.local_addr()).transpose()?;
        Ok(Addresses { grpc: self.grpc.tcp.local_addr()?, http: self.http.tcp.local_addr()?, admission })
    }
}

async fn bind_address((name, address): (&str, SocketAddr)) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{name}: cannot listen on {address}"))
}

fn load_tls(files: &TlsFiles, protocols: &'static [&'static [u8]]) -> anyhow::Result<Option<Tls>> {
    let TlsFiles { certificate: Some(chain), key: Some(key), client_ca, client_required } = files.clone()
    else {
        return Ok(None);
    };
    let clients = client_ca.map(|ca| ClientCertificates { ca, required: client_required });
    let certificate = Certificate { setting: "tls_cert_file", chain, key, clients, protocols };
    Tls::new(certificate).map(Some).context("tls_cert_file, tls_key_file, tls_client_ca_file")
}

/// Binds the listener for Kubernetes' webhook, if it is configured.
async fn admission(config: &Config) -> anyhow::Result<Option<Listener>> {
    let settings = &config.admission;
    let (Some(address), Some(chain), Some(key)) =
        (settings.listen, settings.certificate.clone(), settings.key.clone())
    else {
        return Ok(None);
    };
    let tcp = bind_address(("admit_listen", address)).await?;
    let clients = settings.client_ca.clone().map(|ca: PathBuf| ClientCertificates { ca, required: true });
    let protocols: &[&[u8]] = &[b"h2", b"http/1.1"];
    let certificate = Certificate { setting: "admit_cert_file", chain, key, clients, protocols };
    let tls = Tls::new(certificate).context("admit_cert_file, admit_key_file, admit_client_ca_file")?;
    Ok(Some(Listener { tcp, tls: Some(tls) }))
}
