//! Predict while the database of the store is away, beside the same while it is there.

use std::path::Path;

use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Programs, QUIET, Server, eventually, figures::median};
use tokio::task::block_in_place;
use tonic::transport::Endpoint;

use crate::{
    ROUNDS,
    asking::{Call, as_fast_as_it_goes},
};

/// Calls at once: as many as a pipeline with some jobs.
const IN_FLIGHT: usize = 4;

pub(crate) async fn beside_quiet(programs: &Programs, dir: &Path) -> anyhow::Result<()> {
    let Some(database) = block_in_place(|| PostgresServer::start(|_folder| Vec::new())) else {
        return Ok(());
    };
    let options = ["--log", QUIET, "--store-url", &database.url("postgres")];
    let server = Server::start_with(programs, &dir.join("away"), &options)?;
    let channel = Endpoint::new(server.url())?.connect().await?;
    let (mut quiet, mut away, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let ready = async || server.get("/readyz").map(|(status, _)| status).ok();
    for _round in 0..ROUNDS {
        eventually("the server is ready", ready, |status| *status == Some(200)).await;
        let (_, with) = as_fast_as_it_goes(&channel, IN_FLIGHT, Call::Predict).await?;
        block_in_place(|| database.crash());
        let (_, without) = as_fast_as_it_goes(&channel, IN_FLIGHT, Call::Predict).await?;
        block_in_place(|| database.start_again());
        quiet.push(with.quantile_ms(99));
        away.push(without.quantile_ms(99));
        ratios.push(without.quantile_ms(99) / with.quantile_ms(99));
    }
    println!(
        "Predict p99, {IN_FLIGHT} in flight: {:.3} ms with the database, {:.3} ms while it is away, {:.2} times as long; goal 1.1",
        median(&mut quiet),
        median(&mut away),
        median(&mut ratios),
    );
    Ok(())
}
