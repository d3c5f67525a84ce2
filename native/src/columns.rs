//! Columns in Arrow's memory layout: validity bits, offsets, values.

/// Buffers of a column in the order of Arrow's `Array.from_buffers`; those of the strings follow those of a list.
pub type Buffers = Vec<Option<Buffer>>;

/// Bytes or numbers, which Arrow reads in place.
pub enum Buffer {
    Bytes(Vec<u8>),
    Small(Vec<i8>),
    Offsets(Vec<i32>),
    Long(Vec<i64>),
}

impl Buffer {
    /// The buffer without unused capacity, which would stay allocated as long as Arrow has the buffer.
    pub fn shrunk(mut self) -> Self {
        match &mut self {
            Buffer::Bytes(bytes) => bytes.shrink_to_fit(),
            Buffer::Small(numbers) => numbers.shrink_to_fit(),
            Buffer::Offsets(numbers) => numbers.shrink_to_fit(),
            Buffer::Long(numbers) => numbers.shrink_to_fit(),
        }
        self
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Small(numbers) => bytemuck::cast_slice(numbers),
            Buffer::Offsets(numbers) => bytemuck::cast_slice(numbers),
            Buffer::Long(numbers) => bytemuck::cast_slice(numbers),
        }
    }
}

/// A nullable column of strings.
pub struct Strings {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
    pub valid: Vec<bool>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { offsets: vec![0], data: Vec::new(), valid: Vec::new() }
    }
}

impl Strings {
    pub fn push(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.data.extend_from_slice(text.as_bytes());
        }
        self.close(text.is_some());
    }

    fn close(&mut self, valid: bool) {
        // A block is smaller than 1 GiB, and no column repeats more of it than it holds: see `LONGEST_BLOCK` in lib.rs.
        self.offsets.push(self.data.len() as i32);
        self.valid.push(valid);
    }

    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.valid.truncate(rows);
        self.data.truncate(self.offsets[rows] as usize);
    }

    pub fn len(&self) -> usize {
        self.valid.len()
    }

    pub fn buffers(self) -> Buffers {
        vec![bits(&self.valid), Some(Buffer::Offsets(self.offsets)), Some(Buffer::Bytes(self.data))]
    }
}

/// A nullable column of numbers.
pub struct Numbers<T> {
    pub data: Vec<T>,
    pub valid: Vec<bool>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { data: Vec::new(), valid: Vec::new() }
    }
}

impl<T: Default> Numbers<T> {
    pub fn push(&mut self, number: Option<T>) {
        self.valid.push(number.is_some());
        self.data.push(number.unwrap_or_default());
    }

    pub fn truncate(&mut self, rows: usize) {
        self.data.truncate(rows);
        self.valid.truncate(rows);
    }
}

impl<T> Numbers<T> {
    pub fn buffers(self, buffer: impl Fn(Vec<T>) -> Buffer) -> Buffers {
        vec![bits(&self.valid), Some(buffer(self.data))]
    }
}

/// A column of lists of strings, without nulls.
pub struct Lists {
    pub offsets: Vec<i32>,
    pub items: Strings,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { offsets: vec![0], items: Strings::default() }
    }
}

impl Lists {
    pub fn push<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        for text in texts {
            self.items.push(Some(text));
        }
        self.offsets.push(self.items.len() as i32);
    }

    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.items.truncate(self.offsets[rows] as usize);
    }

    pub fn buffers(self) -> Buffers {
        let mut buffers = vec![None, Some(Buffer::Offsets(self.offsets))];
        buffers.extend(self.items.buffers());
        buffers
    }
}

/// Validity as Arrow's bits; None if every row is valid.
fn bits(valid: &[bool]) -> Option<Buffer> {
    if valid.iter().all(|&one| one) {
        return None;
    }
    let byte = |rows: &[bool]| rows.iter().rev().fold(0, |byte, &one| byte << 1 | u8::from(one));
    Some(Buffer::Bytes(valid.chunks(8).map(byte).collect()))
}
