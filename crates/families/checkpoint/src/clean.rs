//! After a run: its checkpoints are removed, and the directory that they were in.

use std::path::Path;
use std::{fs, io};

use storlab_base::{Error, Result};
use storlab_run::control::Control;

use super::publish::Shelf;

/// Remove every checkpoint of a place, whole or partial, and the place itself. One that is not
/// there is clean.
///
/// # Errors
/// [`Error::Io`] that names anything else in it, which stays.
pub fn remove(shelf: &Shelf, home: &Path, control: &Control) -> Result<()> {
    if !home.exists() {
        return Ok(());
    }
    let (own, foreign) = shelf.entries()?;
    if let Some(path) = foreign.first() {
        let what = "is no checkpoint, so that its directory stays; move it away";
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
