//! Record of the files whose data path was verified before the load (first pass) in an earlier run
//! of the campaign.
//!
//! The record is a file with one line per checked file. A line lists everything that must be
//! unchanged for the check to be skipped, so a file is not checked again if the record has an equal
//! line. An incomplete line, left by a killed run, never matches. Block devices have no
//! modification time and are never recorded.

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

/// Record of checked files: the lines of earlier runs, and the file to which this run appends.
#[derive(Default)]
pub struct Checked {
    known: HashSet<String>,
    more: Option<Mutex<File>>,
}

impl Checked {
    /// Open the record that the job names. If it names none or the record cannot be opened, every
    /// file is checked.
    pub fn of(job: &GpuDirectJob) -> Self {
        job.checked.as_deref().and_then(Checked::open).unwrap_or_default()
    }

    fn open(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let file = OpenOptions::new().append(true).create(true).open(path).ok()?;
        let known = text.lines().map(str::to_owned).collect();
        Some(Checked { known, more: Some(Mutex::new(file)) })
    }

    /// Return whether an earlier run recorded this line.
    pub fn knows(&self, line: &str) -> bool {
        self.known.contains(line)
    }

    /// Append the line of a file that passed the check.
    pub fn add(&self, line: &str) {
        if let Some(file) = &self.more {
            // The leading newline ends a line that a killed run left incomplete. If the write
            // fails, the file is only checked again.
            let _ = lock(file).write_all(format!("\n{line}\n").as_bytes());
        }
    }
}

/// Describe a file's identity, the range to check and the data path, as one line of JSON.
///
/// Returns `None` for devices and for jobs that write, whose files must be checked in each run.
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
