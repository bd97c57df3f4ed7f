//! Things that are given numbers, so that they are compared and found fast.

use std::collections::HashMap;
use std::hash::Hash;

use crate::resolve::normal;

/// A place in a list as a number. No list here is that long.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Things that are given numbers, each its own.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    numbers: HashMap<T, u32>,
    pub(super) all: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), all: Vec::new() }
    }
}

impl<T: Eq + Hash + Clone> Numbers<T> {
    pub(super) fn of(&mut self, thing: &T) -> u32 {
        if let Some(number) = self.numbers.get(thing) {
            return *number;
        }
        let number = number(self.all.len());
        self.numbers.insert(thing.clone(), number);
        self.all.push(thing.clone());
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)
    }
}

/// Names as they are compared, each normalised once for each way in which it is written.
#[derive(Debug, Default)]
pub(super) struct Normals {
    written: HashMap<String, u32>,
    normals: Numbers<String>,
}

impl Normals {
    pub(super) fn of(&mut self, written: &str) -> u32 {
        if let Some(number) = self.written.get(written) {
            return *number;
        }
        let number = self.normals.of(&normal(written));
        self.written.insert(written.to_owned(), number);
        number
    }

    pub(super) fn find(&self, normal: &str) -> Option<u32> {
        self.normals.numbers.get(normal).copied()
    }

    pub(super) fn text(&self, number: u32) -> &str {
        self.normals.get(number).map(String::as_str).unwrap_or_default()
    }
}
