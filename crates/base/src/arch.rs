//! What depends on processor and kernel beside the clock, whose branch lies in `clock`.
//!
//! What is written for x86-64 is compiled there only. The portable branch beside it serves every
//! other processor, and x86-64, too, where tests ask for it as they run.

#![allow(unsafe_code)]

/// Bytes of a page, as the kernel of this machine has them: 4 KiB, or 16 or 64 KiB on some aarch64.
///
/// For what the kernel counts or pins in pages. What storage wants of offsets and addresses is
/// another matter: that is 4,096 at most, whatever the pages.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// In the environment of tests: the branches of every other processor are taken on this one, too.
pub(crate) const PORTABLE: &str = "STORLAB_TEST_PORTABLE";

/// Whether what is written for x86-64 is used. Builds for tests can be told that it is not.
pub(crate) fn is_x86_64() -> bool {
    cfg!(target_arch = "x86_64")
        && !(cfg!(debug_assertions) && std::env::var_os(PORTABLE).is_some())
}

/// Ask for the first cache line of something before it is needed. Portable: nothing, and the
/// processor looks ahead by itself as far as it does.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint to the cache: it neither reads nor writes, and SSE is part of x86-64.
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
