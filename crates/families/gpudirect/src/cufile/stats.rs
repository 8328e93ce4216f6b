//! What cuFile counts: for each GPU, how many I/Os took which path.
//!
//! The structs are of other sizes in other versions. What is written is held in memory that is
//! larger than any of them, and read by the version's offsets.

use super::{Driver, done};

/// Everything, with counters for each GPU.
const LEVEL: i32 = 3;
/// GPUs that level 3 has room for.
const GPUS_MAX: usize = 16;
/// In 64-bit words: beyond what any version is known to write.
const ROOM_WORDS: usize = 2048;

/// Where things are, in 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// How many GPUs there are, as 32 bits.
    gpus: usize,
}

/// Of level 1 the first part is the same in all versions; two sizes of it are known.
const LAYOUTS: [(i32, Layout); 2] =
    [(1150, Layout { gpus: 1024 / 8 }), (1190, Layout { gpus: 1136 / 8 })];

/// Of one GPU's struct.
const GPU_WORDS: usize = 31;
/// In it.
const READ_BYTES: usize = 2;
const READS: [usize; 3] = [7, 8, 9];
const WRITE_BYTES: usize = 15;
const WRITES: [usize; 3] = [20, 21, 22];
/// In level 1, each with its failed ones behind it.
const BATCH_NVFS: usize = 40;
const BATCH_P2P: usize = 42;
const BATCH_AIO: usize = 44;
const BATCH_URING: usize = 46;

/// What one GPU has had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOps {
    /// Whose it is.
    pub uuid: [u8; 16],
    /// By the kernel's DMA between devices.
    pub p2p: u64,
    /// By nvidia-fs.
    pub nvfs: u64,
    /// Through memory of the host.
    pub posix: u64,
    /// Moved.
    pub bytes: u64,
}

/// Batches by the way that they were handed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchOps {
    /// By the kernel's DMA between devices.
    pub p2p: u64,
    /// By nvidia-fs.
    pub nvfs: u64,
    /// Through memory of the host.
    pub posix: u64,
}

/// All counters.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Of each GPU.
    pub gpus: Vec<GpuOps>,
    /// Of batches.
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
    /// Count from now on. False where this version cannot, or its counters are of a layout that is
    /// not known.
    pub fn count(&self) -> bool {
        let functions = &self.cufile().functions;
        let (Some(level), Some(start)) = (functions.stats_level, functions.stats_start) else {
            return false;
        };
        // SAFETY: takes a number.
        let set = done(unsafe { level(LEVEL) }).is_ok();
        // SAFETY: takes nothing.
        set && done(unsafe { start() }).is_ok() && self.stats().is_some()
    }

    /// All counters, where there are some.
    pub fn stats(&self) -> Option<Stats> {
        let layout = layout_of(self.cufile().version()?)?;
        let function = self.cufile().functions.stats_l3?;
        let mut words = Box::new([0u64; ROOM_WORDS]);
        // SAFETY: there is room for three times what the longest version known writes.
        done(unsafe { function(words.as_mut_ptr()) }).ok()?;
        parse(&words, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(layout: Layout) -> Box<[u64; ROOM_WORDS]> {
        let mut words = Box::new([0u64; ROOM_WORDS]);
        words[layout.gpus] = 2 | 7 << 32; // what lies behind the 32 bits is padding
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
