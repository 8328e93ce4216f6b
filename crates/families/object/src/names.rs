//! Names and sizes of objects that are there before a run.

use serde::Deserialize;
use storlab_base::Result;

use super::sizes::{Sizes, SizesSpec};

/// Series of sizes: the pool's, then those of the workers.
pub(super) const POOL_SERIES: u64 = 0;

/// `<prefix><shard, 4 digits or more>/<number, 8 or more>`, in hexadecimal. Written digit by digit:
/// one is made for each request.
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

/// Objects that are there before a run.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolSpec {
    /// What their keys begin with; ends with a slash.
    pub prefix: String,
    /// How many.
    pub objects: u64,
    /// Prefixes that they are spread over.
    #[serde(default = "crate::spec::single")]
    pub shards: u64,
    /// Their sizes.
    pub sizes: SizesSpec,
    /// Of the sizes.
    #[serde(default = "crate::spec::single")]
    pub seed: u64,
}

/// Names and sizes of a pool's objects.
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    shards: u64,
    sizes: Sizes,
}

impl Names {
    /// Of the pool that `spec` describes.
    pub fn new(spec: &PoolSpec) -> Result<Self> {
        let sizes = Sizes::new(&spec.sizes, spec.seed, "pool.sizes")?;
        Ok(Names { prefix: spec.prefix.clone(), shards: spec.shards, sizes })
    }

    /// What the keys of one shard begin with.
    pub fn shard(&self, shard: u64) -> String {
        format!("{}{:04x}/", self.prefix, shard % self.shards)
    }

    /// How many shards.
    pub fn shards(&self) -> u64 {
        self.shards
    }

    /// Key of object `index`.
    pub fn key(&self, index: u64) -> String {
        hex_key(&self.prefix, index % self.shards, index)
    }

    /// Which object has this key.
    pub fn index(&self, key: &str) -> Option<u64> {
        let (_, number) = key.strip_prefix(&self.prefix)?.split_once('/')?;
        let index = u64::from_str_radix(number, 16).ok()?;
        (self.key(index) == key).then_some(index)
    }

    /// Size of object `index`.
    pub fn size(&self, index: u64) -> u64 {
        self.sizes.of(POOL_SERIES, index)
    }

    /// No object of the pool is larger.
    pub fn largest(&self) -> u64 {
        self.sizes.largest()
    }
}
