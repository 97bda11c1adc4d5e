//! A list that grows at its end and may forget its beginning, so that a long run needs no more memory than a short one.

use std::collections::VecDeque;

/// Items with numbers, from 0 in the order in which they were added.
#[derive(Clone, Debug)]
pub struct Window<T> {
    /// How many were forgotten.
    forgotten: usize,
    items: VecDeque<T>,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window { forgotten: 0, items: VecDeque::new() }
    }
}

impl<T> Window<T> {
    /// Adds one: its number is what [`Window::len`] was.
    pub fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    /// How many were added.
    pub fn len(&self) -> usize {
        self.forgotten + self.items.len()
    }

    /// The item of this number; `None`: it was forgotten, or never added.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.items.get(number.checked_sub(self.forgotten)?)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.items.get_mut(number.checked_sub(self.forgotten)?)
    }

    /// Drops entries at the beginning that are no longer needed.
    pub fn forget(&mut self, done: impl Fn(&T) -> bool) {
        while self.items.front().is_some_and(&done) {
            self.items.pop_front();
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay() {
        let mut window = Window::default();
        (0..6).for_each(|n| window.push(n * 10));
        window.forget(|n| *n < 30);
        assert_eq!((window.len(), window.get(2), window.get(3), window.get(6)), (6, None, Some(&30), None));
        window.push(60);
        window.forget(|n| *n == 40);
        assert_eq!((window.len(), window.get_mut(6)), (7, Some(&mut 60)));
    }
}
