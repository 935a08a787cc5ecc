//! The state vectors before the first step.

use super::{Buffer, zeros};
use crate::dynamics::{Algorithm, Initial};
use crate::error::{Error, Result};
use crate::noise::{Purpose, Stream};
use crate::real::Real;
use crate::target::Target;
use crate::units::LrScale;

/// Dynamics before their first step.
pub(super) struct Start<'a> {
    pub(super) algorithm: &'a Algorithm,
    pub(super) target: &'a Target,
    pub(super) seed: u64,
    pub(super) chain: u32,
    pub(super) first_segment: u32,
}

impl Start<'_> {
    /// The state vectors; those without a name are empty.
    pub(super) fn vectors<F: Real>(
        &self,
        names: &[&str],
        lr_factor: f64,
    ) -> Result<Vec<Buffer<F>>> {
        let Start { algorithm, target, .. } = *self;
        let start = Stream::new(self.seed, self.chain, Purpose::Momenta);
        let mut state = Vec::with_capacity(names.len());
        for (k, name) in names.iter().enumerate() {
            if name.is_empty() {
                state.push(zeros(0));
                continue;
            }
            let mut vector: Buffer<F> = zeros(target.dim());
            for (i, segment) in target.layout().segments().iter().enumerate() {
                let group = target.settings(i).lr_scale;
                let lr = LrScale { group, outside: lr_factor };
                let part = &mut vector[segment.range()];
                match algorithm.initial(name, target.data_size(), lr)? {
                    Initial::Zero => {}
                    Initial::Value(x) => part.fill(F::from_f64(x)),
                    Initial::Normal { sd } => {
                        start.normals(k as u64, self.first_segment + i as u32, 0, part);
                        let sd = F::from_f64(sd);
                        part.iter_mut().for_each(|x| *x *= sd);
                    }
                }
                if let Some(x) = part.iter().find(|x| !x.is_finite()) {
                    let allowed = format!(
                        "the settings overflow {} at the start of segment `{}`",
                        F::NAME,
                        segment.name()
                    );
                    return Err(Error::setting(format!("state `{name}`"), x, allowed));
                }
            }
            state.push(vector);
        }
        Ok(state)
    }
}
