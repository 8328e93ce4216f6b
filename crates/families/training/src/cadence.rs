//! Thread priorities: threads that keep time (accelerators) run before threads that do work
//! (readers).
//!
//! The thread of an accelerator does almost nothing, but must wake on time. If the kernel ran it
//! only at the end of a reader's time slice, utilisation would reflect the scheduler and not
//! storage.

use rustix::process::setpriority_process;

const NICE: i32 = -15;

/// Return what [`take_precedence`] would return, by calling it in a thread that ends at once.
pub fn precedence_to_be_had() -> &'static str {
    std::thread::spawn(take_precedence).join().unwrap_or("normal")
}

/// Raise the priority of the calling thread if the kernel permits it. Return the resulting
/// priority, as text for the results.
///
/// Not a real-time priority: on shared cores such threads woke sooner, but readers lost more CPU
/// time than these threads used, which reduced utilisation.
pub fn take_precedence() -> &'static str {
    // `None` stands for the calling thread.
    if setpriority_process(None, NICE).is_ok() { "nice -15" } else { "normal" }
}

/// Set the policy `SCHED_BATCH`: when it wakes, the calling thread does not preempt others. Its
/// share of CPU time is unchanged.
#[allow(unsafe_code)]
pub fn give_precedence() {
    let none = libc::sched_param { sched_priority: 0 };
    // Direct system call: no library wraps it.
    // SAFETY: the parameter lives during the call; 0 is the calling thread. If the kernel refuses,
    // the thread stays as it was.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}
