//! What is written: incompressible and unique, unless a share is asked to be otherwise.
//!
//! A job's pool of buffers is filled once, before the load. While it runs, only 16 bytes at the
//! start of each chunk change, so that no chunk is ever written twice. Deduplication in units
//! smaller than [`CHUNK_BYTES`] would find the rest of a chunk again when its slot is used again.

use rand_core::Rng as _;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::random::{Rng, stream};
use crate::stamped::{CHUNK_BYTES, ODD, ODD_2, STAMP_BYTES, mix};

/// Duplicates are copies of one of so many chunks: a power of two.
const REFERENCES: u64 = 16;

/// The plastic number's powers as shares of 2^64: slot times the one plus chunk times the
/// other is as even a sequence as there can be (Roberts 2018, the R2 sequence), so that small pools
/// keep the asked share too.
const SLOT_STEP: u64 = 0xc13f_a9a9_02a6_328f;
const CHUNK_STEP: u64 = 0x91e1_0da5_c79e_7b1d;

/// `Payload` of `storlab/model/job.py`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct PayloadSpec {
    /// Share of each chunk that is zeros, in one run at its end, percent.
    pub compress_percent: f64,
    /// Share of the chunks that repeat, percent.
    pub dedupe_percent: f64,
}

/// The payload of one job.
#[derive(Clone, Debug)]
pub struct Payload {
    seed: u64,
    job: u64,
    zeros_share: f64,
    /// Chunks whose place in the sequence is at most this are duplicates; None: no chunk is.
    duplicate_up_to: Option<u64>,
    sequence_start: u64,
    stamp_low: u64,
    stamp_high: u64,
}

impl Payload {
    /// The payload of `job` (below 2^32) under `seed`.
    ///
    /// # Errors
    /// [`Error::Spec`] where a share is not within 0 and 100 percent.
    pub fn new(spec: &PayloadSpec, seed: u64, job: u64) -> Result<Payload> {
        let zeros_share = share("payload.compress_percent", spec.compress_percent)?;
        let duplicates = share("payload.dedupe_percent", spec.dedupe_percent)?;
        let mut random = stream(seed, "payload-stamp", 0);
        Ok(Payload {
            seed,
            job,
            zeros_share,
            duplicate_up_to: (duplicates > 0.0)
                .then_some((duplicates * 18_446_744_073_709_551_616.0) as u64),
            sequence_start: stream(seed, "payload-duplicates", job).next_u64(),
            stamp_low: random.next_u64() ^ mix(job),
            stamp_high: random.next_u64().wrapping_add((job << 32).wrapping_mul(ODD_2)),
        })
    }

    /// Fills slot `slot` of the pool: once, before the load.
    pub fn fill(&self, slot: usize, buffer: &mut [u8]) {
        let mut own = stream(self.seed, "payload-body", mix((self.job << 32) | slot as u64));
        let mut place = self.first_place(slot);
        for chunk in buffer.chunks_mut(CHUNK_BYTES) {
            let body = chunk.len() - (chunk.len() as f64 * self.zeros_share).round() as usize;
            let (body, zeros) = chunk.split_at_mut(body);
            if self.duplicate_up_to.is_some_and(|limit| place <= limit) {
                let reference = place.wrapping_mul(ODD) / (u64::MAX / REFERENCES + 1);
                fill_random(&mut stream(self.seed, "payload-reference", reference), body);
            } else {
                fill_random(&mut own, body);
            }
            zeros.fill(0);
            place = place.wrapping_add(CHUNK_STEP);
        }
    }

    /// Makes `buffer`, the first bytes of slot `slot`, different from everything else that any job
    /// writes: `serial` must be new in each call of a job.
    #[inline]
    pub fn stamp(&self, slot: usize, buffer: &mut [u8], serial: u64) {
        // (job, chunk) sets `high`, and given `high` the serial sets `low`: both steps are
        // one-to-one.
        let mut low = mix(serial ^ self.stamp_low);
        let mut high = self.stamp_high;
        if let Some(limit) = self.duplicate_up_to {
            let mut place = self.first_place(slot);
            for chunk in buffer.chunks_mut(CHUNK_BYTES) {
                if place > limit {
                    put(chunk, low, high);
                }
                place = place.wrapping_add(CHUNK_STEP);
                low = low.wrapping_add(ODD);
                high = high.wrapping_add(ODD_2);
            }
        } else if buffer.len() <= CHUNK_BYTES {
            put(buffer, low, high);
        } else {
            for chunk in buffer.chunks_mut(CHUNK_BYTES) {
                put(chunk, low, high);
                low = low.wrapping_add(ODD);
                high = high.wrapping_add(ODD_2);
            }
        }
    }

    #[inline]
    fn first_place(&self, slot: usize) -> u64 {
        self.sequence_start.wrapping_add((slot as u64).wrapping_mul(SLOT_STEP))
    }
}

#[inline]
fn put(chunk: &mut [u8], low: u64, high: u64) {
    let stamp = u128::from(low) | (u128::from(high ^ low) << 64);
    if let Some(start) = chunk.first_chunk_mut::<STAMP_BYTES>() {
        *start = stamp.to_le_bytes();
    } else {
        let bytes = stamp.to_le_bytes();
        let len = chunk.len();
        chunk.copy_from_slice(&bytes[..len]);
    }
}

fn fill_random(random: &mut Rng, body: &mut [u8]) {
    let mut words = body.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    random.fill_bytes(words.into_remainder());
}

fn share(field: &str, percent: f64) -> Result<f64> {
    if (0.0..=100.0).contains(&percent) {
        return Ok(percent / 100.0);
    }
    Err(Error::spec(field, format!("is {percent}"), "give 0 to 100"))
}
