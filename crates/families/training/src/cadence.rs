//! Thread priorities: accelerator threads run before reader threads.
//!
//! The thread of an accelerator does almost nothing, but must wake up on time. If the kernel ran it
//! only at the end of a reader's time slice, accelerator utilisation would depend on the scheduler
//! instead of storage.

use rustix::process::setpriority_process;

const NICE: i32 = -15;

/// Return the priority that [`take_precedence`] would achieve. It is tried in a short-lived thread.
pub fn precedence_to_be_had() -> &'static str {
    std::thread::spawn(take_precedence).join().unwrap_or("normal")
}

/// Raise the priority of the calling thread if the kernel permits it. Return the resulting
/// priority, as text for the results.
///
/// The priority is not a real-time one: on shared cores, threads with a real-time priority woke up
/// sooner, but readers lost more CPU time than the accelerator threads used, which reduced
/// utilisation.
pub fn take_precedence() -> &'static str {
    // `None` means the calling thread.
    if setpriority_process(None, NICE).is_ok() { "nice -15" } else { "normal" }
}

/// Set the scheduling policy of the calling thread to `SCHED_BATCH`, so that it does not preempt
/// other threads when it wakes up. Its share of CPU time is unchanged.
#[allow(unsafe_code)]
pub fn give_precedence() {
    let none = libc::sched_param { sched_priority: 0 };
    // Direct system call: no library wraps it. SAFETY: the parameter lives during the call; 0 is
    // the calling thread. If the kernel refuses, the thread keeps its policy.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}
