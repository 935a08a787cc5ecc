//! Kernels behind one face.

use crate::dynamics::engine::{Chunk, Context, Kernel, Lanes, Outcome, Pass, Preparation};
use crate::error::Result;
use crate::noise::Stream;
use crate::real::Real;
use crate::target::Target;
use crate::units::LrScale;

/// A step in the making.
pub(crate) struct Moment<'a> {
    pub(super) t: u64,
    pub(super) target: &'a Target,
    /// From outside, and by how much it changed since the step before.
    pub(super) lr_factor: f64,
    pub(super) lr_ratio: f64,
}

impl Moment<'_> {
    fn of_segment(&self, i: usize) -> Context<'_> {
        let group = self.target.settings(i).lr_scale;
        let lr = LrScale { group, outside: self.lr_factor };
        Context { t: self.t, target: self.target, lr, lr_ratio: self.lr_ratio }
    }
}

/// What every kernel gets in a pass.
pub(crate) struct Common<'a, F> {
    pub(super) preparation: &'a [Preparation<F>],
    pub(super) stream: Stream,
    pub(super) first_segment: u32,
    /// Which noise.
    pub(super) draw: u64,
    pub(super) arch: pulp::Arch,
}

/// A kernel behind one face, whatever its scalars and number of state vectors.
pub(crate) trait Rule<F: Real>: Send + Sync {
    /// Computes the scalars of step t for every segment.
    fn prepare(&mut self, moment: &Moment<'_>) -> Result<()>;
    fn run(
        &self,
        common: &Common<'_, F>,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    );
    fn finish(&mut self, moment: &Moment<'_>, total: f64) -> Result<()>;
    fn carried(&self) -> Option<f64>;
    fn carry(&mut self, value: f64);
    fn duplicate(&self) -> Box<dyn Rule<F>>;
}

/// A kernel with the scalars of the present step, by segment.
pub(crate) struct Typed<F: Real, K: Kernel<F, S>, const S: usize> {
    kernel: K,
    scalars: Vec<K::Scalars>,
}

impl<F: Real, K: Kernel<F, S>, const S: usize> Typed<F, K, S> {
    pub fn new(kernel: K) -> Self {
        Typed { kernel, scalars: Vec::new() }
    }
}

impl<F, K, const S: usize> Rule<F> for Typed<F, K, S>
where
    F: Real,
    K: Kernel<F, S> + Clone + 'static,
    K::Scalars: 'static,
{
    fn prepare(&mut self, moment: &Moment<'_>) -> Result<()> {
        self.scalars.clear();
        for i in 0..moment.target.layout().segments().len() {
            self.scalars.push(self.kernel.scalars(&moment.of_segment(i))?);
        }
        Ok(())
    }

    fn run(
        &self,
        common: &Common<'_, F>,
        chunks: &[Chunk],
        base: usize,
        lanes: Lanes<'_, F>,
        outcomes: &mut [Outcome],
    ) {
        let pass = Pass {
            kernel: &self.kernel,
            scalars: &self.scalars,
            preparation: common.preparation,
            stream: common.stream,
            first_segment: common.first_segment,
            draw: common.draw,
            arch: common.arch,
        };
        pass.run(chunks, base, lanes, outcomes);
    }

    fn finish(&mut self, moment: &Moment<'_>, total: f64) -> Result<()> {
        self.kernel.finish(total, &moment.of_segment(0))
    }
    fn carried(&self) -> Option<f64> {
        self.kernel.carried()
    }
    fn carry(&mut self, value: f64) {
        self.kernel.carry(value);
    }
    fn duplicate(&self) -> Box<dyn Rule<F>> {
        Box::new(Typed { kernel: self.kernel.clone(), scalars: self.scalars.clone() })
    }
}
