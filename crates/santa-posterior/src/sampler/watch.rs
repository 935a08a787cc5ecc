//! Seeing a run go on, and stopping it.

/// What a chain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Going to where the posterior has its mass.
    Descending,
    /// In a window of the warm-up, counted from 1.
    WarmingUp(u32),
    /// Drawing.
    Drawing,
}

/// Is told how far each chain is, from the thread that runs it, and may ask to stop.
pub trait Watch: Sync {
    /// A chain has done so much of a stage, in draws (in steps while descending).
    fn progress(&self, _chain: u32, _stage: Stage, _done: u64, _total: u64) {}
    /// Whether the run should end early. Chains then stop at their next draw; what was drawn is kept.
    fn stop(&self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Watch for Quiet {}
