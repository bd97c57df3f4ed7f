//! Reads `e5-small-q4.bin`: multilingual-e5-small with 4-bit weights and its tokenizer, in one file.
//!
//! Little-endian throughout. A head (magic, version, sizes), the pieces of the tokenizer, its replacements of characters,
//! a directory of tensors, the tensors. Matrices are packed weights, row by row: see [`super::blocks`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use half::f16;
use memmap2::Mmap;

use super::blocks::{BLOCK, BLOCK_BYTES, Packed};
use super::encoder::{Sizes, Tensors, Weights, Words};
use super::tokenizer::Tokenizer;
use super::unigram::Unigram;

const MAGIC: &[u8] = b"E5S1";
const VERSION: u32 = 1;

/// The file, looked through but not yet unpacked.
pub(crate) struct E5File {
    map: Arc<Mmap>,
    sizes: Sizes,
    directory: HashMap<String, Range<usize>>,
}

impl E5File {
    /// Reads all but the tensors.
    pub(crate) fn open(map: Arc<Mmap>) -> Result<(Self, Tokenizer), String> {
        let mut reader = Reader { rest: &map };
        if reader.bytes(MAGIC.len())? != MAGIC || reader.u32()? != VERSION {
            return Err("it is not a model file of this kind".into());
        }
        let [width, layers, heads, inner_width, words, positions, _kinds] = reader.numbers()?;
        let epsilon = reader.f32()?;
        let sizes = Sizes { width, layers, heads, inner_width, words, positions, epsilon };
        if reader.number()? != BLOCK {
            return Err("its weights are packed in an unknown way".into());
        }
        let tokenizer = read_tokenizer(&mut reader, words)?;
        let directory = read_directory(&mut reader, map.len())?;
        Ok((Self { map, sizes, directory }, tokenizer))
    }

    fn section(&self, name: &str, length: usize) -> Result<&[u8], String> {
        let range = self.directory.get(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        let bytes = self.map.get(range.clone()).unwrap_or_default();
        if bytes.len() == length { Ok(bytes) } else { Err(format!("tensor {name} has a wrong size")) }
    }
}

impl Tensors for E5File {
    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, String> {
        let (numbers, _) = self.section(name, length * 4)?.as_chunks::<4>();
        Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    fn weights(&self, names: &[String], rows: usize, columns: usize) -> Result<Weights, String> {
        let row_bytes = columns / BLOCK * BLOCK_BYTES;
        let parts = names.iter().map(|name| self.section(name, rows * row_bytes)).collect::<Result<Vec<_>, _>>()?;
        let outputs = parts.into_iter().flat_map(|part| part.chunks(row_bytes.max(1)));
        Packed::of(columns, outputs).map(Weights::Packed)
    }

    fn words(&self) -> Result<Box<dyn Words>, String> {
        let Sizes { width, words, .. } = self.sizes;
        let row_bytes = width / BLOCK * BLOCK_BYTES;
        self.section("emb.word", words * row_bytes)?;
        let start = self.directory.get("emb.word").map_or(0, |range| range.start);
        Ok(Box::new(PackedWords { map: self.map.clone(), start, row_bytes }))
    }
}

/// The vectors of words, packed as they are in the file: unpacked they would take 384 MB.
struct PackedWords {
    map: Arc<Mmap>,
    start: usize,
    row_bytes: usize,
}

impl Words for PackedWords {
    fn add(&self, word: u32, row: &mut [f32]) {
        let start = self.start + word as usize * self.row_bytes;
        add_unpacked(&self.map[start..start + self.row_bytes], row);
    }
}

/// Adds the weights of `blocks` to `row`.
fn add_unpacked(blocks: &[u8], row: &mut [f32]) {
    let (blocks, _) = blocks.as_chunks::<BLOCK_BYTES>();
    for (&[scale_low, scale_high, ref halves @ ..], weights) in blocks.iter().zip(row.chunks_exact_mut(BLOCK)) {
        let scale = f16::from_le_bytes([scale_low, scale_high]).to_f32();
        let (low, high) = weights.split_at_mut(BLOCK / 2);
        for ((byte, low), high) in halves.iter().zip(low).zip(high) {
            *low += (f32::from(byte & 0x0F) - 8.0) * scale;
            *high += (f32::from(byte >> 4) - 8.0) * scale;
        }
    }
}

fn read_tokenizer(reader: &mut Reader<'_>, words: usize) -> Result<Tokenizer, String> {
    let [count, begin, end, _pad, unknown] = reader.numbers()?;
    let text_bytes = reader.u64()?;
    if count > words || [begin, end, unknown].iter().any(|&id| id >= count) {
        return Err("its tokenizer has more pieces than its model has words".into());
    }
    let offsets = reader.list(count + 1, u32::from_le_bytes)?;
    let scores = reader.list(count, f32::from_le_bytes)?;
    let text = reader.bytes(usize::try_from(text_bytes).unwrap_or(usize::MAX))?;
    let pieces = offsets
        .array_windows()
        .zip(scores)
        .map(|(&[from, to], score)| Some((std::str::from_utf8(text.get(from as usize..to as usize)?).ok()?, score)))
        .collect::<Option<Vec<_>>>()
        .ok_or("its tokenizer has a piece that is no text")?;

    let count = reader.number()?;
    let mut list = Reader { rest: reader.u32().and_then(|length| reader.bytes(length as usize))? };
    let mut replacements = HashMap::with_capacity(count.min(list.rest.len()));
    for _ in 0..count {
        let replaced = list.char()?;
        let [length] = list.array()?;
        let by = (0..length).map(|_| list.char()).collect::<Result<String, _>>()?;
        replacements.insert(replaced, by.into_boxed_str());
    }
    let unigram = Unigram::new(&pieces, replacements, unknown as u32);
    Ok(Tokenizer::unigram(unigram, begin as u32, end as u32))
}

fn read_directory(reader: &mut Reader<'_>, file_length: usize) -> Result<HashMap<String, Range<usize>>, String> {
    let count = reader.number()?;
    let mut directory = HashMap::new();
    for _ in 0..count {
        let length = u16::from_le_bytes(reader.array()?);
        let name = String::from_utf8_lossy(reader.bytes(length.into())?).into_owned();
        let (_kind, _count) = (reader.array::<1>()?, reader.u32()?);
        let (start, length) = (reader.u64()?, reader.u64()?);
        let end = start.checked_add(length).filter(|&end| end <= file_length as u64);
        let end = end.ok_or_else(|| format!("it ends before tensor {name} does"))?;
        directory.insert(name, start as usize..end as usize);
    }
    Ok(directory)
}

/// Takes one thing after the other from the front of the file.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("it ends too early")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn f32(&mut self) -> Result<f32, String> {
        self.array().map(f32::from_le_bytes)
    }

    /// A size or an id; the file holds them signed.
    fn number(&mut self) -> Result<usize, String> {
        let number = self.array().map(i32::from_le_bytes)?;
        usize::try_from(number).map_err(|_| format!("it has {number} for a size"))
    }

    fn numbers<const N: usize>(&mut self) -> Result<[usize; N], String> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    fn list<T>(&mut self, count: usize, read: impl Fn([u8; 4]) -> T) -> Result<Vec<T>, String> {
        let (items, _) = self.bytes(count.saturating_mul(4))?.as_chunks::<4>();
        Ok(items.iter().map(|item| read(*item)).collect())
    }

    fn char(&mut self) -> Result<char, String> {
        char::from_u32(self.u32()?).ok_or_else(|| "its tokenizer has a character that is none".into())
    }
}
