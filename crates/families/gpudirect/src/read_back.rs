//! Verification after the load: reads back the last writes without cuFile, and compares them with
//! the expected content.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use storlab_base::{Error, Result, lock, monotonic_ns};
use storlab_run::cpu::available_cores;

use crate::content::Source;
use crate::figures::Compared;
use crate::files;
use crate::first_pass::wrong;
use crate::shared::Shared;

/// Read back the last writes of all workers and compare them with the expected content.
///
/// Returns `None` if nothing was written, verification is off, or the run failed or was cancelled
/// before everything was compared.
///
/// # Errors
/// The first difference, or an error of the kernel; with the results so far.
pub fn read_back(
    shared: &Shared,
) -> std::result::Result<Option<Compared>, (Option<Compared>, Error)> {
    let mut files: BTreeMap<usize, Vec<(u64, u32)>> = BTreeMap::new();
    for (file, places) in std::mem::take(&mut *lock(&shared.written)) {
        files.entry(file).or_default().extend(places);
    }
    if files.is_empty() || shared.job.verify_bytes == 0 || shared.timed.control.stopping() {
        return Ok(None);
    }
    let begun_ns = monotonic_ns();
    let (source, threads) =
        (Source::new(shared.job.seed), (4 * available_cores()).min(files.len()));
    let queue = Mutex::new(files.into_iter());
    let sum = Mutex::new((Compared::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !shared.timed.control.stopping() {
                    let Some((file, places)) = lock(&queue).next() else { break };
                    let mut totals = Compared { files: 1, ..Compared::default() };
                    let compared = compare(shared, &source, file, places, &mut totals);
                    let mut sum = lock(&sum);
                    sum.0 += &totals;
                    if let Err(error) = compared {
                        sum.1.get_or_insert(error);
                    }
                }
            });
        }
    });
    let (mut totals, error) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.ns = monotonic_ns() - begun_ns;
    match error {
        // Report no result for a partial comparison, because data that was not compared may be
        // wrong.
        None if shared.timed.control.stopping() => Ok(None),
        None => Ok(Some(totals)),
        Some(error) => Err((Some(totals), error)),
    }
}

/// Compare all writes to a file, or as many as possible until the run is stopped.
fn compare(
    shared: &Shared,
    source: &Source,
    file: usize,
    mut places: Vec<(u64, u32)>,
    totals: &mut Compared,
) -> Result<()> {
    let (job, member) = (&shared.job, &shared.job.members[file]);
    let longest = job.longest_block() as usize;
    let plain = files::open_to_compare(job, member)?;
    let (mut expected, mut came) = (files::pages(longest)?, files::pages(longest)?);
    places.sort_unstable();
    places.dedup();
    let mut first = None;
    for (offset, len) in places {
        // If the run stops because the device hangs, further reads from it would hang too.
        if shared.timed.control.stopping() {
            break;
        }
        let (expected, came) = (&mut expected[..len as usize], &mut came[..len as usize]);
        let read = plain.read_exact_at(came, offset);
        read.map_err(|e| Error::io("read", &member.name, offset, e))?;
        source.expect(file, offset, expected);
        totals.bytes += u64::from(len);
        if came != expected {
            totals.wrong += u64::from(len);
            first.get_or_insert(offset);
        }
    }
    let what = || "the file's content differs from the data written".to_owned();
    first.map_or(Ok(()), |offset| Err(wrong(&member.name, offset, what())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::tests::job;

    /// Return the state of a run that recorded a write to the first block of a file, although the
    /// file has other content.
    fn written() -> (Shared, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; 4096]).unwrap();
        let shared = Shared::new(job(|j| {
            j["members"][0]["path"] = json!(file.path());
            j["mix"] = json!({"read": 0.0, "write": 100.0});
            (j["path"], j["verify_bytes"]) = (json!("host"), json!(4096));
            j["direct"] = json!(false);
        }));
        lock(&shared.0.written).push((0, vec![(0, 4096)]));
        (shared.0, file)
    }

    #[test]
    fn the_device_of_a_run_that_has_failed_is_left_alone() {
        let (shared, _file) = written();
        shared.timed.fail_as_hung(0, 1);
        assert_eq!(read_back(&shared).unwrap(), None);
        let (shared, _file) = written();
        let (compared, error) = read_back(&shared).unwrap_err();
        assert_eq!(compared.unwrap().wrong, 4096);
        assert!(error.to_string().starts_with("verify of a"), "{error}");
    }

    #[test]
    fn the_user_ends_the_reading_of_a_file() {
        let (shared, _file) = written();
        let (source, mut totals) = (Source::new(shared.job.seed), Compared::default());
        shared.timed.control.cancel();
        compare(&shared, &source, 0, vec![(0, 4096)], &mut totals).unwrap();
        assert_eq!(totals.bytes, 0);
    }
}
