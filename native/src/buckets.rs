//! Order of rows by bucket, as in kgedit.store.bucket_numbers, and ids that belong to their subject's bucket.

use crate::frames::PackableColumn;

/// Numbers of the buckets of some rows: `start`, `start + step`, ..., below `count`, a power of two.
pub struct Buckets {
    pub count: usize,
    pub start: usize,
    pub step: usize,
}

/// Positions of the first ids by bucket, in their order within each, and the end of each bucket among these positions.
///
/// None if a buffer is too small, or an id is null or has none of these buckets.
pub fn order_by_bucket(ids: &PackableColumn, rows: usize, buckets: &Buckets) -> Option<(Vec<i64>, Vec<usize>)> {
    let (mut places, mut sizes) = (Vec::with_capacity(rows), vec![0; buckets.numbers()?]);
    let mut before = None;
    for row in 0..rows {
        let id = ids.text(row)??;
        let place = match before {
            Some((same, place)) if same == id => place,
            _ => buckets.place(id)?,
        };
        before = Some((id, place));
        *sizes.get_mut(place)? += 1;
        places.push(place);
    }
    let mut end = 0;
    let ends: Vec<_> = sizes
        .iter()
        .map(|size| {
            end += size;
            end
        })
        .collect();
    let mut next: Vec<_> = ends.iter().zip(&sizes).map(|(end, size)| end - size).collect();
    let mut order = vec![0; rows];
    for (row, &place) in places.iter().enumerate() {
        order[next[place]] = row as i64;
        next[place] += 1;
    }
    Some((order, ends))
}

impl Buckets {
    fn numbers(&self) -> Option<usize> {
        Some(self.count.checked_sub(self.start)?.div_ceil(self.step))
    }

    /// Which of the buckets an id has.
    fn place(&self, id: &[u8]) -> Option<usize> {
        let bucket = hash(id) as usize & (self.count - 1);
        let from_start = bucket.checked_sub(self.start)?;
        (from_start % self.step == 0).then_some(from_start / self.step)
    }
}

/// FNV-1a, and half of MurmurHash3's finalizer.
fn hash(text: &[u8]) -> u64 {
    let hash = text
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

/// Whether the id of each statement is normal, in a byte for each; None if a buffer is too small or a subject is null.
pub fn have_normal_ids(subjects: &PackableColumn, ids: &PackableColumn, rows: usize) -> Option<Vec<u8>> {
    (0..rows).map(|row| Some(has_normal_id(subjects.text(row)??, ids.text(row)?.unwrap_or_default()).into())).collect()
}

/// Whether a statement's id begins with its subject's, which is a capital letter and digits, and then has no digit.
fn has_normal_id(subject: &[u8], id: &[u8]) -> bool {
    let (Some((letter, digits)), Some((first, rest))) = (subject.split_first(), id.split_first()) else {
        return false;
    };
    letter.is_ascii_uppercase()
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && first.eq_ignore_ascii_case(letter)
        && rest.strip_prefix(digits).is_some_and(|rest| rest.first().is_some_and(|byte| !byte.is_ascii_digit()))
}
