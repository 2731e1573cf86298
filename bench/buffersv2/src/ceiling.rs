use crate::frames::{Frame, Frames};
use crate::input::MAX_FRAME;

/// Writes once round its memory and looks after nothing.
pub struct Around {
    memory: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Around {
    pub fn new(capacity: usize) -> Self {
        Self {
            memory: vec![1; capacity],
            begin: 0,
            end: 0,
        }
    }
}

/// Where a frame is in the memory of a ceiling.
pub struct Place {
    begin: usize,
    end: usize,
}

impl Frame for Place {
    fn look(&self) -> u64 {
        0
    }
}

impl Frames for Around {
    type Slice = Place;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        let from = self.end;
        self.end += n;
        &mut self.memory[from..from + n]
    }

    #[inline(always)]
    fn take(&mut self) -> Place {
        let place = Place {
            begin: self.begin,
            end: self.end,
        };
        if self.end > self.memory.len() - MAX_FRAME {
            self.end = 0;
        }
        self.begin = self.end;
        place
    }

    fn bytes<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        &self.memory[place.begin..place.end]
    }
}

/// The ceiling of the crate's own benchmark, each of whose writes goes to the first bytes of its memory.
pub struct SameBytes {
    memory: Vec<u8>,
}

impl SameBytes {
    pub fn new(capacity: usize) -> Self {
        Self {
            memory: vec![1; capacity],
        }
    }
}

impl Frames for SameBytes {
    type Slice = Place;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        &mut self.memory[..n]
    }

    #[inline(always)]
    fn take(&mut self) -> Place {
        Place {
            begin: 0,
            end: self.memory.len(),
        }
    }

    fn bytes<'a>(&'a self, place: &'a Place) -> &'a [u8] {
        &self.memory[place.begin..place.end]
    }
}
