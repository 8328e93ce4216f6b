//! Generate the data set. Existing files of the right size are kept, so that an interrupted
//! generation can continue.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use storlab_base::{Content, Identity, Result, Stamped as _, durable, failed, monotonic_ns};
use storlab_io::{File, Pass, Stream, StreamSpec};
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::cpu::available_cores;
use storlab_run::fixed::{Extras, FixedTotals, RecorderFactory, WorkerRecorder};
use storlab_run::outcome::{Outcome, Span};
use storlab_run::sampling::Kind;
use storlab_run::threads::{guarded, spawn};
use storlab_s3::transfer::Bucket;

use super::format::{FileFacts, Layout};
use super::shared::Home;
use super::spec::TrainingJob;

const KINDS: [Kind; 1] = [Kind::new(0, "write")];
const IO: usize = 1 << 20;
const DEPTH: usize = 16;
const SLOTS: usize = 20;
const MOST_THREADS: usize = 8;
/// Number of files that a thread flushes together. One by one, small files would each wait for a
/// flush.
const GROUP_FILES: usize = 16;
const GROUP_BYTES: u64 = 256 << 20;

/// State shared by the threads that generate the data set.
struct GeneratorShared {
    job: TrainingJob,
    home: Home,
    content: Content,
    next: AtomicU64,
    control: Arc<Control>,
}

impl GeneratorShared {
    /// Flush the directory of the files and the directories above it, up to the parent of the data
    /// set.
    fn sync_directories(&self) -> Result<()> {
        let Home::Directory(home) = &self.home else { return Ok(()) };
        let folder = &self.job.records.folder;
        let above = folder.split('/').count() + 2;
        let all = home.join(folder);
        for directory in all.ancestors().take(above).filter(|d| !d.as_os_str().is_empty()) {
            durable::flush(directory)?;
        }
        Ok(())
    }
}

/// Generate all missing files of the data set. The outcome counts only the files that this run
/// wrote.
pub fn run(job: TrainingJob, home: Home, control: &Arc<Control>, board: &Board) -> Outcome {
    let threads = available_cores().min(MOST_THREADS).min(job.records.files as usize).max(1);
    let content = Content::new(job.records.seed, SLOTS, IO);
    let interval_ns = job.interval_ns;
    let works = Arc::new(GeneratorShared {
        job,
        home,
        content,
        next: AtomicU64::new(0),
        control: control.clone(),
    });
    let (factory, reports) = RecorderFactory::new(interval_ns, &KINDS);
    let mut totals = FixedTotals::begin(threads, &factory, control, board);
    let (end, ends) = channel();
    let start_ns = totals.start_ns();
    let mut extras = Extras { takes_tasks: true, ..Extras::default() };
    if let Home::Directory(home) = &works.home {
        let folder = home.join(&works.job.records.folder);
        if let Err(error) = fs::create_dir_all(&folder) {
            extras.failure = Some(failed("create", &folder)(error));
            return totals.finish(monotonic_ns().max(start_ns + 1), control, extras);
        }
    }
    for index in 0..threads {
        let (works, factory, end) = (works.clone(), factory.clone(), end.clone());
        let work = move || make_files(&works, index, &factory, &end);
        if let Err(error) = spawn(format!("storlab-gen{index}"), "the data set", work) {
            extras.failure = Some(error);
            control.end_soon();
        }
    }
    drop((factory, end));
    let ended = totals.follow(&reports, board, control, works.job.drain_timeout_ns);
    let mut bytes = 0;
    // Do not wait for more results: a thread that hangs sends none.
    for ended in ends.try_iter() {
        match ended {
            Ok(made) => bytes += made,
            Err(error) => drop(extras.failure.get_or_insert(error)),
        }
    }
    // Errors of threads come first: they say more than the error that another thread hangs.
    extras.failure = extras.failure.or(ended.err());
    if extras.failure.is_none() {
        extras.failure = works.sync_directories().err();
    }
    let end_ns = monotonic_ns().max(start_ns + 1);
    extras.spans.push(Span { kind: "generate", name: "data set".into(), start_ns, end_ns, bytes });
    totals.finish(end_ns, control, extras)
}

fn make_files(
    works: &GeneratorShared,
    index: usize,
    factory: &RecorderFactory,
    end: &Sender<Result<u64>>,
) {
    let mut recorder = factory.recorder(index);
    let who = "a thread of the data set";
    let ended = guarded("training", who, || make_share(works, index, &mut recorder));
    if ended.is_err() {
        works.control.end_soon();
    }
    drop(recorder);
    let _ = end.send(ended);
}

/// Generate files until none are left. Return the number of bytes that this thread wrote.
fn make_share(works: &GeneratorShared, index: usize, recorder: &mut WorkerRecorder) -> Result<u64> {
    let mut maker = Maker::new(works, index)?;
    let mut made = 0;
    while !works.control.stopping() {
        let turn = works.next.fetch_add(1, Ordering::Relaxed);
        let number = works.job.first_file + turn * works.job.file_step;
        if number >= works.job.records.files {
            break;
        }
        made += maker.make(works, number, recorder)?;
    }
    maker.finish()?;
    Ok(made)
}

/// Writer of files or objects, one per thread.
enum Maker {
    Files(Box<Stream>, Group),
    Objects(Box<Bucket>),
}

/// Files that are written but not yet flushed.
///
/// A file gets its final name only after its flush. A later run takes a file of the right size as
/// complete, but after a power loss a file may have its size without its content.
#[derive(Default)]
struct Group {
    files: Vec<(File, PathBuf)>,
    bytes: u64,
}

impl Group {
    fn add(&mut self, file: File, path: PathBuf, bytes: u64) -> Result<()> {
        self.files.push((file, path));
        self.bytes += bytes;
        if self.files.len() >= GROUP_FILES || self.bytes >= GROUP_BYTES {
            self.name_all()?;
        }
        Ok(())
    }

    fn name_all(&mut self) -> Result<()> {
        for (file, _) in &self.files {
            file.sync()?;
        }
        for (_, path) in self.files.drain(..) {
            durable::rename(&unnamed(&path), &path)?;
        }
        self.bytes = 0;
        Ok(())
    }
}

/// Return the temporary path of a file that is being written.
fn unnamed(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

impl Maker {
    fn new(works: &GeneratorShared, index: usize) -> Result<Self> {
        if let Home::Store(store, _) = &works.home {
            let (policy, control) = (works.job.place.request_policy(), works.control.clone());
            let stopping = move || control.stopping();
            let bucket = Bucket::new(store.clone(), 1, index, &policy, stopping)?;
            return Ok(Maker::Objects(Box::new(bucket)));
        }
        let mut stream = Stream::new(StreamSpec { io_bytes: IO, depth: DEPTH, slots: SLOTS })?;
        stream.fill(|slot, buffer| buffer.copy_from_slice(works.content.pattern(slot)));
        Ok(Maker::Files(Box::new(stream), Group::default()))
    }

    /// Flush the last group of files, and rename them to their final names.
    fn finish(&mut self) -> Result<()> {
        match self {
            Maker::Files(_, group) => group.name_all(),
            Maker::Objects(_) => Ok(()),
        }
    }

    /// Generate a file. Return the number of bytes written; 0 if the file exists already.
    fn make(
        &mut self,
        works: &GeneratorShared,
        number: u64,
        recorder: &mut WorkerRecorder,
    ) -> Result<u64> {
        let facts = works.job.records.file(number);
        let layout = Layout::new(&works.job.records, &facts)?;
        match (self, &works.home) {
            (Maker::Files(stream, group), Home::Directory(home)) => {
                let (path, bytes) = (home.join(&facts.path), layout.len);
                match make_file(works, &path, &facts, layout, stream, recorder)? {
                    Some(file) => group.add(file, path, bytes).map(|()| bytes),
                    None => Ok(0),
                }
            }
            (Maker::Objects(bucket), Home::Store(_, prefix)) => {
                let key = format!("{prefix}{}", facts.path);
                make_object(works, &key, &facts, layout, bucket, recorder)
            }
            _ => Ok(0), // maker and home are created together and always match
        }
    }
}

fn identity(facts: &FileFacts) -> Identity {
    Identity { number: 0, file: facts.number as usize, header: 0 }
}

fn seal(works: &GeneratorShared, facts: &FileFacts, layout: &mut Layout) {
    layout.seal(|layout, at, part| {
        works.content.of(identity(facts)).fill(at, part);
        layout.overlay(at, part);
    });
}

/// Write a file under its temporary name. Return `None` if it exists already or the run is
/// stopping.
fn make_file(
    works: &GeneratorShared,
    path: &Path,
    facts: &FileFacts,
    mut layout: Layout,
    stream: &mut Stream,
    recorder: &mut WorkerRecorder,
) -> Result<Option<File>> {
    if fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() == layout.len) {
        return Ok(None);
    }
    seal(works, facts, &mut layout);
    let aside = unnamed(path);
    match fs::remove_file(&aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &aside)(e));
        }
        _ => {}
    }
    let file = File::create(&aside, &facts.path, works.job.place.direct)?;
    file.preallocate(layout.len)?; // faster on file systems that support it
    let whose = identity(facts);
    let ended = stream.write(
        &file,
        layout.len,
        &|| works.control.stopping(),
        |offset, slot, buffer| {
            // Restore the pattern, because the buffer still contains headers from its previous use.
            buffer.copy_from_slice(&works.content.pattern(slot)[..buffer.len()]);
            works.content.stamp_all(whose, offset, buffer);
            layout.overlay(offset, buffer);
        },
        |chunk| {
            let end_ns = chunk.start_ns + chunk.latency_ns;
            recorder.record(0, chunk.data.len() as u64, chunk.latency_ns, end_ns);
            Ok(())
        },
    )?;
    if ended == Pass::Stopped {
        return Ok(None);
    }
    if file.is_direct() {
        file.truncate(layout.len)?;
    }
    Ok(Some(file))
}

/// Build an object in memory and upload it. Return the number of bytes written; 0 if it exists
/// already. Each thread holds one object at a time.
fn make_object(
    works: &GeneratorShared,
    key: &str,
    facts: &FileFacts,
    mut layout: Layout,
    bucket: &mut Bucket,
    recorder: &mut WorkerRecorder,
) -> Result<u64> {
    if bucket.head(key)? == Some(layout.len) {
        return Ok(0);
    }
    seal(works, facts, &mut layout);
    let mut bytes = vec![0; layout.len as usize];
    works.content.of(identity(facts)).fill(0, &mut bytes);
    layout.overlay(0, &mut bytes);
    let begin = monotonic_ns();
    bucket.put(key, &bytes.into())?;
    let now = monotonic_ns();
    recorder.record(0, layout.len, now - begin, now);
    Ok(layout.len)
}
