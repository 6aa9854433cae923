//! The attempt that is attacked, and its twin: the same of another project, which no caller speaks of.

use plimsoll_proto::v1::{
    self as pb, placement_client::PlacementClient, predictor_client::PredictorClient,
    stats_client::StatsClient,
};
use plimsoll_tests::{Sender, batch, eventually, finish};
use serde_json::json;
use tonic::{Request, Status};

use super::{
    Moment,
    site::{HOST, Site, key, opening, with},
};

/// Builds that succeeded before, of each of both.
const BEFORE: u64 = 3;

/// A job of a project, measured; and one more that no agent measures.
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) project: String,
}

impl Job {
    fn new(number: u64, project: String) -> Self {
        Self { number, id: format!("{HOST}:{number}"), project }
    }

    pub(super) fn unmeasured_number(&self) -> u64 {
        self.number + 50_000
    }

    pub(super) fn unmeasured(&self) -> String {
        format!("{HOST}:{}", self.unmeasured_number())
    }

    fn token(&self, site: &Site, number: u64) -> String {
        site.issuer().token(number, json!({"project_path": self.project}))
    }

    /// A token of its group.
    fn of_group(&self, role: &str) -> String {
        format!("{}-{role}", self.project.split('/').next().unwrap())
    }

    fn hello(&self, number: u64) -> pb::Hello {
        let id = format!("{HOST}:{number}");
        pb::Hello { session: format!("secret-{number}"), ..opening(&id, &self.project) }
    }
}

/// Both, and how far they are.
pub(super) struct Twins<'s> {
    site: &'s Site,
    pub(super) victim: Job,
    twin: Job,
    streams: Vec<Sender>,
    reported: bool,
    /// Both have their tickets: before, whose an id is may be kept from its own job as from all others.
    opened: bool,
}

impl<'s> Twins<'s> {
    /// Both have built before.
    pub(super) async fn new(site: &'s Site, number: u64) -> Self {
        let victim = Job::new(1000 * number, format!("b/n{number}"));
        let twin = Job::new(1000 * number + 500, format!("t/n{number}"));
        for n in 1..=BEFORE {
            let mut opened = Vec::new();
            // both are open before either is learned from
            for job in [&victim, &twin] {
                let token = job.token(site, job.number + n);
                let mut stream = Sender::open_as(site.channel.clone(), &token).await.unwrap();
                let hello = job.hello(job.number + n);
                let id = hello.attempt.clone();
                stream.exchange(hello).await.unwrap();
                opened.push((stream, id));
            }
            for (mut stream, id) in opened {
                stream.exchange(batch(&id, 1, 20)).await.unwrap();
                stream.exchange(finish(&id, 20, Some(0))).await.unwrap();
            }
        }
        Self { site, victim, twin, streams: Vec::new(), reported: false, opened: false }
    }

    /// What comes after a moment.
    pub(super) async fn go_on(&mut self, moment: Moment) {
        match moment {
            Moment::Before => self.open().await,
            Moment::While => self.finish().await,
            Moment::Ended => self.tell().await,
            Moment::Judged => {}
        }
    }

    fn both(&self) -> [&Job; 2] {
        [&self.victim, &self.twin]
    }

    /// Both open a ticket with the id of their job, and begin in its place.
    async fn open(&mut self) {
        let mut streams = Vec::new();
        for job in self.both() {
            let token = job.token(self.site, job.number);
            let asked = pb::OpenTicketRequest {
                ticket: job.id.clone(),
                key: Some(key(&job.project)),
                ..Default::default()
            };
            let mut placement = PlacementClient::new(self.site.channel.clone());
            let ticket =
                placement.open_ticket(with(&token, asked)).await.unwrap().into_inner().ticket.unwrap();
            assert_eq!(ticket.state(), pb::TicketState::Granted, "{ticket:?}");
        }
        for job in self.both() {
            let token = job.token(self.site, job.number);
            let mut stream = Sender::open_as(self.site.channel.clone(), &token).await.unwrap();
            let hello = pb::Hello { ticket: job.id.clone(), ..job.hello(job.number) };
            assert_eq!(stream.exchange(hello).await.unwrap(), 0, "nothing of it is known");
            stream.exchange(batch(&job.id, 1, 10)).await.unwrap();
            streams.push(stream);
        }
        self.streams = streams;
        self.opened = true;
    }

    /// Both go on and end, and their agents do not see how.
    async fn finish(&mut self) {
        for (job, mut stream) in [&self.victim, &self.twin].into_iter().zip(self.streams.drain(..)) {
            assert_eq!(stream.exchange(batch(&job.id, 11, 10)).await.unwrap(), 20);
            stream.exchange(finish(&job.id, 20, None)).await.unwrap();
        }
    }

    /// The hooks and the callers of both tell how both jobs ended.
    async fn tell(&mut self) {
        for job in self.both() {
            assert_eq!(self.site.hook(&job.of_group("hook"), job.number, &job.project, "failed"), 200);
            let shown = async || self.site.shown(&job.id).await.summary.unwrap();
            let is_failed = |summary: &pb::Summary| summary.outcome() == pb::Outcome::Failed;
            eventually("its own hook counts", shown, is_failed).await;
        }
        for job in self.both() {
            self.question(job, &job.id).await.unwrap();
        }
        self.reported = true;
    }

    /// What its own caller asks.
    async fn question(&self, job: &Job, id: &str) -> Result<pb::Verdict, Status> {
        let log_tail = b"x.c:1:1: error: unknown type name 'y'\n".to_vec();
        let exit = Some(pb::Exit { code: Some(1), signal: None });
        let key = Some(key(&job.project));
        let asked =
            pb::ShouldRetryRequest { attempt: id.to_owned(), key, exit, log_tail, ..Default::default() };
        self.site.ask(&job.of_group("caller"), asked).await
    }

    /// All that is known of both is the same.
    pub(super) async fn compare(&self, when: &str) {
        let (victim, twin) = (self.known(&self.victim).await, self.known(&self.twin).await);
        for ((what, of_victim), (_, of_twin)) in victim.into_iter().zip(twin) {
            let differ = of_victim.lines().zip(of_twin.lines()).find(|(victim, twin)| victim != twin);
            assert!(differ.is_none(), "{what} of the victim is not that of its twin: {when}: {differ:?}");
            assert_eq!(
                of_victim.len(),
                of_twin.len(),
                "{what} of the victim is not that of its twin: {when}"
            );
        }
    }

    async fn known(&self, job: &Job) -> Vec<(&'static str, String)> {
        let channel = &self.site.channel;
        let (reader, caller) = (job.of_group("reader"), job.of_group("every"));
        let (mut stats, mut predictor) =
            (StatsClient::new(channel.clone()), PredictorClient::new(channel.clone()));
        let mut known = Vec::new();
        let asked =
            |attempt: &str| pb::GetAttemptRequest { attempt: attempt.to_owned(), ..Default::default() };
        known.push(("the attempt", text(job, stats.get_attempt(with(&reader, asked(&job.id))).await)));
        let filter = pb::Filter { project: job.project.clone(), ..Default::default() };
        let counted = pb::GetStatsRequest { filter: Some(filter.clone()), ..Default::default() };
        known.push(("the statistics", text(job, stats.get_stats(with(&reader, counted)).await)));
        let listed = pb::ListAttemptsRequest { filter: Some(filter), ..Default::default() };
        known.push(("the list", text(job, stats.list_attempts(with(&reader, listed)).await)));
        let asks = || pb::PredictRequest { key: Some(key(&job.project)), ..Default::default() };
        known.push(("the prediction", text(job, predictor.predict(with(&caller, asks())).await)));
        known.push(("the explanation", text(job, predictor.explain(with(&caller, asks())).await)));
        if self.opened {
            known.push(("the ticket", text(job, self.ticket(job).await)));
        }
        if self.reported {
            for (what, id) in
                [("the verdict", job.id.clone()), ("the verdict without an agent", job.unmeasured())]
            {
                known.push((what, text(job, self.question(job, &id).await.map(tonic::Response::new))));
            }
        }
        known
    }

    async fn ticket(&self, job: &Job) -> Result<tonic::Response<pb::WatchTicketResponse>, Status> {
        let token = job.token(self.site, job.number);
        let asked: Request<_> = with(&token, pb::WatchTicketRequest { ticket: job.id.clone(), hold: false });
        let mut answers =
            PlacementClient::new(self.site.channel.clone()).watch_ticket(asked).await?.into_inner();
        Ok(tonic::Response::new(answers.message().await?.unwrap_or_default()))
    }
}

/// An answer as text, without the names of the job and without times.
fn text<T: std::fmt::Debug>(job: &Job, answer: Result<tonic::Response<T>, Status>) -> String {
    let text = match answer {
        Ok(answer) => format!("{:#?}", answer.into_inner()),
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
    };
    let mut names: Vec<(String, &str)> = (1..=BEFORE)
        .map(|n| {
            (
                format!("{HOST}:{}", job.number + n),
                ["EARLIER 1", "EARLIER 2", "EARLIER 3"][usize::try_from(n - 1).unwrap()],
            )
        })
        .collect();
    names.push((job.unmeasured(), "UNMEASURED"));
    names.push((job.id.clone(), "JOB"));
    names.push((job.project.clone(), "PROJECT"));
    let text = names.iter().fold(text, |text, (name, word)| text.replace(name, word));
    let mut lines = text.lines();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if !line.contains("unix_ms") && !line.contains("that ended at or after") {
            kept.push(line);
        } else if line.ends_with("Some(") {
            let _number_and_end = (lines.next(), lines.next());
        }
    }
    kept.join("\n")
}
