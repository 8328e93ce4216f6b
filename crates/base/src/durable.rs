//! Atomic file writes: write under a temporary name, flush, then rename.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Result, failed};

/// Flush a file to storage, or a directory's entries if `path` is a directory.
///
/// # Errors
/// [`crate::Error::Io`] if the path cannot be opened or flushed.
pub fn flush(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(failed("open", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Write a file and flush its data. Its directory entry is not durable until the directory is
/// flushed.
///
/// # Errors
/// [`crate::Error::Io`] if the file cannot be created, written or flushed.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Rename the temporary file `aside` to its final name `path`. The new name is durable only after
/// the directory is flushed.
///
/// # Errors
/// [`crate::Error::Io`] if the file cannot be renamed.
pub fn rename(aside: &Path, path: &Path) -> Result<()> {
    fs::rename(aside, path).map_err(failed("rename", aside))
}

/// Rename the flushed temporary file `aside` to its final name `path`, and flush the directory.
///
/// # Errors
/// [`crate::Error::Io`] if the file cannot be renamed or the directory cannot be flushed.
pub fn name(aside: &Path, path: &Path) -> Result<()> {
    rename(aside, path)?;
    flush(match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    })
}
