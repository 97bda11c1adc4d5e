//! Values by number: equal values have equal numbers.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// All values of a kind that were met.
pub struct Interned<T> {
    all: Vec<Arc<T>>,
    numbers: HashMap<Arc<T>, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The number of a value.
    pub fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let (number, value) = (self.all.len() as u32, Arc::new(value));
        self.all.push(value.clone());
        self.numbers.insert(value, number);
        number
    }

    /// The value of a number that [`Interned::add`] gave.
    pub fn get(&self, number: u32) -> &Arc<T> {
        &self.all[number as usize]
    }
}
