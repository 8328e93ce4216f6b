//! cuFile's statistics: number of I/Os of each GPU by data path (P2PDMA, nvidia-fs or POSIX).
//!
//! The size of the structs depends on cuFile's version. The library writes into a buffer larger
//! than any of them, which is then read at the offsets of the loaded version.

use super::{Driver, done};

/// Statistics level 3: all counters, including those of each GPU.
const LEVEL: i32 = 3;
/// Maximum number of GPUs in statistics of level 3.
const GPUS_MAX: usize = 16;
/// Size of the buffer in 64-bit words; no version writes as much.
const ROOM_WORDS: usize = 2048;

/// Offsets of fields in the statistics of one cuFile version, in 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Offset of the number of GPUs, a 32-bit integer.
    gpus: usize,
}

/// Layouts with the first cuFile version that uses them, as 1000 * major + 10 * minor. The level-1
/// struct has the same first fields in all versions, but its size differs.
const LAYOUTS: [(i32, Layout); 2] =
    [(1150, Layout { gpus: 1024 / 8 }), (1190, Layout { gpus: 1136 / 8 })];

/// Size of the struct of one GPU, in 64-bit words.
const GPU_WORDS: usize = 31;
/// Offsets in the struct of one GPU, in 64-bit words. `READS` and `WRITES` count operations by
/// P2PDMA, nvidia-fs and POSIX.
const READ_BYTES: usize = 2;
const READS: [usize; 3] = [7, 8, 9];
const WRITE_BYTES: usize = 15;
const WRITES: [usize; 3] = [20, 21, 22];
/// Offsets in the level-1 struct of the counters of batch submissions by path, in 64-bit words. The
/// word after each counts failures.
const BATCH_NVFS: usize = 40;
const BATCH_P2P: usize = 42;
const BATCH_AIO: usize = 44;
const BATCH_URING: usize = 46;

/// Counters of one GPU since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOps {
    /// UUID of the GPU to which the counters belong.
    pub uuid: [u8; 16],
    /// I/Os by the kernel's PCI peer-to-peer DMA (P2PDMA).
    pub p2p: u64,
    /// I/Os through the kernel module nvidia-fs.
    pub nvfs: u64,
    /// I/Os through host memory (compatibility mode).
    pub posix: u64,
    /// Bytes moved by all paths.
    pub bytes: u64,
}

/// Number of batch submissions by data path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchOps {
    /// Submissions by the kernel's PCI peer-to-peer DMA.
    pub p2p: u64,
    /// Submissions through the kernel module nvidia-fs.
    pub nvfs: u64,
    /// Submissions through host memory (compatibility mode).
    pub posix: u64,
}

/// Counters of cuFile that storlab uses.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Counters of each GPU.
    pub gpus: Vec<GpuOps>,
    /// Counters of batch submissions over all GPUs.
    pub batches: BatchOps,
}

fn layout_of(version: i32) -> Option<Layout> {
    LAYOUTS.iter().rev().find(|(since, _)| version >= *since).map(|&(_, layout)| layout)
}

fn parse(words: &[u64; ROOM_WORDS], layout: Layout) -> Option<Stats> {
    let count = words[layout.gpus] as u32 as usize;
    if count > GPUS_MAX {
        return None;
    }
    let gpus = words[layout.gpus + 1..].chunks_exact(GPU_WORDS).take(count);
    let gpu = |gpu: &[u64]| {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&gpu[0].to_le_bytes());
        uuid[8..].copy_from_slice(&gpu[1].to_le_bytes());
        let both = |way: usize| gpu[READS[way]].wrapping_add(gpu[WRITES[way]]);
        let bytes = gpu[READ_BYTES].wrapping_add(gpu[WRITE_BYTES]);
        GpuOps { uuid, p2p: both(0), nvfs: both(1), posix: both(2), bytes }
    };
    let posix = words[BATCH_AIO].wrapping_add(words[BATCH_URING]);
    let batches = BatchOps { p2p: words[BATCH_P2P], nvfs: words[BATCH_NVFS], posix };
    Some(Stats { gpus: gpus.map(gpu).collect(), batches })
}

impl Driver {
    /// Start counting. Return false if this version cannot count, or its struct layout is unknown.
    pub fn count(&self) -> bool {
        let functions = &self.cufile().functions;
        let (Some(level), Some(start)) = (functions.stats_level, functions.stats_start) else {
            return false;
        };
        // SAFETY: the function takes a number.
        let set = done(unsafe { level(LEVEL) }).is_ok();
        // SAFETY: the function takes no arguments.
        set && done(unsafe { start() }).is_ok() && self.stats().is_some()
    }

    /// Read all counters; `None` if this version has none or its struct layout is unknown.
    pub fn stats(&self) -> Option<Stats> {
        let layout = layout_of(self.cufile().version()?)?;
        let function = self.cufile().functions.stats_l3?;
        let mut words = Box::new([0u64; ROOM_WORDS]);
        // SAFETY: the buffer is three times as large as the most that a supported version writes.
        done(unsafe { function(words.as_mut_ptr()) }).ok()?;
        parse(&words, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(layout: Layout) -> Box<[u64; ROOM_WORDS]> {
        let mut words = Box::new([0u64; ROOM_WORDS]);
        words[layout.gpus] = 2 | 7 << 32; // the upper half is padding
        let second = layout.gpus + 1 + GPU_WORDS;
        words[second] = u64::from_le_bytes(*b"abcdefgh");
        words[second + 1] = u64::from_le_bytes(*b"ijklmnop");
        for (at, value) in
            [(2, 100), (7, 1), (8, 2), (9, 3), (15, 50), (20, 10), (21, 20), (22, 30)]
        {
            words[second + at] = value;
        }
        words
    }

    #[test]
    fn both_layouts_are_read() {
        for version in [1150, 1181, 1190, 1200] {
            let layout = layout_of(version).unwrap();
            let stats = parse(&counted(layout), layout).unwrap();
            let uuid = *b"abcdefghijklmnop";
            let second = GpuOps { uuid, p2p: 11, nvfs: 22, posix: 33, bytes: 150 };
            assert_eq!(stats.gpus, [GpuOps::default(), second]);
        }
        assert_eq!(layout_of(1181), layout_of(1150));
        assert_ne!(layout_of(1190), layout_of(1180));
        assert_eq!(layout_of(1140), None);
    }

    #[test]
    fn counters_of_an_unknown_layout_are_not_believed() {
        let layout = layout_of(1200).unwrap();
        let mut words = counted(layout);
        words[layout.gpus] = 17;
        assert!(parse(&words, layout).is_none());
    }
}
