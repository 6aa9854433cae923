//! Random attempts, the same in every run.

use plimsoll_proto::v1::{self as pb, agent_message::Message as Sent, predictor_client::PredictorClient};
use plimsoll_tests::{Sender, Server, finish, hello};

/// Numbers without a pattern (Knuth's multiplier; the upper bits).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

pub(super) fn id(number: u64) -> String {
    format!("random-{number}")
}

/// Delivers attempts as an agent does, each on a stream of its own. What failed is judged, since counters wait for its cause.
pub(super) async fn deliver(server: &Server, attempts: u64) {
    let mut dice = Dice(7);
    let mut predictor = PredictorClient::connect(server.url()).await.unwrap();
    for number in 0..attempts {
        let mut stream = Sender::connect(&server.url()).await.unwrap();
        let mut has_failed = false;
        for message in messages(number, &mut dice) {
            has_failed =
                matches!(&message, Sent::Finish(end) if end.exit.is_some_and(|exit| exit.code == Some(1)));
            stream.exchange(message).await.unwrap();
        }
        if has_failed {
            let log_tail = b"main.c:1:10: fatal error: zlib.h: No such file or directory".to_vec();
            let question = pb::ShouldRetryRequest { attempt: id(number), log_tail, ..Default::default() };
            predictor.should_retry(question).await.unwrap();
        }
    }
}

fn messages(number: u64, dice: &mut Dice) -> Vec<Sent> {
    let attempt = id(number);
    let samples = samples(dice);
    let last = samples.last().copied().unwrap_or_default();
    let count = u64::try_from(samples.len()).unwrap();
    let hello = hello(&attempt, &format!("p{}", dice.throw(5)));
    let hello = pb::Hello { started_unix_ms: an_hour_ago(), resources: Some(resources(dice)), ..hello };
    // the end may be less than a window of CPU after the start
    let wall_ms = last.elapsed_ms + 1 + dice.throw(900);
    // 130: interrupted, as a shell tells it
    let codes = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(130), None];
    let code = codes[usize::try_from(dice.throw(7)).unwrap()];
    let killed = code == Some(1) && dice.throw(2) == 0;
    let totals = (dice.throw(3) > 0).then(|| pb::Totals {
        cpu_usec: last.cpu_usec + dice.throw(2) * 900,
        // what a kill proves, or a phase saw, above all readings
        need_peak_bytes: (killed || dice.throw(4) == 0).then(|| highest(&samples) + (dice.throw(50) << 20)),
        oom_kill: Some(u64::from(killed)),
        ..pb::Totals::default()
    });
    let finish = pb::Finish { wall_ms, totals, ..finish(&attempt, count, code) };
    let batch = (count > 0).then_some(pb::Batch { attempt, first_sequence: 1, lost: 0, samples });
    [Some(hello.into()), batch.map(Sent::from), Some(finish.into())].into_iter().flatten().collect()
}

fn highest(samples: &[pb::Sample]) -> u64 {
    samples.iter().map(|sample| sample.need_max_bytes.unwrap_or(sample.need_bytes)).max().unwrap_or(0)
}

/// No samples, one sample, samples without CPU or with some microseconds of it, rows whose highest need is above their mean memory.
fn samples(dice: &mut Dice) -> Vec<pb::Sample> {
    let count = dice.throw(8);
    let most_cpu = [0, 300, 9_000, 3_000_000, 3_000_000][usize::try_from(dice.throw(5)).unwrap()];
    let (mut elapsed_ms, mut cpu_usec) = (0, 0);
    let mut samples = Vec::new();
    for _row in 0..count {
        elapsed_ms += 40 + dice.throw(1500);
        cpu_usec += dice.throw(most_cpu + 1);
        let need_bytes = (1 + dice.throw(900)) << 20;
        samples.push(pb::Sample {
            elapsed_ms,
            memory_bytes: need_bytes + (dice.throw(100) << 20),
            need_bytes,
            need_max_bytes: (dice.throw(2) == 0).then(|| need_bytes + (dice.throw(300) << 20)),
            cpu_usec,
            oom_kill: Some(0),
            ..pb::Sample::default()
        });
    }
    samples
}

/// Nothing, a request, a limit, both; also 0 bytes and one.
fn resources(dice: &mut Dice) -> pb::Resources {
    let size = match dice.throw(12) {
        0 => 0,
        1 => 1,
        sizes => sizes << 28,
    };
    let cores = 0.5 + f64::from(u8::try_from(dice.throw(4)).unwrap());
    pb::Resources {
        memory_request_bytes: (dice.throw(3) > 0).then_some(size),
        memory_limit_bytes: (dice.throw(3) > 0).then_some(size * 2),
        cpu_request_cores: (dice.throw(3) == 0).then_some(cores),
        cpu_limit_cores: (dice.throw(3) == 0).then_some(cores * 2.0),
    }
}

/// Milliseconds since 1970.
fn an_hour_ago() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(now.as_millis()).unwrap() - 3_600_000
}
