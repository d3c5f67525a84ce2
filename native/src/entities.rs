//! Entities as rows, as in loaders/wikidata_json.py.

use std::collections::HashSet;

use crate::columns::{Buffer, Buffers, Lists, Numbers, Strings};
use crate::json::{Cursor, Odd, Read, Spelled, set};
use crate::statements::Claims;
use crate::text::{is_id, is_name, plain_line};

/// What is read of each entity.
pub struct Options {
    pub languages: Vec<String>,
    pub wiki: String,
}

/// Columns of ENTITIES.
#[derive(Default)]
struct Entities {
    id: Strings,
    kind: Strings,
    label: Strings,
    label_language: Strings,
    description: Strings,
    aliases: Lists,
    wiki_title: Strings,
    datatype: Strings,
    lastrevid: Numbers<i64>,
    redirect_target: Strings,
}

#[derive(Default)]
pub struct Counts {
    pub lines: u64,
    pub statements: u64,
    pub repeated_entities: u64,
    pub repeated_statements: u64,
    pub further_times: u64,
    pub lexemes: u64,
    pub media: u64,
    pub others: u64,
}

/// Rows of the lines read so far.
#[derive(Default)]
pub struct Rows {
    pub claims: Claims,
    entities: Entities,
    pub counts: Counts,
    /// Numbers of the entities, doubled, plus one for properties.
    ids: HashSet<u64>,
}

#[derive(Default)]
struct Entity<'a> {
    id: Option<&'a str>,
    kind: Option<&'a str>,
    datatype: Option<Option<&'a str>>,
    lastrevid: Option<Option<i64>>,
    labels: Option<Vec<Option<String>>>,
    descriptions: Option<Vec<Option<String>>>,
    aliases: Option<Vec<Vec<String>>>,
    title: Option<Option<String>>,
    further: Option<u64>,
}

impl<'a> Entity<'a> {
    /// The id, once the id and the type are known.
    fn subject(&self) -> Read<Option<&'a str>> {
        match (self.kind, self.id) {
            (Some("item"), Some(id)) if is_id('Q', id) => Ok(Some(id)),
            (Some("property"), Some(id)) if is_id('P', id) => Ok(Some(id)),
            (Some("item" | "property"), Some(_)) => Err(Odd),
            _ => Ok(None),
        }
    }

    fn is_foreign(&self) -> bool {
        self.kind.is_some_and(|kind| kind != "item" && kind != "property")
    }
}

impl Rows {
    pub fn entity_rows(&self) -> usize {
        self.entities.lastrevid.data.len()
    }

    /// Buffers of both tables' columns.
    pub fn buffers(self) -> (Vec<Buffers>, Vec<Buffers>) {
        let entities = self.entities;
        let columns = vec![
            entities.id.buffers(),
            entities.kind.buffers(),
            entities.label.buffers(),
            entities.label_language.buffers(),
            entities.description.buffers(),
            entities.aliases.buffers(),
            entities.wiki_title.buffers(),
            entities.datatype.buffers(),
            entities.lastrevid.buffers(Buffer::Long),
            entities.redirect_target.buffers(),
        ];
        (self.claims.buffers(), columns)
    }

    /// Read a line; if it is odd, nothing of it is kept.
    pub fn read_line(&mut self, text: &str, options: &Options) -> Read<()> {
        self.claims.hash_versions();
        let rows = self.claims.rows();
        self.read_entity(text, options, rows).inspect_err(|_| self.claims.truncate(rows))
    }

    fn read_entity(&mut self, text: &str, options: &Options, rows: usize) -> Read<()> {
        let mut entity = Entity::default();
        let mut postponed = None;
        let mut cursor = Cursor::new(text);
        let claims = &mut self.claims;
        cursor.object(|cursor, key| {
            if key != "type" && entity.is_foreign() {
                return cursor.skip();
            }
            match key {
                "id" => set(&mut entity.id, cursor.string()?.plain()?),
                "type" => set(&mut entity.kind, cursor.string()?.plain()?),
                "datatype" => set(&mut entity.datatype, read_datatype(cursor)?),
                "lastrevid" => set(&mut entity.lastrevid, read_revision(cursor)?),
                "labels" => set(&mut entity.labels, read_terms(cursor, options)?),
                "descriptions" => set(&mut entity.descriptions, read_terms(cursor, options)?),
                "aliases" => set(&mut entity.aliases, read_aliases(cursor, options)?),
                "sitelinks" => set(&mut entity.title, read_title(cursor, &options.wiki)?),
                "claims" => match entity.subject()? {
                    Some(subject) => set(&mut entity.further, claims.read(cursor, subject)?),
                    None => {
                        set(&mut postponed, cursor.clone())?;
                        cursor.skip()
                    }
                },
                _ => cursor.skip(),
            }
        })?;
        cursor.end()?;
        if entity.is_foreign() {
            self.claims.truncate(rows);
            self.count_foreign(entity.kind.ok_or(Odd)?);
            return Ok(());
        }
        let subject = entity.subject()?.ok_or(Odd)?;
        if let Some(mut cursor) = postponed {
            set(&mut entity.further, self.claims.read(&mut cursor, subject)?)?;
        }
        self.add(entity, subject, rows, options)
    }

    fn count_foreign(&mut self, kind: &str) {
        self.counts.lines += 1;
        match kind {
            "lexeme" => self.counts.lexemes += 1,
            "mediainfo" => self.counts.media += 1,
            _ => self.counts.others += 1,
        }
    }

    fn add(&mut self, entity: Entity<'_>, subject: &str, rows: usize, options: &Options) -> Read<()> {
        let number: u64 = subject[1..].parse().map_err(|_| Odd)?;
        let statements = (self.claims.rows() - rows) as u64;
        self.counts.lines += 1;
        self.counts.statements += statements;
        if !self.ids.insert(number << 1 | u64::from(subject.starts_with('P'))) {
            self.claims.truncate(rows);
            self.counts.repeated_entities += 1;
            self.counts.repeated_statements += statements;
            return Ok(());
        }
        self.counts.further_times += entity.further.unwrap_or(0);
        let columns = &mut self.entities;
        columns.id.push(Some(subject));
        columns.kind.push(entity.kind);
        let label = first(entity.labels, options);
        columns.label.push(label.as_ref().map(|(text, _)| text.as_str()));
        columns.label_language.push(label.as_ref().map(|(_, language)| *language));
        columns.description.push(first(entity.descriptions, options).as_ref().map(|(text, _)| text.as_str()));
        columns.aliases.push(without_repetition(&entity.aliases.unwrap_or_default()));
        columns.wiki_title.push(entity.title.flatten().as_deref());
        columns.datatype.push(entity.datatype.flatten());
        columns.lastrevid.push(entity.lastrevid.flatten());
        columns.redirect_target.push(None);
        Ok(())
    }
}

fn read_datatype<'a>(cursor: &mut Cursor<'a>) -> Read<Option<&'a str>> {
    if cursor.null()? {
        return Ok(None);
    }
    let text = cursor.string()?.plain()?;
    Ok(is_name(text)?.then_some(text))
}

fn read_revision(cursor: &mut Cursor<'_>) -> Read<Option<i64>> {
    if cursor.null()? {
        return Ok(None);
    }
    let number = cursor.integer()?;
    if number < 0 { Err(Odd) } else { Ok(Some(number)) }
}

/// Read a map of languages; the value of each chosen one is read by `read`.
fn read_languages<'a, T: Default>(
    cursor: &mut Cursor<'a>,
    options: &Options,
    read: impl Fn(&mut Cursor<'a>) -> Read<T>,
) -> Read<Vec<T>> {
    let mut found: Vec<Option<T>> = options.languages.iter().map(|_| None).collect();
    if cursor.peek()? == b'[' {
        cursor.array(|_| Err(Odd))?; // PHP writes an empty map as []
    } else {
        cursor.object(|cursor, key| match options.languages.iter().position(|language| language == key) {
            Some(number) => set(&mut found[number], read(cursor)?),
            None => cursor.skip(),
        })?;
    }
    Ok(found.into_iter().map(Option::unwrap_or_default).collect())
}

fn read_terms(cursor: &mut Cursor<'_>, options: &Options) -> Read<Vec<Option<String>>> {
    read_languages(cursor, options, |cursor| Ok(Some(line_of(read_field(cursor, "value")?))))
}

fn read_aliases(cursor: &mut Cursor<'_>, options: &Options) -> Read<Vec<Vec<String>>> {
    read_languages(cursor, options, |cursor| {
        let mut aliases = Vec::new();
        cursor.array(|cursor| {
            aliases.push(line_of(read_field(cursor, "value")?));
            Ok(())
        })?;
        Ok(aliases)
    })
}

fn read_title(cursor: &mut Cursor<'_>, wiki: &str) -> Read<Option<String>> {
    let mut title = None;
    if cursor.peek()? == b'[' {
        cursor.array(|_| Err(Odd))?; // PHP writes an empty map as []
        return Ok(None);
    }
    cursor.object(|cursor, key| {
        if key != wiki {
            return cursor.skip();
        }
        set(&mut title, line_of(read_field(cursor, "title")?))
    })?;
    Ok(title.filter(|title| !title.is_empty()))
}

/// The string of one field of an object.
fn read_field<'a>(cursor: &mut Cursor<'a>, name: &str) -> Read<Spelled<'a>> {
    let mut found = None;
    cursor.object(|cursor, key| if key == name { set(&mut found, cursor.string()?) } else { cursor.skip() })?;
    found.ok_or(Odd)
}

fn line_of(text: Spelled<'_>) -> String {
    plain_line(text.decode().into_owned())
}

/// The first non-empty term and its language.
fn first(terms: Option<Vec<Option<String>>>, options: &Options) -> Option<(String, &str)> {
    let terms = terms.unwrap_or_default().into_iter().zip(&options.languages);
    terms.filter_map(|(text, language)| Some((text?, language.as_str()))).find(|(text, _)| !text.is_empty())
}

/// Non-empty texts, each once, in order.
fn without_repetition(by_language: &[Vec<String>]) -> Vec<&str> {
    let mut texts: Vec<&str> =
        by_language.iter().flatten().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if texts.len() > 1 {
        let mut seen = HashSet::new();
        texts.retain(|text| seen.insert(*text));
    }
    texts
}
