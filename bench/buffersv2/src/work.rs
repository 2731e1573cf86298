use std::hint::black_box;
use std::thread;
use std::time::Duration;

use crate::frames::{Frame, Frames};
use crate::input::Input;

/// A kind of work.
pub enum Kind {
    /// Messages written ten bytes at a time.
    Ten,
    /// Messages written at once.
    Whole,
    /// Frames of 32 bytes of which nothing but the first is written.
    Slots { live: usize, order: Order },
    /// Messages given to a thread each, which holds them for a millisecond.
    Apart,
    /// The same two by two.
    Pairs,
}

/// The order in which frames are released.
#[derive(PartialEq)]
pub enum Order {
    Newest,
    Oldest,
    Random,
}

const PIECE: usize = 10;
const SLOT_SIZE: usize = 32;
const HOLD: Duration = Duration::from_millis(1);

impl Kind {
    /// Takes a case apart, into the kind and the name of the contender.
    pub fn parse(case: &str) -> Option<(Self, &str)> {
        Some(match *case.split('/').collect::<Vec<_>>() {
            ["ten", contender] => (Kind::Ten, contender),
            ["whole", contender] => (Kind::Whole, contender),
            ["apart", contender] => (Kind::Apart, contender),
            ["pairs", contender] => (Kind::Pairs, contender),
            ["slots", contender, live, order] => {
                let live = live.parse().ok().filter(|&live| live > 0)?;
                let order = Order::parse(order)?;
                (Kind::Slots { live, order }, contender)
            }
            _ => return None,
        })
    }

    pub fn work<B: Frames>(&self, b: &mut B, n: usize, input: &Input) {
        match self {
            Kind::Ten => ten(b, n, input),
            Kind::Whole => whole(b, n, input),
            Kind::Slots {
                live,
                order: Order::Newest,
            } => newest(b, n, *live),
            Kind::Slots { live, order } => slots(
                b,
                n,
                *live,
                &input.slot_order(*live, *order == Order::Random),
            ),
            Kind::Apart => apart(b, n, input),
            Kind::Pairs => pairs(b, n, input),
        }
    }
}

impl Order {
    fn parse(order: &str) -> Option<Self> {
        Some(match order {
            "newest" => Order::Newest,
            "oldest" => Order::Oldest,
            "random" => Order::Random,
            _ => return None,
        })
    }
}

#[inline(always)]
fn fill<B: Frames>(b: &mut B, i: usize, input: &Input) {
    let (len, src) = input.message(i);
    for k in 0..len / PIECE {
        b.writable(PIECE).copy_from_slice(&src[k..k + PIECE]);
    }
}

fn ten<B: Frames>(b: &mut B, n: usize, input: &Input) {
    for i in 0..n {
        fill(b, i, input);
        black_box(&b.take());
    }
}

fn whole<B: Frames>(b: &mut B, n: usize, input: &Input) {
    for i in 0..n {
        let (len, src) = input.message(i);
        b.writable(len).copy_from_slice(&src[..len]);
        black_box(&b.take());
    }
}

#[inline(always)]
fn small<B: Frames>(b: &mut B, i: usize) -> B::Slice {
    b.writable(SLOT_SIZE)[0] = i as u8;
    b.take()
}

fn newest<B: Frames>(b: &mut B, n: usize, live: usize) {
    let held: Vec<_> = (1..live).map(|i| small(b, i)).collect();
    for i in 0..n {
        black_box(&small(b, i));
    }
    drop(held);
}

fn slots<B: Frames>(b: &mut B, n: usize, live: usize, order: &[u8]) {
    let mut held: Vec<_> = (0..live).map(|i| Some(small(b, i))).collect();
    for i in 0..n {
        let at = order[i % order.len()] as usize;
        drop(held[at].take());
        held[at] = Some(small(b, i));
    }
}

fn keep<F: Frame>(frame: F) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        thread::sleep(HOLD);
        frame.look()
    })
}

fn apart<B: Frames>(b: &mut B, n: usize, input: &Input) {
    let mut threads = Vec::with_capacity(n);
    for i in 0..n {
        fill(b, i, input);
        threads.push(keep(b.take()));
    }
    for t in threads {
        black_box(t.join().unwrap());
    }
}

fn pairs<B: Frames>(b: &mut B, n: usize, input: &Input) {
    for i in (0..n).step_by(2) {
        fill(b, i, input);
        let first = keep(b.take());
        fill(b, i + 1, input);
        let second = keep(b.take());
        black_box(first.join().unwrap() + second.join().unwrap());
    }
}
