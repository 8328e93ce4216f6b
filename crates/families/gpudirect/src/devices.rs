//! Bytes moved by the block devices that store the target's files, from the kernel's counters.
//!
//! On every data path, this number should agree with the bytes that the load reports.

use std::collections::BTreeMap;

use serde::Serialize;
use storlab_base::monotonic_ns;
use storlab_io::{DeviceBytes, DeviceCounters};
use storlab_run::order::Member;

/// Counters of all block devices that store the target's files.
#[derive(Default)]
pub struct Devices {
    /// Kernel counters of each block device, by its name.
    counters: BTreeMap<String, DeviceCounters>,
}

/// Sum of the block devices' counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    at_ns: u64,
    bytes: DeviceBytes,
}

/// Bytes that the block devices moved between two readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub over_ns: u64,
    pub devices: Vec<String>,
}

impl Devices {
    /// Find the block devices that store these files. Memory, network and layered file systems have
    /// no counters.
    pub fn of(members: &[Member]) -> Self {
        let counters = members.iter().filter_map(|member| DeviceCounters::of(&member.path));
        Devices {
            counters: counters.filter_map(|counter| Some((counter.name()?, counter))).collect(),
        }
    }

    /// Sum the counters now; `None` if there are no devices, or one has disappeared.
    pub fn now(&self) -> Option<Reading> {
        let mut sum = Reading { at_ns: monotonic_ns(), ..Reading::default() };
        for device in self.counters.values() {
            let DeviceBytes { read, written } = device.now()?;
            sum.bytes.read += read;
            sum.bytes.written += written;
        }
        (!self.counters.is_empty()).then_some(sum)
    }

    /// Return the bytes moved since reading `begin`; `None` if a reading is missing.
    pub fn since(&self, begin: Option<Reading>) -> Option<Moved> {
        let (begin, end) = (begin?, self.now()?);
        let DeviceBytes { read, written } = end.bytes.since(begin.bytes);
        Some(Moved {
            read_bytes: read,
            written_bytes: written,
            over_ns: end.at_ns - begin.at_ns,
            devices: self.counters.keys().cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_no_device_has_no_counters() {
        let job = crate::spec::tests::job(|_| {});
        assert!(Devices::of(&job.members).now().is_none());
    }
}
