//! Files that are there whole or not at all: written aside, flushed, then given their names.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Result, failed};

/// Flush a file, or the names in a directory.
///
/// # Errors
/// [`crate::Error::Io`].
pub fn flush(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(failed("open", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Write a file and flush it. Its name is not yet durable.
///
/// # Errors
/// [`crate::Error::Io`].
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(content).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("sync", path))
}

/// Give what was written aside its name. It stays once the directory is flushed.
///
/// # Errors
/// [`crate::Error::Io`].
pub fn rename(aside: &Path, path: &Path) -> Result<()> {
    fs::rename(aside, path).map_err(failed("rename", aside))
}

/// Give what was written and flushed aside its name, for good.
///
/// # Errors
/// [`crate::Error::Io`].
pub fn name(aside: &Path, path: &Path) -> Result<()> {
    rename(aside, path)?;
    flush(match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    })
}
