//! Resident memory of the process. Source: proc(5).

use std::fs;

/// Resident memory of the process, relative to a baseline.
pub struct Memory {
    before: u64,
}

impl Memory {
    /// Use the current resident memory as the baseline.
    pub fn begin() -> Self {
        trim();
        Memory { before: status("VmRSS:").unwrap_or(0) }
    }

    /// Reset the kernel's peak of resident memory to the current value.
    pub fn reset_peak() {
        // If this is not permitted, the peak since the start of the process remains, which is too
        // high.
        let _ = fs::write("/proc/self/clear_refs", "5");
    }

    /// Return the peak of resident memory since the last reset, in bytes above the baseline.
    pub fn peak(&self) -> u64 {
        status("VmHWM:").unwrap_or(0).saturating_sub(self.before)
    }
}

/// Return the allocator's free memory to the kernel. Memory kept from an earlier run would count
/// into the baseline, although this run uses it again, so the peak would be too low.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    // SAFETY: malloc_trim takes a number, no pointer, and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
