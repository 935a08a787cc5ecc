//! Watching a download.

/// What happens while a file is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another thread or process is fetching the file; its end is waited for.
    Waiting,
    /// A server answers.
    Started {
        /// The address.
        url: &'a str,
        /// Bytes that are there from an earlier attempt.
        done: u64,
        /// Bytes of the whole file, if the server tells.
        total: Option<u64>,
    },
    /// More has arrived.
    Received {
        /// Bytes so far.
        done: u64,
    },
    /// An attempt failed; another one may follow.
    Failed {
        /// The address.
        url: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// The file is there and has the right checksum.
    Finished,
}

/// Something that watches; closures do.
pub trait Progress {
    /// Called for each event, in the thread that fetches.
    fn report(&mut self, event: Event<'_>);
}

impl<F: FnMut(Event<'_>)> Progress for F {
    fn report(&mut self, event: Event<'_>) {
        self(event);
    }
}

/// A bar on the terminal; silent where standard error is none.
#[cfg(feature = "progress")]
#[derive(Debug)]
pub struct Bar(indicatif::ProgressBar);

#[cfg(feature = "progress")]
impl Bar {
    /// A bar that appears with the first answer of a server.
    pub fn new() -> Self {
        let bar = indicatif::ProgressBar::hidden();
        let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}";
        if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Bar(bar)
    }
}

#[cfg(feature = "progress")]
impl Default for Bar {
    fn default() -> Self {
        Bar::new()
    }
}

#[cfg(feature = "progress")]
impl Progress for Bar {
    fn report(&mut self, event: Event<'_>) {
        match event {
            Event::Waiting => self.0.println("waiting for another process that fetches this file"),
            Event::Started { url, done, total } => {
                self.0.set_message(url.rsplit('/').next().unwrap_or(url).to_owned());
                total.map_or_else(|| self.0.unset_length(), |total| self.0.set_length(total));
                self.0.set_position(done);
                self.0.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            }
            Event::Received { done } => self.0.set_position(done),
            Event::Failed { url, reason } => self.0.println(format!("{url}: {reason}")),
            Event::Finished => self.0.finish(),
        }
    }
}
