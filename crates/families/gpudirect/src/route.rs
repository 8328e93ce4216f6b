//! Proof of the data path that I/Os took: cuFile's counters before and after the load, or those of
//! nvidia-fs if cuFile has none.

use serde::Serialize;

use crate::cufile::{BatchOps, GpuOps, Stats};
use crate::spec::Route;
use crate::stack::Stack;

const NVFS_STATS: &str = "/proc/driver/nvidia-fs/stats";
const NVFS_DISABLED: &str = "IO stats: Disabled";
const MIB: u64 = 1 << 20;

/// Counters of cuFile and nvidia-fs at one time.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    cufile: Option<Stats>,
    /// Bytes moved by nvidia-fs, for the whole machine.
    nvfs: Option<u64>,
}

impl Counters {
    /// Read the counters now; empty if cuFile's driver is not open.
    pub fn read(stack: &Stack) -> Self {
        let Some(driver) = &stack.driver else { return Counters::default() };
        let cufile = if stack.counts { driver.stats() } else { None };
        let text = std::fs::read_to_string(NVFS_STATS).ok();
        Counters { cufile, nvfs: text.as_deref().and_then(nvfs_bytes) }
    }
}

/// Parse nvidia-fs's statistics, such as `Reads : n=9 ok=9 err=0 readMiB=36 ...`. Return the number
/// of bytes read and written; `None` if the statistics are disabled.
fn nvfs_bytes(text: &str) -> Option<u64> {
    if text.contains(NVFS_DISABLED) {
        return None;
    }
    let of = |word: &str| {
        let mut values = text.split_whitespace().filter_map(|part| part.strip_prefix(word));
        values.find_map(|value| value.parse::<u64>().ok())
    };
    Some((of("readMiB=")? + of("writeMiB=")?) * MIB)
}

/// Number of I/Os of one GPU by data path, and the bytes that they moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuRoute {
    number: u32,
    p2p_ops: u64,
    nvfs_ops: u64,
    posix_ops: u64,
    bytes: u64,
}

/// Bytes of the load by data path, with the source of the counters (`by`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    asked: &'static str,
    bytes: u64,
    p2p_bytes: u64,
    nvfs_bytes: u64,
    posix_bytes: u64,
    by: &'static str,
    gpus: Vec<GpuRoute>,
}

/// Ordinal of a GPU, and its UUID in cuFile's statistics.
pub type Named = (u32, Option<[u8; 16]>);

impl Proof {
    /// Derive which data paths a load took, from the counters before and after it. The load moved
    /// `bytes` bytes to or from `gpus`.
    pub fn of(
        asked: Route,
        bytes: u64,
        gpus: &[Named],
        before: Option<&Counters>,
        after: &Counters,
    ) -> Self {
        let mut proof = Proof {
            asked: asked.name(),
            bytes,
            p2p_bytes: 0,
            nvfs_bytes: 0,
            posix_bytes: 0,
            by: "none",
            gpus: Vec::new(),
        };
        let Some(before) = before else { return proof };
        if let (Some(begin), Some(end)) = (&before.cufile, &after.cufile) {
            proof.count(gpus, begin, end);
        } else if let (Some(begin), Some(end)) = (before.nvfs, after.nvfs) {
            proof.apply_nvfs_count(end.saturating_sub(begin));
        }
        proof
    }

    /// Split the load's bytes by nvidia-fs's counters, which are in whole MiB for reads and for
    /// writes.
    ///
    /// Bytes that nvidia-fs did not count went through host memory (POSIX). But if fewer than 2 MiB
    /// are missing, that may be rounding: they count as direct if they are at most 1 % of the load,
    /// otherwise the counters prove nothing.
    fn apply_nvfs_count(&mut self, counted: u64) {
        let missing = self.bytes.saturating_sub(counted);
        let hidden = missing < 2 * MIB;
        if hidden && missing > self.bytes / 100 {
            return;
        }
        self.by = "nvidia-fs";
        self.posix_bytes = if hidden { 0 } else { missing };
        self.nvfs_bytes = self.bytes - self.posix_bytes;
    }

    fn count(&mut self, gpus: &[Named], begin: &Stats, end: &Stats) {
        self.by = "cufile";
        for (place, now) in end.gpus.iter().enumerate() {
            let then = begin.gpus.iter().find(|then| then.uuid == now.uuid);
            let used = difference(now, then);
            if used == (GpuOps { uuid: now.uuid, ..GpuOps::default() }) {
                continue;
            }
            let [p2p, nvfs, posix] = parts(used.bytes, [used.p2p, used.nvfs, used.posix]);
            self.p2p_bytes += p2p;
            self.nvfs_bytes += nvfs;
            self.posix_bytes += posix;
            let named = gpus.iter().find(|(_, uuid)| *uuid == Some(now.uuid));
            self.gpus.push(GpuRoute {
                number: named.map_or(place as u32, |(number, _)| *number),
                p2p_ops: used.p2p,
                nvfs_ops: used.nvfs,
                posix_ops: used.posix,
                bytes: used.bytes,
            });
        }
        if self.p2p_bytes + self.nvfs_bytes + self.posix_bytes == 0 {
            // Some versions of cuFile count batch submissions only as a sum over all GPUs.
            let of = |stats: &BatchOps| [stats.p2p, stats.nvfs, stats.posix];
            let (now, then) = (of(&end.batches), of(&begin.batches));
            let ops = std::array::from_fn(|way| now[way].saturating_sub(then[way]));
            [self.p2p_bytes, self.nvfs_bytes, self.posix_bytes] = parts(self.bytes, ops);
        }
    }
}

fn difference(now: &GpuOps, then: Option<&GpuOps>) -> GpuOps {
    let none = GpuOps::default();
    let then = then.unwrap_or(&none);
    GpuOps {
        uuid: now.uuid,
        p2p: now.p2p.saturating_sub(then.p2p),
        nvfs: now.nvfs.saturating_sub(then.nvfs),
        posix: now.posix.saturating_sub(then.posix),
        bytes: now.bytes.saturating_sub(then.bytes),
    }
}

/// Split bytes among the data paths by their numbers of operations, assuming the same mean size on
/// all paths.
fn parts(bytes: u64, ops: [u64; 3]) -> [u64; 3] {
    let all: u64 = ops.iter().sum();
    if all == 0 {
        return [0; 3];
    }
    let mut parts = ops.map(|ops| (u128::from(bytes) * u128::from(ops) / u128::from(all)) as u64);
    // The remainder of the division goes to the path with the most operations.
    let rest = bytes - parts.iter().sum::<u64>();
    let most = (0..3).max_by_key(|&way| ops[way]).unwrap_or(0);
    parts[most] += rest;
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 16] = *b"aaaaaaaaaaaaaaaa";
    const B: [u8; 16] = *b"bbbbbbbbbbbbbbbb";

    fn counters(gpus: &[GpuOps], batches: BatchOps) -> Counters {
        Counters { cufile: Some(Stats { gpus: gpus.to_vec(), batches }), nvfs: Some(0) }
    }

    fn ops(uuid: [u8; 16], p2p: u64, nvfs: u64, posix: u64, bytes: u64) -> GpuOps {
        GpuOps { uuid, p2p, nvfs, posix, bytes }
    }

    #[test]
    fn bytes_are_split_by_the_operations_of_each_gpu() {
        let none = BatchOps::default();
        let before = counters(&[ops(A, 10, 0, 0, 1000)], none);
        let after = counters(&[ops(A, 10, 90, 10, 401_000), ops(B, 5, 0, 0, 20_000)], none);
        let gpus = [(3, Some(B)), (1, Some(A))];
        let proof = Proof::of(Route::Direct, 420_000, &gpus, Some(&before), &after);
        assert_eq!(
            (proof.p2p_bytes, proof.nvfs_bytes, proof.posix_bytes),
            (20_000, 360_000, 40_000)
        );
        assert_eq!((proof.by, proof.gpus[0].number, proof.gpus[1].number), ("cufile", 1, 3));
        assert_eq!(proof.gpus[0].nvfs_ops, 90);
    }

    #[test]
    fn batches_that_no_gpu_counts_are_counted_as_batches() {
        let before = counters(&[], BatchOps { p2p: 1, nvfs: 0, posix: 0 });
        let after = counters(&[], BatchOps { p2p: 4, nvfs: 0, posix: 1 });
        let proof = Proof::of(Route::Direct, 4000, &[], Some(&before), &after);
        assert_eq!((proof.p2p_bytes, proof.posix_bytes), (3000, 1000));
    }

    #[test]
    fn nvidia_fs_tells_where_cufile_cannot() {
        let text = "GDS Version: 1.7\nReads : n=9 ok=9 err=0 readMiB=36 io_state_err=0\n\
                    Writes : n=1 ok=1 err=0 writeMiB=4 io_state_err=0\n";
        assert_eq!(nvfs_bytes(text), Some(40 * MIB));
        assert_eq!(nvfs_bytes(&format!("IO stats: Enabled\n{text}")), Some(40 * MIB));
        assert_eq!(nvfs_bytes(&format!("IO stats: Disabled\n{text}")), None);
        let proof = |bytes| {
            let counters = |nvfs| Counters { cufile: None, nvfs: Some(nvfs * MIB) };
            Proof::of(Route::Direct, bytes, &[], Some(&counters(50)), &counters(450))
        };
        let (all, some) = (proof(401 * MIB), proof(1000 * MIB));
        assert_eq!((all.nvfs_bytes, all.posix_bytes), (401 * MIB, 0));
        assert_eq!((some.nvfs_bytes, some.posix_bytes), (400 * MIB, 600 * MIB));
        assert_eq!((all.by, proof(MIB).by), ("nvidia-fs", "nvidia-fs"));
    }

    #[test]
    fn counters_of_whole_mib_prove_nothing_of_a_load_of_a_few() {
        let proof = |bytes, counted| {
            let counters = |nvfs| Counters { cufile: None, nvfs: Some(nvfs) };
            Proof::of(Route::Direct, bytes, &[], Some(&counters(0)), &counters(counted))
        };
        for (bytes, counted) in [(MIB, 0), (5 * MIB / 2, MIB), (41 * MIB, 40 * MIB)] {
            let proof = proof(bytes, counted);
            assert_eq!((proof.by, proof.nvfs_bytes), ("none", 0), "{bytes} {counted}");
        }
        assert_eq!(proof(41 * MIB, 41 * MIB).by, "nvidia-fs");
    }

    #[test]
    fn nobody_counts_where_nobody_can() {
        let proof = Proof::of(Route::Host, 7, &[], None, &Counters::default());
        assert_eq!((proof.by, proof.bytes, proof.posix_bytes), ("none", 7, 0));
    }

    #[test]
    fn parts_add_up() {
        assert_eq!(parts(100, [1, 1, 1]).iter().sum::<u64>(), 100);
        assert_eq!(parts(100, [0, 0, 0]), [0; 3]);
        assert_eq!(parts(u64::MAX, [0, 3, 0]), [0, u64::MAX, 0]);
    }
}
