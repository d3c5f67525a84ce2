//! Order of rows by bucket, as in kgedit.store.bucket_numbers.

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
