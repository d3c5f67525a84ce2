//! Compiled parser of Wikidata's JSON dumps, and hashes of rows. kgedit.store.compiled is its only user.

mod columns;
mod digests;
mod entities;
mod json;
mod statements;
mod text;
mod times;
mod values;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::Buffers;
use crate::digests::{Column, Texts, Values};
use crate::entities::{Options, Rows};

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

type Columns<'py> = (usize, Vec<Vec<Option<Bound<'py, PyBytes>>>>);

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
    fn parse<'py>(
        &self,
        py: Python<'py>,
        block: &[u8],
    ) -> Option<(Columns<'py>, Columns<'py>, Vec<(&'static str, u64)>, Vec<OddLine>)> {
        if block.len() > LONGEST_BLOCK {
            return None;
        }
        let parsed = py.detach(|| parse(block, &self.options));
        Some((to_python(py, parsed.claims), to_python(py, parsed.entities), parsed.counts, parsed.odd))
    }
}

/// A column as Python describes it: its type, its first row, validity bits, and the other buffers of Arrow.
type Described = (String, usize, Option<PyBuffer<i8>>, Vec<PyBuffer<i8>>);

/// The MD5 of each row of a table: 16 bytes for each.
///
/// Columns are written as texts, separated by U+001F, and texts of a list by U+001D; `null` stands for null.
#[pyfunction]
fn md5_of_rows<'py>(
    py: Python<'py>,
    columns: Vec<Described>,
    rows: usize,
    null: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let known = columns.iter().map(column).collect::<Option<Vec<_>>>();
    let hashes = known.and_then(|known| py.detach(|| digests::md5_of_rows(&known, rows, null.as_bytes())));
    let hashes = hashes.ok_or_else(|| PyValueError::new_err("the buffers are not those of columns of this type"))?;
    Ok(PyBytes::new(py, &hashes))
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

/// Content of one of Arrow's buffers, which do not change.
fn bytes(buffer: &PyBuffer<i8>) -> &[u8] {
    if buffer.item_count() == 0 || !buffer.is_c_contiguous() {
        return &[]; // the pointer of an empty buffer may be null
    }
    // SAFETY: Python holds the buffer as long as `buffer` lives, and its items are single bytes in one piece.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.item_count()) }
}

fn to_python(py: Python<'_>, (rows, columns): (usize, Vec<Buffers>)) -> Columns<'_> {
    let in_bytes = |buffer: Option<Vec<u8>>| buffer.map(|buffer| PyBytes::new(py, &buffer));
    (rows, columns.into_iter().map(|buffers| buffers.into_iter().map(in_bytes).collect()).collect())
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
    module.add_class::<Parser>()
}
