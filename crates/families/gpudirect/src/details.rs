//! Details of a run, stored in its result beside the samples. The family's `details.py` parses
//! them, so change both together.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value, json};
use storlab_base::lock;
use storlab_run::timed::Ending;

use crate::cuda::{Cuda, Facts};
use crate::cufile::{CuFile, Driver, Properties};
use crate::devices::Moved;
use crate::figures::Compared;
use crate::route::{Counters, Named, Proof};
use crate::shared::Shared;
use crate::stack::Stack;

/// Counters of cuFile and of the block devices, read after the load.
#[derive(Default)]
pub struct After {
    counters: Counters,
    device: Option<Moved>,
}

impl After {
    /// Read the counters. Return empty ones if a worker hangs in a library call, because the
    /// library may not respond to other calls either.
    pub fn read(shared: &Shared) -> Self {
        if shared.timed.gave_up() {
            return After::default();
        }
        let begin = shared.before.get().and_then(|(_, reading)| *reading);
        let device = shared.devices.since(begin);
        let counters = shared.opened().map(|stack| Counters::read(&stack)).unwrap_or_default();
        After { counters, device }
    }
}

/// Build the details of a run that has ended; `read_back` is the result of verifying its writes.
pub fn details(shared: &Shared, after: &After, read_back: Option<Compared>) -> Ending {
    let stack = shared.opened();
    let mut details = Map::new();
    let mut tell = |name: &str, value: Value| drop(details.insert(name.to_owned(), value));
    let mut notes = Vec::new();
    if let Some(stack) = &stack {
        let gpus = stack.gpus.iter().zip(&stack.free_bytes);
        let gpus: Vec<Value> = gpus.map(|(gpu, &free)| gpu_facts(&gpu.facts, free)).collect();
        tell("gpus", json!(gpus));
        tell("libraries", libraries(stack));
        notes.extend(not_counted(stack));
    }
    tell("route", json!(proof(shared, stack.as_deref(), &after.counters)));
    // This field covers the whole load, like the counters of `route`. The result's general field
    // `device` covers the window only.
    tell("load_device", json!(after.device));
    let workers = *lock(&shared.registration);
    let registration = stack.as_ref().map_or(workers, |stack| workers.after(&stack.registration));
    tell("registration", json!(registration));
    tell("first_pass", json!(*lock(&shared.first_pass)));
    tell("read_back", json!(read_back));
    let features = lock(&shared.features).iter().copied().collect();
    Ending { features, notes, details, ..Ending::default() }
}

fn proof(shared: &Shared, stack: Option<&Stack>, after: &Counters) -> Proof {
    let gpus: Vec<Named> = stack.map_or_else(Vec::new, |stack| {
        stack.gpus.iter().map(|gpu| (gpu.facts.number, gpu.facts.uuid)).collect()
    });
    let bytes = shared.moved_bytes.load(Relaxed);
    let before =
        shared.before.get().map(|(counters, _)| counters).filter(|_| !shared.timed.gave_up());
    Proof::of(shared.job.path, bytes, &gpus, before, after)
}

fn not_counted(stack: &Stack) -> Option<String> {
    let cufile = stack.driver.as_ref()?.cufile();
    (!stack.counts).then(|| {
        let version = cufile.version_name().unwrap_or_else(|| "of unknown version".to_owned());
        format!(
            "cuFile {version} does not count I/Os by path, so their path is unknown: use 1.15 or \
             later"
        )
    })
}

fn libraries(stack: &Stack) -> Value {
    let cuda = stack.gpus.first().map(|gpu| cuda_facts(gpu.cuda));
    let cufile = stack.driver.as_ref().map(Driver::cufile);
    let cufile = cufile.map(|cufile| cufile_facts(cufile, stack.properties.as_ref()));
    json!({"cuda": cuda, "cufile": cufile})
}

/// Describe the CUDA driver as JSON: path and version.
pub fn cuda_facts(cuda: &Cuda) -> Value {
    json!({"path": cuda.path, "version": cuda.version()})
}

/// Describe a GPU as JSON.
pub fn gpu_facts(facts: &Facts, free_bytes: u64) -> Value {
    json!({
        "number": facts.number,
        "name": facts.name,
        "pci": facts.pci,
        "compute": facts.compute,
        "memory_bytes": facts.memory_bytes,
        "free_bytes": free_bytes,
    })
}

/// Describe cuFile, with its driver's properties if the driver is open.
pub fn cufile_facts(cufile: &CuFile, properties: Option<&Properties>) -> Value {
    let mut facts = json!({
        "path": cufile.path,
        "version": cufile.version_name().unwrap_or_default(),
        "compat_allowed": null,
    });
    if let (Some(driver), Value::Object(facts)) = (properties, &mut facts) {
        let (major, minor) = driver.nvfs;
        let more = json!({
            "compat_allowed": driver.compat_allowed,
            "compat_forced": driver.compat_forced,
            "p2pdma": driver.p2pdma,
            "poll_mode": driver.poll_mode,
            "poll_bytes": driver.poll_bytes,
            "direct_io_bytes": driver.direct_io_bytes,
            "pinned_bytes": driver.pinned_bytes,
            "max_batch": driver.max_batch,
            "nvfs_version": (major > 0 || minor > 0).then(|| format!("{major}.{minor}")),
        });
        if let Value::Object(more) = more {
            facts.extend(more);
        }
    }
    facts
}

/// List the storage types, features and NVMe paths that cuFile's driver supports, by name.
pub fn p2p_flags(properties: &Properties) -> Value {
    const STORAGE: [(u32, &str); 14] = [
        (0, "lustre"),
        (1, "wekafs"),
        (2, "nfs"),
        (3, "gpfs"),
        (4, "nvme"),
        (5, "nvmeof"),
        (6, "scsi"),
        (7, "scaleflux"),
        (8, "nvmesh"),
        (9, "beegfs"),
        (11, "nvme_p2p"),
        (12, "scatefs"),
        (13, "virtiofs"),
        (14, "panfs"),
    ];
    const ABILITIES: [(u32, &str); 5] =
        [(0, "dynamic_routing"), (1, "batch"), (2, "streams"), (3, "parallel_io"), (4, "p2p")];
    const WAYS: [(u32, &str); 4] = [(0, "p2pdma"), (1, "nvfs"), (2, "dmabuf"), (3, "c2c")];
    let named = |flags: u32, names: &[(u32, &'static str)]| -> Vec<&'static str> {
        names.iter().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| *name).collect()
    };
    json!({
        "storage": named(properties.storage_flags, &STORAGE),
        "abilities": named(properties.feature_flags, &ABILITIES),
        "nvme": properties.nvme_p2p_flags.map(|flags| named(flags as u32, &WAYS)),
    })
}
