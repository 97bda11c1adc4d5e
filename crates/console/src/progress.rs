//! A progress bar on standard error, if that is a terminal.

use crate::show;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often the bar is drawn.
const EVERY: Duration = Duration::from_millis(200);
/// Characters of the bar.
const WIDTH: u64 = 30;

/// A progress bar, which a thread of its own draws. Clones are the same bar.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<Bar>>);

/// What the bar shows.
struct Bar {
    /// Shows numbers, otherwise percent.
    counted: bool,
    total: u64,
    done: u64,
    message: String,
    began: Instant,
    visible: bool,
}

impl Progress {
    /// Hidden until it begins. `counted`: it shows `3/12`, otherwise `25 %`.
    pub fn new(counted: bool) -> Progress {
        let (message, began) = (String::new(), Instant::now());
        let bar = Arc::new(Mutex::new(Bar { counted, total: 0, done: 0, message, began, visible: false }));
        if std::io::stderr().is_terminal() {
            let drawn = Arc::downgrade(&bar);
            let draw = move || {
                while let Some(bar) = drawn.upgrade() {
                    bar.lock().unwrap_or_else(PoisonError::into_inner).draw();
                    drop(bar);
                    std::thread::sleep(EVERY);
                }
            };
            // Only a bar is missing without this thread.
            let _ = Builder::new().name("progress".into()).spawn(draw);
        }
        Progress(bar)
    }

    /// Shows the bar at zero of `total`.
    pub fn begin(&self, total: u64, message: impl Into<String>) {
        let (message, began) = (message.into(), Instant::now());
        let mut bar = self.bar();
        *bar = Bar { counted: bar.counted, total, done: 0, message, began, visible: true };
    }

    /// Advances.
    pub fn inc(&self, by: u64) {
        self.bar().done += by;
    }

    /// Jumps to a place.
    pub fn set(&self, done: u64) {
        self.bar().done = done;
    }

    /// Its place.
    pub fn done(&self) -> u64 {
        self.bar().done
    }

    /// Changes the text at the end of the line.
    pub fn message(&self, message: impl Into<String>) {
        self.bar().message = message.into();
    }

    /// Prints while the bar is not on the screen.
    pub fn suspend(&self, print: impl FnOnce()) {
        let bar = self.bar();
        bar.clear();
        print();
    }

    /// Removes the bar from the screen.
    pub fn finish(&self) {
        let mut bar = self.bar();
        bar.clear();
        bar.visible = false;
    }

    fn bar(&self) -> MutexGuard<'_, Bar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bar {
    fn draw(&self) {
        if self.visible {
            // Without automatic line breaks a long line is cut.
            show(&format!("\r\x1b[?7l\x1b[2K{}\x1b[?7h", self.line(self.began.elapsed())));
        }
    }

    fn clear(&self) {
        if self.visible && std::io::stderr().is_terminal() {
            show("\r\x1b[2K");
        }
    }

    fn line(&self, elapsed: Duration) -> String {
        let total = self.total.max(1);
        let done = self.done.min(total);
        let full = "█".repeat((done * WIDTH / total) as usize);
        let empty = "░".repeat((WIDTH - done * WIDTH / total) as usize);
        let remaining = match done {
            0 => "?".to_string(),
            _ => short(elapsed.mul_f64((total - done) as f64 / done as f64)),
        };
        let amount =
            if self.counted { format!("{done}/{total}") } else { format!("{:>3} %", done * 100 / total) };
        let elapsed = short(elapsed);
        format!("{full}{empty} {amount}, {elapsed} elapsed, {remaining} remaining  {}", self.message)
    }
}

/// An operation that fails leaves no bar behind.
impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `59s`, `12m 03s`, `1h 02m`.
fn short(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m {:02}s", s / 60, s % 60),
        s => format!("{}h {:02}m", s / 3600, s / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let progress = Progress::new(false);
        progress.begin(200, "12 requests/s");
        let line = |seconds| progress.bar().line(Duration::from_secs(seconds));
        assert_eq!(line(0), format!("{}   0 %, 0s elapsed, ? remaining  12 requests/s", "░".repeat(30)));
        progress.inc(40);
        progress.inc(10);
        progress.message("then");
        let quarter = format!("{}{}  25 %,", "█".repeat(7), "░".repeat(23));
        assert_eq!(line(61), format!("{quarter} 1m 01s elapsed, 3m 03s remaining  then"));
        progress.set(300);
        assert_eq!(
            (progress.done(), line(3720)),
            (300, format!("{} 100 %, 1h 02m elapsed, 0s remaining  then", "█".repeat(30)))
        );
        progress.begin(0, "nothing to do");
        assert!(line(1).ends_with("1s elapsed, ? remaining  nothing to do"));
        let counting = Progress::new(true);
        counting.begin(12, "simulations");
        counting.inc(3);
        let text = counting.bar().line(Duration::from_secs(9));
        assert!(text.ends_with(" 3/12, 9s elapsed, 27s remaining  simulations"), "{text}");
    }
}
