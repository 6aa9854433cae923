//! A flipped bit is found, and harms what it hit and nothing else.

use super::fixture::{attempt, id, samples, stores, summary};
use crate::store::{
    Batch, Kind, Limit, Loaded, Store, StoreError, append_fragment, load_summaries, put_summary, read_series,
    read_summary, roll,
};

/// Flips one bit in the middle of the entry at `index` among those with the prefix.
async fn flip(store: &Store, prefix: &[u8], index: usize) {
    let mut page = store.scan(prefix, None, Limit::PAGE).await.unwrap();
    let entry = page.entries.remove(index);
    let mut value = entry.value.value;
    let middle = value.len() / 2;
    value[middle] ^= 0x10;
    let mut batch = Batch::default();
    batch.put(entry.key, value);
    store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn a_flipped_bit_in_a_summary_costs_that_summary() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut batch = Batch::default();
        for name in ["a", "b", "c"] {
            put_summary(&mut batch, &summary(&attempt(name))).unwrap();
        }
        store.commit(batch).await.unwrap();
        flip(&store, &Kind::Summary.prefix(), 1).await;
        let mut found = Vec::new();
        let loaded = load_summaries(&store, |summary| found.push(summary.attempt)).await.unwrap();
        assert_eq!(loaded, Loaded { records: 2, damaged: 1 });
        assert_eq!(found, [id("a"), id("c")]);
        let error = read_summary(&store, &id("b")).await.unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { key, .. } if key.0 == b"sb\0"), "{error}");
    }
}

#[tokio::test]
async fn a_flipped_bit_in_samples_costs_one_chunk_and_is_told_as_a_gap() {
    let (_dir, stores) = stores();
    for store in stores {
        let job = id("job");
        let mut batch = Batch::default();
        for from in [1, 11, 21] {
            append_fragment(&mut batch, &job, from, 0, &samples(from, from + 9)).unwrap();
        }
        store.commit(batch).await.unwrap();
        flip(&store, &Kind::Fragment.prefix_of(&job), 1).await;
        let read = read_series(&store, &job).await.unwrap();
        assert_eq!((read.extent.damaged, read.extent.samples, read.extent.lost), (1, 20, 10));
        assert_eq!((read.runs[1].first_sequence, read.runs[1].lost), (21, 10));
        assert_eq!(read.runs[1].samples, samples(21, 30));
        store.commit(roll(&store, &job).await.unwrap().batch).await.unwrap();
        let rolled = read_series(&store, &job).await.unwrap();
        assert_eq!((rolled.runs, rolled.extent.damaged), (read.runs, 0));
    }
}
