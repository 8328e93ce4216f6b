//! What the block devices under the members moved, by the kernel's own count: it has to agree with
//! what the load says of itself, whichever way the data went.

use std::collections::BTreeMap;

use serde::Serialize;
use storlab_base::monotonic_ns;
use storlab_io::{DeviceBytes, DeviceCounters};
use storlab_run::order::Member;

/// Of all members.
#[derive(Default)]
pub struct Devices {
    /// By name.
    counters: BTreeMap<String, DeviceCounters>,
}

/// Until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    at_ns: u64,
    bytes: DeviceBytes,
}

/// Between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Moved {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub over_ns: u64,
    pub devices: Vec<String>,
}

impl Devices {
    /// Those that are block devices, or lie on one: memory, networks and layered file systems have
    /// no counters.
    pub fn of(members: &[Member]) -> Self {
        let counters = members.iter().filter_map(|member| DeviceCounters::of(&member.path));
        Devices {
            counters: counters.filter_map(|counter| Some((counter.name()?, counter))).collect(),
        }
    }

    /// Until now; `None` where there are none, or one has gone.
    pub fn now(&self) -> Option<Reading> {
        let mut sum = Reading { at_ns: monotonic_ns(), ..Reading::default() };
        for device in self.counters.values() {
            let DeviceBytes { read, written } = device.now()?;
            sum.bytes.read += read;
            sum.bytes.written += written;
        }
        (!self.counters.is_empty()).then_some(sum)
    }

    /// Since then.
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
