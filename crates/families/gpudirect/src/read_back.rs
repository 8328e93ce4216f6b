//! After the load: what was written last is read past cuFile, and compared with what belongs there.

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

/// `None` where nothing was written, or is to be checked.
///
/// # Errors
/// Also what was found until then: the first difference, or what the kernel says.
pub fn read_back(
    shared: &Shared,
) -> std::result::Result<Option<Compared>, (Option<Compared>, Error)> {
    let mut files: BTreeMap<usize, Vec<(u64, u32)>> = BTreeMap::new();
    for (file, places) in std::mem::take(&mut *lock(&shared.written)) {
        files.entry(file).or_default().extend(places);
    }
    if files.is_empty() || shared.job.verify_bytes == 0 || shared.control.cancelled() {
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
                loop {
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
        None => Ok(Some(totals)),
        Some(error) => Err((Some(totals), error)),
    }
}

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
    let what = || "what was written is not what the file holds".to_owned();
    first.map_or(Ok(()), |offset| Err(wrong(&member.name, offset, what())))
}
