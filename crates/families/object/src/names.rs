//! Keys and sizes of the objects in the pool, which exist before a run.

use serde::Deserialize;
use storlab_base::Result;

use super::sizes::{Sizes, SizesSpec};

/// Index of the pool's series of object sizes (see [`Sizes::of`]). The workers' series follow it.
pub(super) const POOL_SERIES: u64 = 0;

/// Format a key as `<prefix><shard, at least 4 digits>/<number, at least 8>`, in hexadecimal.
/// Digits are written one by one for speed, because each request needs a key.
pub(super) fn hex_key(prefix: &str, shard: u64, number: u64) -> String {
    let mut key = String::with_capacity(prefix.len() + 2 * 16 + 1);
    key.push_str(prefix);
    push_hex(&mut key, shard, 4);
    key.push('/');
    push_hex(&mut key, number, 8);
    key
}

fn push_hex(into: &mut String, number: u64, digits: u32) {
    let needed = (u64::BITS - number.leading_zeros()).div_ceil(4);
    for place in (0..needed.max(digits)).rev() {
        let digit = (number >> (4 * place)) as u32 & 15;
        into.push(char::from_digit(digit, 16).unwrap_or_default());
    }
}

/// Description of the pool: the objects that exist before a run.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolSpec {
    /// Prefix of the objects' keys; ends with a slash.
    pub prefix: String,
    /// Number of objects in the pool.
    pub objects: u64,
    /// Number of shards (key prefixes) over which the objects are spread.
    #[serde(default = "crate::spec::single")]
    pub shards: u64,
    /// Distribution of the objects' sizes.
    pub sizes: SizesSpec,
    /// Seed from which the objects' sizes are drawn.
    #[serde(default = "crate::spec::single")]
    pub seed: u64,
}

/// Keys and sizes of a pool's objects.
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    shards: u64,
    sizes: Sizes,
}

impl Names {
    /// Create keys and sizes for the pool that `spec` describes.
    pub fn new(spec: &PoolSpec) -> Result<Self> {
        let sizes = Sizes::new(&spec.sizes, spec.seed, "pool.sizes")?;
        Ok(Names { prefix: spec.prefix.clone(), shards: spec.shards, sizes })
    }

    /// Return the key prefix of a shard.
    pub fn shard(&self, shard: u64) -> String {
        format!("{}{:04x}/", self.prefix, shard % self.shards)
    }

    /// Return the number of shards (key prefixes).
    pub fn shards(&self) -> u64 {
        self.shards
    }

    /// Return the key of object `index` of the pool.
    pub fn key(&self, index: u64) -> String {
        hex_key(&self.prefix, index % self.shards, index)
    }

    /// Return the index of the object with this key; `None` for keys outside the pool.
    pub fn index(&self, key: &str) -> Option<u64> {
        let (_, number) = key.strip_prefix(&self.prefix)?.split_once('/')?;
        let index = u64::from_str_radix(number, 16).ok()?;
        (self.key(index) == key).then_some(index)
    }

    /// Return the size of object `index` in bytes.
    pub fn size(&self, index: u64) -> u64 {
        self.sizes.of(POOL_SERIES, index)
    }

    /// Return an upper bound of the objects' sizes in bytes.
    pub fn largest(&self) -> u64 {
        self.sizes.largest()
    }
}
