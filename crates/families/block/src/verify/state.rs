//! State file of verify mode: the last issued and the last acknowledged generation (write counter)
//! of each granule (verification block).
//!
//! Layout, little-endian; fields and their lengths in bytes: magic 8, version 4, length of the
//! description 4, its checksum 8, boot id 8, clean flag 4, restarts 4, padding to 64, the
//! description (JSON). From the next multiple of 4,096 on, two 4-byte words per granule of each
//! file or device: issued, acknowledged.
//!
//! The file is a shared mapping, so its records survive the death of the process. They do not
//! survive a power cut unless they were flushed; see [`super::Verifier`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use storlab_base::{Error, Result, durable, try_lock_file};
use storlab_run::order::Member;
use xxhash_rust::xxh3::xxh3_64;

use super::mapping::Mapping;

const FIELD: &str = "verify.state";
const MAGIC: &[u8; 8] = b"storlabV";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 64;
const BODY_ALIGNMENT: usize = 4096;
/// Indices of the header's words that change after the file's creation, counted in words of 8 bytes
/// (`WORD64`) or 4 bytes (`WORD32`).
const BOOT_WORD64: usize = 3;
const CLEAN_WORD32: usize = 8;
const RESTARTS_WORD32: usize = 9;
/// Number of low bits of a generation that count writes; the bits above count restarts of the
/// machine. The low bits can count far more writes than a restart can lose, so no generation is
/// used twice.
const GENERATION_BITS: u32 = 20;
const RESTARTS_MAX: u32 = (1 << (32 - GENERATION_BITS)) - 1;
const NEW_STATE: &str = "give another path, or delete the file to start a new state";

/// Target that a state file belongs to. Granule size, files and devices must be the same when the
/// state file is opened again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    id: u64,
    seed: u64,
    granule: u64,
    members: Vec<DescribedMember>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DescribedMember {
    name: String,
    size: u64,
    offset: u64,
}

/// Open state file of verify mode, locked against other processes.
#[derive(Debug)]
pub(super) struct State {
    map: Mapping,
    path: PathBuf,
    /// Index of the 4-byte word with the first granule's record.
    body_word32: usize,
    id: u64,
    generation_floor: u32,
    _lock: LockedFile,
}

impl State {
    /// Open the state file at `path`, or create it.
    pub(super) fn open(path: &Path, granule: u64, members: &[Member], seed: u64) -> Result<State> {
        let wanted = Description {
            id: new_id(seed),
            seed,
            granule,
            members: members
                .iter()
                .map(|m| DescribedMember { name: m.name.clone(), size: m.size, offset: m.offset })
                .collect(),
        };
        check_place(path, members)?;
        let granules = members.iter().map(|member| member.size / granule).sum();
        let (file, described) = match existing(path)? {
            Some(file) => {
                let described = read_description(path, &file.0)?;
                agree(path, &described, &wanted)?;
                (file, described)
            }
            None => (create(path, &wanted, granules)?, wanted),
        };
        Self::map(path, file, &described, granules)
    }

    fn map(path: &Path, file: LockedFile, described: &Description, granules: u64) -> Result<State> {
        let refused = |source| Error::io("map", path.display().to_string(), 0, source);
        let body = body_start(&encode(path, described)?);
        let bytes = file_bytes(path, body, granules)?;
        let actual = file.0.metadata().map_err(refused)?.len();
        if actual != bytes as u64 {
            let what = format!("{} has {actual} bytes instead of {bytes}", path.display());
            return Err(Error::spec(FIELD, what, NEW_STATE));
        }
        let map = Mapping::shared(&file.0, bytes).map_err(refused)?;
        let mut state = State {
            map,
            path: path.to_path_buf(),
            body_word32: body / 4,
            id: described.id,
            generation_floor: 0,
            _lock: file,
        };
        state.generation_floor = state.begin_session()?.min(RESTARTS_MAX) << GENERATION_BITS;
        Ok(state)
    }

    /// Return the id of this state file. Every verification header that a run writes contains the
    /// id of its state file.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn issued(&self, granule: usize) -> &AtomicU32 {
        &self.map.words32()[self.body_word32 + 2 * granule]
    }

    pub(super) fn acknowledged(&self, granule: usize) -> &AtomicU32 {
        &self.map.words32()[self.body_word32 + 2 * granule + 1]
    }

    /// Return whether the machine ever restarted while the state file was open, so that the file's
    /// last records may be missing.
    pub(super) fn outlived_restart(&self) -> bool {
        self.map.words32()[RESTARTS_WORD32].load(Ordering::Relaxed) > 0
    }

    /// Return the number above which new generations start. It is raised after each restart of the
    /// machine, so that generations whose record was lost in a power cut are not used again.
    pub(super) fn generation_floor(&self) -> u32 {
        self.generation_floor
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.map
            .sync()
            .map_err(|source| Error::io("flush", self.path.display().to_string(), 0, source))
    }

    fn boot(&self) -> &AtomicU64 {
        &self.map.words64()[BOOT_WORD64]
    }

    /// Mark the state file as open. Return how often the machine has restarted while it was open.
    fn begin_session(&self) -> Result<u32> {
        let words = self.map.words32();
        let boot = boot_id();
        let clean = words[CLEAN_WORD32].swap(0, Ordering::Relaxed) == 1;
        let before = self.boot().swap(boot, Ordering::Relaxed);
        if !clean && before != 0 && before != boot {
            words[RESTARTS_WORD32].fetch_add(1, Ordering::Relaxed);
        }
        self.flush()?;
        Ok(words[RESTARTS_WORD32].load(Ordering::Relaxed))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // If the flush fails, the state file stays marked as open, which makes later checks less
        // strict.
        if self.map.sync().is_ok() {
            self.map.words32()[CLEAN_WORD32].store(1, Ordering::Relaxed);
            let _ = self.map.sync();
        }
    }
}

/// Open and lock the state file at `path`; `None` if it does not exist or is empty.
fn existing(path: &Path) -> Result<Option<LockedFile>> {
    let refused = |source| Error::io("open", path.display().to_string(), 0, source);
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(error)),
        Ok(metadata) if !metadata.is_file() => {
            let what = format!("{} is not a regular file", path.display());
            return Err(Error::spec(FIELD, what, "give the path of a file"));
        }
        Ok(metadata) if metadata.len() == 0 => return Ok(None),
        Ok(_) => {}
    }
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(refused)?;
    Ok(Some(lock(path, file)?))
}

/// Create a state file. It is written completely under another name and then renamed.
fn create(path: &Path, description: &Description, granules: u64) -> Result<LockedFile> {
    let refused = |source| Error::io("create", path.display().to_string(), 0, source);
    let text = encode(path, description)?;
    let bytes = file_bytes(path, body_start(&text), granules)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let place = parent.canonicalize().map_err(refused)?;
    if place.starts_with("/dev") && !place.starts_with("/dev/shm") {
        let what = format!(
            "{} lies under /dev, where a regular file would not survive a restart",
            path.display()
        );
        return Err(Error::spec(FIELD, what, "give the path of a file elsewhere"));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&unfinished)
        .map_err(refused)?;
    let locked = lock(path, file)?;
    let file = &locked.0;
    file.set_len(0).and_then(|()| reserve(file, bytes as u64)).map_err(refused)?;
    let mut fixed = [0u8; FIXED_BYTES];
    fixed[0..8].copy_from_slice(MAGIC);
    fixed[8..12].copy_from_slice(&VERSION.to_le_bytes());
    fixed[12..16].copy_from_slice(&(text.len() as u32).to_le_bytes());
    fixed[16..24].copy_from_slice(&xxh3_64(&text).to_le_bytes());
    file.write_all_at(&fixed, 0).map_err(refused)?;
    file.write_all_at(&text, FIXED_BYTES as u64).map_err(refused)?;
    file.sync_all().map_err(refused)?;
    durable::name(&unfinished, path)?;
    Ok(locked)
}

fn read_description(path: &Path, file: &File) -> Result<Description> {
    let foreign = |what: &str| Error::spec(FIELD, format!("{} {what}", path.display()), NEW_STATE);
    let mut fixed = [0u8; FIXED_BYTES];
    file.read_exact_at(&mut fixed, 0).map_err(|_| foreign("is not a verify state file"))?;
    if &fixed[0..8] != MAGIC {
        return Err(foreign("is not a verify state file"));
    }
    if fixed[8..12] != VERSION.to_le_bytes() {
        return Err(foreign("was written by another version of storlab"));
    }
    let len = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]) as usize;
    let mut text = vec![0; len.min(1 << 24)];
    file.read_exact_at(&mut text, FIXED_BYTES as u64).map_err(|_| foreign("is damaged"))?;
    if fixed[16..24] != xxh3_64(&text).to_le_bytes() {
        return Err(foreign("is damaged"));
    }
    serde_json::from_slice(&text).map_err(|_| foreign("is damaged"))
}

/// Fail unless the state file belongs to the target of this run: its records are ordered by
/// position, so they are useless for other files, devices or block sizes.
fn agree(path: &Path, recorded: &Description, wanted: &Description) -> Result<()> {
    let path = path.display();
    let what = if recorded.granule != wanted.granule {
        format!(
            "{path} belongs to blocks of {} bytes, but this run has blocks of {}",
            recorded.granule, wanted.granule
        )
    } else if recorded.members.len() != wanted.members.len() {
        format!(
            "{path} belongs to {} files or devices, but this run has {}",
            recorded.members.len(),
            wanted.members.len()
        )
    } else if let Some((old, new)) =
        recorded.members.iter().zip(&wanted.members).find(|(old, new)| old != new)
    {
        let text =
            |m: &DescribedMember| format!("{} ({} bytes from offset {})", m.name, m.size, m.offset);
        format!("{path} belongs to {}, but this run has {}", text(old), text(new))
    } else {
        return Ok(());
    };
    Err(Error::spec(FIELD, what, NEW_STATE))
}

/// Fail if the state file is itself a file or device under test.
fn check_place(path: &Path, members: &[Member]) -> Result<()> {
    let Ok(state) = fs::metadata(path) else { return Ok(()) };
    for member in members {
        if fs::metadata(&member.path)
            .is_ok_and(|metadata| metadata.dev() == state.dev() && metadata.ino() == state.ino())
        {
            let what = format!("{} is also the file under test, {}", path.display(), member.name);
            return Err(Error::spec(FIELD, what, "give the path of another file"));
        }
    }
    Ok(())
}

/// File with an exclusive lock, against this process and all others.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing alone might not release the lock: a process being forked holds a copy of the
        // descriptor until it calls exec.
        let _ = self.0.unlock();
    }
}

fn lock(path: &Path, file: File) -> Result<LockedFile> {
    match try_lock_file(&file) {
        Ok(()) => Ok(LockedFile(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("{} is in use by another run", path.display());
            Err(Error::spec(FIELD, what, "wait for its end, or give each run its own state file"))
        }
        Err(TryLockError::Error(error)) => {
            Err(Error::io("lock", path.display().to_string(), 0, error))
        }
    }
}

/// Allocate the whole file now, because writing to its mapping on a full disk would kill the
/// process.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        reserved => Ok(reserved?),
    }
}

fn encode(path: &Path, description: &Description) -> Result<Vec<u8>> {
    serde_json::to_vec(description)
        .map_err(|error| Error::io("create", path.display().to_string(), 0, error.into()))
}

fn body_start(text: &[u8]) -> usize {
    (FIXED_BYTES + text.len()).next_multiple_of(BODY_ALIGNMENT)
}

fn file_bytes(path: &Path, body: usize, granules: u64) -> Result<usize> {
    let bytes = granules.checked_mul(8).and_then(|bytes| bytes.checked_add(body as u64));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        let what = format!(
            "{} would be too large, with 8 bytes for each of {granules} blocks",
            path.display()
        );
        Error::spec(FIELD, what, "use a larger verify.block or a smaller region")
    })
}

/// Return a random id for a new state file. Two state files have different ids even if their seed
/// is the same.
fn new_id(seed: u64) -> u64 {
    use std::hash::BuildHasher as _;
    std::hash::RandomState::new().hash_one(seed)
}

/// Return a hash of the kernel's boot id, which changes with each boot; 0 if it is not available.
fn boot_id() -> u64 {
    fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |text| xxh3_64(&text) | 1)
}
