//! Checkpoints as directories: written under a temporary name, made durable, then renamed.
//!
//! A checkpoint with its final name is complete. A crash leaves only a partial checkpoint under a
//! temporary name, which the next run removes.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use storlab_base::{Result, durable, failed};
use storlab_run::control::Control;

use super::spec::{CheckpointJob, Publish, SyncMode};

const MANIFEST: &str = "storlab-checkpoint.json";
const PARTIAL: &str = ".partial-";
const WHOLE: &str = "checkpoint-";

/// Description of a checkpoint, stored with its files.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Manifest {
    /// Number of the checkpoint in its directory or prefix.
    pub number: u32,
    /// Seed from which the content of the files is generated.
    pub seed: u64,
    /// Size of an I/O buffer in bytes; the files' content depends on it.
    pub io_bytes: u64,
    /// Number of I/O buffers; the files' content depends on it.
    pub slots: usize,
    /// Names and sizes of the files.
    pub files: Vec<(String, u64)>,
}

/// Directory that contains all checkpoints of a run.
#[derive(Clone, Debug)]
pub struct CheckpointDirectory {
    home: PathBuf,
    publish: Publish,
    sync: SyncMode,
}

impl CheckpointDirectory {
    /// Create the handle for the checkpoint directory of a job.
    pub fn new(job: &CheckpointJob, home: &Path) -> Self {
        CheckpointDirectory { home: home.to_owned(), publish: job.publish, sync: job.sync }
    }

    /// Return the path of the directory that contains all checkpoints.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Return the final path of checkpoint `number`, under which it is published.
    pub fn whole(&self, number: u32) -> PathBuf {
        self.home.join(format!("{WHOLE}{number:06}"))
    }

    /// Return the path under which checkpoint `number` is written before it is published.
    pub fn aside(&self, number: u32) -> PathBuf {
        match self.publish {
            Publish::Rename => self.home.join(format!("{PARTIAL}{number:06}")),
            Publish::InPlace => self.whole(number),
        }
    }

    /// Create the checkpoint directory if it is missing; its parent must exist.
    pub fn open(&self) -> Result<()> {
        match fs::create_dir(&self.home) {
            Ok(()) if self.sync == SyncMode::Fsync => {
                self.home.parent().map_or(Ok(()), durable::flush)
            }
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(failed("create", &self.home)(e)),
        }
    }

    /// List the directory. Return the paths of checkpoints, complete or not, and of all other
    /// entries.
    pub fn entries(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let listed = fs::read_dir(&self.home).map_err(failed("list", &self.home))?;
        let mut paths = listed
            .map(|entry| Ok(entry.map_err(failed("list", &self.home))?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort_unstable(); // partial ones first: complete ones take their names
        Ok(paths.into_iter().partition(|path| {
            let name = name_of(path);
            let number = name.strip_prefix(WHOLE).or_else(|| name.strip_prefix(PARTIAL));
            path.is_dir() && number.is_some_and(|n| n.parse::<u32>().is_ok())
        }))
    }

    /// Remove a checkpoint. It is renamed first, so that a crash during the removal does not leave
    /// a partly deleted checkpoint under its final name.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let mut gone = path.to_owned();
        if let Some(number) = name_of(path).strip_prefix(WHOLE) {
            gone = self.home.join(format!("{PARTIAL}{number}"));
            durable::rename(path, &gone)?;
        }
        fs::remove_dir_all(&gone).map_err(failed("remove", &gone))
    }

    /// Remove partial checkpoints that crashes have left.
    pub fn tidy(&self, control: &Control) -> Result<()> {
        for entry in fs::read_dir(&self.home).map_err(failed("list", &self.home))? {
            let path = entry.map_err(failed("list", &self.home))?.path();
            if name_of(&path).starts_with(PARTIAL) {
                fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
                control.goes_on();
            }
        }
        Ok(())
    }

    /// Create the directories of a new checkpoint. An existing one with the same number is removed.
    /// Return the path in which to write.
    pub fn prepare(&self, number: u32, names: &[&str]) -> Result<PathBuf> {
        let aside = self.aside(number);
        for old in [self.whole(number), aside.clone()] {
            if old.exists() {
                fs::remove_dir_all(&old).map_err(failed("remove", &old))?;
            }
        }
        fs::create_dir(&aside).map_err(failed("create", &aside))?;
        for name in names {
            let path = aside.join(name);
            let parent = path.parent().unwrap_or(&aside);
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
        }
        Ok(aside)
    }

    /// Publish a checkpoint: write its manifest and give it its final name. All files of the
    /// checkpoint must already be written.
    ///
    /// # Errors
    /// [`storlab_base::Error::Io`] if the file system refuses; the checkpoint is then not
    /// published.
    pub fn publish(&self, manifest: &Manifest) -> Result<()> {
        let aside = self.aside(manifest.number);
        // The manifest marks the checkpoint as complete, so all its files must be durable before
        // the manifest is written.
        if self.sync == SyncMode::Fsync {
            sync_tree(&aside)?;
        }
        let path = aside.join(MANIFEST);
        let text = serde_json::to_vec(manifest)
            .map_err(|e| failed("write", &path)(io::Error::other(e)))?;
        let unnamed = aside.join(format!("{MANIFEST}.partial"));
        match self.sync {
            SyncMode::Fsync => durable::write(&unnamed, &text)?,
            SyncMode::None => fs::write(&unnamed, &text).map_err(failed("write", &unnamed))?,
        }
        self.name(&unnamed, &path)?;
        match self.publish {
            Publish::Rename => self.name(&aside, &self.whole(manifest.number)),
            Publish::InPlace if self.sync == SyncMode::Fsync => durable::flush(&self.home),
            Publish::InPlace => Ok(()),
        }
    }

    /// Rename a file or directory to its final name. If the job flushes, make the new name durable.
    fn name(&self, aside: &Path, path: &Path) -> Result<()> {
        match self.sync {
            SyncMode::Fsync => durable::name(aside, path),
            SyncMode::None => durable::rename(aside, path),
        }
    }

    /// Remove a failed checkpoint, which may already have its final name. Errors are ignored,
    /// because the original failure is reported.
    pub fn discard(&self, number: u32) {
        let _ = self.remove(&self.whole(number));
        let _ = fs::remove_dir_all(self.aside(number));
    }

    /// Return the numbers of the complete checkpoints in ascending order.
    pub fn numbers(&self) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.home).map_err(failed("list", &self.home))? {
            let path = entry.map_err(failed("list", &self.home))?.path();
            let number = name_of(&path).strip_prefix(WHOLE).and_then(|n| n.parse::<u32>().ok());
            if path.join(MANIFEST).exists() {
                numbers.extend(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Read the manifest of a published checkpoint.
    pub fn manifest(&self, number: u32) -> Result<Manifest> {
        let path = self.whole(number).join(MANIFEST);
        let text = fs::read(&path).map_err(failed("read", &path))?;
        serde_json::from_slice(&text).map_err(|e| failed("read", &path)(io::Error::other(e)))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Flush a directory and all directories below it, the deepest first.
fn sync_tree(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
        let path = entry.map_err(failed("list", directory))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        }
    }
    durable::flush(directory)
}
