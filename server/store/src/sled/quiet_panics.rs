//! Panics of sled are results like others: they are caught, and what they say stands in an error. Without this the standard library
//! prints each of them with a backtrace beside it, as if the program had broken.

use std::{
    cell::Cell,
    panic::{self, PanicHookInfo},
    sync::Once,
    thread,
};

thread_local! {
    /// How many calls of sled this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// sled's own threads, by the beginning of their names.
const THREADS: &str = "sled-io-";

/// While it lives, this thread is in a call of sled.
#[derive(Debug)]
pub(crate) struct WithinEngine(());

/// To be called before sled is.
pub(crate) fn within_engine() -> WithinEngine {
    static HOOK: Once = Once::new();
    // while a thread panics the hook cannot be changed
    if !thread::panicking() {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| report(info, &before)));
        });
    }
    DEPTH.set(DEPTH.get().saturating_add(1));
    WithinEngine(())
}

impl Drop for WithinEngine {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

fn report(info: &PanicHookInfo<'_>, before: &(dyn Fn(&PanicHookInfo<'_>) + Send + Sync)) {
    if thread::current().name().is_some_and(|name| name.starts_with(THREADS)) {
        let text = info.payload_as_str().unwrap_or("without a word");
        tracing::error!(text, "a thread of the storage engine panicked");
    } else if DEPTH.get() == 0 {
        before(info);
    }
}
