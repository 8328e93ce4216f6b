//! A reader: loads whole batches, one sample after the other, and looks into what it loads as the
//! order says.

use std::sync::Arc;

use storlab_base::{monotonic_ns, Error, Result};
use storlab_io::{Access, Chunk, File, Pass, Stream, StreamSpec, SECTOR};

use super::format::{masked, tfrecord_stride};
use super::order::Piece;
use super::parse::{Npz, Records as RecordParser};
use super::spec::{Check, Format};
use super::Shared;
use crate::fixed::Ledger;

/// Place of `read` in the counters.
pub const READ: usize = 0;

/// See the module. Belongs to its thread.
pub struct Reader {
    shared: Arc<Shared>,
    stream: Stream,
    ledger: Ledger,
}

/// What a batch was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Moved.
    pub bytes: u64,
    /// The run ended in the midst of it.
    pub stopped: bool,
}

impl Reader {
    /// With buffers of its own.
    ///
    /// # Errors
    /// Those of [`Stream::new`].
    pub fn new(shared: Arc<Shared>, ledger: Ledger) -> Result<Self> {
        let (io_bytes, depth) = (shared.job.read_bytes as usize, shared.job.queue_depth);
        let stream = Stream::new(StreamSpec { io_bytes, depth, slots: depth + 2 })?;
        Ok(Reader { shared, stream, ledger })
    }

    /// `uring` or `posix`, and what of the kernel it uses.
    pub fn backend(&self) -> (&'static str, Vec<&'static str>) {
        (self.stream.backend(), self.stream.features())
    }

    /// Load the samples of one batch.
    ///
    /// # Errors
    /// What the files' opening and reading give, and operation `parse` for one that is not what its
    /// format says.
    pub fn load(&mut self, batch: &[Piece]) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for piece in batch {
            let begin = monotonic_ns();
            let Some(bytes) = self.load_piece(*piece)? else {
                loaded.stopped = true;
                return Ok(loaded);
            };
            let now = monotonic_ns();
            self.ledger.record(READ, bytes, now - begin, now);
            loaded.bytes += bytes;
        }
        Ok(loaded)
    }

    /// Bytes moved; `None` when the run is to end.
    fn load_piece(&mut self, piece: Piece) -> Result<Option<u64>> {
        let shared = self.shared.clone();
        let job = &shared.job;
        let facts = job.records.file(piece.file);
        let path = shared.home.join(&facts.path);
        let access = Access { read: true, write: false, direct: job.place.direct };
        let file = File::open(&path, &facts.path, access)?;
        let stopping = || shared.control.stopping();
        let whole = piece.samples == job.records.samples_per_file;
        if job.records.format == Format::Tfrecord && !whole {
            let stride = tfrecord_stride(facts.sample_bytes);
            let (from, to) = (piece.first * stride, (piece.first + piece.samples) * stride);
            return self.read_records(&file, from, to, &stopping);
        }
        let len = file.len()?;
        match job.records.format {
            Format::Tfrecord => self.read_records(&file, 0, len, &stopping),
            Format::Npz if job.check != Check::Bytes => self.read_npz(&file, len, &stopping),
            Format::Npz | Format::Jpeg => {
                let ended = self.stream.read(&file, len, &stopping, |_| Ok(()))?;
                Ok((ended == Pass::Whole).then_some(len))
            }
        }
    }

    fn read_npz(
        &mut self,
        file: &File,
        len: u64,
        stopping: &dyn Fn() -> bool,
    ) -> Result<Option<u64>> {
        let mut parser = Npz::new(self.shared.job.check == Check::Crc);
        let ended = self.stream.read(file, len, stopping, |chunk| {
            parser.add(chunk.offset, chunk.data).map_err(|what| broken(file, chunk.offset, &what))
        })?;
        if ended == Pass::Stopped {
            return Ok(None);
        }
        parser.finish(len).map_err(|what| broken(file, 0, &what))?;
        Ok(Some(len))
    }

    /// The records from `from` to `to`; direct I/O reads whole sectors around them.
    fn read_records(
        &mut self,
        file: &File,
        from: u64,
        to: u64,
        stopping: &dyn Fn() -> bool,
    ) -> Result<Option<u64>> {
        let check = self.shared.job.check;
        let start = if file.is_direct() { from / SECTOR * SECTOR } else { from };
        let mut parser = RecordParser::new(check == Check::Crc, masked);
        let ended =
            self.stream.read_part(file, start, to - start, stopping, |chunk: Chunk<'_>| {
                if check == Check::Bytes {
                    return Ok(());
                }
                let skipped =
                    from.saturating_sub(chunk.offset).min(chunk.data.len() as u64) as usize;
                parser.add(&chunk.data[skipped..]).map_err(|what| broken(file, chunk.offset, &what))
            })?;
        if ended == Pass::Stopped {
            return Ok(None);
        }
        if check != Check::Bytes {
            parser.finish().map_err(|what| broken(file, to, &what))?;
        }
        Ok(Some(to - start))
    }
}

fn broken(file: &File, offset: u64, what: &str) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    Error::io("parse", file.name(), offset, source)
}
