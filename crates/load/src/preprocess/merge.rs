//! Merging sorted runs of values into the files of a vocabulary.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

const BUFFER_BYTES: usize = 1 << 16;
const RUN_BUFFER_BYTES: usize = 1 << 14;

/// What one pass has written: values (32 bits) and counts (64 bits), little endian, by count, the
/// highest first, then by value.
#[derive(Debug)]
pub struct Run<R> {
    values: BufReader<R>,
    counts: BufReader<R>,
}

impl<R: Read> Run<R> {
    /// From the beginning of both; they are buffered here.
    pub fn new(values: R, counts: R) -> Self {
        let buffered = |reader| BufReader::with_capacity(RUN_BUFFER_BYTES, reader);
        Run { values: buffered(values), counts: buffered(counts) }
    }

    /// The place of the next value among all: the complement of its count, then itself.
    fn next(&mut self) -> io::Result<u128> {
        let ends = (self.values.fill_buf()?.is_empty(), self.counts.fill_buf()?.is_empty());
        if ends == (true, true) {
            return Ok(END);
        }
        let (mut value, mut count) = ([0; 4], [0; 8]);
        self.values.read_exact(&mut value)?;
        self.counts.read_exact(&mut count)?;
        let above = u128::from(!u64::from_le_bytes(count));
        Ok(above << 32 | u128::from(u32::from_le_bytes(value)))
    }
}

/// After all places that there are.
const END: u128 = u128::MAX;

/// Merge runs that have no value in common into one. Says how many values that has.
///
/// # Errors
/// Those of readers and writers; [`io::ErrorKind::UnexpectedEof`] for a run with more values than
/// counts, or fewer.
pub fn merge<R: Read>(
    runs: &mut [Run<R>],
    values: &mut dyn Write,
    counts: &mut dyn Write,
) -> io::Result<u64> {
    let firsts = runs.iter_mut().map(Run::next).collect::<io::Result<Vec<_>>>()?;
    let mut tournament = Tournament::new(firsts.into_iter(), END);
    let mut vocabulary = Vocabulary::new(values, counts);
    while let Some((place, run)) = tournament.winner() {
        vocabulary.write(place as u32, !((place >> 32) as u64))?;
        tournament.replace(runs[run].next()?);
    }
    vocabulary.finish()
}

/// The two files of a vocabulary, while they are written.
pub struct Vocabulary<'w> {
    values: BufWriter<&'w mut dyn Write>,
    counts: BufWriter<&'w mut dyn Write>,
    written: u64,
}

impl<'w> Vocabulary<'w> {
    /// They are buffered here.
    pub fn new(values: &'w mut dyn Write, counts: &'w mut dyn Write) -> Self {
        let values = BufWriter::with_capacity(BUFFER_BYTES, values);
        Vocabulary { values, counts: BufWriter::with_capacity(BUFFER_BYTES, counts), written: 0 }
    }

    /// The next value.
    pub fn write(&mut self, value: u32, count: u64) -> io::Result<()> {
        self.values.write_all(&value.to_le_bytes())?;
        self.counts.write_all(&count.to_le_bytes())?;
        self.written += 1;
        Ok(())
    }

    /// Flush both. Says how many values there are.
    pub fn finish(mut self) -> io::Result<u64> {
        self.values.flush()?;
        self.counts.flush()?;
        Ok(self.written)
    }
}

/// A tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1) over sources in order: the
/// least key of all, with one comparison a level.
#[derive(Debug)]
pub struct Tournament<K> {
    /// The winner, then the loser of each match from the final on: children of n are 2n, 2n + 1.
    nodes: Vec<(K, u32)>,
    end: K,
}

impl<K: Copy + Ord> Tournament<K> {
    /// From the first key of each source; `end` comes after all keys, and says that there is none.
    pub fn new(firsts: impl Iterator<Item = K>, end: K) -> Self {
        let mut winners: Vec<(K, u32)> = firsts.zip(0..).collect();
        let leaves = winners.len().next_power_of_two();
        winners.resize(leaves, (end, 0));
        let mut nodes = vec![(end, 0); leaves];
        while winners.len() > 1 {
            let matches = winners.len() / 2;
            for number in 0..matches {
                let (one, other) = (winners[2 * number], winners[2 * number + 1]);
                nodes[matches + number] = one.max(other);
                winners[number] = one.min(other);
            }
            winners.truncate(matches);
        }
        nodes[0] = winners[0];
        Tournament { nodes, end }
    }

    /// The least key, and whose it is.
    pub fn winner(&self) -> Option<(K, usize)> {
        let (key, source) = self.nodes[0];
        (key != self.end).then_some((key, source as usize))
    }

    /// The key after the winner, of the same source.
    pub fn replace(&mut self, key: K) {
        let mut candidate = (key, self.nodes[0].1);
        let mut node = (self.nodes.len() + candidate.1 as usize) / 2;
        while node > 0 {
            let loser = self.nodes[node];
            let loses = loser.0 < candidate.0;
            self.nodes[node] = if loses { candidate } else { loser };
            candidate = if loses { loser } else { candidate };
            node /= 2;
        }
        self.nodes[0] = candidate;
    }
}
