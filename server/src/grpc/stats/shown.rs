//! GetAttempt: one attempt with its verdicts and its series.

use plimsoll_proto::{limits, v1 as pb};
use tonic::Status;

use super::rows::Rows;
use crate::{
    domain::Fault,
    grpc::{convert, reply, status},
    identity::Identity,
    ingest::Ingest,
};

/// What is known of the attempt that `request` names.
pub(super) async fn show(
    ingest: &Ingest,
    request: pb::GetAttemptRequest,
    caller: &Identity,
) -> Result<pb::GetAttemptResponse, Status> {
    let id = convert::attempt_id("attempt", &request.attempt).map_err(|fault| status::of_fault(&fault))?;
    let rows = shown_samples(request.max_samples).map_err(|fault| status::of_fault(&fault))?;
    let found = ingest.find(&id).await.map_err(|refusal| status::of_refusal(&refusal))?;
    // what somebody may not see is not there for him
    let seen = found.filter(|(summary, _)| caller.may_see("attempt", &summary.key.project).is_ok());
    let Some((summary, running)) = seen else {
        return Err(Status::not_found(format!("no attempt {id} is known here")));
    };
    let project = summary.key.project.clone();
    let mut summary = reply::summary(&ingest.related(&summary));
    if running {
        summary.outcome = pb::Outcome::Running.into();
    }
    let verdicts = ingest.verdicts(&id, &project).await.map_err(|refusal| status::of_refusal(&refusal))?;
    let mut verdicts = verdicts.into_iter().map(reply::verdict);
    let mut answer = pb::GetAttemptResponse {
        summary: Some(summary),
        verdict: verdicts.next(),
        earlier_verdicts: verdicts.take(limits::EARLIER_VERDICTS).collect(),
        ..pb::GetAttemptResponse::default()
    };
    if request.with_series {
        let mut rows = Rows::new(rows);
        let read = ingest.series(&id, |sample| rows.add(reply::sample(sample))).await;
        answer.samples_total = read.map_err(|error| status::of_store(&error))?;
        answer.downsampled = rows.downsampled();
        answer.series = rows.into_samples();
    }
    Ok(answer)
}

fn shown_samples(asked: u32) -> Result<usize, Fault> {
    match asked {
        0 => Ok(limits::SHOWN_SAMPLES_DEFAULT as usize),
        asked if asked <= limits::SHOWN_SAMPLES => Ok(asked as usize),
        asked => {
            let description = format!("is {asked}, at most {} is allowed", limits::SHOWN_SAMPLES);
            Err(Fault::new("max_samples", description))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_an_answer_holds_are_refused() {
        assert_eq!(shown_samples(20_001).unwrap_err().field, "max_samples");
        assert_eq!((shown_samples(0), shown_samples(20_000)), (Ok(2000), Ok(20_000)));
    }
}
