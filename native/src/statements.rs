//! Statements as rows of claims, as in kgedit.store.rows.

use std::borrow::Cow;

use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};

use crate::columns::{Buffer, Buffers, Lists, Numbers, Strings};
use crate::json::{Cursor, Odd, Read, set};
use crate::text::{is_property, is_statement_id};
use crate::times::{self, Time};
use crate::values::{Snak, read_snak};

const TIMES: [&str; 3] = ["P580", "P582", "P585"];
const SEPARATOR: &str = "P4155";

#[derive(Default)]
struct TimeColumns {
    text: Strings,
    precision: Numbers<i8>,
    first: Numbers<i64>,
    until: Numbers<i64>,
}

impl TimeColumns {
    fn push(&mut self, time: Option<&Time>) {
        self.text.push(time.and_then(|time| time.text.as_deref()));
        self.precision.push(time.map(|time| time.precision));
        self.first.push(time.and_then(|time| time.first));
        self.until.push(time.and_then(|time| time.until));
    }
}

/// Columns of CLAIMS.
#[derive(Default)]
pub struct Claims {
    statement_id: Strings,
    subject: Strings,
    property: Strings,
    rank: Strings,
    snak: Strings,
    datatype: Strings,
    object: Strings,
    value: Strings,
    unit: Strings,
    language: Strings,
    precision: Strings,
    calendar: Strings,
    times: [TimeColumns; 3],
    qualifiers: Lists,
    separators: Lists,
    version: Numbers<i64>,
    /// Texts of the last rows, whose hashes are their versions.
    unhashed: Unhashed,
}

/// Texts that are hashed together, because a processor's vectors hash four at once.
#[derive(Default)]
struct Unhashed {
    text: String,
    ends: Vec<usize>,
}

/// Texts from which on they are hashed: few enough to stay in the processor's cache.
const ENOUGH: usize = 64;

impl Claims {
    pub fn rows(&self) -> usize {
        self.version.data.len() + self.unhashed.ends.len()
    }

    /// Drop rows that were added since the last `hash_versions`.
    pub fn truncate(&mut self, rows: usize) {
        for column in self.strings() {
            column.truncate(rows);
        }
        for time in &mut self.times {
            time.text.truncate(rows);
            time.precision.truncate(rows);
            time.first.truncate(rows);
            time.until.truncate(rows);
        }
        self.qualifiers.truncate(rows);
        self.separators.truncate(rows);
        self.unhashed.truncate(rows - self.version.data.len());
    }

    /// Hash the versions of the rows so far if they are enough.
    pub fn hash_versions(&mut self) {
        if self.unhashed.ends.len() >= ENOUGH {
            self.unhashed.hash(&mut self.version);
        }
    }

    fn strings(&mut self) -> [&mut Strings; 12] {
        [
            &mut self.statement_id,
            &mut self.subject,
            &mut self.property,
            &mut self.rank,
            &mut self.snak,
            &mut self.datatype,
            &mut self.object,
            &mut self.value,
            &mut self.unit,
            &mut self.language,
            &mut self.precision,
            &mut self.calendar,
        ]
    }

    /// Buffers of all columns in the order of the schema.
    pub fn buffers(mut self) -> Vec<Buffers> {
        let mut columns: Vec<Buffers> = self.strings().map(|column| std::mem::take(column).buffers()).into();
        for time in self.times {
            columns.push(time.text.buffers());
            columns.push(time.precision.buffers(Buffer::Small));
            columns.push(time.first.buffers(Buffer::Long));
            columns.push(time.until.buffers(Buffer::Long));
        }
        columns.push(self.qualifiers.buffers());
        columns.push(self.separators.buffers());
        self.unhashed.hash(&mut self.version);
        columns.push(self.version.buffers(Buffer::Long));
        columns
    }

    /// Read the object of statements by property; returns the number of further values of time qualifiers.
    pub fn read(&mut self, cursor: &mut Cursor<'_>, subject: &str) -> Read<u64> {
        let mut further = 0;
        let mut keys = Vec::new();
        if cursor.peek()? == b'[' {
            return cursor.array(|_| Err(Odd)).map(|()| 0); // PHP writes an empty map as []
        }
        cursor.object(|cursor, key| {
            keys.push(property_number(key)?);
            cursor.array(|cursor| {
                further += self.read_statement(cursor, subject)?;
                Ok(())
            })
        })?;
        refuse_repetition(keys)?;
        Ok(further)
    }

    fn read_statement(&mut self, cursor: &mut Cursor<'_>, subject: &str) -> Read<u64> {
        let (mut snak, mut id, mut rank) = (None, None, None);
        let mut qualifiers = None;
        cursor.object(|cursor, key| match key {
            "mainsnak" => set(&mut snak, read_snak(cursor)?),
            "id" => set(&mut id, cursor.string()?.plain()?),
            "rank" => set(&mut rank, cursor.string()?.plain()?),
            "qualifiers" => set(&mut qualifiers, read_qualifiers(cursor)?),
            _ => cursor.skip(),
        })?;
        let rank = rank.unwrap_or("normal");
        if !matches!(rank, "normal" | "preferred" | "deprecated") {
            return Err(Odd);
        }
        let snak = snak.ok_or(Odd)?;
        let qualifiers = qualifiers.unwrap_or_default();
        let further = self.push_qualifiers_after(subject, rank, &snak, &qualifiers)?;
        self.push_main(subject, rank, &snak, id)?;
        Ok(further)
    }

    fn push_main(&mut self, subject: &str, rank: &str, snak: &Snak<'_>, id: Option<&str>) -> Read<()> {
        if !is_property(snak.property) {
            return Err(Odd);
        }
        let id = match id {
            Some(id) if is_statement_id(id)? => Cow::Borrowed(id),
            Some(_) => return Err(Odd),
            None => {
                let mut content = String::new();
                snak.value.write(snak.property, &mut content);
                let hash = Params::new().hash_length(16).hash(content.as_bytes());
                Cow::Owned(format!("{subject}${}", hash.to_hex()))
            }
        };
        let value = &snak.value;
        self.statement_id.push(Some(&id));
        self.subject.push(Some(subject));
        self.property.push(Some(snak.property));
        self.rank.push(Some(rank));
        self.snak.push(Some(if value.has_none() { value.kind } else { "value" }));
        self.datatype.push(snak.datatype.or_else(|| value.implied_datatype()));
        self.object.push(value.entity.as_deref());
        self.value.push(value.literal.as_deref());
        self.unit.push(value.unit);
        self.language.push(value.language);
        self.precision.push(value.precision.as_deref());
        self.calendar.push(value.calendar);
        Ok(())
    }

    /// Push the columns that depend on the qualifiers, and the version, which is a hash over the whole content.
    fn push_qualifiers_after(
        &mut self,
        subject: &str,
        rank: &str,
        snak: &Snak<'_>,
        qualifiers: &[Qualifier<'_>],
    ) -> Read<u64> {
        let content = &mut self.unhashed.text;
        for part in [subject, "\x1e", rank, "\x1e"] {
            content.push_str(part);
        }
        snak.value.write(snak.property, content);
        let mut found: [Option<Time>; 3] = Default::default();
        let mut separators = Vec::new();
        let mut further = 0;
        for Qualifier { property, snaks } in qualifiers {
            for (text, entity) in sorted_texts(property, snaks) {
                content.push('\x1e');
                content.push_str(&text);
                if *property == SEPARATOR {
                    separators.extend(entity);
                }
            }
            if let Some(number) = TIMES.iter().position(|one| one == property) {
                further += u64::from(snaks.len() > 1);
                found[number] = one_time(number, snaks)?;
            }
        }
        for (columns, time) in self.times.iter_mut().zip(&found) {
            columns.push(time.as_ref());
        }
        self.qualifiers.push(qualifiers.iter().map(|one| one.property));
        self.separators.push(separators);
        self.unhashed.ends.push(self.unhashed.text.len());
        Ok(further)
    }
}

impl Unhashed {
    fn truncate(&mut self, texts: usize) {
        self.ends.truncate(texts);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    fn hash(&mut self, versions: &mut Numbers<i64>) {
        let (params, text) = (Params::new().hash_length(8).to_owned(), self.text.as_bytes());
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut jobs: Vec<_> =
            starts.zip(&self.ends).map(|(start, &end)| HashManyJob::new(&params, &text[start..end])).collect();
        hash_many(&mut jobs);
        for job in jobs {
            versions.push(Some(i64::from_le_bytes(job.to_hash().as_bytes().try_into().unwrap())));
        }
        self.truncate(0);
    }
}

struct Qualifier<'a> {
    property: &'a str,
    snaks: Vec<Snak<'a>>,
}

/// Qualifiers in the order of their properties' texts.
fn read_qualifiers<'a>(cursor: &mut Cursor<'a>) -> Read<Vec<Qualifier<'a>>> {
    let mut qualifiers = Vec::new();
    if cursor.peek()? == b'[' {
        cursor.array(|_| Err(Odd))?; // PHP writes an empty map as []
        return Ok(qualifiers);
    }
    let mut keys = Vec::new();
    cursor.object(|cursor, property| {
        keys.push(property_number(property)?);
        let mut snaks = Vec::new();
        cursor.array(|cursor| {
            snaks.push(read_snak(cursor)?);
            Ok(())
        })?;
        qualifiers.push(Qualifier { property, snaks });
        Ok(())
    })?;
    refuse_repetition(keys)?;
    qualifiers.sort_unstable_by_key(|one| one.property);
    Ok(qualifiers)
}

fn property_number(text: &str) -> Read<u64> {
    if is_property(text) { text[1..].parse().map_err(|_| Odd) } else { Err(Odd) }
}

/// The last of repeated keys counts in Python.
fn refuse_repetition(mut keys: Vec<u64>) -> Read<()> {
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) { Err(Odd) } else { Ok(()) }
}

/// Canonical texts of a qualifier's values in text order, with their entities.
fn sorted_texts<'s>(property: &str, snaks: &'s [Snak<'_>]) -> Vec<(String, Option<&'s str>)> {
    let mut texts: Vec<_> = snaks
        .iter()
        .map(|snak| {
            let mut text = String::with_capacity(64);
            snak.value.write(property, &mut text);
            (text, snak.value.entity.as_deref())
        })
        .collect();
    texts.sort();
    texts
}

/// Time of a qualifier. Of several, the earliest start or the latest end or point; known times come first.
fn one_time(number: usize, snaks: &[Snak<'_>]) -> Read<Option<Time>> {
    let mut known: Vec<&Time> = Vec::new();
    let mut unknown = false;
    for snak in snaks {
        match (&snak.value.time, snak.value.kind) {
            (Some(time), _) => known.push(time),
            (None, "somevalue") => unknown = true,
            (None, "novalue") => {}
            _ => return Err(Odd),
        }
    }
    let chosen = if number == 0 { known.into_iter().min() } else { known.into_iter().max() };
    Ok(chosen.cloned().or(unknown.then_some(times::UNKNOWN)))
}
