//! Order in which an accelerator reads the samples of an epoch.

use rand_core::Rng as _;
use storlab_base::stream;

use super::spec::{Shuffle, TrainingJob};

/// Consecutive samples of one file that belong to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the file in the data set.
    pub file: u64,
    /// Index of the first sample in the file.
    pub first: u64,
    /// Number of samples.
    pub samples: u64,
}

/// Order of the files in an epoch, for one accelerator. All files are divided into contiguous
/// shards of equal length, one per accelerator.
pub struct Epoch {
    files: Vec<u64>,
    samples_per_file: u64,
    /// First sample of the accelerator's shard, counted in the order of `files`.
    begin: u64,
    batch: u64,
}

impl Epoch {
    /// Create the order in which accelerator `index` reads samples in epoch `number` (from 0).
    pub fn new(job: &TrainingJob, number: u32, index: usize) -> Self {
        let seed = job.seed;
        let shuffled = |files: &mut Vec<u64>| match job.shuffle {
            Shuffle::None => {}
            Shuffle::Same => permute(files, seed, 0),
            Shuffle::Epoch => permute(files, seed, u64::from(number)),
        };
        let mut files: Vec<u64> = (0..job.records.files).collect();
        let shard = job.shard();
        let per_file = job.records.samples_per_file;
        let mut begin = shard * index as u64;
        if job.reshard || job.shuffle == Shuffle::None {
            shuffled(&mut files);
        } else {
            // The accelerator reads the same files in every epoch. So keep only the files that
            // contain its shard, as whole files.
            let (from, to) = (begin / per_file, (begin + shard).div_ceil(per_file));
            files = files[from as usize..to as usize].to_vec();
            shuffled(&mut files);
            begin = 0;
        }
        Epoch { files, samples_per_file: per_file, begin, batch: job.batch }
    }

    /// Return the pieces of files that form batch `number`, in order.
    pub fn batch(&self, number: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = self.begin + number * self.batch;
        let end = at + self.batch;
        while at < end {
            let (place, first) = (at / self.samples_per_file, at % self.samples_per_file);
            let samples = (self.samples_per_file - first).min(end - at);
            pieces.push(Piece { file: self.files[place as usize], first, samples });
            at += samples;
        }
        pieces
    }
}

/// Shuffle the files by the method of Fisher and Yates.
fn permute(files: &mut [u64], seed: u64, epoch: u64) {
    let mut rng = stream(seed, "epoch", epoch);
    for i in (1..files.len()).rev() {
        let bound = i as u64 + 1;
        let drawn = ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as usize;
        files.swap(i, drawn);
    }
}
