//! Clean: removes the checkpoints of a run and their directory.

use std::path::Path;
use std::{fs, io};

use storlab_base::{Error, Result};
use storlab_run::control::Control;

use super::publish::CheckpointDirectory;

/// Remove every checkpoint of a place, complete or partial, and the directory itself. Succeed if it
/// does not exist.
///
/// # Errors
/// [`Error::Io`] that names a foreign file, if there is one; then nothing is removed.
pub fn remove(shelf: &CheckpointDirectory, home: &Path, control: &Control) -> Result<()> {
    if !home.exists() {
        return Ok(());
    }
    let (own, foreign) = shelf.entries()?;
    if let Some(path) = foreign.first() {
        let what = "is not part of a checkpoint, so its directory is not removed; move it away";
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
