//! `plimsoll-server backup`.

use std::{
    fs,
    net::ToSocketAddrs as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use plimsoll_store::{self as store, OfflineStore, OpenError, backup};

use super::{
    database::{refuse_options_of_files, view_store},
    line::examples_text,
    print_note, progress, store_settings,
    target::Target,
};
use crate::{
    admin::tasks::{
        backup::fetch_archive,
        link::{RemoteServer, RunningServer},
    },
    runtime::settings::Config,
};

/// Writes a backup.
#[derive(Debug, Args)]
#[command(after_help = examples_text(&[
    "backup --data-dir data plimsoll.backup",
    "backup --server ci:7411 --ca ca.crt night.backup",
]))]
pub struct Backup {
    /// A file that does not exist yet, or - for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the token of an operator, for a running server that has an `access_file`.
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Directory in which a copy of the data directory of a stopped server is made and read, so that nothing in the files themselves
    /// changes; else the data directory, or the one for temporary files where that cannot be written or has no room.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    scratch: Option<PathBuf>,
    /// Reads the files of a stopped server themselves: needs no room, but what is damaged in them may be changed.
    #[arg(long)]
    in_place: bool,
    /// A server on another machine, by its HTTP listener; it must have `backup_remote = "on"`. No data directory is looked at.
    #[arg(long, value_name = "HOST:PORT", requires = "ca", conflicts_with_all = ["scratch", "in_place"])]
    server: Option<String>,
    /// PEM file of the CA that signed the certificate of --server.
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
    /// PEM file with a certificate to show to a running server, for one with a `tls_client_ca_file`.
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CLIENT_CERT", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CLIENT_KEY", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

impl Backup {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        if let Some((server, ca)) = self.server.as_ref().zip(self.ca.as_ref()) {
            return self.take_remote(server, ca);
        }
        refuse_options_of_files(
            config,
            &[("--scratch", self.scratch.is_some()), ("--in-place", self.in_place)],
        )?;
        if config.store_url.is_some() {
            return self.read_database(config);
        }
        let store = self.open_files(config)?;
        let mut target = Target::open(&self.file)?;
        let on_progress = progress::bytes("backup", store.as_ref().map_or(0, OfflineStore::bytes_on_disk));
        match &store {
            Some(store) => {
                backup::write(store, &mut target, on_progress)?;
            }
            None => self.fetch(config, &mut target, on_progress)?,
        }
        target.finish()?;
        print_note(format_args!(
            "backup written, {}",
            if store.is_some() { "no server ran" } else { "the server goes on" }
        ));
        Ok(())
    }

    /// Takes the backup of the store in a database, from the database itself.
    fn read_database(&self, config: &Config) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let view = runtime.block_on(view_store(config))?;
        let mut target = Target::open(&self.file)?;
        let on_progress = progress::bytes("backup", view.status().bytes_on_disk);
        runtime.block_on(async {
            backup::write_snapshot(view.snapshot().await?, &mut target, on_progress).await
        })?;
        target.finish()?;
        print_note("backup written, of one moment of the database; its servers go on");
        Ok(())
    }

    /// Opens the store in files; `None` if a server has it open, which is fine.
    fn open_files(&self, config: &Config) -> anyhow::Result<Option<OfflineStore>> {
        let settings = store_settings(config)?;
        let opened = if self.in_place {
            OfflineStore::open(&settings)
        } else {
            OfflineStore::open_copy(&settings, self.scratch.as_deref())
        };
        match opened {
            Ok(store) => Ok(Some(store)),
            Err(OpenError::Locked { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the backup of a server on another machine.
    fn take_remote(&self, server: &str, ca: &Path) -> anyhow::Result<()> {
        let (host, _port) = server.rsplit_once(':').context("--server: expected HOST:PORT")?;
        let mut addresses = server.to_socket_addrs().with_context(|| format!("--server {server}"))?;
        let address = addresses.next().with_context(|| format!("--server {server} has no address"))?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let running = RunningServer {
            address,
            certificate: None,
            remote: Some(RemoteServer { host, ca }),
            token: self.read_token()?,
            client: self.client_certificate(),
        };
        let mut target = Target::open(&self.file)?;
        let written = fetch_archive(&running, None, &mut target, progress::bytes("backup", 0));
        written.with_context(|| format!("{server} gave no backup"))?;
        target.finish()?;
        print_note(format_args!("backup written, {server} goes on"));
        Ok(())
    }

    fn client_certificate(&self) -> Option<(&Path, &Path)> {
        self.client_cert.as_deref().zip(self.client_key.as_deref())
    }

    fn read_token(&self) -> anyhow::Result<Option<String>> {
        let read = |file: &PathBuf| {
            let text = fs::read_to_string(file)
                .with_context(|| format!("the token file {} cannot be read", file.display()))?;
            anyhow::Ok(text.trim().to_owned())
        };
        self.token_file.as_ref().map(read).transpose()
    }

    /// Takes the backup of the server that has the store open.
    fn fetch(
        &self,
        config: &Config,
        target: &mut Target,
        on_progress: impl FnMut(u64),
    ) -> anyhow::Result<()> {
        let wanted = store::store_id_of(&config.data_dir)?;
        let fetched = fetch_archive(&self.server(config)?, wanted, target, on_progress);
        fetched.with_context(|| {
            format!(
                "a server has {} open, and {} gave no backup of it; if it listens elsewhere, name its address with \
                 --http-listen, or its settings with --config",
                config.data_dir.display(),
                config.http_listen
            )
        })
    }

    /// How to reach the server that has the store open. It runs on this machine with the same
    /// settings.
    fn server<'a>(&'a self, config: &'a Config) -> anyhow::Result<RunningServer<'a>> {
        let (token, client) = (self.read_token()?, self.client_certificate());
        let certificate = config.tls.certificate.as_deref();
        Ok(RunningServer { address: config.http_listen, certificate, remote: None, token, client })
    }
}
