//! Output directory of a run: ownership, atomic files and removal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use storlab_base::{Error, Result, durable, failed};
use storlab_io::drop_cache;

use super::spec::PreprocessJob;

const RUN: &str = "run.json";
const PARTIAL: &str = ".partial-";
/// Names of all files and directories that a run creates in its output directory.
const OWN: [&str; 5] = [RUN, "parquet", "vocabulary", "binary", "binary.partial"];

/// Create a directory and its parents.
pub fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

/// Return the temporary path at which a file is written before it is renamed.
pub fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{PARTIAL}{name}"))
}

/// Rename a file from its temporary path ([`aside`]) to `path`. The file must already be flushed.
pub fn name_file(path: &Path) -> Result<()> {
    durable::name(&aside(path), path)
}

/// Write a small file durably and atomically: under a temporary name, then renamed.
pub fn publish(path: &Path, content: &[u8]) -> Result<()> {
    durable::write(&aside(path), content)?;
    name_file(path)
}

/// Read a small JSON file; `None` if it is missing or incomplete.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Evict files from the page cache, so that they will be read from their device. Stops early if the
/// run is over.
pub fn evict_page_cache(
    paths: &mut dyn Iterator<Item = &Path>,
    over: &dyn Fn() -> bool,
) -> Result<()> {
    for path in paths.take_while(|_| !over()) {
        durable::flush(path)?;
        drop_cache(path).map_err(failed("drop the cache", path))?;
    }
    Ok(())
}

/// Describe an input file by path, size and modification time, so that changes can be detected.
fn state(path: &Path) -> Result<Value> {
    let metadata = fs::metadata(path).map_err(failed("open", path))?;
    let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let path = path.display().to_string();
    Ok(json!({"path": path, "bytes": metadata.len(), "modified_ns": modified as i64}))
}

/// Describe the inputs and all settings on which the output depends.
fn fingerprint(job: &PreprocessJob) -> Result<Value> {
    let inputs: Vec<Value> = job.inputs.iter().map(|path| state(path)).collect::<Result<_>>()?;
    Ok(json!({
        "version": 1,
        "engine": "native",
        "inputs": inputs,
        "part_bytes": job.part_bytes,
        "row_group_rows": job.row_group_rows,
        "compression": format!("{:?}", job.compression).to_lowercase(),
        "threshold": job.threshold,
        "modulo": job.modulo,
        "numerical": format!("{:?}", job.numerical).to_lowercase(),
        "malformed_samples": job.malformed_samples,
    }))
}

/// Create the output directory of a run. If the job says to resume, take over an existing one.
///
/// # Errors
/// [`Error::Spec`] if the directory contains foreign files, or a run with other inputs or settings;
/// [`Error::Io`] if it cannot be read or written.
pub fn claim(job: &PreprocessJob) -> Result<()> {
    let fingerprint = fingerprint(job)?;
    let path = job.directory.join(RUN);
    if job.resume {
        check_foreign(&job.directory)?;
        match read_json::<Value>(&path) {
            Some(recorded) if recorded == fingerprint => return Ok(()),
            Some(recorded) => return Err(begun_otherwise(&job.directory, &recorded, &fingerprint)),
            None => {}
        }
    }
    make_directory(&job.directory)?;
    clear(&job.directory)?;
    publish(&path, format!("{fingerprint:#}\n").as_bytes())
}

/// Check that no input has changed since the beginning of the run.
///
/// # Errors
/// [`Error::Spec`] for the first input that has changed: its parts may mix two states of the file.
pub fn check_unchanged(job: &PreprocessJob) -> Result<()> {
    let begun: Value = read_json(&job.directory.join(RUN)).unwrap_or_default();
    for (number, path) in job.inputs.iter().enumerate() {
        if begun["inputs"][number] != state(path)? {
            return Err(Error::spec(
                path.display().to_string(),
                "has changed since the run was begun",
                "let nothing write to it, and start over in another directory",
            ));
        }
    }
    Ok(())
}

/// Remove temporary files ([`aside`]) that a killed process left in a directory.
pub fn clear_aside(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
        let entry = entry.map_err(failed("read", directory))?;
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            fs::remove_file(entry.path()).map_err(failed("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn begun_otherwise(directory: &Path, recorded: &Value, wanted: &Value) -> Error {
    let names: Vec<&str> = wanted
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| recorded.get(name.as_str()) != Some(value))
        .map(|(name, _)| name.as_str())
        .collect();
    Error::spec(
        "resume",
        format!("{} was begun with other {}", directory.display(), names.join(" and ")),
        "remove it, or go on with what it was begun with",
    )
}

fn check_foreign(directory: &Path) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("read", directory))?,
    };
    for entry in entries {
        let name = entry.map_err(failed("read", directory))?.file_name();
        let known = name.to_str().is_some_and(|n| OWN.contains(&n) || n.starts_with(PARTIAL));
        if !known {
            return Err(Error::spec(
                "directory",
                format!("holds {}, which is not storlab's", directory.join(&name).display()),
                "move it away, or choose another directory",
            ));
        }
    }
    Ok(())
}

/// Remove everything in a run's directory, but keep the directory itself: it may be a mount point,
/// or another process may have it open.
fn clear(directory: &Path) -> Result<()> {
    check_foreign(directory)?;
    for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
        let path = entry.map_err(failed("read", directory))?.path();
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// Remove a run's directory. Succeed if it does not exist.
///
/// # Errors
/// [`Error::Spec`], with nothing removed, if it contains foreign files; [`Error::Io`] if it cannot
/// be read or removed.
pub fn remove(directory: &Path) -> Result<()> {
    check_foreign(directory)?;
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed("remove", directory)),
    }
}
