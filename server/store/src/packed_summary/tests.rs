//! Every summary comes back, and nothing is made up.

use plimsoll_core::domain::{Hints, Key};
use proptest::prelude::*;

use super::*;

fn unpack(bytes: &[u8]) -> Result<Summary, Damage> {
    let (codec, payload) = bytes.split_first().unwrap();
    Summary::unpack(*codec, payload)
}

fn packed(summary: &Summary) -> Vec<u8> {
    let mut bytes = Vec::new();
    summary.pack(&mut bytes).unwrap();
    bytes
}

fn any_text() -> impl Strategy<Value = String> {
    "[a-z0-9 ü+~=]{0,20}"
}

prop_compose! {
    fn any_key()(texts in prop::collection::vec(any_text(), 11), labels in prop::collection::btree_map(any_text(), any_text(), 0..4),
        build_jobs in any::<Option<u32>>(), input_bytes in any::<Option<u64>>()) -> Key {
        let [project, stack, package, version, variants, compiler, compiler_version, arch, build_system, git_ref, owner] =
            <[String; 11]>::try_from(texts).unwrap();
        let hints = Hints { build_jobs, input_bytes };
        // one that is all empty is none
        let package = format!("p{package}");
        Key { project, stack, package, version, variants, compiler, compiler_version, arch, build_system, git_ref, owner, labels, hints }
    }
}

prop_compose! {
    fn any_summary()(key in any_key(), n in prop::array::uniform32(any::<u64>()), set in any::<u32>(), text in any_text(), status in any::<i32>(), number in any::<u32>()) -> Summary {
        let set = |bit: u32| set >> bit & 1 == 1;
        let some = |bit: u32| set(bit).then_some(n[bit as usize]);
        let pick = |bit: u32, count: usize| usize::try_from(n[bit as usize] % count as u64).unwrap();
        let attempt = |n: u64| AttemptId::parse(&n.to_string()).unwrap();
        let phase = Phase { name: text, started: Millis(n[0]), wall: Millis(n[1]), need_peak: Bytes(n[2]), cpu: CpuMicros(n[3]) };
        Summary {
            number,
            retries: some(5).map(attempt),
            source: SOURCES[pick(6, SOURCES.len())],
            resources: Resources { memory_request: some(7).map(Bytes), memory_limit: some(8).map(Bytes),
                cpu_request: set(9).then_some(Cores(0.1)), cpu_limit: set(10).then_some(Cores(7.5)) },
            memory_limit_at_start: some(3).map(Bytes),
            started_unix_ms: n[11],
            origin: some(12).map(|n| DeliveryOrigin { session: SessionId::parse(&n.to_string()).unwrap(), started_unix_ms: n }),
            opening: OpeningRecord { ticket: None, pool: n[4].to_string(), untrusted: set(4), proven: set(9), predicted: some(15).map(|n| PredictionSnapshot {
                memory_request: Bytes(n), memory_limit: Bytes(n / 2), cpu_request: Cores(f64::from(status)), wall_p95: Millis(n / 3), wall_p50: Millis(n / 7), is_default: set(11) }) },
            wall: Millis(n[13]), cpu: CpuMicros(n[14]), cpu_peak: Cores(f64::from(status) / 3.0),
            samples: n[16], samples_lost: n[17], need_peak: Bytes(n[18]), need_mean: Bytes(n[19]), memory_peak: Bytes(n[20]),
            oom_kill: some(21), reclaim_failures: some(22),
            outcome: OUTCOMES[pick(23, OUTCOMES.len())],
            exit: some(24).map(|_| if set(25) { Exit::Code(status) } else { Exit::Signal(status) }),
            cause: some(26).map(|_| CAUSES[pick(26, CAUSES.len())]),
            cause_source: some(27).map(|_| EVIDENCE[pick(27, EVIDENCE.len())]),
            ci_reason: if set(26) { "job_execution_timeout".into() } else { String::new() },
            censored: set(27), unneeded: set(28), offloaded_to: if set(29) { "docker".into() } else { String::new() },
            oom_origin: some(28).map(|_| ORIGINS[pick(28, ORIGINS.len())]),
            oom_group_kill: some(29), memory_stall: some(30).map(Micros), pages: PageCounters::all(some(31)),
            throttled: some(0).map(Micros), starved: some(1).map(Millis), starved_at_end: some(2).map(Millis),
            phases: if set(3) { vec![phase] } else { Vec::new() },
            largest_process: some(4).map(|n| LargestProcess { program: "cc1plus".into(), file: n.to_string(), memory: Bytes(n), elapsed: Millis(n / 2) }),
            compilers_peak: set(5).then_some(number),
            rescue: some(6).map(|n| Rescue { would_pause: some(7).map(Millis), would_pause_processes: number, pauses: number / 2, paused: Millis(n),
                paused_process_time: Millis(n / 3), together_peak: Bytes(n / 5), gave_up: n.to_string(), raises: number / 3, ended: some(8).map(Millis), raised_byte_seconds: n / 11 }),
            ..Summary::recorded(attempt(n[0]), key)
        }
    }
}

proptest! {
    #[test]
    fn every_summary_comes_back(summary in any_summary()) {
        prop_assert_eq!(unpack(&packed(&summary)), Ok(summary));
    }

    #[test]
    fn a_reused_decoder_keeps_no_previous_summary(all in prop::collection::vec(any_summary(), 1..5), broken in any::<u8>()) {
        let mut reused = SummaryDecoder::default();
        for summary in all {
            let (mut bytes, mut read) = (packed(&summary), None);
            reused.unpack(FIELDS_CODEC, &bytes[1..], &mut |summary: &Summary| read = Some(summary.clone())).unwrap();
            prop_assert_eq!(read.as_ref(), Some(&summary));
            // and nothing of one that broke off
            bytes.truncate(1 + bytes.len() * usize::from(broken) / 256);
            drop(reused.unpack(FIELDS_CODEC, &bytes[1..], &mut |_: &Summary| ()));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(Summary::unpack(FIELDS_CODEC, &bytes));
    }
}

#[test]
fn every_word_has_a_number() {
    let stored = Cause::ALL.map(Cause::as_str).join(" ");
    let first = "oom starved timeout deterministic infra preempted disk_full canceled tool_oom ephemeral_storage node_lost \
                 evicted_by_node contention flaky configuration unknown undecided";
    assert!(stored.starts_with(first), "numbers are on disks: they never change: {stored}");
    assert_eq!((number_of(CAUSES, Some(Cause::Oom)), number_of(CAUSES, Some(Cause::Undecided))), (1, 17));
}

#[test]
fn unknown_fields_are_skipped_and_unknown_causes_refused() {
    let summary = plimsoll_core::domain::test_summary("a", "zlib", "1", 10);
    let mut more = packed(&summary);
    // field 99, three bytes
    more.extend_from_slice(&[0x9a, 0x06, 3, b'n', b'e', b'w']);
    assert_eq!(unpack(&more), Ok(summary.clone()));
    let mut strange = vec![FIELDS_CODEC];
    Packed { cause: 99, ..Packed::of(&summary) }.encode(&mut strange).unwrap();
    assert!(unpack(&strange).unwrap_err().0.contains("the cause 99 is not known"));
    for codec in [1, 3] {
        assert!(Summary::unpack(codec, b"{}").unwrap_err().0.contains(&format!("codec {codec}")));
    }
}

#[test]
fn the_numbers_of_fields_stay_what_they_are() {
    let before = plimsoll_core::domain::test_summary("a", "zlib", "1", 10);
    let predicted = PredictionSnapshot {
        memory_request: Bytes(1),
        memory_limit: Bytes(2),
        cpu_request: Cores(0.5),
        wall_p95: Millis(3),
        wall_p50: Millis(6),
        is_default: false,
    };
    let opening = OpeningRecord {
        pool: "large".into(),
        untrusted: true,
        predicted: Some(predicted),
        ..OpeningRecord::default()
    };
    let now = Summary { opening, unneeded: true, ..before.clone() };
    let later = b"\xa2\x02\x05large\xa8\x02\x01\xb2\x02\x11\x08\x01\x10\x02\x19\0\0\0\0\0\0\xe0\x3f\x20\x03\x30\x06\xc0\x02\x01";
    let bytes = [packed(&before).as_slice(), later].concat();
    assert_eq!(unpack(&bytes), Ok(now.clone()));
    assert_eq!(packed(&now), bytes);
}
