//! Predict while the database of the store is away, beside the same while it is there.

use plimsoll_support::postgres::PostgresServer;
use plimsoll_tests::{Server, figures::median};
use tokio::task::block_in_place;
use tonic::transport::Endpoint;

use crate::{
    ROUNDS,
    asking::{Call, as_fast_as_it_goes},
};

/// Calls at once: as many as a pipeline with some jobs.
const IN_FLIGHT: usize = 4;

pub(crate) async fn beside_quiet(server: &Server, database: &PostgresServer) -> anyhow::Result<()> {
    let channel = Endpoint::new(server.url())?.connect().await?;
    let (mut quiet, mut away, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _round in 0..ROUNDS {
        let (_, with) = as_fast_as_it_goes(&channel, IN_FLIGHT, Call::Predict).await?;
        block_in_place(|| database.crash());
        let (_, without) = as_fast_as_it_goes(&channel, IN_FLIGHT, Call::Predict).await?;
        block_in_place(|| database.start_again());
        server.wait_until_ready().await;
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
