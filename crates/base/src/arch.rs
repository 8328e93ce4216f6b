//! Code that depends on the processor or on the kernel's page size, except reading the clock (see
//! `clock`).
//!
//! Code for x86-64 is compiled on x86-64 only. All other processors run a portable branch. Tests
//! can select that branch on x86-64 as well, at run time.

#![allow(unsafe_code)]

/// Return the page size of the running kernel in bytes: 4 KiB, or 16 or 64 KiB on some aarch64
/// systems.
///
/// Use it for memory that the kernel counts or pins in pages. The alignment that storage needs does
/// not depend on it and is at most 4,096 bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Environment variable by which tests select the portable branches on x86-64.
pub(crate) const PORTABLE: &str = "STORLAB_TEST_PORTABLE";

/// Return whether the code for x86-64 is used. In debug builds the environment variable
/// [`PORTABLE`] switches it off.
pub(crate) fn is_x86_64() -> bool {
    cfg!(target_arch = "x86_64")
        && !(cfg!(debug_assertions) && std::env::var_os(PORTABLE).is_some())
}

/// Prefetch the first cache line of `place` into the L1 cache. Does nothing on processors other
/// than x86-64.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch hint neither reads nor writes memory, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_what_the_kernel_maps_in() {
        let bytes = page_bytes();
        assert!(bytes >= 4096 && bytes.is_power_of_two(), "{bytes}");
        let told = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let line = told.lines().find(|line| line.starts_with("KernelPageSize:")).unwrap();
        assert_eq!(line.split_whitespace().nth(1).unwrap(), (bytes / 1024).to_string());
    }
}
