//! Merge of sorted runs (results of counting passes) into the files of a vocabulary.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

const BUFFER_BYTES: usize = 1 << 16;
const RUN_BUFFER_BYTES: usize = 1 << 14;

/// Sorted result of one counting pass: values (32 bits) and counts (64 bits) in little endian, by
/// descending count, then by ascending value.
#[derive(Debug)]
pub struct Run<R> {
    values: BufReader<R>,
    counts: BufReader<R>,
}

impl<R: Read> Run<R> {
    /// Create a sorted run that reads its values and counts from `values` and `counts` through
    /// buffers.
    pub fn new(values: R, counts: R) -> Self {
        let buffered = |reader| BufReader::with_capacity(RUN_BUFFER_BYTES, reader);
        Run { values: buffered(values), counts: buffered(counts) }
    }

    /// Return the next sort key (see [`rank`]); [`END`] after the last.
    fn next(&mut self) -> io::Result<u128> {
        let ends = (self.values.fill_buf()?.is_empty(), self.counts.fill_buf()?.is_empty());
        if ends == (true, true) {
            return Ok(END);
        }
        let (mut value, mut count) = ([0; 4], [0; 8]);
        self.values.read_exact(&mut value)?;
        self.counts.read_exact(&mut count)?;
        Ok(rank(u32::from_le_bytes(value), u64::from_le_bytes(count)))
    }
}

/// Merge sorted runs, which must not have values in common, into one vocabulary. Return the number
/// of values.
///
/// # Errors
/// If a run cannot be read or an output cannot be written; [`io::ErrorKind::UnexpectedEof`] if a
/// run has fewer counts than values.
pub fn merge<R: Read>(
    runs: &mut [Run<R>],
    values: &mut dyn Write,
    counts: &mut dyn Write,
) -> io::Result<u64> {
    let firsts = runs.iter_mut().map(Run::next).collect::<io::Result<Vec<_>>>()?;
    let mut tournament = Tournament::new(firsts.into_iter());
    let mut vocabulary = Vocabulary::new(values, counts);
    while let Some((value, count, run)) = tournament.winner() {
        vocabulary.write(value, count)?;
        tournament.replace(runs[run].next()?);
    }
    vocabulary.finish()
}

/// Writer of the two files of a vocabulary: values and counts.
pub struct Vocabulary<'w> {
    values: BufWriter<&'w mut dyn Write>,
    counts: BufWriter<&'w mut dyn Write>,
    written: u64,
}

impl<'w> Vocabulary<'w> {
    /// Create the writer, which buffers both files.
    pub fn new(values: &'w mut dyn Write, counts: &'w mut dyn Write) -> Self {
        let values = BufWriter::with_capacity(BUFFER_BYTES, values);
        Vocabulary { values, counts: BufWriter::with_capacity(BUFFER_BYTES, counts), written: 0 }
    }

    /// Append a value and its count to the vocabulary.
    pub fn write(&mut self, value: u32, count: u64) -> io::Result<()> {
        self.values.write_all(&value.to_le_bytes())?;
        self.counts.write_all(&count.to_le_bytes())?;
        self.written += 1;
        Ok(())
    }

    /// Write out both buffers. Return the number of values.
    pub fn finish(mut self) -> io::Result<u64> {
        self.values.flush()?;
        self.counts.flush()?;
        Ok(self.written)
    }
}

/// Return the sort key of a value in a vocabulary: by descending count, then by ascending value.
#[inline]
pub fn rank(value: u32, count: u64) -> u128 {
    u128::from(!count) << u32::BITS | u128::from(value)
}

/// Sort key that is larger than all others: counts are at least 1.
pub const END: u128 = (1 << 96) - 1;

/// Loser tree (Knuth, The Art of Computer Programming 3, 5.4.1) over sorted sources. It finds the
/// smallest sort key with one comparison per level.
#[derive(Debug)]
pub struct Tournament {
    /// Nodes of the tree: first the overall winner, then the loser of each match, beginning with
    /// the final. Match n is played by the winners of matches 2n and 2n + 1. A node is a sort key,
    /// with its source in the low 32 bits.
    nodes: Vec<u128>,
}

impl Tournament {
    /// Create the tree from the first sort key of each source; [`END`] stands for an empty source.
    pub fn new(firsts: impl Iterator<Item = u128>) -> Self {
        let mut winners: Vec<u128> =
            firsts.zip(0..).map(|(rank, n)| with_source(rank, n)).collect();
        let leaves = winners.len().next_power_of_two();
        winners.resize(leaves, with_source(END, 0));
        let mut nodes = winners.clone();
        while winners.len() > 1 {
            let matches = winners.len() / 2;
            for number in 0..matches {
                let (left, right) = (winners[2 * number], winners[2 * number + 1]);
                nodes[matches + number] = left.max(right);
                winners[number] = left.min(right);
            }
            winners.truncate(matches);
        }
        nodes[0] = winners[0];
        Tournament { nodes }
    }

    /// Return value, count and source of the smallest sort key; `None` if all sources are empty.
    pub fn winner(&self) -> Option<(u32, u64, usize)> {
        let winner = self.nodes[0];
        let rank = winner >> u32::BITS;
        let source = winner as u32 as usize;
        (rank < END).then_some((rank as u32, !((rank >> u32::BITS) as u64), source))
    }

    /// Replace the winner by the next sort key of its source.
    pub fn replace(&mut self, rank: u128) {
        let source = self.nodes[0] as u32;
        let mut winner = with_source(rank, source);
        let mut node = (self.nodes.len() + source as usize) >> 1;
        while node > 0 {
            let other = self.nodes[node];
            // Branch-free: it is unpredictable which one wins, so a branch would mispredict.
            let swap = u128::from(other < winner).wrapping_neg() & (winner ^ other);
            self.nodes[node] = other ^ swap;
            winner ^= swap;
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

#[inline]
fn with_source(rank: u128, source: u32) -> u128 {
    rank << u32::BITS | u128::from(source)
}
