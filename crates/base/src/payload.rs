//! Data to write: incompressible and unique, except for the requested percentages of zeros and
//! duplicates.
//!
//! A job's pool of buffers is filled once, before the load. During the load only 16 bytes at the
//! start of each chunk change, so no chunk is ever written twice. A system that deduplicates in
//! units smaller than [`CHUNK_BYTES`] would still recognise the rest of a chunk when its buffer is
//! written again.

use rand_core::Rng as _;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::random::{Rng, stream};
use crate::stamped::{CHUNK_BYTES, ODD, ODD_2, STAMP_BYTES, mix};

/// Number of reference chunks. Every duplicate is a copy of one of them. Must be a power of two.
const REFERENCES: u64 = 16;

/// Powers of the plastic number as fractions of 2^64. Slot times `SLOT_STEP` plus chunk times
/// `CHUNK_STEP` is a low-discrepancy sequence (Roberts 2018, R2), so even small pools have the
/// requested share of duplicates.
const SLOT_STEP: u64 = 0xc13f_a9a9_02a6_328f;
const CHUNK_STEP: u64 = 0x91e1_0da5_c79e_7b1d;

/// Compressibility and duplicates of the data. Mirrors `Payload` of `storlab/model/job.py`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct PayloadSpec {
    /// Part of each chunk that is zeros, in percent. The zeros are contiguous at the chunk's end.
    pub compress_percent: f64,
    /// Share of chunks that are duplicates, in percent.
    pub dedupe_percent: f64,
}

/// Payload generator of one job.
#[derive(Clone, Debug)]
pub struct Payload {
    seed: u64,
    job: u64,
    zeros_share: f64,
    /// A chunk is a duplicate if its value in the low-discrepancy sequence is at most this; `None`
    /// if no chunk is.
    duplicate_up_to: Option<u64>,
    sequence_start: u64,
    stamp_low: u64,
    stamp_high: u64,
}

impl Payload {
    /// Create the payload generator of job number `job`, which must be below 2^32.
    ///
    /// # Errors
    /// [`Error::Spec`] if a percentage is not between 0 and 100.
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

    /// Fill buffer `slot` of the job's pool. Call this once per buffer, before the load.
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

    /// Change the start of each chunk in `buffer` that is not a duplicate, so that the chunk
    /// differs from all other data that any job writes. `buffer` begins at the start of the pool's
    /// buffer `slot`. `serial` must be new in each call of a job.
    #[inline]
    pub fn stamp(&self, slot: usize, buffer: &mut [u8], serial: u64) {
        // No two stamps are equal: (job, chunk) determines `high`, and for a given `high` the
        // serial determines `low`. Both mappings are one-to-one.
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
    Err(Error::spec(field, format!("{percent} is out of range"), "use 0 to 100"))
}
