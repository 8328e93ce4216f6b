//! Reader of the lines of one part of a file, in blocks of whole lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use storlab_base::{Error, Result};

use super::parse::PADDING;

/// Maximum number of bytes of a click log that are read at a time.
pub const BLOCK_BYTES: usize = 4 << 20;
/// Number of bytes to read past the end of the part, for the rest of its last line. More are read
/// if the line is longer.
const TAIL_BYTES: usize = 64 << 10;
/// Longest accepted line in bytes, without its line feed. Click logs do not have longer lines, and
/// the limit bounds the memory.
const LONGEST_LINE: usize = 4 << 20;
const LF: u8 = b'\n';

/// Reader of the lines that begin in a byte range of a file.
pub struct Lines<'p> {
    path: &'p Path,
    file: File,
    /// Size of the file in bytes.
    size: u64,
    /// End of the range: lines that begin here or later belong to other parts.
    end: u64,
    /// Offset in the file of the next read.
    next: u64,
    /// Number of bytes in the buffer that were not returned yet.
    kept: usize,
    buffer: Vec<u8>,
}

/// Block of whole lines, each with its line feed, followed by [`PADDING`] bytes.
pub struct Block<'b> {
    /// Bytes of the lines, followed by the padding.
    pub data: &'b [u8],
    /// Length of the lines in bytes, without the padding.
    pub len: usize,
    /// Number of the part's bytes that were read for the block.
    pub bytes: u64,
}

impl<'p> Lines<'p> {
    /// Open a file to read the lines that begin in `start..end`.
    pub fn open(path: &'p Path, start: u64, end: u64) -> Result<Self> {
        let failed = |e| Error::io("open", path.display().to_string(), 0, e);
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let end = end.min(size);
        let mut lines = Lines { path, file, size, end, next: start, kept: 0, buffer: Vec::new() };
        if start > 0 && start < end {
            lines.skip_to_line(start)?;
        }
        Ok(lines)
    }

    /// Move to the first line that begins at `start` or later. The line before it belongs to the
    /// previous part.
    fn skip_to_line(&mut self, start: u64) -> Result<()> {
        let mut probe = vec![0; 4096];
        let mut at = start - 1;
        loop {
            let read = self.read_at(at, &mut probe)?;
            if let Some(feed) = probe[..read].iter().position(|&byte| byte == LF) {
                self.next = at + feed as u64 + 1;
                return Ok(());
            }
            at += read as u64;
            if read == 0 || at >= self.end {
                self.next = self.end;
                return Ok(());
            }
        }
    }

    /// Return the next block of whole lines; `None` after the last one.
    pub fn block(&mut self) -> Result<Option<Block<'_>>> {
        let before = self.next - self.kept as u64;
        if before >= self.end {
            return Ok(None);
        }
        loop {
            let before_fill = self.kept;
            self.fill()?;
            let held = self.kept;
            let ends_here = self.next >= self.size;
            if ends_here && self.buffer[held - 1] != LF {
                self.buffer[held] = LF;
                self.kept += 1;
                self.next += 1;
            }
            self.not_endless(before, before_fill)?;
            // The part's last line is the last one that begins before the part's end.
            let own = (self.end - before) as usize;
            let limit = if self.kept >= own {
                let after = self.buffer[own - 1..self.kept].iter().position(|&b| b == LF);
                after.map(|feed| own + feed)
            } else {
                self.buffer[..self.kept].iter().rposition(|&b| b == LF).map(|feed| feed + 1)
            };
            let Some(len) = limit else { continue };
            let whole = before + len as u64;
            let last = whole >= self.end;
            let bytes = whole.min(self.size) - before;
            return Ok(Some(self.hand_over(len, last, bytes)));
        }
    }

    /// Fail if a line is too long. Only a line that continues past the first `filled` bytes of the
    /// buffer can be too long. The buffer begins at offset `at` of the file.
    fn not_endless(&self, at: u64, filled: usize) -> Result<()> {
        let (before, after) = self.buffer[..self.kept].split_at(filled);
        if before.is_empty() {
            return Ok(());
        }
        let start = before.iter().rposition(|&b| b == LF).map_or(0, |feed| feed + 1);
        let end = after.iter().position(|&b| b == LF).unwrap_or(after.len());
        if filled - start + end <= LONGEST_LINE {
            return Ok(());
        }
        let at = at + start as u64;
        let what = format!("has a line of more than 4 MiB, which begins at byte {at}");
        Err(Error::spec(self.path.display().to_string(), what, "name files that hold click logs"))
    }

    fn hand_over(&mut self, len: usize, last: bool, bytes: u64) -> Block<'_> {
        // The incomplete line at the end of the buffer will be read again with the next block.
        self.next -= (self.kept - len) as u64;
        self.kept = 0;
        if last {
            self.next = self.next.max(self.end);
        }
        Block { data: &self.buffer[..len + PADDING], len, bytes }
    }

    /// Read more bytes into the buffer, but only a little beyond the end of the part.
    fn fill(&mut self) -> Result<()> {
        let held = self.kept;
        let tail = TAIL_BYTES.max(held) as u64;
        let wanted = (self.end.saturating_sub(self.next) + tail).min(BLOCK_BYTES as u64) as usize;
        self.buffer.resize((held + wanted + PADDING + 1).max(self.buffer.len()), 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_at(self.next, &mut buffer[held..held + wanted]);
        self.buffer = buffer;
        let read = read?;
        if read == 0 {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter");
            return Err(Error::io("read", self.path.display().to_string(), self.next, source));
        }
        self.kept += read;
        self.next += read as u64;
        Ok(())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(Error::io("read", self.path.display().to_string(), at, e));
                }
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &Path, start: u64, end: u64) -> Vec<u8> {
        let mut lines = Lines::open(path, start, end).unwrap();
        let mut all = Vec::new();
        while let Some(block) = lines.block().unwrap() {
            assert_eq!(block.data[block.len - 1], LF);
            all.extend_from_slice(&block.data[..block.len]);
        }
        all
    }

    proptest! {
        #[test]
        fn parts_hold_every_line_once(
            text in "([a-c]{0,9}\n){0,9}[a-c]{0,5}", part in 1..20u64,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f");
            std::fs::write(&path, &text).unwrap();
            let mut expected = text.into_bytes();
            let size = expected.len() as u64;
            if expected.last().is_some_and(|&byte| byte != LF) {
                expected.push(LF);
            }
            let mut all = Vec::new();
            for start in (0..size).step_by(part as usize) {
                let own = read(&path, start, start + part);
                if !own.is_empty() {
                    let before = all.len() as u64;
                    prop_assert!((start..start + part).contains(&before));
                }
                all.extend(own);
            }
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn a_line_has_at_most_4_mib() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for begin in [0, 5, BLOCK_BYTES - 10, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 7] {
            for end in ["", "\n", "\nx", "\nx\n"] {
                let mut text = b"short\n".repeat(begin / 6);
                let at = text.len();
                text.resize(at + LONGEST_LINE, b'l');
                text.extend(end.bytes());
                std::fs::write(&path, &text).unwrap();
                let line_end = usize::from(!end.ends_with('\n'));
                assert_eq!(read(&path, 0, u64::MAX).len(), text.len() + line_end);
                assert_eq!(read(&path, 0, at as u64 + 1).len(), at + LONGEST_LINE + 1);
                text.insert(at, b'l');
                std::fs::write(&path, &text).unwrap();
                for last in [u64::MAX, at as u64 + 1] {
                    let mut lines = Lines::open(&path, 0, last).unwrap();
                    let failure = loop {
                        if let Err(error) = lines.block() {
                            break error.to_string();
                        }
                    };
                    let message = format!("more than 4 MiB, which begins at byte {at}");
                    assert!(failure.contains(&message), "{failure}");
                }
            }
        }
    }

    #[test]
    fn a_small_part_reads_little_of_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"a line\n".repeat(1 << 17)).unwrap();
        let mut lines = Lines::open(&path, 0, 16 << 10).unwrap();
        while lines.block().unwrap().is_some() {}
        assert!(lines.buffer.len() < (16 << 10) + 2 * TAIL_BYTES, "{}", lines.buffer.len());
    }

    #[test]
    fn lines_across_blocks_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut text = Vec::new();
        for number in 0..(3 * BLOCK_BYTES / 100) {
            text.extend(format!("{number:0width$}\n", width = 60 + number % 80).bytes());
        }
        std::fs::write(&path, &text).unwrap();
        assert!(read(&path, 0, u64::MAX) == text);
        let middle = text.len() as u64 / 2;
        let mut halves = read(&path, 0, middle);
        halves.extend(read(&path, middle, u64::MAX));
        assert!(halves == text);
    }
}
