use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::frames::{ends, Frame, Frames};
use crate::input::MAX_FRAME;

/// Buffers in a map, as in the crate's own benchmark: the buffer is looked up for each write, and what came back is not used
/// again before all have been. Unlike there, a frame owns its buffer, so that nothing is overwritten that somebody holds.
pub struct MapByWrite {
    buffers: BTreeMap<u8, Vec<u8>>,
    free: Vec<u8>,
    len: usize,
    back: Arc<Mutex<Returned>>,
}

type Returned = Vec<(u8, Vec<u8>)>;

impl MapByWrite {
    pub fn new() -> Self {
        Self {
            buffers: (0..255).map(|i| (i, vec![1; MAX_FRAME])).collect(),
            free: (0..255).collect(),
            len: 0,
            back: Arc::default(),
        }
    }

    #[inline(never)]
    fn take_back(&mut self) {
        for (index, buffer) in self.back.lock().unwrap().drain(..) {
            self.buffers.insert(index, buffer);
            self.free.push(index);
        }
    }
}

impl Frames for MapByWrite {
    type Slice = ByWrite;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        while self.free.is_empty() {
            self.take_back();
        }
        let index = self.free[self.free.len() - 1];
        let from = self.len;
        self.len += n;
        &mut self.buffers.get_mut(&index).unwrap()[from..from + n]
    }

    #[inline(always)]
    fn take(&mut self) -> ByWrite {
        let index = self.free.pop().unwrap();
        let buffer = self.buffers.remove(&index).unwrap();
        let len = std::mem::take(&mut self.len);
        ByWrite {
            index,
            buffer,
            len,
            back: self.back.clone(),
        }
    }

    fn bytes<'a>(&'a self, frame: &'a ByWrite) -> &'a [u8] {
        &frame.buffer[..frame.len]
    }
}

pub struct ByWrite {
    index: u8,
    buffer: Vec<u8>,
    len: usize,
    back: Arc<Mutex<Returned>>,
}

impl Frame for ByWrite {
    fn look(&self) -> u64 {
        ends(&self.buffer[..self.len])
    }
}

impl Drop for ByWrite {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.back.lock().unwrap().push((self.index, buffer));
    }
}

/// The same as somebody would write it who wanted to use it: a buffer is looked up once for each frame, the one that came
/// back last is used first, and there are as many as are needed.
pub struct MapByFrame {
    index: u16,
    buffer: Vec<u8>, // empty between frames
    len: usize,
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Default)]
struct Shelf {
    buffers: BTreeMap<u16, Vec<u8>>,
    free: Vec<u16>,
    made: u16,
}

impl MapByFrame {
    pub fn new() -> Self {
        Self {
            index: 0,
            buffer: Vec::new(),
            len: 0,
            shelf: Arc::default(),
        }
    }

    #[inline(never)]
    fn next(&mut self) {
        let mut shelf = self.shelf.lock().unwrap();
        if let Some(index) = shelf.free.pop() {
            self.index = index;
            self.buffer = shelf.buffers.remove(&index).unwrap();
        } else {
            self.index = shelf.made;
            shelf.made += 1;
            self.buffer = vec![0; MAX_FRAME];
        }
    }
}

impl Frames for MapByFrame {
    type Slice = ByFrame;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.next();
        }
        let from = self.len;
        self.len += n;
        &mut self.buffer[from..from + n]
    }

    #[inline(always)]
    fn take(&mut self) -> ByFrame {
        let buffer = std::mem::take(&mut self.buffer);
        let len = std::mem::take(&mut self.len);
        ByFrame {
            index: self.index,
            buffer,
            len,
            shelf: self.shelf.clone(),
        }
    }

    fn bytes<'a>(&'a self, frame: &'a ByFrame) -> &'a [u8] {
        &frame.buffer[..frame.len]
    }
}

pub struct ByFrame {
    index: u16,
    buffer: Vec<u8>,
    len: usize,
    shelf: Arc<Mutex<Shelf>>,
}

impl Frame for ByFrame {
    fn look(&self) -> u64 {
        ends(&self.buffer[..self.len])
    }
}

impl Drop for ByFrame {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut shelf = self.shelf.lock().unwrap();
        shelf.buffers.insert(self.index, buffer);
        shelf.free.push(self.index);
    }
}
