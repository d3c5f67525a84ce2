//! Compiled parser of Wikidata's JSON dumps, hashes of rows, and rows as bytes. kgedit.store.compiled is its only user.

mod buckets;
mod columns;
mod digests;
mod entities;
mod frames;
mod json;
mod md5;
mod statements;
mod text;
mod times;
mod values;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buckets::Buckets;
use crate::columns::{Buffer, Buffers};
use crate::digests::{Column, Texts, Values};
use crate::entities::{Options, Rows};
use crate::frames::{Kind, Packable, PackableColumn};

/// Rules of Python's parser that this one follows: `JsonParser.version`.
const RULES: &str = "3";

/// Offsets of a column are 32-bit numbers.
const LONGEST_BLOCK: usize = 1 << 30;

/// A line for Python's parser: where it is in the block, and the numbers of claims and entities that precede its own.
type OddLine = (usize, usize, usize, usize);

struct Parsed {
    claims: (usize, Vec<Buffers>),
    entities: (usize, Vec<Buffers>),
    counts: Vec<(&'static str, u64)>,
    odd: Vec<OddLine>,
}

/// Parses blocks of whole lines. It keeps no state between blocks, so threads may share it.
#[pyclass(frozen)]
struct Parser {
    options: Options,
}

/// A buffer that Python reads in place, without a copy.
#[pyclass(frozen)]
struct Content(Buffer);

#[pymethods]
impl Content {
    fn __len__(&self) -> usize {
        self.0.bytes().len()
    }

    /// # Safety
    ///
    /// Python calls it with a view to fill in.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let bytes = slf.get().0.bytes();
        // SAFETY: the view holds this object, whose bytes do not move or change.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr().cast_mut().cast(), bytes.len() as isize, 1, flags)
        };
        if filled < 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}

/// Number of rows, and the buffers of each column.
type Columns = (usize, Vec<Vec<Option<Content>>>);

#[pymethods]
impl Parser {
    #[new]
    fn new(languages: Vec<String>, wiki: String) -> Self {
        Parser { options: Options { languages, wiki } }
    }

    /// Rows and buffers of the claims and of the entities, counts by reason, and lines that Python must read.
    ///
    /// None if Python must read the whole block.
    #[allow(clippy::type_complexity)] // a tuple for one caller
    fn parse(
        &self,
        py: Python<'_>,
        block: &[u8],
    ) -> Option<(Columns, Columns, Vec<(&'static str, u64)>, Vec<OddLine>)> {
        if block.len() > LONGEST_BLOCK {
            return None;
        }
        let parsed = py.detach(|| parse(block, &self.options));
        Some((to_python(parsed.claims), to_python(parsed.entities), parsed.counts, parsed.odd))
    }
}

/// A column as Python describes it: its type, its first row, validity bits, and the other buffers of Arrow.
type Described = (String, usize, Option<PyBuffer<i8>>, Vec<PyBuffer<i8>>);

/// The MD5 of each row of a table: 16 bytes for each.
///
/// Columns are written as texts, separated by U+001F, and texts of a list by U+001D; `null` stands for null.
#[pyfunction]
fn md5_of_rows(py: Python<'_>, columns: Vec<Described>, rows: usize, null: &str) -> PyResult<Content> {
    let known = columns.iter().map(column).collect::<Option<Vec<_>>>();
    let hashes = known.and_then(|known| py.detach(|| digests::md5_of_rows(&known, rows, null.as_bytes())));
    hashes.map(|hashes| Content(Buffer::Bytes(hashes))).ok_or_else(other_columns)
}

fn column((kind, first, valid, buffers): &Described) -> Option<Column<'_>> {
    let buffers = buffers.iter().map(bytes).collect::<Vec<_>>();
    let values = match (kind.as_str(), buffers.as_slice()) {
        ("string", &[offsets, data]) => Values::Texts(Texts { offsets, data }),
        ("list", &[lists, offsets, data]) => Values::Lists(lists, Texts { offsets, data }),
        ("int64", &[data]) => Values::Numbers(data),
        ("bool", &[data]) => Values::Flags(data),
        _ => return None,
    };
    Some(Column { first: *first, valid: valid.as_ref().map(bytes), values })
}

/// Rows of a table as bytes: one text for each of some ranges of an order of its rows.
///
/// `order` has the numbers of the rows as 64-bit integers, and `ends` the end of each range, which begins with that of
/// the range before.
#[pyfunction]
fn pack_rows(py: Python<'_>, columns: Vec<Described>, order: PyBuffer<i8>, ends: Vec<usize>) -> PyResult<Vec<Content>> {
    let known = columns.iter().map(packable).collect::<Option<Vec<_>>>();
    let packed = known.and_then(|known| py.detach(|| pack_ranges(&known, bytes(&order), &ends)));
    Ok(packed.ok_or_else(other_columns)?.into_iter().map(|rows| Content(Buffer::Bytes(rows))).collect())
}

fn pack_ranges(columns: &[PackableColumn], order: &[u8], ends: &[usize]) -> Option<Vec<Vec<u8>>> {
    let row = |number: &[u8]| i64::from_le_bytes(number.try_into().ok()?).try_into().ok();
    let rows = order.chunks_exact(8).map(row).collect::<Option<Vec<usize>>>()?;
    frames::pack(columns, &rows, ends)
}

/// Buffers of columns of packed tables, one after another: those of each kind that is wanted, in order.
///
/// `contents` has the bytes of each table and the number of its rows.
#[pyfunction]
fn unpack_rows(
    py: Python<'_>,
    contents: Vec<(Bound<'_, PyBytes>, usize)>,
    columns: Vec<(String, bool)>,
) -> PyResult<Columns> {
    let kinds = columns.iter().map(|(name, wanted)| Some((kind(name)?, *wanted))).collect::<Option<Vec<_>>>();
    let tables = contents.iter().map(|(content, rows)| (content.as_bytes(), *rows)).collect::<Vec<_>>();
    let found = kinds.and_then(|kinds| py.detach(|| frames::unpack(&tables, &kinds)));
    let found = found.ok_or_else(|| PyValueError::new_err("the content is not that of rows with these columns"))?;
    Ok(to_python((tables.iter().map(|(_, rows)| rows).sum(), found)))
}

fn kind(name: &str) -> Option<Kind> {
    match name {
        "string" => Some(Kind::Text),
        "list" => Some(Kind::List),
        "int8" => Some(Kind::Number(1)),
        "int32" => Some(Kind::Number(4)),
        "int64" => Some(Kind::Number(8)),
        _ => None,
    }
}

fn packable((name, first, valid, buffers): &Described) -> Option<PackableColumn<'_>> {
    let buffers = buffers.iter().map(bytes).collect::<Vec<_>>();
    let values = match (kind(name)?, buffers.as_slice()) {
        (Kind::Text, &[offsets, data]) => Packable::Texts(Texts { offsets, data }),
        (Kind::List, &[lists, offsets, data]) => Packable::Lists(lists, Texts { offsets, data }),
        (Kind::Number(size), &[data]) => Packable::Numbers(size, data),
        _ => return None,
    };
    Some(PackableColumn { first: *first, valid: valid.as_ref().map(bytes), values })
}

/// Content of one of Arrow's buffers, which do not change.
fn bytes(buffer: &PyBuffer<i8>) -> &[u8] {
    if buffer.item_count() == 0 || !buffer.is_c_contiguous() {
        return &[]; // the pointer of an empty buffer may be null
    }
    // SAFETY: Python holds the buffer as long as `buffer` lives, and its items are single bytes in one piece.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.item_count()) }
}

fn to_python((rows, columns): (usize, Vec<Buffers>)) -> Columns {
    (
        rows,
        columns
            .into_iter()
            .map(|buffers| buffers.into_iter().map(|one| one.map(|buffer| Content(buffer.shrunk()))).collect())
            .collect(),
    )
}

fn other_columns() -> PyErr {
    PyValueError::new_err("the buffers are not those of columns of this type")
}

/// Positions of ids by bucket as 64-bit integers, and the end of each bucket among them. No id is null.
#[pyfunction]
fn order_by_bucket(
    py: Python<'_>,
    ids: Described,
    rows: usize,
    buckets: (usize, usize, usize),
) -> PyResult<(Content, Vec<usize>)> {
    let (count, start, step) = buckets;
    let buckets = Buckets { count, start, step };
    let found = packable(&ids).and_then(|ids| py.detach(|| buckets::order_by_bucket(&ids, rows, &buckets)));
    found.map(|(order, ends)| (Content(Buffer::Long(order)), ends)).ok_or_else(other_columns)
}

fn parse(block: &[u8], options: &Options) -> Parsed {
    let mut rows = Rows::default();
    let mut odd = Vec::new();
    let mut start = 0;
    while start < block.len() {
        let length = memchr::memchr2(b'\n', b'\r', &block[start..]).unwrap_or(block.len() - start);
        read_line(block, start, start + length, options, &mut rows, &mut odd);
        start += length + 1;
    }
    let counts = vec![
        ("lines", rows.counts.lines),
        ("statements", rows.counts.statements),
        ("repeated entity", rows.counts.repeated_entities),
        ("statement of a repeated entity", rows.counts.repeated_statements),
        ("further values of a time qualifier", rows.counts.further_times),
        ("lexeme", rows.counts.lexemes),
        ("mediainfo", rows.counts.media),
        ("not an entity", rows.counts.others),
    ];
    let (claim_rows, entity_rows) = (rows.claims.rows(), rows.entity_rows());
    let (claims, entities) = rows.buffers();
    Parsed { claims: (claim_rows, claims), entities: (entity_rows, entities), counts, odd }
}

/// Read the line between two positions, without commas between entities and the array's brackets.
fn read_line(
    block: &[u8],
    mut start: usize,
    mut end: usize,
    options: &Options,
    rows: &mut Rows,
    odd: &mut Vec<OddLine>,
) {
    let around = |byte: u8| matches!(byte, b' ' | b'\t' | b',' | 0xef | 0xbb | 0xbf); // a byte order mark too
    while start < end && around(block[start]) {
        start += 1;
    }
    while end > start && around(block[end - 1]) {
        end -= 1;
    }
    let text = &block[start..end];
    if matches!(text, b"" | b"[" | b"]") {
        return;
    }
    let read = std::str::from_utf8(text).map_err(|_| json::Odd).and_then(|text| rows.read_line(text, options));
    if read.is_err() {
        odd.push((start, end, rows.claims.rows(), rows.entity_rows()));
    }
}

#[pymodule]
fn kgedit_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RULES", RULES)?;
    module.add_function(wrap_pyfunction!(md5_of_rows, module)?)?;
    module.add_function(wrap_pyfunction!(order_by_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(pack_rows, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_rows, module)?)?;
    module.add_class::<Parser>()
}
