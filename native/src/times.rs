//! Times as half-open intervals of days, as in kgedit.wikidata.times.

use crate::json::{Odd, Read};

const DAY: i64 = 11;
const MONTH: i64 = 10;
const YEAR: i64 = 9;
const DECADE: i64 = 8;

/// A time as stated; `first` and `until` are None if it exists but is unknown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    pub first: Option<i64>,
    pub until: Option<i64>,
    pub text: Option<String>,
    pub precision: i8,
}

pub const UNKNOWN: Time = Time { first: None, until: None, text: None, precision: -1 };

/// Year, month and day of a timestamp such as "+2021-03-00T00:00:00Z".
fn parts(text: &str) -> Read<(i64, i64, i64)> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (year, rest) = unsigned.split_once('-').ok_or(Odd)?;
    let bytes = rest.as_bytes();
    let after = bytes.get(5..).ok_or(Odd)?;
    let has_form = bytes[2] == b'-' && (after.is_empty() || after[0] == b'T' && !after.contains(&b'\n'));
    if !has_form {
        return Err(Odd);
    }
    let digits = |text: &[u8]| {
        let number = |value: i64, byte: &u8| {
            if byte.is_ascii_digit() { Ok(value * 10 + i64::from(byte - b'0')) } else { Err(Odd) }
        };
        text.iter().try_fold(0, number)
    };
    let significant = year.trim_start_matches('0');
    if year.is_empty() || significant.len() > 14 {
        return Err(Odd);
    }
    let year = digits(significant.as_bytes())?;
    let (month, day) = (digits(&bytes[..2])?, digits(&bytes[3..5])?);
    if month > 12 || day > 31 {
        return Err(Odd);
    }
    Ok((if negative { -year } else { year }, month, day))
}

pub fn parse(text: &str, precision: f64) -> Read<Time> {
    if precision.fract() != 0.0 || !(0.0..=14.0).contains(&precision) {
        return Err(Odd);
    }
    let (year, month, day) = parts(text)?;
    let finest = if month == 0 {
        YEAR
    } else if day == 0 {
        MONTH
    } else {
        DAY
    };
    let precision = (precision as i64).min(finest);
    let sign = if year < 0 { "-" } else { "" };
    let iso = format!("{sign}{:04}", year.abs());
    let (text, first, until) = match precision {
        DAY => (format!("{iso}-{month:02}-{day:02}"), year * 10000 + month * 100 + day, next_day(year, month, day)),
        MONTH => {
            let until = if month == 12 { new_year(year + 1) } else { year * 10000 + (month + 1) * 100 + 1 };
            (format!("{iso}-{month:02}"), year * 10000 + month * 100 + 1, until)
        }
        _ => {
            let (first, last) = years(year, precision);
            (iso, new_year(first), new_year(last + 1))
        }
    };
    Ok(Time { first: Some(first), until: Some(until), text: Some(text), precision: precision as i8 })
}

fn new_year(year: i64) -> i64 {
    year * 10000 + 101
}

fn next_day(year: i64, month: i64, day: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=9999).contains(&year) || day != last || year == 9999 && month == 12 {
        return year * 10000 + month * 100 + day + 1;
    }
    if month == 12 { new_year(year + 1) } else { year * 10000 + (month + 1) * 100 + 1 }
}

/// First and last year; decades count from 0, centuries and millennia from 1.
fn years(year: i64, precision: i64) -> (i64, i64) {
    let size = 10_i64.pow((YEAR - precision) as u32);
    let counted_from = i64::from(precision < DECADE);
    let nearest = (year.abs() - counted_from).div_euclid(size) * size + counted_from;
    let farthest = nearest + size - 1;
    if year < 0 { (-farthest, -nearest) } else { (nearest, farthest) }
}
