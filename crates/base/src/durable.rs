//! Atomic file writes: data is written to a temporary name, flushed, then renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Result, failed};

/// Flush a file, or the entries of a directory.
///
/// # Errors
/// [`crate::Error::Io`] if it cannot be opened or flushed.
pub fn flush(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(failed("open", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Write a file and flush it. Its directory entry is not durable yet.
///
/// # Errors
/// [`crate::Error::Io`] if it cannot be created, written or flushed.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Rename a temporary file to its final name. The name is durable after the directory is flushed.
///
/// # Errors
/// [`crate::Error::Io`] if the file cannot be renamed.
pub fn rename(aside: &Path, path: &Path) -> Result<()> {
    fs::rename(aside, path).map_err(failed("rename", aside))
}

/// Rename a flushed temporary file to its final name, and flush the directory.
///
/// # Errors
/// [`crate::Error::Io`] if the file cannot be renamed or the directory flushed.
pub fn name(aside: &Path, path: &Path) -> Result<()> {
    rename(aside, path)?;
    flush(match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    })
}
