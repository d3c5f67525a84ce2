//! Hashes of the rows of a table, whose columns are in Arrow's memory layout.

use std::io::Write;

use crate::md5::md5_of_texts;

/// Separates the columns of a row.
const SEPARATOR: u8 = 0x1f;

/// Separates the texts of a list.
const LIST_SEPARATOR: u8 = 0x1d;

/// Values of a column, and buffers in the order of Arrow.
pub enum Values<'a> {
    Texts(Texts<'a>),
    /// Offsets of the lists, and their texts.
    Lists(&'a [u8], Texts<'a>),
    Numbers(&'a [u8]),
    Flags(&'a [u8]),
}

/// Offsets and UTF-8.
pub struct Texts<'a> {
    pub offsets: &'a [u8],
    pub data: &'a [u8],
}

/// A column whose first row is at a position of its buffers; no validity bits mean that no value is null.
pub struct Column<'a> {
    pub first: usize,
    pub valid: Option<&'a [u8]>,
    pub values: Values<'a>,
}

/// The MD5 of each row, written as a text; None if a buffer is too small for its column.
pub fn md5_of_rows(columns: &[Column], rows: usize, null: &[u8]) -> Option<Vec<u8>> {
    md5_of_texts(rows, |row, text| {
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                text.push(SEPARATOR);
            }
            column.write(column.first + row, null, text)?;
        }
        Some(())
    })
}

impl Column<'_> {
    fn write(&self, row: usize, null: &[u8], text: &mut Vec<u8>) -> Option<()> {
        if let Some(valid) = self.valid
            && !bit(valid, row)?
        {
            text.extend_from_slice(null);
            return Some(());
        }
        match &self.values {
            Values::Texts(texts) => text.extend_from_slice(texts.get(row)?),
            Values::Lists(offsets, texts) => {
                let start = number(offsets, row)?;
                for item in start..number(offsets, row + 1)? {
                    if item > start {
                        text.push(LIST_SEPARATOR);
                    }
                    text.extend_from_slice(texts.get(item)?);
                }
            }
            Values::Numbers(data) => {
                let bytes = data.get(8 * row..8 * row + 8)?;
                write!(text, "{}", i64::from_le_bytes(bytes.try_into().unwrap())).unwrap();
            }
            Values::Flags(data) => text.extend_from_slice(if bit(data, row)? { b"true" } else { b"false" }),
        }
        Some(())
    }
}

impl<'a> Texts<'a> {
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        self.data.get(number(self.offsets, row)?..number(self.offsets, row + 1)?)
    }
}

/// Offset at a position.
#[inline]
pub fn number(offsets: &[u8], at: usize) -> Option<usize> {
    let bytes = offsets.get(4 * at..4 * at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().unwrap()) as usize)
}

#[inline]
pub fn bit(bits: &[u8], at: usize) -> Option<bool> {
    bits.get(at / 8).map(|byte| byte >> (at % 8) & 1 == 1)
}
