//! After a run: its checkpoints are removed, and the directory that they were in.

use std::path::Path;
use std::{fs, io};

use storlab_base::{Error, Result, monotonic_ns};
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::fixed::{Books, Extras, Tally};
use storlab_run::outcome::Outcome;

use super::publish::Shelf;
use super::rank::KINDS;
use super::spec::CheckpointJob;

/// Remove every checkpoint of a place, whole or partial, and the place itself. One that is not
/// there is clean. Anything else in it stays, and the run fails and names it.
pub fn run(
    job: &CheckpointJob,
    shelf: &Shelf,
    home: &Path,
    control: &Control,
    board: &Board,
) -> Outcome {
    let (books, _) = Books::new(job.interval_ns, &KINDS);
    let tally = Tally::begin(0, &books, control, board);
    let failure = remove(shelf, home, control).err();
    let end_ns = monotonic_ns().max(tally.start_ns() + 1);
    tally.finish(end_ns, control, Extras { failure, ..Extras::default() })
}

fn remove(shelf: &Shelf, home: &Path, control: &Control) -> Result<()> {
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
