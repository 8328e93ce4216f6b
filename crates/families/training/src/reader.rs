//! Reader thread: loads whole batches, one sample after the other. If the job asks for it, it also
//! parses or verifies the data.

use std::path::Path;
use std::sync::Arc;

use storlab_base::{Error, Result, monotonic_ns};
use storlab_io::{Access, File, Pass, SECTOR, Stream, StreamSpec};
use storlab_run::fixed::WorkerRecorder;
use storlab_s3::transfer::Bucket;

use super::format::{FileFacts, masked, tfrecord_stride};
use super::lane::Loaded;
use super::order::Piece;
use super::parse::{Npz, Records as RecordParser};
use super::shared::{Home, Shared};
use super::spec::{Check, Format, TrainingJob};

/// Index of operation `read` in the counters.
pub const READ: usize = 0;

/// Source from which a reader loads samples.
enum Source {
    /// Files, read with several I/Os in flight.
    Files(Box<Stream>),
    /// Objects, read over one connection.
    Objects(Box<Bucket>),
}

/// Reader of an accelerator, owned by one thread.
pub struct Reader {
    shared: Arc<Shared>,
    source: Source,
    recorder: WorkerRecorder,
}

impl Reader {
    /// Create a reader with its own buffers or connection. `turn` is the reader's number, which
    /// selects its first endpoint in a store. `begin` is called when everything else is ready, and
    /// opens the counters.
    pub fn new(
        shared: Arc<Shared>,
        turn: usize,
        begin: impl FnOnce() -> WorkerRecorder,
    ) -> Result<Self> {
        let source = match &shared.home {
            Home::Directory(_) => Source::Files(Box::new(Stream::new(buffers(&shared.job))?)),
            Home::Store(store, _) => {
                let (policy, control) = (shared.job.place.request_policy(), shared.control.clone());
                let stopping = move || control.stopping();
                let bucket = Bucket::new(store.clone(), 1, turn, &policy, stopping)?;
                Source::Objects(Box::new(bucket))
            }
        };
        let recorder = begin();
        Ok(Reader { shared, source, recorder })
    }

    /// Return the backend (`uring`, `posix` or `s3`) and the names of its features.
    pub fn backend(&self) -> (&'static str, Vec<&'static str>) {
        match &self.source {
            Source::Files(stream) => (stream.backend(), stream.features()),
            Source::Objects(_) => ("s3", Vec::new()),
        }
    }

    /// Load the samples of one batch.
    ///
    /// # Errors
    /// Errors of opening and reading files, and [`Error::Io`] with operation `parse` if a file does
    /// not match its format.
    pub fn load(&mut self, batch: &[Piece]) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for piece in batch {
            let begin = monotonic_ns();
            let Some(bytes) = self.load_piece(*piece)? else {
                loaded.stopped = true;
                return Ok(loaded);
            };
            let now = monotonic_ns();
            self.recorder.record(READ, bytes, now - begin, now);
            loaded.bytes += bytes;
        }
        Ok(loaded)
    }

    /// Load consecutive samples of one file. Return the number of bytes read; `None` if the run is
    /// stopping.
    fn load_piece(&mut self, piece: Piece) -> Result<Option<u64>> {
        let shared = self.shared.clone();
        let facts = shared.job.records.file(piece.file);
        let stopping = || shared.control.stopping();
        let part = part_of(&shared, &facts, piece);
        let mut parser = Parser::new(&shared, facts.path.clone());
        let moved = match (&mut self.source, &shared.home) {
            (Source::Files(stream), Home::Directory(home)) => {
                from_file(stream, &shared, &home.join(&facts.path), part, &stopping, &mut parser)?
            }
            (Source::Objects(bucket), Home::Store(_, prefix)) => {
                let key = format!("{prefix}{}", facts.path);
                bucket.get(&key, part, &stopping, |offset, data| parser.add(offset, data))?
            }
            _ => None, // source and home are created together and always match
        };
        if let Some(bytes) = moved {
            parser.finish(bytes)?;
        }
        Ok(moved)
    }
}

/// Size a reader's buffers by the largest file of the data set. The kernel clears and pins all
/// buffers before the first read, so buffers that are never filled would cost time.
fn buffers(job: &TrainingJob) -> StreamSpec {
    let largest = job.records.most_file_bytes().next_multiple_of(SECTOR);
    let io_bytes = job.read_bytes.min(largest);
    let chunks = usize::try_from(largest.div_ceil(io_bytes)).unwrap_or(usize::MAX);
    let (depth, slots) = (job.queue_depth.min(chunks), (job.queue_depth + 2).min(chunks));
    StreamSpec { io_bytes: io_bytes as usize, depth, slots }
}

/// Return offset and length of a piece's samples in their file; `None` if the whole file is read.
fn part_of(shared: &Shared, facts: &FileFacts, piece: Piece) -> Option<(u64, u64)> {
    let records = &shared.job.records;
    let whole = piece.samples == records.samples_per_file;
    if records.format != Format::Tfrecord || whole {
        return None; // an npz file is read as a whole
    }
    let stride = tfrecord_stride(facts.sample_bytes);
    Some((piece.first * stride, piece.samples * stride))
}

/// Read a part of a file, or the whole file without `part`. Direct I/O reads the whole sectors that
/// contain the part.
fn from_file(
    stream: &mut Stream,
    shared: &Shared,
    path: &Path,
    part: Option<(u64, u64)>,
    stopping: &dyn Fn() -> bool,
    parser: &mut Parser,
) -> Result<Option<u64>> {
    let direct = shared.job.place.direct;
    let access = Access { read: true, write: false, direct };
    let file = File::open(path, &parser.name, access)?;
    let (from, len) = match part {
        Some(part) => part,
        None => (0, file.len()?),
    };
    let start = if file.is_direct() { from / SECTOR * SECTOR } else { from };
    let read = from + len - start;
    let ended = stream.read_part(&file, start, read, stopping, |chunk| {
        let skipped = from.saturating_sub(chunk.offset).min(chunk.data.len() as u64) as usize;
        parser.add(chunk.offset + skipped as u64, &chunk.data[skipped..])
    })?;
    Ok((ended == Pass::Whole).then_some(read))
}

/// Parser of the data read from one file, as thorough as the job's `check`.
struct Parser {
    name: String,
    format: Parsing,
}

enum Parsing {
    Npz(Npz),
    Records(RecordParser),
    Nothing,
}

impl Parser {
    fn new(shared: &Shared, name: String) -> Self {
        let crc = shared.job.check == Check::Crc;
        let format = match shared.job.records.format {
            _ if shared.job.check == Check::Bytes => Parsing::Nothing,
            Format::Npz => Parsing::Npz(Npz::new(crc)),
            Format::Tfrecord => Parsing::Records(RecordParser::new(crc, masked)),
            Format::Jpeg => Parsing::Nothing,
        };
        Parser { name, format }
    }

    fn add(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let parsed = match &mut self.format {
            Parsing::Npz(npz) => npz.add(data),
            Parsing::Records(records) => records.add(data),
            Parsing::Nothing => Ok(()),
        };
        parsed.map_err(|what| broken(&self.name, offset, &what))
    }

    fn finish(&self, bytes: u64) -> Result<()> {
        let parsed = match &self.format {
            Parsing::Npz(npz) => npz.finish(bytes),
            Parsing::Records(records) => records.finish(),
            Parsing::Nothing => Ok(()),
        };
        parsed.map_err(|what| broken(&self.name, bytes, &what))
    }
}

fn broken(name: &str, offset: u64, what: &str) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    Error::io("parse", name, offset, source)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::job;

    #[test]
    fn buffers_are_those_that_a_file_fills() {
        let of = |bytes: u64| {
            let made = job(Path::new("/"), |job| {
                job["records"]["record_bytes"] = json!(bytes);
                job["records"]["record_stdev_bytes"] = json!(0);
                (job["read_bytes"], job["queue_depth"]) = (json!(1 << 20), json!(16));
            });
            let StreamSpec { io_bytes, depth, slots } = buffers(&made);
            (io_bytes, depth, slots)
        };
        assert_eq!(of(100_000), (102_400, 1, 1));
        assert_eq!(of(3_000_000), (1 << 20, 3, 3));
        assert_eq!(of(1 << 30), (1 << 20, 16, 18));
    }
}
