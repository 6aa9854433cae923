//! sled's panics are caught and become errors with the panic's text. Without this module the standard library
//! would also print each panic with a backtrace, which looks like a crash of the program.

use std::{
    cell::Cell,
    panic::{self, PanicHookInfo},
    sync::Once,
    thread,
};

thread_local! {
    /// Number of nested calls of sled in this thread.
    static CALL_DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// sled's own threads have names that start with this.
const THREAD_PREFIX: &str = "sled-io-";

/// Marks this thread as inside a call of sled until the value is dropped.
#[derive(Debug)]
pub(crate) struct WithinEngine(());

/// Call this before a call of sled, and keep the value until the call has ended.
pub(crate) fn within_engine() -> WithinEngine {
    static SET_HOOK_ONCE: Once = Once::new();
    // while a thread panics, the standard library refuses to change the hook
    if !thread::panicking() {
        SET_HOOK_ONCE.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| report_panic(info, &before)));
        });
    }
    CALL_DEPTH.set(CALL_DEPTH.get().saturating_add(1));
    WithinEngine(())
}

impl Drop for WithinEngine {
    fn drop(&mut self) {
        CALL_DEPTH.set(CALL_DEPTH.get().saturating_sub(1));
    }
}

fn report_panic(info: &PanicHookInfo<'_>, before: &(dyn Fn(&PanicHookInfo<'_>) + Send + Sync)) {
    if thread::current().name().is_some_and(|name| name.starts_with(THREAD_PREFIX)) {
        let text = info.payload_as_str().unwrap_or("without a word");
        tracing::error!(text, "a thread of the storage engine panicked");
    } else if CALL_DEPTH.get() == 0 {
        before(info);
    }
}
