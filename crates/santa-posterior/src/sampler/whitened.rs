//! A potential in coordinates in which it is round.

use super::scales::Scales;
use santa::{Batch, Group, Layout, Potential, Prior, Real, Result, Target};

/// A potential of $z$, where $\theta = c + L z$ with constant c and L.
///
/// The law of z that belongs to $e^{-\beta U(\theta)}$ is $e^{-\beta U(c + L z)}$: the map is linear,
/// its Jacobian a constant. So whatever samples the one samples the other, whichever scales are used;
/// good ones make the sampling fast, no scales make it wrong. Hence a metric that was found during the
/// warm-up and is then left alone leaves the target as it was.
///
/// The prior is part of the loss here, as $-\log p(\theta)/N$: the target that the dynamics see is
/// flat, of the same N. With [`Scales::Identity`] nothing is changed, the prior included.
#[derive(Clone, Debug)]
pub struct Whitened<P, F> {
    inner: P,
    scales: Scales<F>,
    target: Target,
    theta: Vec<F>,
}

impl<F: Real, P: Potential<F>> Whitened<P, F> {
    /// A potential seen through scales.
    pub fn new(inner: P, scales: Scales<F>) -> Result<Self> {
        let target = inner.target();
        let layout = target.layout();
        let target = match &scales {
            Scales::Identity => target.clone(),
            Scales::Diagonal { .. } => {
                let mut seen = Target::new(layout.clone(), target.data_size(), Prior::Flat)?;
                for (i, segment) in layout.segments().iter().enumerate() {
                    if target.settings(i).frozen {
                        seen = seen.with_group(Group::new(segment.name()).frozen())?;
                    }
                }
                seen
            }
            // The triangle mixes the segments.
            Scales::Dense { .. } => {
                Target::new(Layout::flat(layout.dim())?, target.data_size(), Prior::Flat)?
            }
        };
        let theta = vec![F::ZERO; target.dim()];
        Ok(Whitened { inner, scales, target, theta })
    }

    /// The potential inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }
    /// The potential inside, to evaluate.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }
    /// The scales.
    pub fn scales(&self) -> &Scales<F> {
        &self.scales
    }
    /// Takes it apart.
    pub fn into_inner(self) -> P {
        self.inner
    }
}

impl<F: Real, P: Potential<F>> Potential<F> for Whitened<P, F> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn loss_gradient(&mut self, z: &[F], batch: &Batch<'_>, gradient: &mut [F]) -> Result<f64> {
        if self.scales == Scales::Identity {
            return self.inner.loss_gradient(z, batch, gradient);
        }
        self.target.layout().check_len("z", z.len())?;
        self.scales.to_theta(z, &mut self.theta);
        let loss = self.inner.loss_gradient(&self.theta, batch, gradient)?;
        let target = self.inner.target();
        target.add_prior(&self.theta, gradient);
        let prior = target.prior_energy(&self.theta) / target.data_size().as_f64();
        self.scales.pull_back(gradient);
        Ok(loss + prior)
    }

    fn loss(&mut self, z: &[F], batch: &Batch<'_>) -> Result<f64> {
        if self.scales == Scales::Identity {
            return self.inner.loss(z, batch);
        }
        self.target.layout().check_len("z", z.len())?;
        self.scales.to_theta(z, &mut self.theta);
        let target = self.inner.target();
        let prior = target.prior_energy(&self.theta) / target.data_size().as_f64();
        Ok(self.inner.loss(&self.theta, batch)? + prior)
    }

    fn state(&self) -> Vec<(&'static str, Vec<F>)> {
        self.inner.state()
    }
    fn restore(&mut self, state: &[(String, Vec<F>)]) -> Result<()> {
        self.inner.restore(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};
    use santa::potential::analytic::LogisticRegression;

    #[test]
    fn the_energy_is_the_same_function_and_the_gradient_its_derivative() {
        const DIM: usize = 3;
        const STEP: f64 = 1e-5;
        let stream = Stream::new(3, 0, Purpose::Data);
        let (mut model, _) = LogisticRegression::synthetic(40, DIM, 2.0, &stream).unwrap();
        let covariance = [0.5, 0.1, 0.0, 0.1, 0.3, -0.05, 0.0, -0.05, 0.2];
        for scales in [
            Scales::Identity,
            Scales::diagonal(&[0.1, 0.2, 0.3], &[0.5, 2.0, 1.0]).unwrap(),
            Scales::dense(&[0.1, 0.2, 0.3], &covariance).unwrap(),
        ] {
            let mut seen = Whitened::new(model.clone(), scales.clone()).unwrap();
            let z = [0.4, -0.7, 1.1];
            let mut theta = [0.0; DIM];
            scales.to_theta(&z, &mut theta);
            let (here, there) = (seen.energy(&z).unwrap(), model.energy(&theta).unwrap());
            assert!((here - there).abs() < 1e-10 * there.abs(), "{here} {there}");

            let batch = Batch::of(&[1, 5, 7]);
            let mut gradient = [0.0; DIM];
            let loss = seen.loss_gradient(&z, &batch, &mut gradient).unwrap();
            assert!((loss - seen.loss(&z, &batch).unwrap()).abs() < 1e-12);
            if scales == Scales::Identity {
                continue; // its gradient is the inner one's, without the prior
            }
            for i in 0..DIM {
                let mut at = |x: f64| {
                    let mut moved = z;
                    moved[i] += x;
                    seen.loss(&moved, &batch).unwrap()
                };
                let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
                assert!((slope - gradient[i]).abs() < 1e-7, "{slope} {}", gradient[i]);
            }
        }
    }

    #[test]
    fn frozen_segments_stay_frozen() {
        let layout = Layout::new([("a", vec![1]), ("b", vec![1])]).unwrap();
        let target = Target::new(layout, santa::DataSize::ONE, Prior::gaussian(1.0))
            .unwrap()
            .with_group(Group::new("b").frozen())
            .unwrap();
        let flat = santa::potential::from_data(target, |_: &[f64], _, g: &mut [f64]| {
            g.fill(0.0);
            0.0
        });
        let scales = Scales::diagonal(&[0.0, 7.0], &[1.0, 0.0]).unwrap();
        let seen = Whitened::new(flat, scales).unwrap();
        assert!(seen.target().settings(1).frozen && !seen.target().settings(0).frozen);
        assert!(seen.target().is_flat());
    }
}
