//! Keeps pods that have ended in compressed form. An import of some weeks has hundreds of thousands of them, of
//! which few run at the same time.
//!
//! A pod of 700 bytes takes some 70 bytes. It is unpacked each time it is read.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use plimsoll_core::domain::Resources;

use super::pod::{BuildPod, PodName};

/// Bytes of text that are compressed together. Larger blocks save little more, and a block is always unpacked
/// as a whole.
const BLOCK_BYTES: usize = 128 << 10;

/// A pod in the form in which it is compressed: namespace and name; start and end; numbers as bits; count of
/// readings; sizes; whether it was killed; annotations, each with the index of its name.
type PodText = (String, String, [u64; 2], [u64; 6], u32, Resources, bool, Vec<(usize, Box<str>)>);

/// Compressed pods, in the order in which they were added.
#[derive(Debug)]
pub(super) struct PodSpool {
    /// Names of annotations, sorted.
    names: Vec<Arc<str>>,
    packed_blocks: Vec<Box<[u8]>>,
    /// Text that is not compressed yet.
    text: Vec<u8>,
}

impl PodSpool {
    /// An empty spool. `names` are all names of annotations, sorted.
    pub(super) fn new(names: Vec<Arc<str>>) -> Self {
        Self { names, packed_blocks: Vec::new(), text: Vec::new() }
    }

    /// Adds a pod.
    /// Errors: the pod cannot be written as text, or not compressed.
    pub(super) fn push(&mut self, (namespace, name): PodName, pod: &BuildPod) -> io::Result<()> {
        let BuildPod {
            memory_peak: peak,
            memory_sum: sum,
            resident_peak: resident,
            high_water,
            cpu_seconds,
            oom_events,
            ..
        } = *pod;
        let numbers = [peak, sum, resident, high_water, cpu_seconds, oom_events].map(f64::to_bits);
        let described = pod
            .described
            .iter()
            .filter_map(|(name, text)| Some((self.names.binary_search(name).ok()?, text.clone())));
        let text: PodText = (
            namespace,
            name,
            [pod.first_ms, pod.last_ms],
            numbers,
            pod.samples,
            pod.resources,
            pod.oom_killed,
            described.collect(),
        );
        serde_json::to_writer(&mut self.text, &text)?;
        if self.text.len() >= BLOCK_BYTES {
            let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
            packer.write_all(&self.text)?;
            self.packed_blocks.push(packer.finish()?.into_boxed_slice());
            self.text.clear();
        }
        Ok(())
    }

    /// Unpacks all pods, in the order in which they were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = io::Result<(PodName, BuildPod)>> {
        let packed = self.packed_blocks.iter().map(|block| {
            let mut text = Vec::new();
            io::copy(&mut DeflateDecoder::new(&**block), &mut text).map(|_bytes| text)
        });
        packed.chain([Ok(self.text.clone())]).flat_map(|text| match text {
            Ok(text) => self.pods_of(&text),
            Err(error) => vec![Err(error)],
        })
    }

    fn pods_of(&self, text: &[u8]) -> Vec<io::Result<(PodName, BuildPod)>> {
        let pods = serde_json::Deserializer::from_slice(text).into_iter::<PodText>();
        pods.map(|pod| Ok(self.pod(pod?))).collect()
    }

    fn pod(&self, text: PodText) -> (PodName, BuildPod) {
        let (namespace, name, [first_ms, last_ms], numbers, samples, resources, oom_killed, described) = text;
        let [peak, sum, resident, high_water, cpu_seconds, oom_events] = numbers.map(f64::from_bits);
        let described =
            described.into_iter().filter_map(|(name, text)| Some((Arc::clone(self.names.get(name)?), text)));
        let pod = BuildPod {
            first_ms,
            last_ms,
            seen_ms: last_ms,
            memory_peak: peak,
            memory_sum: sum,
            samples,
            resident_peak: resident,
            high_water,
            cpu_seconds,
            resources,
            oom_events,
            oom_killed,
            described: described.collect(),
        };
        ((namespace, name), pod)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::domain::{Bytes, Cores};

    use super::*;

    #[test]
    fn spooled_pods_are_compact_and_round_trip() {
        let names: Vec<Arc<str>> = ["a", "b"].map(Into::into).to_vec();
        let pod = |n: u32| BuildPod {
            first_ms: 1_800_000_000_000 + u64::from(n),
            last_ms: 1_800_000_000_000 + 2 * u64::from(n),
            seen_ms: 1_800_000_000_000 + 2 * u64::from(n),
            memory_peak: f64::from(n) * 1.1,
            memory_sum: f64::MAX * 2.0,
            samples: n,
            resources: Resources {
                memory_limit: Some(Bytes(1 << 30)),
                cpu_request: Some(Cores(0.1)),
                ..Resources::default()
            },
            oom_killed: n.is_multiple_of(2),
            described: vec![(Arc::clone(&names[1]), format!("https://gitlab.example/{n}").into())],
            ..BuildPod::default()
        };
        let name = |n: u32| ("ci".to_owned(), format!("runner-abc-project-23-concurrent-{n}"));
        let mut spool = PodSpool::new(names.clone());
        for n in 0..3000 {
            spool.push(name(n), &pod(n)).unwrap();
        }
        assert!(spool.packed_blocks.len() > 2);
        let mut count = 0;
        for (n, read) in (0..).zip(spool.iter()) {
            assert_eq!(read.unwrap(), (name(n), pod(n)));
            count += 1;
        }
        assert_eq!(count, 3000);
        let packed: usize = spool.packed_blocks.iter().map(|block| block.len()).sum();
        assert!(packed < 3000 * 50, "{packed}");
    }
}
