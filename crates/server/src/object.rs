//! Metadata of a stored object, taken from its file.

use std::fs::Metadata;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use s3s::dto::ETag;
use xxhash_rust::xxh3::xxh3_64;

/// Size and version of a stored object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in ns since 1970. It is unique in the store and serves as the object's
    /// version.
    pub modified_ns: i64,
}

impl Object {
    /// Read size and version from the file's metadata.
    pub fn of(metadata: &Metadata) -> io::Result<Self> {
        Ok(Self { size: metadata.len(), modified_ns: nanoseconds(metadata.modified()?) })
    }

    /// Return the ETag, a hash of size and modification time.
    ///
    /// It is shorter than an MD5, so that no client mistakes it for one. Hashing the content would
    /// cost more than storing it.
    pub fn etag(&self) -> ETag {
        let mut version = [0; 16];
        version[..8].copy_from_slice(&self.size.to_le_bytes());
        version[8..].copy_from_slice(&self.modified_ns.to_le_bytes());
        ETag::Strong(format!("{:016x}", xxh3_64(&version)))
    }

    /// Return the modification time.
    pub fn modified(&self) -> SystemTime {
        instant(self.modified_ns)
    }
}

/// Source of unique modification times, which serve as object versions. The kernel's own times are
/// not unique, because they are only as fine as its timer tick, and inode numbers are reused.
#[derive(Debug, Default)]
pub struct Stamps {
    last_ns: AtomicI64,
}

impl Stamps {
    /// Return `time`, or 1 ns after the time returned last if that is later.
    pub fn next(&self, time: SystemTime) -> SystemTime {
        let wanted = nanoseconds(time);
        let mut last = self.last_ns.load(Ordering::Relaxed);
        loop {
            let stamp = wanted.max(last + 1);
            let swapped = self.last_ns.compare_exchange_weak(
                last,
                stamp,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return instant(stamp),
                Err(seen) => last = seen,
            }
        }
    }
}

/// Convert a time to ns since 1970. Earlier times become 0.
pub fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

fn instant(ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_never_repeat_and_follow_the_clock() {
        let stamps = Stamps::default();
        let tick = instant(1_000);
        let given: Vec<i64> = (0..3).map(|_| nanoseconds(stamps.next(tick))).collect();
        assert_eq!(given, [1_000, 1_001, 1_002]);
        assert_eq!(nanoseconds(stamps.next(instant(500))), 1_003);
        assert_eq!(nanoseconds(stamps.next(instant(9_000))), 9_000);
    }

    #[test]
    fn the_etag_is_the_version_and_no_md5() {
        let first = Object { size: 4, modified_ns: 7 };
        let later = Object { size: 4, modified_ns: 8 };
        assert_ne!(first.etag().value(), later.etag().value());
        assert_eq!(first.etag().value(), first.clone().etag().value());
        assert_ne!(first.etag().value().len(), 32);
    }
}
