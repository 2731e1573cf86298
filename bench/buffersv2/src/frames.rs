use buffer_sv2::{Buffer, BufferFromSystemMemory, BufferPool, Slice};

/// Where frames are assembled, one at a time.
pub trait Frames {
    type Slice: Frame;

    fn writable(&mut self, n: usize) -> &mut [u8];
    fn take(&mut self) -> Self::Slice;

    /// The bytes of a frame that has just been taken.
    fn bytes<'a>(&'a self, frame: &'a Self::Slice) -> &'a [u8];
}

/// A frame that was taken. It is released by being dropped.
pub trait Frame: Send + 'static {
    /// Whether it is not in the memory that is there for it.
    fn on_heap(&self) -> bool {
        false
    }

    /// Reads a little of the frame, if it can do so by itself.
    fn look(&self) -> u64;
}

pub fn ends(bytes: &[u8]) -> u64 {
    bytes[0] as u64 + bytes[bytes.len() - 1] as u64
}

impl Frames for BufferPool<BufferFromSystemMemory> {
    type Slice = Slice;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        self.get_writable(n)
    }

    #[inline(always)]
    fn take(&mut self) -> Slice {
        self.get_data_owned()
    }

    fn bytes<'a>(&'a self, frame: &'a Slice) -> &'a [u8] {
        frame.as_ref()
    }
}

impl Frame for Slice {
    fn on_heap(&self) -> bool {
        self.owned.is_some()
    }

    fn look(&self) -> u64 {
        ends(self.as_ref())
    }
}

impl Frames for BufferFromSystemMemory {
    type Slice = Vec<u8>;

    #[inline(always)]
    fn writable(&mut self, n: usize) -> &mut [u8] {
        self.get_writable(n)
    }

    #[inline(always)]
    fn take(&mut self) -> Vec<u8> {
        self.get_data_owned()
    }

    fn bytes<'a>(&'a self, frame: &'a Vec<u8>) -> &'a [u8] {
        frame
    }
}

impl Frame for Vec<u8> {
    fn look(&self) -> u64 {
        ends(self)
    }
}

/// Counts the frames that were on the heap.
pub struct Counted<B> {
    buffer: B,
    frames: u64,
    on_heap: u64,
}

impl<B> Counted<B> {
    pub fn new(buffer: B) -> Self {
        Self {
            buffer,
            frames: 0,
            on_heap: 0,
        }
    }

    pub fn share(&self) -> f64 {
        self.on_heap as f64 / self.frames as f64
    }
}

impl<B: Frames> Frames for Counted<B> {
    type Slice = B::Slice;

    fn writable(&mut self, n: usize) -> &mut [u8] {
        self.buffer.writable(n)
    }

    fn take(&mut self) -> B::Slice {
        let frame = self.buffer.take();
        self.frames += 1;
        self.on_heap += frame.on_heap() as u64;
        frame
    }

    fn bytes<'a>(&'a self, frame: &'a B::Slice) -> &'a [u8] {
        self.buffer.bytes(frame)
    }
}

/// Hashes the bytes of all frames with FNV-1a: Fowler, Noll and Vo.
pub struct Summed<B> {
    buffer: B,
    sum: u64,
}

impl<B> Summed<B> {
    pub fn new(buffer: B) -> Self {
        Self {
            buffer,
            sum: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }
}

impl<B: Frames> Frames for Summed<B> {
    type Slice = B::Slice;

    fn writable(&mut self, n: usize) -> &mut [u8] {
        self.buffer.writable(n)
    }

    fn take(&mut self) -> B::Slice {
        let frame = self.buffer.take();
        for &b in self.buffer.bytes(&frame) {
            self.sum = (self.sum ^ b as u64).wrapping_mul(0x0100_0000_01b3);
        }
        frame
    }

    fn bytes<'a>(&'a self, frame: &'a B::Slice) -> &'a [u8] {
        self.buffer.bytes(frame)
    }
}
