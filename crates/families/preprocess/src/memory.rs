//! What the process holds in memory. Source: proc(5).

use std::fs;

/// Resident memory, counted from a beginning.
pub struct Memory {
    before: u64,
}

impl Memory {
    /// What is resident now does not count.
    pub fn begin() -> Self {
        trim();
        Memory { before: status("VmRSS:").unwrap_or(0) }
    }

    /// The highest value from now on is asked for.
    pub fn reset_peak() {
        // Where this is not allowed, the highest value of the process stays: too much, never too
        // little.
        let _ = fs::write("/proc/self/clear_refs", "5");
    }

    /// Bytes at the highest since the last reset, above the beginning.
    pub fn peak(&self) -> u64 {
        status("VmHWM:").unwrap_or(0).saturating_sub(self.before)
    }
}

/// What the allocator keeps of an earlier run would count as there before, and be used by this one.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    // SAFETY: takes a number, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
