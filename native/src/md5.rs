//! MD5 of many short texts: sixteen at once, in the lanes of a processor's vectors.

/// Texts that are hashed together: two vectors of AVX2, because each step waits for the one before.
const LANES: usize = 16;

type Vector = [u32; LANES];
type State = [Vector; 4];

/// Bytes of a block.
const BLOCK: usize = 64;

const START: State = [[0x6745_2301; LANES], [0xefcd_ab89; LANES], [0x98ba_dcfe; LANES], [0x1032_5476; LANES]];

/// Absolute sines of 1 to 64, times 2^32 (RFC 1321).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// A text that a lane hashes: its number, its bytes with padding, and how many of them are hashed.
#[derive(Default)]
struct Lane {
    text: Option<usize>,
    padded: Vec<u8>,
    hashed: usize,
}

/// The MD5 of each text, 16 bytes for each; None if `write` returns None for one.
///
/// `write` appends the text of a number to an empty vector. A lane takes the next text as soon as it has finished one.
pub fn md5_of_texts(texts: usize, mut write: impl FnMut(usize, &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
    let mut hashes = vec![0; 16 * texts];
    let mut lanes: [Lane; LANES] = Default::default();
    let (mut state, mut words) = (START, [[0; LANES]; 16]);
    let compress = compressor();
    let mut next = 0;
    loop {
        let mut idle = true;
        for (number, lane) in lanes.iter_mut().enumerate() {
            if lane.hashed == lane.padded.len() {
                if let Some(text) = lane.text.take() {
                    for (part, bytes) in state.iter().zip(hashes[16 * text..].chunks_exact_mut(4)) {
                        bytes.copy_from_slice(&part[number].to_le_bytes());
                    }
                }
                if next == texts {
                    lane.hashed = 0; // an idle lane hashes its last text again, in vain
                    continue;
                }
                for (part, start) in state.iter_mut().zip(START) {
                    part[number] = start[number];
                }
                lane.text = Some(next);
                lane.hashed = 0;
                lane.padded.clear();
                write(next, &mut lane.padded)?;
                pad(&mut lane.padded);
                next += 1;
            }
            idle &= lane.text.is_none();
            let block = &lane.padded[lane.hashed..lane.hashed + BLOCK];
            for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
                word[number] = u32::from_le_bytes(bytes.try_into().unwrap());
            }
            lane.hashed += BLOCK;
        }
        if idle {
            return Some(hashes);
        }
        compress(&mut state, &words);
    }
}

fn pad(text: &mut Vec<u8>) {
    let bits = 8 * text.len() as u64;
    text.push(0x80);
    text.resize((text.len() + 8).next_multiple_of(BLOCK) - 8, 0);
    text.extend_from_slice(&bits.to_le_bytes());
}

type Compress = fn(&mut State, &[Vector; 16]);

#[cfg(target_arch = "x86_64")]
fn compressor() -> Compress {
    #[target_feature(enable = "avx2")]
    fn with_avx2(state: &mut State, words: &[Vector; 16]) {
        compress(state, words);
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return |state, words| unsafe { with_avx2(state, words) };
    }
    compress
}

#[cfg(not(target_arch = "x86_64"))]
fn compressor() -> Compress {
    compress
}

/// Hash the next block of each lane.
#[inline(always)]
fn compress(state: &mut State, words: &[Vector; 16]) {
    let mut found = *state;
    round::<0, 7, 12, 17, 22>(&mut found, words, |step| step, |b, c, d| d ^ (b & (c ^ d)));
    round::<1, 5, 9, 14, 20>(&mut found, words, |step| 5 * step + 1, |b, c, d| c ^ (d & (b ^ c)));
    round::<2, 4, 11, 16, 23>(&mut found, words, |step| 3 * step + 5, |b, c, d| b ^ c ^ d);
    round::<3, 6, 10, 15, 21>(&mut found, words, |step| 7 * step, |b, c, d| c ^ (b | !d));
    for (part, added) in state.iter_mut().zip(found) {
        for (value, added) in part.iter_mut().zip(added) {
            *value = value.wrapping_add(added);
        }
    }
}

/// One of the four rounds; its steps rotate by `R0` to `R3` in turn. Constants let the compiler use vectors.
#[inline(always)]
fn round<const ROUND: usize, const R0: u32, const R1: u32, const R2: u32, const R3: u32>(
    [a, b, c, d]: &mut State,
    words: &[Vector; 16],
    place: impl Fn(usize) -> usize,
    mix: impl Fn(u32, u32, u32) -> u32,
) {
    for first in [0, 4, 8, 12] {
        let part = |step| (SINES[16 * ROUND + step], &words[place(step) % 16]);
        step::<R0>(a, b, c, d, part(first), &mix);
        step::<R1>(d, a, b, c, part(first + 1), &mix);
        step::<R2>(c, d, a, b, part(first + 2), &mix);
        step::<R3>(b, c, d, a, part(first + 3), &mix);
    }
}

#[inline(always)]
fn step<const ROTATION: u32>(
    a: &mut Vector,
    b: &Vector,
    c: &Vector,
    d: &Vector,
    (sine, word): (u32, &Vector),
    mix: impl Fn(u32, u32, u32) -> u32,
) {
    for lane in 0..LANES {
        let sum = a[lane].wrapping_add(mix(b[lane], c[lane], d[lane])).wrapping_add(sine).wrapping_add(word[lane]);
        a[lane] = sum.rotate_left(ROTATION).wrapping_add(b[lane]);
    }
}
