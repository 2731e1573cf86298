/// What everybody writes: the same as in bench/arena, from the same generator.
pub struct Input {
    lengths: Vec<usize>,
    data: Vec<u8>,
    random_slot: Vec<u8>,
}

const MESSAGES: usize = 2000; // until the lengths begin again; two in a row are alike
const SPREAD: u64 = 12_000; // how much shorter the shortest is than the longest
const PLACES: usize = 4096; // until the order of releases begins again

/// Bytes of the longest message.
pub const MAX_FRAME: usize = 1 << 14;

impl Input {
    pub fn new() -> Self {
        let mut r = Random(1);
        Self {
            lengths: (0..MESSAGES / 2)
                .map(|_| MAX_FRAME - (r.next() % SPREAD) as usize)
                .collect(),
            data: (0..MAX_FRAME + MESSAGES / 2)
                .map(|_| r.next() as u8)
                .collect(),
            random_slot: (0..PLACES).map(|_| r.next() as u8).collect(),
        }
    }

    /// The length of message i and what it is written from.
    #[inline(always)]
    pub fn message(&self, i: usize) -> (usize, &[u8]) {
        let i = i / 2 % self.lengths.len();
        (self.lengths[i], &self.data[i..])
    }

    /// Which of the live frames is released next, for each of as many operations as there are places.
    pub fn slot_order(&self, live: usize, random: bool) -> [u8; PLACES] {
        let mut order = [0; PLACES];
        for (i, at) in order.iter_mut().enumerate() {
            *at = if random {
                self.random_slot[i] % live as u8
            } else {
                (i % live) as u8
            };
        }
        order
    }
}

/// SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
