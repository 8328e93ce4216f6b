//! I/O buffers: one aligned memory mapping, divided into slots of equal size. It uses huge pages if
//! the kernel provides them.
//!
//! Page faults on first touch cost more CPU time than the I/O itself. Mappings are therefore
//! cached, and later runs of the process reuse them.

#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Mutex;

use memmap2::{Advice, MmapMut, MmapRaw};

/// Size in bytes of a huge page on x86-64, and on aarch64 with 4 KiB pages. If the kernel's huge
/// pages are larger, a small mapping gets none, which does no harm.
const HUGE_PAGE: usize = 2 << 20;
/// Size in bytes up to which a mapping uses no huge page. The first touch of a huge page clears all
/// of it, so a thousand workers with a few blocks each would wait for gigabytes that they never
/// use.
const SMALL: usize = HUGE_PAGE / 4;
const SMALLEST: usize = 64 << 10;
/// Alignment of the slots in bytes, sufficient for O_DIRECT on every device. The page size is not
/// used, because 64 KiB pages would waste most of each slot.
const ALIGNMENT: usize = 4096;
/// Limit in bytes for all cached mappings of the process together.
const CACHE_BYTES: usize = 2 << 30;

static CACHE: Mutex<Vec<MmapRaw>> = Mutex::new(Vec::new());

fn map(bytes: usize) -> io::Result<MmapRaw> {
    let mapping = MmapRaw::from(MmapMut::map_anon(bytes)?);
    if bytes >= HUGE_PAGE {
        // Huge pages are optional, so an error of madvise is ignored.
        let _ = mapping.advise(Advice::HugePage);
    }
    Ok(mapping)
}

/// Return the length to map for `bytes` bytes of buffers, rounded up so that mappings can be
/// reused.
fn length_of(bytes: usize) -> usize {
    if bytes <= SMALL {
        return bytes.max(SMALLEST).next_power_of_two();
    }
    bytes.next_multiple_of(HUGE_PAGE)
}

/// Memory for I/O buffers, divided into aligned slots of equal size.
pub struct Arena {
    mapping: ManuallyDrop<MmapRaw>,
    slot_bytes: usize,
    stride: usize,
    slots: usize,
}

impl Arena {
    /// Create `slots` buffers of `slot_bytes` bytes each, aligned to 4 KiB.
    ///
    /// # Errors
    /// The error of `mmap`, such as too little memory.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let stride = slot_bytes.next_multiple_of(ALIGNMENT);
        let bytes = length_of(stride * slots.max(1));
        let mapping = match Self::cached(bytes) {
            Some(mapping) => mapping,
            None => map(bytes)?,
        };
        Ok(Arena { mapping: ManuallyDrop::new(mapping), slot_bytes, stride, slots })
    }

    fn cached(bytes: usize) -> Option<MmapRaw> {
        let mut cache = CACHE.lock().ok()?;
        let fits = |m: &MmapRaw| (bytes..=bytes * 2).contains(&m.len());
        let (at, _) =
            cache.iter().enumerate().filter(|(_, m)| fits(m)).min_by_key(|(_, m)| m.len())?;
        Some(cache.swap_remove(at))
    }

    /// Return the number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Return the usable size of a slot in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Return the address of the first byte of a slot.
    ///
    /// # Panics
    /// If the slot number is too high.
    #[inline]
    pub fn address(&self, slot: u32) -> *mut u8 {
        let at = slot as usize * self.stride;
        assert!((slot as usize) < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: `at` lies inside the mapping, which has at least `slots * stride` bytes.
        unsafe { self.mapping.as_mut_ptr().add(at) }
    }

    /// Return the address of byte `at` of a slot, after a check that `len` bytes from there lie
    /// within the slot.
    ///
    /// # Panics
    /// If the bytes exceed the slot. Release builds check this too, because the kernel would write
    /// past the slot.
    #[inline]
    pub fn part(&self, slot: u32, at: u32, len: u32) -> *mut u8 {
        let end = at as usize + len as usize;
        assert!(
            end <= self.slot_bytes,
            "bytes {at} to {end} of a slot of {} bytes",
            self.slot_bytes
        );
        // SAFETY: `at` lies inside the slot, which lies inside the mapping.
        unsafe { self.address(slot).add(at as usize) }
    }

    /// Return the bytes of a slot as a mutable slice.
    ///
    /// # Safety
    /// While the slice lives, no operation on the slot may be in flight, because the kernel would
    /// write to it at the same time. No other slice of the slot may exist.
    #[inline]
    #[allow(clippy::mut_from_ref)] // the caller guarantees that no other slice of the slot exists
    pub unsafe fn slot_mut(&self, slot: u32) -> &mut [u8] {
        // SAFETY: `address` checks the bounds, and the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.address(slot), self.slot_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `self.mapping` is not used after this.
        let mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
        if let Ok(mut cache) = CACHE.lock() {
            let kept: usize = cache.iter().map(MmapRaw::len).sum();
            if kept + mapping.len() <= CACHE_BYTES {
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
        let arena = Arena::new(5, 6000).unwrap();
        for slot in 0..5 {
            assert_eq!(arena.address(slot) as usize % ALIGNMENT, 0);
            // SAFETY: no I/O is in flight here.
            unsafe { arena.slot_mut(slot) }.fill(slot as u8);
        }
        for slot in 0..5 {
            // SAFETY: as above.
            assert!(unsafe { arena.slot_mut(slot) }.iter().all(|&b| b == slot as u8));
        }
    }

    #[test]
    fn a_few_blocks_take_no_huge_page() {
        assert_eq!(length_of(0), SMALLEST);
        assert_eq!(length_of(2 * 4096), SMALLEST);
        assert_eq!(length_of(SMALL - 4096), SMALL);
        assert_eq!(length_of(SMALL + 4096), HUGE_PAGE);
        assert_eq!(length_of(HUGE_PAGE + 4096), 2 * HUGE_PAGE);
        assert!(Arena::new(2, 4096).unwrap().mapping.len() < HUGE_PAGE);
    }

    #[test]
    #[should_panic(expected = "slot 5")]
    fn a_slot_out_of_bounds_is_refused() {
        let arena = Arena::new(5, 4096).unwrap();
        arena.address(5);
    }
}
