//! What every store promises.

use tokio::task::JoinSet;

use super::fixture::{one, stores};
use crate::{
    BATCH_OPERATIONS, Batch, CommitError, DeleteProgress, MAX_VALUE, PAGE_ITEMS, PageLimit, Store, StoreMode,
};

/// Keys of a page without their prefix, as numbers.
async fn keys(store: &Store, after: Option<&[u8]>, limit: PageLimit) -> (Vec<u8>, bool) {
    let page = store.scan(b"k", after, limit).await.unwrap();
    (page.entries.iter().map(|entry| entry.key[1]).collect(), page.more)
}

#[tokio::test]
async fn reads_after_a_commit_see_it() {
    let (_dir, stores) = stores();
    for store in stores {
        let committed = store.commit(one(b"k1", b"value")).await.unwrap();
        let found = store.get(b"k1").await.unwrap().unwrap();
        assert_eq!((found.value.as_slice(), found.version), (&b"value"[..], committed.version));
        assert_eq!(store.get(b"k2").await.unwrap(), None);
        let mut batch = Batch::default();
        batch.delete(b"k1".to_vec());
        store.commit(batch).await.unwrap();
        assert_eq!(store.get(b"k1").await.unwrap(), None);
        assert_eq!(store.status().commits, 2);
    }
}

/// The version that the store gave a value.
async fn commit_one(store: Store, value: u8) -> (u64, u8) {
    (store.commit(one(b"k", &[value])).await.unwrap().version, value)
}

#[tokio::test]
async fn the_last_of_concurrent_commits_wins() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut commits = JoinSet::new();
        for n in 0..100_u8 {
            commits.spawn(commit_one(store.clone(), n));
        }
        let last = commits.join_all().await.into_iter().max().unwrap();
        let found = store.get(b"k").await.unwrap().unwrap();
        assert_eq!((found.version, found.value), (last.0, vec![last.1]));
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repeat() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut batch = one(b"j", b"before");
        (0..10).for_each(|n| batch.put(vec![b'k', n], vec![n; 10]));
        batch.put(b"l".to_vec(), b"behind".to_vec());
        store.commit(batch).await.unwrap();
        let four = PageLimit { items: 4, ..PageLimit::PAGE };
        assert_eq!(keys(&store, None, four).await, (vec![0, 1, 2, 3], true));
        assert_eq!(keys(&store, Some(b"k\x03"), four).await, (vec![4, 5, 6, 7], true));
        assert_eq!(keys(&store, Some(b"k\x07"), four).await, (vec![8, 9], false));
        assert_eq!(keys(&store, None, PageLimit { bytes: 1, ..PageLimit::PAGE }).await, (vec![0], true));
        let begin = keys(&store, Some(b"a"), four).await;
        assert_eq!(begin, (vec![0, 1, 2, 3], true), "before the prefix is its begin");
        let all = store.scan(b"", None, PageLimit { items: usize::MAX, bytes: usize::MAX }).await.unwrap();
        assert_eq!(all.entries.len(), 12, "what the store keeps for itself is not shown");
        assert!(!all.more);
    }
}

#[tokio::test]
async fn a_page_is_bounded_whatever_is_asked() {
    let (_dir, stores) = stores();
    for store in stores {
        for half in 0..2_u16 {
            let mut batch = Batch::default();
            (0..600_u16)
                .for_each(|n| batch.put([b"k", &(half * 600 + n).to_be_bytes()[..]].concat(), Vec::new()));
            store.commit(batch).await.unwrap();
        }
        let page = store.scan(b"k", None, PageLimit { items: usize::MAX, bytes: usize::MAX }).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (PAGE_ITEMS, true));
    }
}

#[tokio::test]
async fn delete_prefix_works_in_steps_and_spares_others() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut batch = one(b"l", b"stays");
        (0..5).for_each(|n| batch.put(vec![b'k', n], Vec::new()));
        store.commit(batch).await.unwrap();
        let three = PageLimit { items: 3, ..PageLimit::PAGE };
        assert_eq!(store.delete_prefix(b"k", three).await, Ok(DeleteProgress { items: 3, more: true }));
        assert_eq!(store.delete_prefix(b"k", three).await, Ok(DeleteProgress { items: 2, more: false }));
        assert_eq!(store.delete_prefix(b"k", three).await, Ok(DeleteProgress { items: 0, more: false }));
        assert!(store.get(b"l").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn oversized_batches_are_refused_and_change_nothing() {
    let (_dir, stores) = stores();
    for store in stores {
        let mut operations = Batch::default();
        (0..=BATCH_OPERATIONS).for_each(|n| operations.delete(vec![b'k', u8::try_from(n % 7).unwrap()]));
        let mut bytes = Batch::default();
        (0..=255).for_each(|n| bytes.put(vec![b'k', n], vec![0; MAX_VALUE]));
        (0..3).for_each(|n| bytes.put(vec![b'l', n], vec![0; MAX_VALUE]));
        let long_key = one(&[b'k'; 257], b"");
        for batch in [operations, bytes, one(b"k", &[0; MAX_VALUE + 1]), long_key, one(b"", b"")] {
            let error = store.commit(batch).await.unwrap_err();
            assert!(matches!(error, CommitError::TooLarge(_)), "{error}");
        }
        assert_eq!(store.scan(b"", None, PageLimit::PAGE).await.unwrap().entries, []);
        store.commit(one(b"k", &[7; MAX_VALUE])).await.unwrap();
        assert_eq!(store.get(b"k").await.unwrap().unwrap().value, [7; MAX_VALUE]);
    }
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let (_dir, stores) = stores();
    for store in stores {
        store.commit(one(b"k", b"v")).await.unwrap();
        store.close().await.unwrap();
        store.close().await.unwrap();
        let error = store.commit(one(b"k", b"v")).await.unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
        assert!(matches!(store.status().mode, StoreMode::ReadOnly { .. }));
    }
}

#[tokio::test]
async fn a_memory_store_refuses_commits_on_demand() {
    let store = Store::memory();
    let Store::Memory(switch) = &store else { panic!("asked for memory") };
    switch.refuse_commits("no space left");
    let error = store.commit(one(b"k", b"v")).await.unwrap_err();
    assert_eq!(error, CommitError::Unavailable("no space left".into()));
    assert_eq!(store.get(b"k").await.unwrap(), None);
    switch.accept_commits();
    store.commit(one(b"k", b"v")).await.unwrap();
    assert_eq!(store.status().mode, StoreMode::Writable);
}

/// Commits a value under a key of its own; returns the commit's number.
async fn commit_number(store: Store, key: u16) -> u64 {
    store.commit(one(&key.to_be_bytes(), &[0; 100])).await.unwrap().version
}

#[tokio::test]
async fn concurrent_commits_share_syncs_or_transactions() {
    let (_dir, stores) = stores();
    for store in stores.into_iter().filter(|store| !matches!(store, Store::Memory(_))) {
        let mut commits = JoinSet::new();
        for n in 0..1000_u16 {
            commits.spawn(commit_number(store.clone(), n));
        }
        let mut versions = commits.join_all().await;
        versions.sort_unstable();
        assert_eq!(versions, (1..=1000).collect::<Vec<u64>>(), "each commit has its own number");
        let syncs = store.status().syncs;
        assert!((4..250).contains(&syncs), "{syncs} for 1000 commits: {store:?}");
    }
}
