//! Ids, names and plain text, as in kgedit.wikidata.ids.

use crate::json::{Odd, Read};

fn is_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=18).contains(&bytes.len()) && bytes[0] != b'0' && bytes.iter().all(u8::is_ascii_digit)
}

pub fn is_id(prefix: char, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(is_number)
}

pub fn is_property(text: &str) -> bool {
    is_id('P', text)
}

pub fn is_entity(text: &str) -> bool {
    if let Some(lexeme) = text.strip_prefix('L') {
        return match lexeme.split_once('-') {
            None => is_number(lexeme),
            Some((number, part)) => is_number(number) && (is_id('F', part) || is_id('S', part)),
        };
    }
    text.strip_prefix(['Q', 'P', 'M', 'E']).is_some_and(is_number)
}

/// Whether a text can be a statement id. Only Python knows which characters beyond ASCII are printable.
pub fn is_statement_id(text: &str) -> Read<bool> {
    if !text.is_ascii() {
        return Err(Odd);
    }
    Ok((1..200).contains(&text.len()) && text.bytes().all(|byte| (0x21..0x7f).contains(&byte)))
}

/// Whether a text can be a unit, language, calendar or datatype.
pub fn is_name(text: &str) -> Read<bool> {
    Ok(is_statement_id(text)? && !text.contains(';'))
}

/// The text, which must be a name.
pub fn name(text: &str) -> Read<&str> {
    if is_name(text)? { Ok(text) } else { Err(Odd) }
}

/// White space of Python's str.split.
fn is_space(letter: char) -> bool {
    matches!(letter, '\t'..='\r' | '\x1c'..='\x20' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}'
        | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn is_control(letter: char) -> bool {
    matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{9f}') && !is_space(letter)
}

/// One line of plain text: without control characters, trimmed, white space collapsed.
pub fn plain_line(text: String) -> String {
    let usual = |byte: &u8| (0x20..0x7f).contains(byte);
    if text.as_bytes().iter().all(usual) && !text.contains("  ") && text.trim_matches(' ').len() == text.len() {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut gap = false;
    for letter in text.chars().filter(|&letter| !is_control(letter)) {
        if is_space(letter) {
            gap = !plain.is_empty();
            continue;
        }
        if std::mem::take(&mut gap) {
            plain.push(' ');
        }
        plain.push(letter);
    }
    plain
}
