//! Canonical form of values, as in kgedit.wikidata.snaks.

use std::borrow::Cow;

use crate::json::{Cursor, Odd, Read, Spelled, set};
use crate::text::{is_entity, is_name, name};
use crate::times::{self, Time};

/// A property with a value. Kinds without a value are "somevalue" and "novalue".
pub struct Snak<'a> {
    pub property: &'a str,
    pub datatype: Option<&'a str>,
    pub value: Value<'a>,
}

#[derive(Default)]
pub struct Value<'a> {
    pub kind: &'a str,
    pub entity: Option<Cow<'a, str>>,
    pub literal: Option<Cow<'a, str>>,
    pub unit: Option<&'a str>,
    pub language: Option<&'a str>,
    pub precision: Option<Cow<'a, str>>,
    pub calendar: Option<&'a str>,
    bounds: Option<String>,
    pub time: Option<Time>,
}

impl Value<'_> {
    /// Append the text that is equal for all spellings of a value.
    pub fn write(&self, property: &str, out: &mut String) {
        let fields = [
            Some(property),
            Some(self.kind),
            self.entity.as_deref(),
            self.literal.as_deref(),
            self.unit,
            self.language,
            self.precision.as_deref(),
            self.calendar,
            self.bounds.as_deref(),
        ];
        for (number, field) in fields.into_iter().enumerate() {
            if number > 0 {
                out.push('\x1f');
            }
            out.push_str(field.unwrap_or_default());
        }
    }

    pub fn has_none(&self) -> bool {
        matches!(self.kind, "somevalue" | "novalue")
    }

    /// Datatype of a value whose snak does not state one.
    pub fn implied_datatype(&self) -> Option<&str> {
        match &self.entity {
            Some(entity) if entity.starts_with('P') => Some("wikibase-property"),
            Some(entity) if entity.starts_with('L') => Some("wikibase-lexeme"),
            Some(_) => Some("wikibase-item"),
            None if self.has_none() => None,
            None if self.kind == "globecoordinate" => Some("globe-coordinate"),
            None => Some(self.kind),
        }
    }
}

pub fn read_snak<'a>(cursor: &mut Cursor<'a>) -> Read<Snak<'a>> {
    let (mut kind, mut property, mut datatype, mut value) = (None, None, None, None);
    cursor.object(|cursor, key| match key {
        "snaktype" => set(&mut kind, cursor.string()?.plain()?),
        "property" => set(&mut property, cursor.string()?.plain()?),
        "datatype" => set(&mut datatype, name(cursor.string()?.plain()?)?),
        "datavalue" => set(&mut value, read_data_value(cursor)?),
        _ => cursor.skip(),
    })?;
    let value = match (kind, value) {
        (Some(kind @ ("somevalue" | "novalue")), _) => Value { kind, ..Value::default() },
        (Some("value"), Some(value)) => value,
        _ => return Err(Odd),
    };
    Ok(Snak { property: property.ok_or(Odd)?, datatype, value })
}

fn read_data_value<'a>(cursor: &mut Cursor<'a>) -> Read<Value<'a>> {
    let (mut kind, mut text, mut fields) = (None, None, None);
    cursor.object(|cursor, key| match key {
        "type" => set(&mut kind, cursor.string()?.plain()?),
        "value" if cursor.peek()? == b'"' => set(&mut text, cursor.string()?),
        "value" => set(&mut fields, Fields::read(cursor)?),
        _ => cursor.skip(),
    })?;
    match (kind.ok_or(Odd)?, text, fields) {
        (kind, Some(text), None) => text_value(kind, text),
        (kind @ "wikibase-entityid", None, Some(fields)) => fields.entity(kind),
        (kind @ "quantity", None, Some(fields)) => fields.quantity(kind),
        (kind @ "time", None, Some(fields)) => fields.time(kind),
        (kind @ "monolingualtext", None, Some(fields)) => fields.text(kind),
        (kind @ "globecoordinate", None, Some(fields)) => fields.place(kind),
        _ => Err(Odd),
    }
}

fn text_value<'a>(kind: &'a str, text: Spelled<'a>) -> Read<Value<'a>> {
    let has_fields = matches!(kind, "wikibase-entityid" | "quantity" | "time" | "monolingualtext" | "globecoordinate");
    if has_fields || !is_name(kind)? {
        return Err(Odd);
    }
    Ok(Value { kind, literal: Some(text.decode()), ..Value::default() })
}

/// The fields of all kinds of values; None for missing ones and null.
#[derive(Default)]
struct Fields<'a> {
    id: Option<&'a str>,
    entity_type: Option<&'a str>,
    numeric_id: Option<i64>,
    amount: Option<Spelled<'a>>,
    unit: Option<Spelled<'a>>,
    upper: Option<Spelled<'a>>,
    lower: Option<Spelled<'a>>,
    time: Option<Spelled<'a>>,
    precision: Option<f64>,
    calendar: Option<Spelled<'a>>,
    text: Option<Spelled<'a>>,
    language: Option<&'a str>,
    latitude: Option<f64>,
    longitude: Option<f64>,
    globe: Option<Spelled<'a>>,
}

impl<'a> Fields<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Read<Self> {
        let mut fields = Fields::default();
        cursor.object(|cursor, key| {
            if cursor.null()? {
                return fields.set_null(key);
            }
            match key {
                "id" => set(&mut fields.id, cursor.string()?.plain()?),
                "entity-type" => set(&mut fields.entity_type, cursor.string()?.plain()?),
                "numeric-id" => set(&mut fields.numeric_id, cursor.integer()?),
                "amount" => set(&mut fields.amount, cursor.string()?),
                "unit" => set(&mut fields.unit, cursor.string()?),
                "upperBound" => set(&mut fields.upper, cursor.string()?),
                "lowerBound" => set(&mut fields.lower, cursor.string()?),
                "time" => set(&mut fields.time, cursor.string()?),
                "precision" => set(&mut fields.precision, cursor.float()?),
                "calendarmodel" => set(&mut fields.calendar, cursor.string()?),
                "text" => set(&mut fields.text, cursor.string()?),
                "language" => set(&mut fields.language, cursor.string()?.plain()?),
                "latitude" => set(&mut fields.latitude, cursor.float()?),
                "longitude" => set(&mut fields.longitude, cursor.float()?),
                "globe" => set(&mut fields.globe, cursor.string()?),
                _ => cursor.skip(),
            }
        })?;
        Ok(fields)
    }

    /// Null for a field. The last of repeated fields counts in Python, so that null after a value is odd.
    fn set_null(&self, key: &str) -> Read<()> {
        match key {
            "precision" if self.precision.is_none() => Ok(()),
            "altitude" => Ok(()),
            _ => Err(Odd),
        }
    }

    fn entity(self, kind: &'a str) -> Read<Value<'a>> {
        let entity = match (self.id, self.entity_type, self.numeric_id) {
            (Some(id), _, _) if is_entity(id) => Cow::Borrowed(id),
            (None, Some(of_type), Some(number)) if number > 0 => {
                let prefix = match of_type {
                    "item" => 'Q',
                    "property" => 'P',
                    "lexeme" => 'L',
                    _ => return Err(Odd),
                };
                Cow::Owned(format!("{prefix}{number}"))
            }
            _ => return Err(Odd),
        };
        Ok(Value { kind, entity: Some(entity), ..Value::default() })
    }

    fn quantity(self, kind: &'a str) -> Read<Value<'a>> {
        let literal = match self.amount.ok_or(Odd)?.decode() {
            Cow::Borrowed(amount) => Cow::Borrowed(amount.strip_prefix('+').unwrap_or(amount)),
            Cow::Owned(amount) => Cow::Owned(amount.strip_prefix('+').unwrap_or(&amount).to_owned()),
        };
        let unit = match last_part(self.unit)? {
            Some("1") if self.unit.is_some_and(|unit| unit.plain().is_ok_and(|text| text == "1")) => None,
            unit => unit,
        };
        let bounds = match self.upper.map(Spelled::decode) {
            Some(upper) if !upper.is_empty() => {
                let lower = self.lower.map_or(Cow::Borrowed("None"), Spelled::decode); // as Python writes it
                Some(format!("{lower}..{upper}"))
            }
            _ => None,
        };
        Ok(Value { kind, literal: Some(literal), unit, bounds, ..Value::default() })
    }

    fn time(self, kind: &'a str) -> Read<Value<'a>> {
        let time = times::parse(&self.time.ok_or(Odd)?.decode(), self.precision.ok_or(Odd)?)?;
        Ok(Value {
            kind,
            literal: time.text.clone().map(Cow::Owned),
            precision: Some(Cow::Owned(time.precision.to_string())),
            calendar: last_part(self.calendar)?,
            time: Some(time),
            ..Value::default()
        })
    }

    fn text(self, kind: &'a str) -> Read<Value<'a>> {
        let language = self.language.map(name).transpose()?;
        let literal = Some(self.text.ok_or(Odd)?.decode());
        Ok(Value { kind, literal, language, ..Value::default() })
    }

    fn place(self, kind: &'a str) -> Read<Value<'a>> {
        let latitude = degrees(self.latitude.ok_or(Odd)?)?;
        let longitude = degrees(self.longitude.ok_or(Odd)?)?;
        Ok(Value {
            kind,
            literal: Some(Cow::Owned(format!("{latitude},{longitude}"))),
            unit: last_part(self.globe)?,
            precision: self.precision.map(six_digits).transpose()?.map(Cow::Owned),
            ..Value::default()
        })
    }
}

/// Id at the end of an entity's address: "Q2" of "http://www.wikidata.org/entity/Q2"; None if it is empty.
fn last_part(address: Option<Spelled<'_>>) -> Read<Option<&str>> {
    let Some(address) = address else { return Ok(None) };
    match address.after_last_slash()? {
        "" => Ok(None),
        part => name(part).map(Some),
    }
}

/// A coordinate with six digits. Only Python decides what is exactly in the middle of two.
fn degrees(number: f64) -> Read<String> {
    let in_the_middle = (number * 128.0).fract() == 0.0 && (number * 64.0).fract() != 0.0;
    if number.abs() > 1000.0 || in_the_middle {
        return Err(Odd);
    }
    let text = format!("{number:.6}");
    Ok(if text == "-0.000000" { "0.000000".to_owned() } else { text })
}

/// A number like Python's format "{:.6g}".
fn six_digits(number: f64) -> Read<String> {
    if number == 0.0 {
        return if number.is_sign_negative() { Err(Odd) } else { Ok("0".to_owned()) };
    }
    let exact = format!("{number:.40e}");
    let (digits, _) = exact.split_once('e').ok_or(Odd)?;
    // Only Python decides what is exactly in the middle of two.
    let beyond = digits.trim_start_matches('-').get(7..).ok_or(Odd)?;
    if beyond.starts_with('5') && beyond[1..].bytes().all(|digit| digit == b'0') {
        return Err(Odd);
    }
    let rounded = format!("{number:.5e}");
    let (digits, exponent) = rounded.split_once('e').ok_or(Odd)?;
    let exponent: i32 = exponent.parse().map_err(|_| Odd)?;
    if (-4..6).contains(&exponent) {
        let fixed = format!("{number:.*}", (5 - exponent) as usize);
        return Ok(without_trailing_zeros(&fixed).to_owned());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{}e{sign}{:02}", without_trailing_zeros(digits), exponent.abs()))
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}
