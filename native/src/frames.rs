//! Rows as bytes: one column after another, in which a value that repeats that of the row before takes one bit.
//!
//! A dump is loaded through millions of tables of some hundred rows each. In Arrow's format, each of their 28 columns
//! costs more than the rows do.
//!
//! A column of texts or numbers is the number of its rows that have another value than the row before (the first row
//! always does), these rows as bits unless they are one or all, whether their values are null, and the values: of texts
//! the lengths of all, then the bytes of all. Before this, a column of texts has whether all texts end with a UUID, as
//! ids of statements do; if so, the UUIDs in 16 bytes each, and they are left out of the texts. A column of lists is
//! whether they are null, the number of all their texts, and unless it is zero the length of each list and the texts.

use crate::columns::{Buffer, Buffers};
use crate::digests::{Texts, bit, number};

/// Values of a column, and buffers in the order of Arrow.
pub enum Packable<'a> {
    Texts(Texts<'a>),
    /// Offsets of the lists, and their texts.
    Lists(&'a [u8], Texts<'a>),
    /// Bytes of a number, and the numbers.
    Numbers(usize, &'a [u8]),
}

/// A column whose first row is at a position of its buffers; no validity bits mean that no value is null.
pub struct PackableColumn<'a> {
    pub first: usize,
    pub valid: Option<&'a [u8]>,
    pub values: Packable<'a>,
}

/// Space that all columns and tables use.
#[derive(Default)]
struct Scratch {
    changed: Vec<u8>,
    valid: Bits,
    sizes: Vec<u8>,
    data: Vec<u8>,
}

impl Scratch {
    fn clear(&mut self) {
        self.changed.clear();
        self.valid.clear();
        self.sizes.clear();
        self.data.clear();
    }
}

/// Some ranges of rows of a table, which are given by number; None if a buffer is too small for its column.
///
/// `ends` has the end of each range, which begins with that of the range before. Each column is packed for all ranges
/// before the next one, because it fits into the processor's cache.
pub fn pack(columns: &[PackableColumn], rows: &[usize], ends: &[usize]) -> Option<Vec<Vec<u8>>> {
    let (mut scratch, mut packed) = (Scratch::default(), vec![Vec::new(); ends.len()]);
    for column in columns {
        let mut start = 0;
        for (&end, out) in ends.iter().zip(&mut packed) {
            let rows = rows.get(start..end)?;
            start = end;
            if rows.is_empty() {
                continue;
            }
            scratch.clear();
            match &column.values {
                Packable::Texts(texts) => {
                    let tail = column.pack_uuids(rows, texts, out)?;
                    let head = |row| texts.get(row).and_then(|text| text.get(..text.len().checked_sub(tail)?));
                    column.pack(rows, true, head, &mut scratch, out)?;
                }
                Packable::Numbers(size, data) => {
                    column.pack(rows, false, |row| data.get(size * row..size * (row + 1)), &mut scratch, out)?;
                }
                Packable::Lists(lists, texts) => column.pack_lists(rows, lists, texts, &mut scratch, out)?,
            }
        }
    }
    Some(packed)
}

impl PackableColumn<'_> {
    /// Text of a row, None inside if it is null; None if this is not a column of texts with so many rows.
    pub fn text(&self, row: usize) -> Option<Option<&[u8]>> {
        let row = row + self.first;
        match &self.values {
            Packable::Texts(texts) if self.is_valid(row)? => texts.get(row).map(Some),
            Packable::Texts(_) => Some(None),
            _ => None,
        }
    }

    fn is_valid(&self, row: usize) -> Option<bool> {
        self.valid.map_or(Some(true), |valid| bit(valid, row))
    }

    fn pack<'a>(
        &self,
        rows: &[usize],
        are_texts: bool,
        value_of: impl Fn(usize) -> Option<&'a [u8]>,
        Scratch { changed, valid, sizes, data }: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (mut before, mut count) = (None, 0);
        changed.resize(rows.len().div_ceil(8), 0);
        for (place, row) in rows.iter().enumerate() {
            let row = row + self.first;
            let value = if self.is_valid(row)? { Some(value_of(row)?) } else { None };
            if before == Some(value) {
                continue;
            }
            before = Some(value);
            changed[place / 8] |= 1 << (place % 8);
            count += 1;
            valid.push(value.is_some());
            if let Some(value) = value {
                if are_texts {
                    write_size(value.len(), sizes);
                }
                data.extend_from_slice(value);
            }
        }
        write_size(count, out);
        if count > 1 && count < rows.len() {
            out.extend_from_slice(changed);
        }
        valid.write(out);
        if are_texts {
            write_size(sizes.len(), out);
            out.extend_from_slice(sizes);
            write_size(data.len(), out);
        }
        out.extend_from_slice(data);
        Some(())
    }

    /// Write the UUIDs at the ends of texts if all have one. Returns the length that was written of each.
    fn pack_uuids(&self, rows: &[usize], texts: &Texts, out: &mut Vec<u8>) -> Option<usize> {
        let (start, mut upper) = (out.len(), Bits::default());
        out.push(1);
        let mut uuids = Vec::new();
        for row in rows {
            let row = row + self.first;
            let uuid = if self.is_valid(row)? { uuid_at_end(texts.get(row)?) } else { None };
            let Some((uuid, is_upper)) = uuid else {
                out.truncate(start);
                out.push(0);
                return Some(0);
            };
            uuids.extend_from_slice(&uuid);
            upper.push(is_upper);
        }
        upper.write(out);
        out.extend_from_slice(&uuids);
        Some(UUID)
    }

    fn pack_lists(
        &self,
        rows: &[usize],
        lists: &[u8],
        texts: &Texts,
        Scratch { valid, sizes, data, .. }: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut items = 0;
        for row in rows {
            let row = row + self.first;
            let is_valid = self.is_valid(row)?;
            valid.push(is_valid);
            if is_valid {
                let (start, end) = (number(lists, row)?, number(lists, row + 1)?);
                write_size(end.checked_sub(start)?, sizes);
                items += end - start;
                for item in start..end {
                    write_text(texts.get(item)?, data);
                }
            }
        }
        valid.write(out);
        write_size(items, out);
        if items > 0 {
            out.extend_from_slice(sizes);
            out.extend_from_slice(data);
        }
        Some(())
    }
}

/// Length of a UUID as a text.
const UUID: usize = 36;

/// Where a UUID's text has hyphens, and where it has the two digits of each byte.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const CAPITAL: u8 = 0x10;
const SMALL: u8 = 0x20;
const NO_DIGIT: u8 = 0x40;

/// Value of each hexadecimal digit with the kind of a letter. Branches on random digits take six times as long.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        if value < 10 {
            digits[b'0' as usize + value] = value as u8;
        } else {
            digits[b'A' as usize + value - 10] = value as u8 | CAPITAL;
            digits[b'a' as usize + value - 10] = value as u8 | SMALL;
        }
        value += 1;
    }
    digits
};

/// The UUID at the end of a text, and whether its letters are capitals; None if there is none or it has both.
fn uuid_at_end(text: &[u8]) -> Option<([u8; 16], bool)> {
    let text = text.last_chunk::<UUID>()?;
    if HYPHENS.iter().any(|&place| text[place] != b'-') {
        return None;
    }
    let (mut uuid, mut kinds) = ([0; 16], 0);
    for (byte, place) in uuid.iter_mut().zip(PAIRS) {
        let (high, low) = (DIGITS[usize::from(text[place])], DIGITS[usize::from(text[place + 1])]);
        kinds |= high | low;
        *byte = high << 4 | low & 0x0f;
    }
    let kinds = kinds & (CAPITAL | SMALL | NO_DIGIT);
    (kinds < NO_DIGIT && kinds != CAPITAL | SMALL).then_some((uuid, kinds != SMALL))
}

fn write_uuid(uuid: &[u8], is_upper: bool, out: &mut Vec<u8>) {
    let digits = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut text = [b'-'; UUID];
    for (&byte, place) in uuid.iter().zip(PAIRS) {
        text[place] = digits[usize::from(byte >> 4)];
        text[place + 1] = digits[usize::from(byte & 15)];
    }
    out.extend_from_slice(&text);
}

/// Bits in Arrow's order.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
    ones: usize,
}

impl Bits {
    fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.ones) = (0, 0);
    }

    fn push_times(&mut self, one: bool, times: usize) {
        let single = times.min(self.count.wrapping_neg() % 8);
        for _ in 0..single {
            self.push(one);
        }
        let whole = (times - single) / 8;
        self.bytes.resize(self.bytes.len() + whole, if one { 0xff } else { 0 });
        self.count += 8 * whole;
        self.ones += if one { 8 * whole } else { 0 };
        for _ in single + 8 * whole..times {
            self.push(one);
        }
    }

    fn push(&mut self, one: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(one) << (self.count % 8);
        }
        self.count += 1;
        self.ones += usize::from(one);
    }

    /// Whether all are 0, all are 1, or which are.
    fn write(&self, out: &mut Vec<u8>) {
        out.push(if self.ones == 0 {
            NONE
        } else if self.ones == self.count {
            ALL
        } else {
            SOME
        });
        if self.ones > 0 && self.ones < self.count {
            out.extend_from_slice(&self.bytes);
        }
    }
}

const NONE: u8 = 0;
const ALL: u8 = 1;
const SOME: u8 = 2;

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    write_size(text.len(), out);
    out.extend_from_slice(text);
}

/// Seven bits a byte, the lowest first; the last byte is below 128.
fn write_size(mut size: usize, out: &mut Vec<u8>) {
    while size >= 0x80 {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

/// What a column contains.
#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    List,
    /// Bytes of a number.
    Number(usize),
}

/// Buffers of the wanted columns of packed tables, one after another; None if a content is not that of so many rows.
pub fn unpack(contents: &[(&[u8], usize)], columns: &[(Kind, bool)]) -> Option<Vec<Buffers>> {
    let mut unpacked: Vec<_> = columns.iter().map(|&(kind, wanted)| Column::new(kind, wanted)).collect();
    let mut starts = Vec::new();
    for &(content, rows) in contents {
        let mut content = Content(content);
        if rows > 0 {
            for column in &mut unpacked {
                match column.kind {
                    Kind::List => column.read_lists(&mut content, rows)?,
                    Kind::Text => {
                        let uuids = content.uuids(rows)?;
                        let values = content.values(rows, &mut starts)?;
                        column.read_texts(&mut content, &values, uuids)?;
                    }
                    Kind::Number(size) => {
                        let values = content.values(rows, &mut starts)?;
                        column.read_numbers(&mut content, &values, size)?;
                    }
                }
            }
        }
        if !content.0.is_empty() {
            return None;
        }
    }
    Some(unpacked.into_iter().filter(|column| column.wanted).map(Column::buffers).collect())
}

/// Values of some rows, each repeated until the next one.
struct Values<'a> {
    rows: usize,
    /// The first row of each value; empty if each row has another one.
    starts: &'a [usize],
    count: usize,
    valid: Flags<'a>,
}

impl Values<'_> {
    /// Number of rows that have each value, and whether it is not null.
    fn each(&self) -> impl Iterator<Item = (usize, bool)> {
        (0..self.count).map(|place| {
            let times = match self.starts {
                [] => 1,
                starts => starts.get(place + 1).copied().unwrap_or(self.rows) - starts[place],
            };
            (times, self.valid.get(place))
        })
    }
}

#[derive(Clone, Copy)]
enum Flags<'a> {
    None,
    All,
    Some(&'a [u8]),
}

impl Flags<'_> {
    fn get(self, place: usize) -> bool {
        match self {
            Flags::None => false,
            Flags::All => true,
            Flags::Some(bits) => bits[place / 8] >> (place % 8) & 1 == 1,
        }
    }
}

/// UUIDs at the ends of the texts of a column, and which of them have capitals.
type Uuids<'a> = (&'a [u8], Flags<'a>);

/// A column that is being read.
struct Column {
    kind: Kind,
    wanted: bool,
    rows: usize,
    /// None while no value is null.
    valid: Option<Bits>,
    /// Ends of the texts, or of the lists among their texts.
    ends: Vec<i32>,
    /// Ends of the texts of lists.
    item_ends: Vec<i32>,
    data: Vec<u8>,
}

impl Column {
    fn new(kind: Kind, wanted: bool) -> Self {
        Column { kind, wanted, rows: 0, valid: None, ends: vec![0], item_ends: vec![0], data: Vec::new() }
    }

    fn add_validity(&mut self, rows: usize, all: bool, each: impl Iterator<Item = (usize, bool)>) {
        if !all || self.valid.is_some() {
            let valid = self.valid.get_or_insert_with(|| {
                let mut valid = Bits::default();
                valid.push_times(true, self.rows);
                valid
            });
            for (times, is_valid) in each {
                if times == 1 {
                    valid.push(is_valid);
                } else {
                    valid.push_times(is_valid, times);
                }
            }
        }
        self.rows += rows;
    }

    fn read_numbers(&mut self, content: &mut Content<'_>, values: &Values<'_>, size: usize) -> Option<()> {
        let present = match values.valid {
            Flags::None => 0,
            Flags::All => values.count,
            Flags::Some(_) => values.each().filter(|&(_, is_valid)| is_valid).count(),
        };
        let data = content.take(present.checked_mul(size)?)?;
        if !self.wanted {
            return Some(());
        }
        self.add_validity(values.rows, matches!(values.valid, Flags::All), values.each());
        match (values.starts, values.valid) {
            (_, Flags::None) => self.data.resize(self.data.len() + values.rows * size, 0),
            ([], Flags::All) => self.data.extend_from_slice(data),
            _ => {
                let mut found = data.chunks_exact(size);
                for (times, is_valid) in values.each() {
                    let start = self.data.len();
                    self.data.resize(start + times * size, 0);
                    if is_valid {
                        let value = found.next()?;
                        self.data[start..].chunks_exact_mut(size).for_each(|place| place.copy_from_slice(value));
                    }
                }
            }
        }
        Some(())
    }

    fn read_texts(&mut self, content: &mut Content<'_>, values: &Values<'_>, uuids: Option<Uuids>) -> Option<()> {
        let size = content.size()?;
        let mut sizes = Content(content.take(size)?);
        let size = content.size()?;
        let mut data = Content(content.take(size)?);
        if !self.wanted {
            return Some(());
        }
        self.add_validity(values.rows, matches!(values.valid, Flags::All), values.each());
        if let Some((bytes, upper)) = uuids {
            let mut uuids = bytes.chunks_exact(16).enumerate();
            for (times, is_valid) in values.each() {
                let text = if is_valid { data.take(sizes.size()?)? } else { return None };
                for (row, uuid) in uuids.by_ref().take(times) {
                    self.data.extend_from_slice(text);
                    write_uuid(uuid, upper.get(row), &mut self.data);
                    self.ends.push(self.data.len().try_into().ok()?);
                }
            }
            return (sizes.0.is_empty() && data.0.is_empty()).then_some(());
        }
        if values.starts.is_empty() {
            let mut end = self.data.len();
            for place in 0..values.count {
                if values.valid.get(place) {
                    end = end.checked_add(sizes.size()?)?;
                }
                self.ends.push(end.try_into().ok()?);
            }
            let written = data.take(end - self.data.len())?;
            self.data.extend_from_slice(written);
            return (sizes.0.is_empty() && data.0.is_empty()).then_some(());
        }
        for (times, is_valid) in values.each() {
            let text = if is_valid { data.take(sizes.size()?)? } else { &[] };
            if text.is_empty() {
                self.ends.resize(self.ends.len() + times, self.data.len().try_into().ok()?);
                continue;
            }
            for _ in 0..times {
                self.data.extend_from_slice(text);
                self.ends.push(self.data.len().try_into().ok()?);
            }
        }
        (sizes.0.is_empty() && data.0.is_empty()).then_some(())
    }

    fn read_lists(&mut self, content: &mut Content<'_>, rows: usize) -> Option<()> {
        let valid = content.flags(rows)?;
        let items = content.size()?;
        let first = self.item_ends.len() - 1;
        let mut end = first;
        for row in 0..rows {
            if items > 0 && valid.get(row) {
                end = end.checked_add(content.size()?)?;
            }
            self.ends.push(end.try_into().ok()?);
        }
        if end - first != items {
            return None;
        }
        for _ in 0..items {
            let size = content.size()?;
            self.data.extend_from_slice(content.take(size)?);
            self.item_ends.push(self.data.len().try_into().ok()?);
        }
        self.add_validity(rows, matches!(valid, Flags::All), (0..rows).map(|row| (1, valid.get(row))));
        Some(())
    }

    fn buffers(self) -> Buffers {
        let valid = self.valid.map(|valid| Buffer::Bytes(valid.bytes));
        let (ends, item_ends) = (Some(Buffer::Offsets(self.ends)), Some(Buffer::Offsets(self.item_ends)));
        let data = Some(Buffer::Bytes(self.data));
        match self.kind {
            Kind::Number(_) => vec![valid, data],
            Kind::Text => vec![valid, ends, data],
            Kind::List => vec![valid, ends, None, item_ends, data],
        }
    }
}

struct Content<'a>(&'a [u8]);

impl<'a> Content<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn size(&mut self) -> Option<usize> {
        let mut size = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            size |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(size);
            }
        }
        None
    }

    fn flags(&mut self, count: usize) -> Option<Flags<'a>> {
        match self.take(1)?[0] {
            NONE => Some(Flags::None),
            ALL => Some(Flags::All),
            SOME => self.take(count.div_ceil(8)).map(Flags::Some),
            _ => None,
        }
    }

    fn uuids(&mut self, rows: usize) -> Option<Option<Uuids<'a>>> {
        match self.take(1)?[0] {
            0 => Some(None),
            1 => {
                let upper = self.flags(rows)?;
                Some(Some((self.take(rows.checked_mul(16)?)?, upper)))
            }
            _ => None,
        }
    }

    /// What values of texts or numbers begin with.
    fn values<'s>(&mut self, rows: usize, starts: &'s mut Vec<usize>) -> Option<Values<'s>>
    where
        'a: 's,
    {
        let count = self.size()?;
        starts.clear();
        if count == 1 && rows > 1 {
            starts.push(0);
        } else if count < rows {
            for (place, &byte) in self.take(rows.div_ceil(8))?.iter().enumerate() {
                let mut left = byte;
                while left != 0 {
                    starts.push(8 * place + left.trailing_zeros() as usize);
                    left &= left - 1;
                }
            }
            if starts.len() != count || starts.first() != Some(&0) || starts.last() >= Some(&rows) {
                return None;
            }
        } else if count > rows {
            return None;
        }
        Some(Values { rows, starts, count, valid: self.flags(count)? })
    }
}
