//! Does the work of bench/arena in Rust. It reads commands from standard input, one a line, and answers each with a line:
//!
//! ```text
//! run CASE N     nanoseconds an operation, CPU nanoseconds an operation, share of the frames that were on the heap
//! sum CASE N     FNV-1a hash (64 bits) of the bytes of all frames
//! ```
//!
//! A case is a kind of work and a contender, such as `ten/pool`; `slots/pool/8/oldest` has the number of frames that are held
//! and the order in which they are released as well. The other half, and what each kind is, is in bench/arena.

mod clock;
mod frames;
mod input;
mod work;

use std::io::{self, BufRead, Write};

use buffer_sv2::{BufferFromSystemMemory, BufferPool};

use clock::Clock;
use frames::{Counted, Frames, Summed};
use input::Input;
use work::Kind;

/// The memory of a pool in bytes, and that of one whose slots are all that counts.
const CAPACITY: usize = 5 << 16;
const SLOTS_CAPACITY: usize = 1 << 16;

fn main() -> io::Result<()> {
    let input = Input::new();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let reply = answer(&line?, &input).unwrap_or_else(|| "no such case".to_string());
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str, input: &Input) -> Option<String> {
    let mut words = line.split(' ');
    let (verb, case, n) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (kind, contender) = Kind::parse(case)?;
    let capacity = if let Kind::Slots { .. } = kind {
        SLOTS_CAPACITY
    } else {
        CAPACITY
    };
    let job = Job {
        sum: verb == "sum",
        kind,
        n,
        input,
    };
    Some(match contender {
        "pool" => job.with(BufferPool::new(capacity)),
        "heap" => job.with(BufferFromSystemMemory::new(0)),
        _ => return None,
    })
}

struct Job<'a> {
    sum: bool,
    kind: Kind,
    n: usize,
    input: &'a Input,
}

impl Job<'_> {
    fn with(self, buffer: impl Frames) -> String {
        if self.sum {
            let mut summed = Summed::new(buffer);
            self.kind.work(&mut summed, self.n, self.input);
            return summed.sum().to_string();
        }
        self.run(buffer)
    }

    /// Frames on the heap are counted behind the turn: to look is no part of the work.
    fn run(self, mut buffer: impl Frames) -> String {
        self.kind
            .work(&mut buffer, (self.n / 8).clamp(64, 1024), self.input);
        let clock = Clock::start();
        self.kind.work(&mut buffer, self.n, self.input);
        let (nanos, cpu) = clock.stop();
        let mut counted = Counted::new(buffer);
        self.kind
            .work(&mut counted, (self.n / 4).clamp(1, 10_000), self.input);
        let n = self.n as f64;
        format!("{} {} {}", nanos / n, cpu / n, counted.share())
    }
}
