//! Reads JSON text in one pass. Valid JSON that another parser might read differently is refused as `Odd`.

use std::borrow::Cow;

/// A text that Python's parser must read instead.
#[derive(Debug)]
pub struct Odd;

pub type Read<T> = Result<T, Odd>;

/// Deeper values are Python's, which has a limit of its own.
const DEEPEST: u32 = 64;

/// A string as spelled in the text.
#[derive(Clone, Copy)]
pub struct Spelled<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Spelled<'a> {
    /// The string itself. Its escapes were checked when it was found.
    pub fn decode(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }

    /// What follows the last slash, which may be escaped.
    pub fn after_last_slash(self) -> Read<&'a str> {
        let part = self.raw.rsplit('/').next().unwrap_or_default();
        if part.contains('\\') { Err(Odd) } else { Ok(part) }
    }

    /// The string, if it is spelled without escapes, as keys and ids are.
    pub fn plain(self) -> Read<&'a str> {
        if self.escaped { Err(Odd) } else { Ok(self.raw) }
    }
}

/// Set a field that is read for the first time. Of repeated fields Python reads the last one.
pub fn set<T>(field: &mut Option<T>, value: T) -> Read<()> {
    if field.replace(value).is_some() { Err(Odd) } else { Ok(()) }
}

#[derive(Clone)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Cursor { text, at: 0, depth: 0 }
    }

    fn byte(&self) -> Read<u8> {
        self.text.as_bytes().get(self.at).copied().ok_or(Odd)
    }

    /// Skip white space; the next byte, which is not consumed.
    pub fn peek(&mut self) -> Read<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Ok(other),
            }
        }
    }

    fn expect(&mut self, wanted: u8) -> Read<()> {
        if self.peek()? != wanted {
            return Err(Odd);
        }
        self.at += 1;
        Ok(())
    }

    /// Check that only white space is left.
    pub fn end(&mut self) -> Read<()> {
        match self.peek() {
            Err(Odd) => Ok(()),
            Ok(_) => Err(Odd),
        }
    }

    fn literal(&mut self, word: &str) -> Read<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Odd);
        }
        self.at += word.len();
        Ok(())
    }

    /// Consume `null` if it is next.
    pub fn null(&mut self) -> Read<bool> {
        if self.peek()? != b'n' {
            return Ok(false);
        }
        self.literal("null").map(|()| true)
    }

    /// Read an object; `member` must consume the value of each key.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Read<()>) -> Read<()> {
        self.enter(b'{')?;
        if self.peek()? == b'}' {
            return self.leave();
        }
        loop {
            let key = self.string()?.plain()?;
            self.expect(b':')?;
            member(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => return self.leave(),
                _ => return Err(Odd),
            }
        }
    }

    /// Read an array; `element` must consume each element.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.enter(b'[')?;
        if self.peek()? == b']' {
            return self.leave();
        }
        loop {
            element(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => return self.leave(),
                _ => return Err(Odd),
            }
        }
    }

    fn enter(&mut self, bracket: u8) -> Read<()> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > DEEPEST { Err(Odd) } else { Ok(()) }
    }

    fn leave(&mut self) -> Read<()> {
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Skip a value, checking it like one that is read.
    pub fn skip(&mut self) -> Read<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.object(|cursor, _| cursor.skip()),
            b'[' => self.array(Self::skip),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number().map(|_| ()),
        }
    }

    pub fn string(&mut self) -> Read<Spelled<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_length(&self.text.as_bytes()[self.at..]);
            match self.byte()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.at += escape_length(&self.text.as_bytes()[self.at..])?;
                }
                _ => return Err(Odd), // an unescaped control character
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(Spelled { raw, escaped })
    }

    /// The text of a number of usual length.
    fn number(&mut self) -> Read<&'a str> {
        self.peek()?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += usize::from(bytes.get(self.at) == Some(&b'-'));
        let whole = self.digits();
        let leading_zero = whole > 1 && bytes[self.at - whole] == b'0';
        if whole == 0 || whole > 18 || leading_zero {
            return Err(Odd);
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            let fraction = self.digits();
            if fraction == 0 || fraction > 25 {
                return Err(Odd);
            }
        }
        if let Some(b'e' | b'E') = bytes.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(bytes.get(self.at), Some(b'+' | b'-')));
            let exponent = self.digits();
            if exponent == 0 || exponent > 2 {
                return Err(Odd);
            }
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    pub fn integer(&mut self) -> Read<i64> {
        self.number()?.parse().map_err(|_| Odd)
    }

    pub fn float(&mut self) -> Read<f64> {
        self.number()?.parse().map_err(|_| Odd)
    }
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES * 0x80;

/// Number of bytes before the first quote, backslash or control character; eight bytes are compared at once.
fn plain_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(eight) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        // The lowest byte found is right; higher ones may follow from borrowing.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        if found & HIGHS != 0 {
            return at + (found & HIGHS).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + bytes[at..].iter().take_while(|byte| !special(byte)).count()
}

/// Length of the escape at the beginning of a text. Half a pair of surrogates is odd.
fn escape_length(bytes: &[u8]) -> Read<usize> {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => match code_unit(bytes)? {
            0xD800..0xDC00 => match code_unit(&bytes[6..])? {
                0xDC00..0xE000 => Ok(12),
                _ => Err(Odd),
            },
            0xDC00..0xE000 => Err(Odd),
            _ => Ok(6),
        },
        _ => Err(Odd),
    }
}

/// Value of an escape \uXXXX at the beginning of a text.
fn code_unit(bytes: &[u8]) -> Read<u32> {
    let digits = bytes.get(..6).ok_or(Odd)?.strip_prefix(b"\\u").ok_or(Odd)?;
    digits.iter().try_fold(0, |value, &digit| {
        let digit = char::from(digit).to_digit(16).ok_or(Odd)?;
        Ok(value * 16 + digit)
    })
}

fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = escape_length(rest.as_bytes()).expect("checked when the string was found");
        text.push(unescaped(&rest.as_bytes()[..length]));
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

fn unescaped(escape: &[u8]) -> char {
    match escape[1] {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = |at: usize| code_unit(&escape[at..]).expect("checked when the string was found");
            let code = match escape.len() {
                12 => 0x10000 + ((unit(0) - 0xD800) << 10) + (unit(6) - 0xDC00),
                _ => unit(0),
            };
            char::from_u32(code).expect("no half of a pair")
        }
        other => char::from(other),
    }
}
