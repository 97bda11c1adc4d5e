//! The meanings of extern functions, given by an architecture when it loads a program.
//!
//! An executor that knows a function's meaning can implement it in the place of the call. This module names no
//! architecture: a meaning refers to arguments by their position, and to the algorithms of a checksum or hash by their
//! ordinals in the enum that names them.

/// The effect of a function or method. Arguments are numbered from 0.
#[derive(Clone, Debug, Default)]
pub enum Meaning {
    /// Only the architecture knows: it has to be asked.
    #[default]
    Ask,
    /// Nothing at all.
    Nothing,
    /// Argument `to` becomes the cell at argument `index` of the object's array ([`Env::cells`](crate::Env::cells)). Out
    /// of range, the architecture has to be asked.
    LoadCell {
        /// The index.
        index: u32,
        /// An `out` argument.
        to: u32,
    },
    /// The cell at argument `index` of the object's array becomes argument `from`. Out of range, the architecture has to
    /// be asked.
    StoreCell {
        /// The index.
        index: u32,
        /// The value.
        from: u32,
    },
    /// Counts a packet of [`Env::packet_bytes`](crate::Env::packet_bytes) in the cell at argument `index` of the object's
    /// array, as its [`CellKind`](crate::CellKind) says. Out of range, the architecture has to be asked.
    CountCell {
        /// The index.
        index: u32,
    },
    /// Fields of the struct that is argument `arg` become these numbers.
    SetFields {
        /// An `inout` argument.
        arg: u32,
        /// Field and value.
        fields: Vec<(u32, u64)>,
    },
    /// Argument `to` becomes `base + digest(data) mod max`, or `base` where `max` is 0.
    Hash {
        /// An `out` argument.
        to: u32,
        /// Which of [`Known::digests`](crate::Known::digests).
        algorithm: u32,
        /// The number to add.
        base: u32,
        /// Scalars one after the other, those of valid headers included, most significant bit first, zero bits behind them up to whole bytes.
        data: u32,
        /// Where the digest wraps.
        max: u32,
    },
    /// If argument `condition` is true and the digest of `data`, truncated, is not `sum`, the architecture has to be
    /// asked. Otherwise it does nothing.
    VerifyDigest {
        /// A `bool`.
        condition: u32,
        /// As of [`Meaning::Hash`].
        data: u32,
        /// The expected digest.
        sum: u32,
        /// Which of [`Known::digests`](crate::Known::digests).
        algorithm: u32,
    },
    /// If argument `condition` is true, `sum` becomes the digest of `data`.
    UpdateDigest {
        /// A `bool`.
        condition: u32,
        /// As of [`Meaning::Hash`].
        data: u32,
        /// An `inout` argument.
        sum: u32,
        /// Which of [`Known::digests`](crate::Known::digests).
        algorithm: u32,
    },
    /// If argument `condition` is false it does nothing; otherwise the architecture has to be asked.
    AskIf {
        /// A `bool`.
        condition: u32,
        /// An argument of which only the bits count, as of `data` of [`Meaning::Hash`]: [`Env::call_flat`](crate::Env::call_flat) takes
        /// them as [`FlatArgs::data`](crate::FlatArgs::data), also of types without a fixed width.
        data: Option<u32>,
    },
    /// Only where packets are processed at the same time ([`Env::is_shared`](crate::Env::is_shared)) the architecture has to be
    /// asked; otherwise it does nothing.
    AskIfShared,
}

/// The hash or checksum of some bytes.
pub type DigestFn = fn(&[u8]) -> u64;

/// A hash or checksum over bytes that depends on nothing else and changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub enum Digest {
    /// Not such a one.
    #[default]
    Ask,
    /// The Internet checksum (RFC 1071), a zero byte behind an odd last one; and a function for data whose length is not known in
    /// advance.
    Sum16(DigestFn),
    /// A function, which must not panic.
    Function(DigestFn),
    /// Returns such a function for data of this many bytes (`usize::MAX`: of any length).
    Sized(fn(usize) -> DigestFn),
}
