//! Adapting a step size.

/// Finds the step with the wanted acceptance (Hoffman and Gelman, 2014, section 3.2).
pub(super) struct DualAveraging {
    wanted: f64,
    /// The logarithm that steps are pulled towards.
    centre: f64,
    error: f64,
    count: f64,
    ln_average: f64,
}

impl DualAveraging {
    /// From a step that is not too far off.
    pub fn new(start: f64, wanted: f64) -> Self {
        /// Larger steps are cheaper to try than smaller ones.
        const OPTIMISM: f64 = 10.0;
        let centre = (OPTIMISM * start).ln();
        DualAveraging { wanted, centre, error: 0.0, count: 0.0, ln_average: start.ln() }
    }
    /// The step to try next, after a transition with this chance of acceptance.
    pub fn update(&mut self, acceptance: f64) -> f64 {
        // Their constants gamma, t_0 and kappa.
        const SHRINKAGE: f64 = 0.05;
        const PATIENCE: f64 = 10.0;
        const FORGETTING: f64 = 0.75;
        self.count += 1.0;
        let weight = 1.0 / (self.count + PATIENCE);
        self.error = (1.0 - weight) * self.error + weight * (self.wanted - acceptance);
        let ln_step = self.centre - self.count.sqrt() / SHRINKAGE * self.error;
        let share = self.count.powf(-FORGETTING);
        self.ln_average = share * ln_step + (1.0 - share) * self.ln_average;
        ln_step.exp()
    }
    /// The step to freeze.
    pub fn average(&self) -> f64 {
        self.ln_average.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acceptance that falls with the step, $e^{-\epsilon}$, is 0.8 at $-\ln 0.8$.
    #[test]
    fn the_step_with_the_wanted_acceptance_is_found() {
        let mut averaging = DualAveraging::new(7.0, 0.8);
        let mut step: f64 = 7.0;
        for _ in 0..2000 {
            step = averaging.update((-step).exp());
        }
        assert!((averaging.average() / -0.8f64.ln() - 1.0).abs() < 0.05, "{}", averaging.average());
    }
}
