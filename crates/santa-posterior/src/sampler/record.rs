//! What is kept of each draw.

use santa::{Checkpoint, Potential, Real, Result, Target};

/// Turns the parameters of a draw into the quantities that are kept of it.
///
/// Every chain has a recorder of its own, which may also gather things by the way, such as
/// predictions for a test set; what it gathers goes into the chain's checkpoint.
pub trait Recorder<F: Real, P: Potential<F>>: Send {
    /// The names of the quantities.
    fn names(&self) -> Vec<String>;
    /// Writes the quantities of a draw to `out`, which is as long as the names.
    fn record(&mut self, potential: &mut P, theta: &[F], out: &mut [f64]) -> Result<()>;
    /// Puts what it has gathered into a checkpoint.
    fn save(&self, _checkpoint: &mut Checkpoint) -> Result<()> {
        Ok(())
    }
    /// Takes back what [`Recorder::save`] put there.
    fn restore(&mut self, _checkpoint: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

/// Keeps every parameter, as it is.
#[derive(Clone, Debug)]
pub struct Parameters {
    names: Vec<String>,
}

impl Parameters {
    /// Named after the segments: `bias` for a single number, `weight[3]` for one of several.
    pub fn of(target: &Target) -> Self {
        let names = target
            .layout()
            .segments()
            .iter()
            .flat_map(|segment| {
                let len = segment.range().len();
                (0..len).map(move |i| match len {
                    1 => segment.name().to_string(),
                    _ => format!("{}[{i}]", segment.name()),
                })
            })
            .collect();
        Parameters { names }
    }
    /// With names of your own, one for each parameter.
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Parameters { names: names.into_iter().map(Into::into).collect() }
    }
}

impl<F: Real, P: Potential<F>> Recorder<F, P> for Parameters {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }
    fn record(&mut self, potential: &mut P, theta: &[F], out: &mut [f64]) -> Result<()> {
        potential.target().layout().check_len("the names of the parameters", out.len())?;
        out.iter_mut().zip(theta).for_each(|(out, x)| *out = x.to_f64());
        Ok(())
    }
}

/// Keeps what a function says.
///
/// ```
/// use santa_posterior::sampler::quantities;
///
/// let both = quantities(["sum", "product"], |theta: &[f64], out: &mut [f64]| {
///     out[0] = theta[0] + theta[1];
///     out[1] = theta[0] * theta[1];
/// });
/// # let _ = both;
/// ```
pub fn quantities<F, S: Into<String>, G: FnMut(&[F], &mut [f64])>(
    names: impl IntoIterator<Item = S>,
    function: G,
) -> Quantities<G> {
    Quantities { names: names.into_iter().map(Into::into).collect(), function }
}

/// See [`quantities`].
#[derive(Clone, Debug)]
pub struct Quantities<G> {
    names: Vec<String>,
    function: G,
}

impl<F: Real, P: Potential<F>, G: FnMut(&[F], &mut [f64]) + Send> Recorder<F, P> for Quantities<G> {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }
    fn record(&mut self, _: &mut P, theta: &[F], out: &mut [f64]) -> Result<()> {
        (self.function)(theta, out);
        Ok(())
    }
}
