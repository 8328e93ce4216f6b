//! Tests of the payload: incompressible, unique, and with the requested shares.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};
use proptest::prelude::*;
use storlab_base::{CHUNK_BYTES, Error, Payload, PayloadSpec};

fn payload(compress_percent: f64, dedupe_percent: f64, job: u64) -> Payload {
    Payload::new(&PayloadSpec { compress_percent, dedupe_percent }, 42, job).expect("a sound order")
}

/// Build a pool of buffers as the engine does, and write each block's serial number once.
fn pool(payload: &Payload, slots: usize, slot_bytes: usize, first_serial: u64) -> Vec<Vec<u8>> {
    (0..slots)
        .map(|slot| {
            let mut buffer = vec![0xaa; slot_bytes];
            payload.fill(slot, &mut buffer);
            payload.stamp(slot, &mut buffer, first_serial + slot as u64);
            buffer
        })
        .collect()
}

fn zlib_len(bytes: &[u8]) -> usize {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory").len()
}

#[test]
fn default_payload_does_not_compress() {
    let bytes = pool(&payload(0.0, 0.0, 0), 16, 1 << 16, 0).concat();
    assert!(zlib_len(&bytes) >= bytes.len());
    // Every byte value is equally frequent: chi-square with 255 degrees of freedom, sigma 22.6.
    let mut counts = [0f64; 256];
    for &byte in &bytes {
        counts[usize::from(byte)] += 1.0;
    }
    let expected = bytes.len() as f64 / 256.0;
    let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    assert!((chi - 255.0).abs() < 5.0 * 22.6, "{chi}");
}

#[test]
fn bodies_share_no_words() {
    // No 8 bytes occur twice, in any chunk, slot or job, so delta or long-window compression finds
    // no match.
    let mut seen = HashSet::new();
    for job in 0..3 {
        for buffer in pool(&payload(0.0, 0.0, job), 8, 1 << 15, 0) {
            for word in buffer.chunks_exact(8) {
                assert!(seen.insert(<[u8; 8]>::try_from(word).unwrap()));
            }
        }
    }
}

#[test]
fn compress_share_is_zeros_at_the_end_of_each_chunk() {
    for percent in [25.0, 50.0, 75.0, 100.0] {
        let bytes = pool(&payload(percent, 0.0, 0), 4, 1 << 16, 0).concat();
        let zeros = (CHUNK_BYTES as f64 * percent / 100.0) as usize;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let body = (CHUNK_BYTES - zeros).max(16);
            assert!(chunk[body..].iter().all(|&byte| byte == 0));
            let zeros = chunk[..body].iter().map(|&byte| usize::from(byte == 0)).sum::<usize>();
            assert!(zeros <= body / 50 + 2);
        }
        let kept = zlib_len(&bytes) as f64 / bytes.len() as f64;
        assert!((kept - (1.0 - percent / 100.0)).abs() < 0.02, "{percent} %: {kept}");
    }
}

#[test]
fn dedupe_share_is_right_for_every_shape_of_pool() {
    for percent in [1.0, 10.0, 33.3, 50.0, 90.0] {
        for (slots, chunks) in [(256, 1), (64, 4), (4, 64), (1, 256), (2, 1024)] {
            for job in 0..4 {
                let pool = pool(&payload(0.0, percent, job), slots, chunks * CHUNK_BYTES, 0);
                let mut counts: HashMap<&[u8], u32> = HashMap::new();
                for chunk in pool.iter().flat_map(|buffer| buffer.chunks(CHUNK_BYTES)) {
                    *counts.entry(chunk).or_default() += 1;
                }
                let total = (slots * chunks) as f64;
                let copies = total - counts.len() as f64;
                // The first occurrences of the 16 reference chunks are no copies.
                let wanted = total * percent / 100.0;
                assert!(
                    copies <= wanted + 8.0 && copies >= wanted - 16.0 - 8.0,
                    "{percent} % of {slots} x {chunks}, job {job}: {copies}"
                );
            }
        }
    }
}

#[test]
fn duplicates_are_common_to_jobs_and_slots_and_outlive_stamps() {
    let chunks = |job, serial| {
        pool(&payload(50.0, 60.0, job), 300, CHUNK_BYTES, serial)
            .into_iter()
            .collect::<HashSet<_>>()
    };
    let (first, second) = (chunks(0, 0), chunks(1, 10_000));
    let common = first.intersection(&second).count();
    assert_eq!(common, 16);
    assert_eq!(first.intersection(&chunks(0, 10_000)).count(), 16);
}

#[test]
fn everything_can_be_a_duplicate() {
    let pool = pool(&payload(0.0, 100.0, 0), 512, CHUNK_BYTES, 0);
    assert!(pool.into_iter().collect::<HashSet<_>>().len() <= 16);
}

#[test]
fn no_two_stamped_chunks_are_equal() {
    let mut seen = HashSet::new();
    for job in [0u64, 1, 2, 65_535, u64::from(u32::MAX)] {
        let payload = payload(100.0, 0.0, job);
        let mut buffer = vec![0; 16 * CHUNK_BYTES];
        payload.fill(0, &mut buffer);
        for serial in (0..2000).chain(u64::MAX - 200..=u64::MAX) {
            payload.stamp(0, &mut buffer, serial);
            for chunk in buffer.chunks(CHUNK_BYTES) {
                // With 100 % zeros only the stamp is left, so it alone must distinguish chunks.
                assert!(seen.insert(<[u8; 16]>::try_from(&chunk[..16]).unwrap()), "job {job}");
            }
        }
    }
}

#[test]
fn stamps_touch_only_the_first_16_bytes() {
    let payload = payload(0.0, 0.0, 3);
    let mut buffer = vec![0; 3 * CHUNK_BYTES + 512];
    payload.fill(5, &mut buffer);
    let before = buffer.clone();
    payload.stamp(5, &mut buffer, 99);
    for (old, new) in before.chunks(CHUNK_BYTES).zip(buffer.chunks(CHUNK_BYTES)) {
        assert_ne!(old[..16], new[..16]);
        assert_eq!(old[16..], new[16..]);
    }
}

proptest! {
    #[test]
    fn odd_lengths_work(
        len in 0usize..20_000, slot in 0usize..100, serial: u64, dedupe in 0.0f64..100.0
    ) {
        let payload = payload(30.0, dedupe, 1);
        let (mut first, mut second) = (vec![1; len], vec![2; len]);
        payload.fill(slot, &mut first);
        payload.fill(slot, &mut second);
        prop_assert_eq!(&first, &second);
        payload.stamp(slot, &mut first, serial);
        payload.stamp(slot, &mut second[..len / 2], serial);
        let whole = len / 2 / CHUNK_BYTES * CHUNK_BYTES;
        prop_assert_eq!(&first[..whole], &second[..whole]);
    }
}

#[test]
fn small_blocks_are_unique_too() {
    let payload = payload(0.0, 0.0, 0);
    let mut buffer = vec![0; 512];
    payload.fill(0, &mut buffer);
    let mut seen = HashSet::new();
    for serial in 0..10_000 {
        payload.stamp(0, &mut buffer, serial);
        assert!(seen.insert(buffer.clone()));
    }
}

#[test]
fn impossible_shares_name_the_field() {
    for (compress_percent, dedupe_percent, wanted) in [
        (-1.0, 0.0, "payload.compress_percent"),
        (100.1, 0.0, "payload.compress_percent"),
        (0.0, f64::NAN, "payload.dedupe_percent"),
    ] {
        match Payload::new(&PayloadSpec { compress_percent, dedupe_percent }, 1, 0) {
            Err(Error::Spec { field, .. }) => assert_eq!(field, wanted),
            other => panic!("{other:?}"),
        }
    }
}
