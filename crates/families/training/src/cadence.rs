//! Accelerators and readers share cores: threads that keep time go before those that have work.
//!
//! An accelerator's thread does next to nothing, but has to be there in time. Where the kernel runs
//! it when a reader's turn ends, utilisation is that of the scheduler and not of storage.

use rustix::process::setpriority_process;

const NICE: i32 = -15;

/// What [`take_precedence`] would return: found out by a thread that ends at once.
pub fn precedence_to_be_had() -> &'static str {
    std::thread::spawn(take_precedence).join().unwrap_or("normal")
}

/// Let the calling thread go before ordinary ones, where the kernel allows it. Returns whether it
/// does.
///
/// Not as a real-time thread: on shared cores these were there sooner, and left readers less of the
/// cores than they took, so that utilisation fell.
pub fn take_precedence() -> &'static str {
    // Of "no process": of the calling thread.
    if setpriority_process(None, NICE).is_ok() { "nice -15" } else { "normal" }
}

/// Let the calling thread interrupt no other when it is woken. It keeps its share of the cores.
#[allow(unsafe_code)]
pub fn give_precedence() {
    let none = libc::sched_param { sched_priority: 0 };
    // In no library yet.
    // SAFETY: the parameter lives during the call; 0 is the calling thread. A kernel that refuses
    // leaves the thread as it was.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}
