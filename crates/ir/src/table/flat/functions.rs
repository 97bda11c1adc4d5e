//! The functions that look keys up and prefetch, one for each kind of search: what native code calls.
#![allow(unsafe_code)]

use super::masked::How;
use super::{FindFn, FlatTable, Search};

/// # Safety
/// Here and below: `table` must be a table, `key` as many words as its keys have.
pub unsafe extern "C" fn find_default(table: *const FlatTable, _key: *const u64) -> *const u64 {
    unsafe { (*table).rows.as_ptr() }
}

pub unsafe extern "C" fn prefetch_nothing(_table: *const FlatTable, _key: *const u64) {}

/// `K` words, or for 0 as many as the table says.
#[inline(always)]
unsafe fn key_of<'a, const K: usize>(table: &FlatTable, key: *const u64) -> &'a [u64] {
    unsafe { std::slice::from_raw_parts(key, if K == 0 { table.key_words } else { K }) }
}

pub unsafe extern "C" fn find_exact<const K: usize>(table: *const FlatTable, key: *const u64) -> *const u64 {
    let table = unsafe { &*table };
    let Search::Exact(e) = &table.search else { return table.rows.as_ptr() };
    e.find(unsafe { key_of::<K>(table, key) }).unwrap_or(table.rows.as_ptr())
}

pub unsafe extern "C" fn prefetch_exact<const K: usize>(table: *const FlatTable, key: *const u64) {
    let table = unsafe { &*table };
    let Search::Exact(e) = &table.search else { return };
    fetch(e.first(unsafe { key_of::<K>(table, key) }).cast());
}

#[inline(always)]
unsafe fn find_in_trie<const NARROW: bool>(table: *const FlatTable, key: *const u64) -> *const u64 {
    let table = unsafe { &*table };
    let Search::Trie(t) = &table.search else { return table.rows.as_ptr() };
    let key = unsafe { key_of::<0>(table, key) };
    table.row_at(if NARROW { t.find_narrow(key) } else { t.find(key) })
}

unsafe extern "C" fn find_trie<const NARROW: bool>(table: *const FlatTable, key: *const u64) -> *const u64 {
    unsafe { find_in_trie::<NARROW>(table, key) }
}

/// With an instruction that counts bits, which not every processor of the kind has.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
unsafe extern "C" fn find_trie_popcnt<const NARROW: bool>(
    table: *const FlatTable,
    key: *const u64,
) -> *const u64 {
    unsafe { find_in_trie::<NARROW>(table, key) }
}

pub fn trie_function(narrow: bool) -> FindFn {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("popcnt") {
        return if narrow { find_trie_popcnt::<true> } else { find_trie_popcnt::<false> };
    }
    if narrow { find_trie::<true> } else { find_trie::<false> }
}

pub unsafe extern "C" fn prefetch_trie(table: *const FlatTable, key: *const u64) {
    let table = unsafe { &*table };
    let Search::Trie(t) = &table.search else { return };
    fetch(t.first(unsafe { key_of::<0>(table, key) }).cast());
}

pub unsafe extern "C" fn find_masked<const K: usize>(table: *const FlatTable, key: *const u64) -> *const u64 {
    let table = unsafe { &*table };
    let Search::Masked(m) = &table.search else { return table.rows.as_ptr() };
    let How::Tuples(t) = &m.how else { return table.rows.as_ptr() };
    table.row_at(t.find::<K>(&m.entries, unsafe { key_of::<K>(table, key) }))
}

pub unsafe extern "C" fn find_vectors(table: *const FlatTable, key: *const u64) -> *const u64 {
    let table = unsafe { &*table };
    let Search::Masked(m) = &table.search else { return table.rows.as_ptr() };
    let How::Vectors(v) = &m.how else { return table.rows.as_ptr() };
    table.row_at(v.find(&m.entries, unsafe { key_of::<0>(table, key) }))
}

pub unsafe extern "C" fn find_intervals(table: *const FlatTable, key: *const u64) -> *const u64 {
    let table = unsafe { &*table };
    let Search::Masked(m) = &table.search else { return table.rows.as_ptr() };
    let How::Intervals(i) = &m.how else { return table.rows.as_ptr() };
    table.row_at(i.find(unsafe { key_of::<0>(table, key) }))
}

pub unsafe extern "C" fn prefetch_masked(table: *const FlatTable, key: *const u64) {
    let table = unsafe { &*table };
    let Search::Masked(m) = &table.search else { return };
    let key = unsafe { key_of::<0>(table, key) };
    match &m.how {
        How::Tuples(t) => fetch(t.first(key).cast()),
        How::Vectors(v) => v.firsts(key, |at| fetch(at.cast())),
        // The first steps of a binary search are in the cache, the later ones cannot be known.
        How::Intervals(_) => {}
    }
}

/// Asks for a cache line; any address will do.
#[inline(always)]
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it reads nothing.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
