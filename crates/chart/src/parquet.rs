//! Files of [Parquet](https://parquet.apache.org/docs/file-format/): the small part of the format that a table of results needs. Each column is one
//! page; metadata are structures of Thrift's [compact protocol](https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
//! Numbers of fields and constants are those of `parquet.thrift`.

use crate::tidy::{Cell, Kind, Tidy};

/// First and last bytes of a file.
const MAGIC: &[u8; 4] = b"PAR1";
/// `Encoding`.
const PLAIN: i64 = 0;
const RLE: i64 = 3;

/// A value of a structure.
enum Value<'a> {
    I32(i64),
    I64(i64),
    Text(&'a str),
    Struct(Vec<u8>),
    /// Of elements of this type, each already written.
    List(u8, Vec<Vec<u8>>),
}

const I32: u8 = 5;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// Small numbers, positive or negative, have few bytes.
fn zigzag(n: i64) -> Vec<u8> {
    varint((n << 1 ^ n >> 63) as u64)
}

fn binary(text: &str) -> Vec<u8> {
    [varint(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A structure: fields with rising numbers.
fn structure(fields: &[(u8, Value<'_>)]) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), 0);
    for (id, value) in fields {
        let (kind, bytes) = match value {
            Value::I32(n) => (I32, zigzag(*n)),
            Value::I64(n) => (6, zigzag(*n)),
            Value::Text(text) => (BINARY, binary(text)),
            Value::Struct(bytes) => (STRUCT, bytes.clone()),
            Value::List(of, all) => (9, [vec![0xf0 | of], varint(all.len() as u64), all.concat()].concat()),
        };
        out.push((id - last) << 4 | kind);
        out.extend(bytes);
        last = *id;
    }
    out.push(0);
    out
}

/// `Type` of a column's values.
fn physical(kind: Kind) -> i64 {
    match kind {
        Kind::Whole => 2,
        Kind::Number => 5,
        Kind::Text => 6,
    }
}

/// `ConvertedType` of a column's values, where their `Type` alone says something else.
fn converted(kind: Kind) -> Option<i64> {
    match kind {
        // UINT_64: the type alone is signed, and seeds may be beyond it.
        Kind::Whole => Some(14),
        Kind::Number => None,
        // UTF8.
        Kind::Text => Some(0),
    }
}

/// Whether each cell has a value, in runs, and their length in front.
fn levels<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<u8> {
    let mut runs: Vec<(bool, u64)> = Vec::new();
    for cell in cells {
        let there = *cell != Cell::Empty;
        match runs.last_mut() {
            Some((of, length)) if *of == there => *length += 1,
            _ => runs.push((there, 1)),
        }
    }
    let bytes =
        runs.iter().flat_map(|(there, length)| [varint(length << 1), vec![u8::from(*there)]].concat());
    let bytes: Vec<u8> = bytes.collect();
    [(bytes.len() as u32).to_le_bytes().to_vec(), bytes].concat()
}

fn plain(cell: &Cell) -> Vec<u8> {
    match cell {
        Cell::Empty => Vec::new(),
        Cell::Text(text) => [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat(),
        Cell::Whole(number) => number.to_le_bytes().to_vec(),
        Cell::Number(number) => number.to_le_bytes().to_vec(),
    }
}

/// A column's page with its header.
fn page(t: &Tidy, column: usize) -> Vec<u8> {
    let cells = || t.rows.iter().map(|row| &row[column]);
    let data = [levels(cells()), cells().flat_map(plain).collect()].concat();
    let size = data.len() as i64;
    let of_data =
        [(1, t.rows.len() as i64), (2, PLAIN), (3, RLE), (4, RLE)].map(|(id, n)| (id, Value::I32(n)));
    let header = [
        (1, Value::I32(0)),
        (2, Value::I32(size)),
        (3, Value::I32(size)),
        (5, Value::Struct(structure(&of_data))),
    ];
    [structure(&header), data].concat()
}

/// `ColumnChunk`: a column's page begins at `offset` and has `size` bytes.
fn chunk(t: &Tidy, column: usize, offset: i64, size: i64) -> Vec<u8> {
    let (name, kind) = &t.columns[column];
    let meta = structure(&[
        (1, Value::I32(physical(*kind))),
        (2, Value::List(I32, vec![zigzag(PLAIN), zigzag(RLE)])),
        (3, Value::List(BINARY, vec![binary(name)])),
        (4, Value::I32(0)),
        (5, Value::I64(t.rows.len() as i64)),
        (6, Value::I64(size)),
        (7, Value::I64(size)),
        (9, Value::I64(offset)),
    ]);
    structure(&[(2, Value::I64(offset)), (3, Value::Struct(meta))])
}

/// `SchemaElement`s: the root, then a column each.
fn schema(t: &Tidy) -> Vec<Vec<u8>> {
    let root = structure(&[(4, Value::Text("schema")), (5, Value::I32(t.columns.len() as i64))]);
    let element = |(name, kind): &(String, Kind)| {
        let mut fields = vec![(1, Value::I32(physical(*kind))), (3, Value::I32(1)), (4, Value::Text(name))];
        fields.extend(converted(*kind).map(|n| (6, Value::I32(n))));
        structure(&fields)
    };
    [root].into_iter().chain(t.columns.iter().map(element)).collect()
}

/// The whole file.
pub fn file(t: &Tidy) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for column in 0..t.columns.len() {
        let page = page(t, column);
        chunks.push(chunk(t, column, out.len() as i64, page.len() as i64));
        out.extend(page);
    }
    let rows = t.rows.len() as i64;
    let group = structure(&[
        (1, Value::List(STRUCT, chunks)),
        (2, Value::I64(out.len() as i64 - MAGIC.len() as i64)),
        (3, Value::I64(rows)),
    ]);
    let meta = structure(&[
        (1, Value::I32(1)),
        (2, Value::List(STRUCT, schema(t))),
        (3, Value::I64(rows)),
        (4, Value::List(STRUCT, if rows > 0 { vec![group] } else { Vec::new() })),
        (6, Value::Text("pointsman")),
    ]);
    out.extend(&meta);
    out.extend((meta.len() as u32).to_le_bytes());
    out.extend(MAGIC);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_metadata() {
        assert_eq!([varint(0), varint(127), varint(300)].concat(), [0, 127, 0xac, 2]);
        assert_eq!([zigzag(0), zigzag(-1), zigzag(1), zigzag(-64)].concat(), [0, 1, 2, 127]);
        let two = structure(&[(1, Value::I32(1)), (4, Value::Text("ab"))]);
        assert_eq!(two, [0x15, 2, 0x38, 2, b'a', b'b', 0]);
    }

    #[test]
    fn runs_of_values_and_nulls() {
        let cells = [Cell::Whole(1), Cell::Whole(2), Cell::Empty];
        assert_eq!(levels(cells.iter()), [4, 0, 0, 0, 4, 1, 2, 0]);
    }
}
