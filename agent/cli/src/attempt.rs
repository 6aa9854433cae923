//! The part of an attempt that `run` and `attach` share: its start on the server, and its end. The steps of the
//! end have a fixed order: last sample, totals, delivery, advice, report.

mod closing;

use std::time::Duration;

use plimsoll_client::delivery::{self, Delivery};
use plimsoll_measure::{
    meter::Meter,
    rescue::RescueSettings,
    sampler::{Measured, Sampler},
};
use plimsoll_proto::{
    job,
    measured::{self, PartlyMeasured},
    v1::{Finish, Hello, Key, Resources, Sample, Totals, Verdict},
};
use tokio::time::Instant;

use self::closing::{deliver, interrupted_report, publish};
use crate::{
    job_summary::{self, Advice, AdviceRequest, BuildFacts, MeasurementEnd},
    key,
    rescue::Rescuer,
    wake_timer::WakeTimer,
};

pub(crate) use crate::standard_error::write_line;

/// Settings of an attempt: its id and key, how it is measured, and where its samples are sent.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Default))]
pub struct Settings {
    /// ID of the attempt; `None` generates a ULID.
    pub id: Option<String>,
    /// Key of the attempt.
    pub key: Key,
    /// Number of the attempt: 1 for the first execution.
    pub number: u32,
    /// Id of the attempt that this one retries; may be empty.
    pub retries: String,
    /// Name of the pool that the attempt runs in; may be empty.
    pub pool: String,
    /// Id of the ticket that holds a pool slot for the attempt; may be empty.
    pub ticket: String,
    /// Tags of the CI system's runner.
    pub runner_tags: Vec<String>,
    /// Whether the job says that it builds what others than the project's own people wrote.
    pub is_foreign: bool,
    /// Sentences for the report about where the key is from.
    pub notes: Vec<String>,
    /// Requested resources, from the environment or the command line.
    pub asked: Resources,
    /// What rescue may do for the build.
    pub rescue: RescueSettings,
    /// Time between two samples once the build has run for some seconds.
    pub interval: Duration,
    /// The server and the spool for the samples.
    pub delivery: delivery::Settings,
    /// How long to wait for the server at the end.
    pub patience: Duration,
    /// Settings of the report at the end.
    pub report: job_summary::Settings,
}

impl Settings {
    /// Why nothing may be learnt from the attempt; `measured`: the service that did its work, or what kept the numbers from being exact.
    fn offloaded_to(&self, measured: Option<&'static str>) -> String {
        let unnamed = key::is_unnamed(&self.key).then_some(PartlyMeasured::Unnamed.name());
        unnamed.or(measured).unwrap_or_default().to_owned()
    }

    /// The key to predict at the end, if the report shows a prediction, and if the build has a name.
    fn wanted_prediction(&self) -> Option<Key> {
        let shows = self.report.wants_advice() && !key::is_unnamed(&self.key);
        shows.then(|| self.key.clone())
    }
}

/// An attempt that is being measured.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    settings: &'a Settings,
    id: String,
    resources: Resources,
    pub(crate) start: Instant,
    pub(crate) delivery: Delivery,
    pub(crate) sampler: Sampler,
    rescue: Rescuer,
    timer: WakeTimer,
}

/// How a build ended, and what is needed to close its attempt.
#[derive(Debug, Default)]
pub(crate) struct BuildEnd {
    /// A short name of the build, for the report.
    pub(crate) name: String,
    pub(crate) end: MeasurementEnd,
    pub(crate) wall: Duration,
    /// The signal that interrupted the wait for the output, if one did.
    pub(crate) interrupted: Option<String>,
    /// The end of the build's log, if the log was read; at most 64 KiB.
    pub(crate) log_tail: Vec<u8>,
    /// Whether the agent will act on the verdict, so that it must be requested even if it is not shown.
    pub(crate) wants_verdict: bool,
    /// Whether a retry may follow that uses the same ticket.
    pub(crate) keeps_ticket: bool,
}

/// The result of a closed attempt.
#[derive(Debug, Default)]
pub(crate) struct ClosedAttempt {
    /// ID of the attempt.
    pub(crate) attempt: String,
    /// Requested resources, and the limits in force.
    pub(crate) resources: Resources,
    /// The server's verdict, if the build failed.
    pub(crate) verdict: Option<Verdict>,
    /// Why there is no verdict although one was requested.
    pub(crate) problem: Option<String>,
    /// Whether the server has acknowledged all samples.
    pub(crate) delivered: bool,
    /// Whether rescue ended the build, because it hung at its memory limit.
    pub(crate) ended_by_rescue: bool,
}

/// The first message about an attempt to the server. `session` is a ULID.
pub(crate) fn hello(settings: &Settings, session: String, meter: &Meter, started_unix_ms: u64) -> Hello {
    for sentence in job::ignored_label_notes(|label| settings.key.labels.get(label).map(String::as_str)) {
        tracing::warn!("{sentence}");
    }
    let limits = meter.limits();
    let resources = Resources {
        memory_limit_bytes: limits.memory.or(settings.asked.memory_limit_bytes),
        cpu_limit_cores: limits.cpu.or(settings.asked.cpu_limit_cores),
        ..settings.asked
    };
    Hello {
        attempt: settings.id.clone().unwrap_or_else(|| session.clone()),
        session,
        key: Some(settings.key.clone()),
        number: settings.number,
        retries: settings.retries.clone(),
        source: meter.source().into(),
        resources: Some(resources),
        started_unix_ms,
        pool: settings.pool.clone(),
        runner_tags: settings.runner_tags.clone(),
        ticket: settings.ticket.clone(),
        takes_new_id: true,
        foreign: settings.is_foreign,
    }
}

impl<'a> Attempt<'a> {
    /// Starts an attempt: its delivery, and its samples, which count from `start`.
    /// `top`: the build's first process, if the agent may signal it.
    pub(crate) fn begin(
        settings: &'a Settings,
        hello: Hello,
        sampler: Sampler,
        start: Instant,
        top: Option<i32>,
    ) -> Self {
        let (id, resources) = (hello.attempt.clone(), hello.resources.unwrap_or_default());
        let delivery = Delivery::start(&settings.delivery, hello);
        let sampler = sampler.with_rescue(settings.rescue.clone());
        let spool = &settings.delivery.spool_dir;
        let mut attempt = Self {
            settings,
            id,
            resources,
            start,
            delivery,
            sampler,
            rescue: Rescuer::new(top, spool),
            timer: WakeTimer::new(),
        };
        if settings.rescue.pause {
            attempt.rescue.prepare_pauses(&mut attempt.sampler, spool);
        }
        attempt
    }

    /// Waits until [`Self::tick`] has something to do. The future may be dropped and the method called again.
    pub(crate) async fn due(&mut self) {
        self.timer.until(self.sampler.due()).await;
    }

    /// Takes a sample if one is due, and writes the sampler's messages to the log.
    pub(crate) fn tick(&mut self) {
        if let Some(sample) = self.sampler.tick() {
            self.delivery.push(sample);
        }
        self.rescue.act(&mut self.sampler);
        while let Some(notice) = self.sampler.take_notice() {
            write_line(&format!("plimsoll: {notice}"));
        }
    }

    /// Lets everything go on that rescue has paused, because the build has ended, or is about to end or to be stopped. With a reason,
    /// nothing is paused any more.
    pub(crate) fn release(&mut self, for_good: Option<&'static str>) {
        self.rescue.release(&mut self.sampler, for_good);
    }

    /// Closes the attempt: takes the last sample, delivers all samples, writes the reports. `interruption`
    /// returns the name of a signal, which ends the waiting.
    pub(crate) async fn close(
        self,
        ended: BuildEnd,
        mut interruption: impl AsyncFnMut() -> String,
    ) -> ClosedAttempt {
        let Self { settings, id, resources, mut delivery, sampler, rescue: rescuer, .. } = self;
        // what is still paused goes on
        drop(rescuer);
        let BuildEnd { name, end, wall, interrupted, log_tail, wants_verdict, keeps_ticket } = ended;
        let Measured { last, totals, phases, curve, offloaded_to, largest_process, rescue, meter } =
            sampler.finish();
        let offloaded_to = settings.offloaded_to(offloaded_to);
        let wall_ms = wall_ms(wall, last.as_ref());
        if let Some(sample) = last {
            delivery.push(sample);
        }
        let source = meter.source();
        meter.close().await;
        let finish = Finish {
            wall_ms,
            exit: end.exit(),
            totals: Some(totals),
            phases: phases.clone(),
            keeps_ticket,
            offloaded_to: offloaded_to.clone(),
            ended: end.is_seen(),
            largest_process: largest_process.clone(),
            rescue: rescue.clone(),
            ..Finish::default()
        };
        let failed = end.exit().is_some_and(|exit| exit.code != Some(0)) || totals.oom_kill.unwrap_or(0) > 0;
        let wanted = AdviceRequest {
            attempt: id.clone(),
            log_tail,
            verdict: failed && (wants_verdict || settings.report.wants_verdict()),
            prediction: settings.wanted_prediction(),
        };
        let (delivery, advice) = match interrupted {
            Some(signal) => (interrupted_report(&signal), Advice::default()),
            None => deliver(settings, delivery, finish, wanted, &mut interruption).await,
        };
        let facts = BuildFacts {
            name,
            end,
            wall: Duration::from_millis(wall_ms),
            totals,
            source,
            offloaded_to,
            limit_at_start: resources.memory_limit_bytes,
            resources: at_end(resources, &totals),
            phases,
            curve,
            largest_process,
            rescue,
            attempt: delivery.runs_as.clone().unwrap_or(id),
            number: settings.number,
            retries: settings.retries.clone(),
            delivery,
            measures_only: settings.delivery.server.is_none(),
            advice,
            notes: settings.notes.clone(),
        };
        publish(&facts, settings, interruption).await;
        closed_attempt(facts)
    }
}

/// The wall time of a build, milliseconds. The last sample is taken after the end of the build, and the attempt must not end before it.
fn wall_ms(wall: Duration, last: Option<&Sample>) -> u64 {
    let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    wall_ms.max(last.map_or(0, |sample| sample.elapsed_ms))
}

/// The resources with the memory limit in force at the end.
fn at_end(resources: Resources, totals: &Totals) -> Resources {
    match totals.memory_limit_bytes {
        Some(limit) => Resources { memory_limit_bytes: measured::above_zero(Some(limit)), ..resources },
        None => resources,
    }
}

fn closed_attempt(facts: BuildFacts) -> ClosedAttempt {
    let Advice { verdict, problem, .. } = facts.advice;
    let problem = problem.or_else(|| {
        let undelivered = facts.delivery.problem.unwrap_or_else(|| "no reason is known".to_owned());
        match (facts.measures_only, facts.delivery.delivered) {
            (true, _) => Some("no server is set".to_owned()),
            (false, false) => Some(format!("the samples were not delivered: {undelivered}")),
            (false, true) => None,
        }
    });
    let delivered = facts.delivery.delivered;
    let (attempt, resources) = (facts.attempt, facts.resources);
    let ended_by_rescue = facts.rescue.is_some_and(|rescue| rescue.ended_ms.is_some());
    ClosedAttempt { attempt, resources, verdict, problem, delivered, ended_by_rescue }
}

#[cfg(test)]
mod tests {
    use plimsoll_measure::kernel::Kernel;

    use super::*;

    #[test]
    fn the_enforced_limit_is_reported_not_the_requested() {
        let root = tempfile::tempdir().unwrap();
        let meter = Meter::prepare(&Kernel::at(root.path()), "01", Some(1 << 30));
        let asked =
            Resources { memory_request_bytes: Some(5), cpu_limit_cores: Some(2.0), ..Resources::default() };
        let settings = Settings {
            id: Some("job-7".to_owned()),
            number: 2,
            retries: "job-6".to_owned(),
            pool: "big".to_owned(),
            ticket: "t-1".to_owned(),
            runner_tags: vec!["docker".to_owned()],
            asked,
            ..Settings::default()
        };
        let hello = hello(&settings, "s".to_owned(), &meter, 9);
        assert_eq!(hello.resources, Some(asked));
        assert_eq!((hello.pool.as_str(), hello.ticket.as_str()), ("big", "t-1"));
        assert_eq!(hello.runner_tags, ["docker"]);
        assert_eq!(hello.attempt.as_str(), "job-7");
        assert_eq!(hello.session.as_str(), "s");
        assert_eq!(hello.started_unix_ms, 9);
        assert_eq!(hello.source, i32::from(plimsoll_proto::v1::Source::ProcessTree));
    }
}
