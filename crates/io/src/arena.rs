//! Buffers: one aligned mapping cut into equal slots, on huge pages where the kernel has them to
//! give.
//!
//! First-touch page faults cost more CPU than the I/O itself, so mappings are kept and reused by
//! later runs of the process.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;

const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// Kept for reuse at most, over all runs of the process.
const CACHE_BYTES: usize = 2 << 30;

struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory with one owner; nothing in it is bound to a thread.
unsafe impl Send for Mapping {}

static CACHE: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing
        // memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if bytes >= HUGE_PAGE {
            // SAFETY: advice on our own mapping; refusal does no harm.
            unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave 0"))?;
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Equal slots of aligned memory.
pub struct Arena {
    mapping: Option<Mapping>,
    slot_bytes: usize,
    stride: usize,
    slots: usize,
}

impl Arena {
    /// `slots` buffers of `slot_bytes` each, aligned to 4 KiB.
    ///
    /// # Errors
    /// The kernel's, when there is no memory.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let stride = slot_bytes.next_multiple_of(PAGE);
        let bytes = (stride * slots.max(1)).next_multiple_of(HUGE_PAGE);
        let mapping = match Self::cached(bytes) {
            Some(mapping) => mapping,
            None => Mapping::new(bytes)?,
        };
        Ok(Arena { mapping: Some(mapping), slot_bytes, stride, slots })
    }

    fn cached(bytes: usize) -> Option<Mapping> {
        let mut cache = CACHE.lock().ok()?;
        let fits = |m: &Mapping| m.bytes >= bytes && m.bytes <= bytes * 2;
        let (at, _) =
            cache.iter().enumerate().filter(|(_, m)| fits(m)).min_by_key(|(_, m)| m.bytes)?;
        Some(cache.swap_remove(at))
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Address of a slot.
    pub(crate) fn address(&self, slot: u32) -> *mut u8 {
        let at = slot as usize * self.stride;
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        match &self.mapping {
            // SAFETY: `at` lies inside the mapping, which is `slots * stride` bytes or more.
            Some(mapping) => unsafe { mapping.start.as_ptr().add(at) },
            None => std::ptr::null_mut(),
        }
    }

    /// Address of `len` bytes in a slot, from `at` on.
    ///
    /// # Panics
    /// Where they do not lie in the slot, in every build: the kernel would write past it.
    #[inline]
    pub(crate) fn part(&self, slot: u32, at: u32, len: u32) -> *mut u8 {
        let end = at as usize + len as usize;
        assert!(
            end <= self.slot_bytes,
            "bytes {at} to {end} of a slot of {} bytes",
            self.slot_bytes
        );
        // SAFETY: `at` lies inside the slot, which lies inside the mapping.
        unsafe { self.address(slot).add(at as usize) }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    /// No operation on the slot may be in flight: the kernel would write to it at the same time.
    pub unsafe fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        // SAFETY: in bounds by `address`; exclusive by the caller's promise and `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), self.slot_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        if let Ok(mut cache) = CACHE.lock() {
            let kept: usize = cache.iter().map(|m| m.bytes).sum();
            if kept + mapping.bytes <= CACHE_BYTES {
                cache.push(mapping);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut arena = Arena::new(5, 6000).unwrap();
        for slot in 0..5 {
            assert_eq!(arena.address(slot) as usize % PAGE, 0);
            // SAFETY: no I/O is in flight here.
            unsafe { arena.slot_mut(slot) }.fill(slot as u8);
        }
        for slot in 0..5 {
            // SAFETY: as above.
            assert!(unsafe { arena.slot_mut(slot) }.iter().all(|&b| b == slot as u8));
        }
    }

    #[test]
    #[should_panic(expected = "slot 5")]
    fn a_slot_out_of_bounds_is_refused() {
        let arena = Arena::new(5, 4096).unwrap();
        arena.address(5);
    }
}
