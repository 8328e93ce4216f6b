//! Clean task: remove the checkpoints of a run and their directory.

use std::path::Path;
use std::{fs, io};

use storlab_base::{Error, Result};
use storlab_run::control::Control;

use super::publish::CheckpointDirectory;

/// Remove all checkpoints in a directory, complete or partial, and the directory itself. Succeed if
/// it does not exist.
///
/// # Errors
/// [`Error::Io`] if the directory contains anything else; the error names it, and no checkpoint is
/// removed. Also if the file system refuses a removal.
pub fn remove(shelf: &CheckpointDirectory, home: &Path, control: &Control) -> Result<()> {
    if !home.exists() {
        return Ok(());
    }
    let (own, foreign) = shelf.entries()?;
    if let Some(path) = foreign.first() {
        let what = "it is not a checkpoint, so the directory was not cleaned; move it elsewhere";
        let source = io::Error::new(io::ErrorKind::DirectoryNotEmpty, what);
        return Err(Error::io("remove", path.display().to_string(), 0, source));
    }
    for path in own {
        if control.stopping() {
            return Ok(());
        }
        shelf.remove(&path)?;
    }
    fs::remove_dir(home).map_err(|e| Error::io("remove", home.display().to_string(), 0, e))
}
