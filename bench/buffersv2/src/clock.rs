use std::time::Instant;

/// Measures time, and the time that the process used on all processors.
pub struct Clock {
    began: Instant,
    cpu: f64,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            cpu: cpu_nanos(),
            began: Instant::now(),
        }
    }

    /// Returns both in nanoseconds.
    pub fn stop(self) -> (f64, f64) {
        (
            self.began.elapsed().as_nanos() as f64,
            cpu_nanos() - self.cpu,
        )
    }
}

fn cpu_nanos() -> f64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: t is valid for the call, which writes to it and keeps nothing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
