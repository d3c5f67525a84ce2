//! Hashes of many short texts.

/// The last eight bytes of the MD5 of each text; None if an offset is not one of the data.
pub fn md5_numbers(offsets: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = Vec::with_capacity(offsets.len() * 2);
    let mut ends = offsets.chunks_exact(4).map(|offset| u32::from_le_bytes(offset.try_into().unwrap()) as usize);
    let mut start = ends.next()?;
    for end in ends {
        numbers.extend_from_slice(&md5::compute(data.get(start..end)?).0[8..]);
        start = end;
    }
    Some(numbers)
}
