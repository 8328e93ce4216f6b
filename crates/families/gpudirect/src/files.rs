//! Opening of the target's files and devices for system calls, and page-aligned buffers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use memmap2::MmapMut;
use storlab_base::{Error, Result};
use storlab_run::order::Member;

use crate::spec::GpuDirectJob;

/// Open a file or device for the job's operations, with `O_DIRECT` if the job requests it.
pub fn open(job: &GpuDirectJob, member: &Member) -> Result<File> {
    open_for(member, job.writes(), job.direct)
}

/// Open a file or device read-only to verify its content, with `O_DIRECT` if the job requests it.
pub fn open_to_compare(job: &GpuDirectJob, member: &Member) -> Result<File> {
    open_for(member, false, job.direct)
}

fn open_for(member: &Member, write: bool, direct: bool) -> Result<File> {
    let flags = libc::O_CLOEXEC | if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(&member.path).map_err(|e| {
        let refused = direct && e.raw_os_error() == Some(libc::EINVAL);
        Error::io(if refused { "open with O_DIRECT" } else { "open" }, &member.name, 0, e)
    })
}

/// Allocate `bytes` of page-aligned memory.
///
/// # Errors
/// [`Error::Io`] if the kernel cannot map that much memory.
pub fn pages(bytes: usize) -> Result<MmapMut> {
    MmapMut::map_anon(bytes.max(1)).map_err(|e| Error::io("allocation", "buffers", 0, e))
}
