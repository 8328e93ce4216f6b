//! Which files had their first pass in an earlier run of the campaign, the same way, and have not
//! changed since.
//!
//! The job names a file that keeps a line for each. A line says all that has to be the same, so
//! that one that is there is all there is to know; half a line of a run that was killed is none.
//! Devices have no time of change: they are in it never.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use serde_json::json;
use storlab_base::lock;
use storlab_run::order::{Member, MemberKind};

use crate::spec::GpuDirectJob;

/// The lines of earlier runs, and where this one adds its own.
#[derive(Default)]
pub struct Checked {
    known: HashSet<String>,
    more: Option<Mutex<File>>,
}

impl Checked {
    /// As the job says. Where its file cannot be had, everything is checked again.
    pub fn of(job: &GpuDirectJob) -> Self {
        job.checked.as_deref().and_then(Checked::open).unwrap_or_default()
    }

    fn open(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let file = OpenOptions::new().append(true).create(true).open(path).ok()?;
        let known = text.lines().map(str::to_owned).collect();
        Some(Checked { known, more: Some(Mutex::new(file)) })
    }

    /// Whether this was so in an earlier run.
    pub fn knows(&self, line: &str) -> bool {
        self.known.contains(line)
    }

    /// The file was found as it should be.
    pub fn add(&self, line: &str) {
        if let Some(file) = &self.more {
            // Begun anew, in case that a run was killed in the midst of the line before. What is
            // not kept is checked again.
            let _ = lock(file).write_all(format!("\n{line}\n").as_bytes());
        }
    }
}

/// A file as it is now, what of it is looked at, and which way that goes to the GPU. `None` where
/// that would say nothing of its next run.
pub fn line_of(job: &GpuDirectJob, worker: usize, member: &Member) -> Option<String> {
    if member.kind != MemberKind::File || job.writes() {
        return None;
    }
    let metadata: Metadata = std::fs::metadata(&member.path).ok()?;
    let gpu = job.gpus.get(job.gpu_of(worker)).filter(|_| job.uses_gpu());
    let sizes: Vec<u64> = job.block_sizes.iter().map(|size| size.bytes).collect();
    let line = json!([
        [job.path.name(), format!("{:?}", job.api), job.register, gpu, sizes, job.queue_depth > 1],
        [member.name, member.offset, job.verify_bytes.min(member.size)],
        [metadata.dev(), metadata.ino(), metadata.size()],
        [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()],
    ]);
    Some(line.to_string())
}
