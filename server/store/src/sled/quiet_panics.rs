//! sled's panics are caught and become errors with the panic's text. Without this module the standard library would also print each of
//! them with a backtrace, as if the program had crashed.

use std::{
    cell::Cell,
    panic::{self, PanicHookInfo},
    sync::Once,
    thread,
};

thread_local! {
    /// Depth of nested calls of sled in this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Prefix of the names of sled's own threads.
const THREADS: &str = "sled-io-";

/// While this value exists, the thread is in a call of sled.
#[derive(Debug)]
pub(crate) struct WithinEngine(());

/// Call it before a call of sled.
pub(crate) fn within_engine() -> WithinEngine {
    static HOOK: Once = Once::new();
    // the hook cannot be changed while a thread panics
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
