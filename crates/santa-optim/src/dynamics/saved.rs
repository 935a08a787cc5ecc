//! Dynamics in a checkpoint, and back.
//!
//! | entry | contents |
//! | --- | --- |
//! | metadata `algorithm`, `target`, `clip`, `on_trouble` | settings |
//! | metadata `seed`, `chain`, `step`, `element`, `carried`, `rollbacks` | where the run is |
//! | metadata `lr_factor`, `first_segment` | the same, if they are not 1 and 0 |
//! | tensor `theta/<segment>` | parameters |
//! | tensor `state/<vector>/<segment>` | state vectors |

use super::{Algorithm, Stepper};
use crate::checkpoint::{Checkpoint, unusable};
use crate::clip::Clip;
use crate::error::{Error, Result};
use crate::health::OnTrouble;
use crate::layout::Layout;
use crate::noise::MAX_STEPS;
use crate::real::Real;
use crate::target::Target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where dynamics are, apart from theta and their settings.
///
/// A [`Checkpoint`] holds this and the settings; a framework that keeps records of its own can hold it
/// instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Position<F> {
    /// Steps made.
    pub step: u64,
    /// How often the state was rolled back: the noise of steps made again is new.
    pub rollbacks: u32,
    /// The factor from outside of the learning rate: for the next step, and of the last one.
    pub lr_factors: [f64; 2],
    /// The number that the dynamics carry besides their vectors.
    pub carried: Option<f64>,
    /// The state vectors with their names.
    pub state: Vec<(String, Vec<F>)>,
}

impl<F: Real> Stepper<F> {
    /// Puts everything that the next steps depend on into a checkpoint: settings, target, counters,
    /// `theta` and the state vectors. The kept state of [`OnTrouble::RollBack`] and the count of
    /// failures in a row stay behind.
    ///
    /// Refused, with the checkpoint left as it was, if these dynamics stopped half-way through a
    /// step, or if a number is not finite.
    pub fn save(&self, theta: &[F], checkpoint: &mut Checkpoint) -> Result<()> {
        if let Some(step) = self.is_poisoned() {
            return Err(Error::Poisoned { step });
        }
        let layout = self.target().layout();
        layout.check_len("theta", theta.len())?;
        self.refuse_not_finite("theta", theta)?;
        for (name, vector) in self.state() {
            self.refuse_not_finite(&format!("state `{name}`"), vector)?;
        }

        checkpoint.insert_meta("element", F::NAME)?;
        checkpoint.insert_meta("algorithm", self.algorithm())?;
        checkpoint.insert_meta("target", self.target())?;
        checkpoint.insert_meta("clip", &self.clip())?;
        checkpoint.insert_meta("on_trouble", &self.trouble_policy())?;
        checkpoint.insert_meta("seed", &self.seed())?;
        checkpoint.insert_meta("chain", &self.chain())?;
        checkpoint.insert_meta("step", &self.steps())?;
        checkpoint.insert_meta("carried", &self.carried())?;
        checkpoint.insert_meta("rollbacks", &self.rollbacks())?;
        if self.lr_factors() != [1.0; 2] {
            checkpoint.insert_meta("lr_factor", &self.lr_factors())?;
        }
        if self.first_segment() != 0 {
            checkpoint.insert_meta("first_segment", &self.first_segment())?;
        }
        insert_vector(checkpoint, "theta", layout, theta)?;
        for (name, vector) in self.state() {
            insert_vector(checkpoint, &format!("state/{name}"), layout, vector)?;
        }
        Ok(())
    }

    /// Takes these dynamics and `theta` to where a checkpoint was written; the steps that follow
    /// are bit for bit those that followed then.
    ///
    /// Settings, target, seed, chain and element type must be the checkpoint's: a difference is
    /// refused by its name. On an error nothing has changed. Dynamics that refuse to go on after a
    /// non-finite number go on again after this.
    pub fn restore(&mut self, theta: &mut [F], checkpoint: &Checkpoint) -> Result<()> {
        self.target().layout().check_len("theta", theta.len())?;
        check_element::<F>(checkpoint)?;
        same(checkpoint, "algorithm", self.algorithm())?;
        same(checkpoint, "target", self.target())?;
        same(checkpoint, "clip", &self.clip())?;
        same(checkpoint, "on_trouble", &self.trouble_policy())?;
        same(checkpoint, "seed", &self.seed())?;
        same(checkpoint, "chain", &self.chain())?;

        let first_segment: u32 = or_absent(checkpoint, "first_segment", 0)?;
        if first_segment != self.first_segment() {
            return Err(Error::Mismatch {
                field: "first_segment".into(),
                saved: first_segment.to_string(),
                present: self.first_segment().to_string(),
            });
        }

        let layout = self.target().layout();
        let saved_theta = read_vector(checkpoint, "theta", layout)?;
        let mut state = Vec::with_capacity(self.names().len());
        for name in self.names().iter().filter(|name| !name.is_empty()) {
            let vector = read_vector(checkpoint, &format!("state/{name}"), layout)?;
            state.push((name.to_string(), vector));
        }
        self.go_to(Position {
            step: checkpoint.meta("step")?,
            rollbacks: checkpoint.meta("rollbacks")?,
            lr_factors: or_absent(checkpoint, "lr_factor", [1.0; 2])?,
            carried: checkpoint.meta("carried")?,
            state,
        })?;
        theta.copy_from_slice(&saved_theta);
        Ok(())
    }

    /// Where these dynamics are, for a record that is not a [`Checkpoint`]. Refused as
    /// [`Stepper::save`] refuses.
    pub fn position(&self) -> Result<Position<F>> {
        if let Some(step) = self.is_poisoned() {
            return Err(Error::Poisoned { step });
        }
        for (name, vector) in self.state() {
            self.refuse_not_finite(&format!("state `{name}`"), vector)?;
        }
        Ok(Position {
            step: self.steps(),
            rollbacks: self.rollbacks(),
            lr_factors: self.lr_factors(),
            carried: self.carried(),
            state: self.state().map(|(name, v)| (name.to_string(), v.to_vec())).collect(),
        })
    }

    /// Takes these dynamics to a position that dynamics of the same settings, target and seed had.
    /// On an error nothing has changed.
    pub fn go_to(&mut self, position: Position<F>) -> Result<()> {
        let Position { step, carried, lr_factors, state, .. } = &position;
        if *step >= MAX_STEPS {
            return Err(unusable(format!("step {step} is beyond the last one, {}", MAX_STEPS - 1)));
        }
        if !lr_factors.iter().all(|x| x.is_finite() && *x > 0.0) {
            return Err(unusable(format!("lr_factor is {lr_factors:?}; it must be positive")));
        }
        if carried.is_some() != self.carried().is_some() {
            return Err(Error::Mismatch {
                field: "carried number".into(),
                saved: format!("{carried:?}"),
                present: format!("{:?}", self.carried()),
            });
        }
        let present: Vec<_> = self.state().map(|(name, _)| name).collect();
        if !present.iter().eq(state.iter().map(|(name, _)| name)) {
            return Err(Error::Mismatch {
                field: "state vectors".into(),
                saved: format!("{:?}", state.iter().map(|(name, _)| name).collect::<Vec<_>>()),
                present: format!("{present:?}"),
            });
        }
        for (name, vector) in state {
            self.target().layout().check_len("a saved state vector", vector.len())?;
            self.refuse_not_finite(&format!("state `{name}`"), vector)?;
        }
        self.put_back(position);
        Ok(())
    }

    /// Dynamics and theta from a checkpoint alone.
    ///
    /// A metric that is a function is not in the checkpoint: build such dynamics with
    /// [`Stepper::with_metric`] and call [`Stepper::restore`].
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<(Self, Vec<F>)> {
        check_element::<F>(checkpoint)?;
        let algorithm: Algorithm = checkpoint.meta("algorithm")?;
        let target: Target = checkpoint.meta("target")?;
        if algorithm.wants_given_metric() {
            let allowed = "the checkpoint does not hold the function; build the dynamics with \
                           Stepper::with_metric and call Stepper::restore";
            return Err(Error::setting("metric", "given", allowed));
        }
        // Read before the dynamics are built: a layout alone could claim any amount of memory.
        let mut theta = read_vector(checkpoint, "theta", target.layout())?;
        let clip: Clip = checkpoint.meta("clip")?;
        let policy: OnTrouble = checkpoint.meta("on_trouble")?;
        let (seed, chain) = (checkpoint.meta("seed")?, checkpoint.meta("chain")?);
        let first_segment = or_absent(checkpoint, "first_segment", 0)?;
        let mut stepper = Stepper::of_part(algorithm, &target, seed, chain, first_segment)?
            .with_clip(clip)?
            .on_trouble(policy)?;
        stepper.restore(&mut theta, checkpoint)?;
        Ok((stepper, theta))
    }

    fn refuse_not_finite(&self, what: &str, vector: &[F]) -> Result<()> {
        let Some(bad) = vector.iter().position(|x| !x.is_finite()) else { return Ok(()) };
        let layout = self.target().layout();
        let segment = layout.segments().iter().find(|s| s.range().contains(&bad));
        Err(Error::NotFinite {
            what: what.into(),
            segment: segment.map_or("", |s| s.name()).into(),
            index: bad - segment.map_or(0, |s| s.range().start),
            value: vector[bad].to_f64(),
            step: self.steps(),
        })
    }
}

/// Metadata that is written only where it says something.
fn or_absent<T: DeserializeOwned>(checkpoint: &Checkpoint, key: &str, absent: T) -> Result<T> {
    if checkpoint.meta_keys().any(|k| k == key) { checkpoint.meta(key) } else { Ok(absent) }
}

fn check_element<F: Real>(checkpoint: &Checkpoint) -> Result<()> {
    let saved: String = checkpoint.meta("element")?;
    if saved == F::NAME {
        return Ok(());
    }
    Err(Error::Mismatch { field: "element type".into(), saved, present: F::NAME.into() })
}

fn insert_vector<F: Real>(
    checkpoint: &mut Checkpoint,
    prefix: &str,
    layout: &Layout,
    vector: &[F],
) -> Result<()> {
    for segment in layout.segments() {
        let name = format!("{prefix}/{}", segment.name());
        checkpoint.insert_tensor(name, segment.shape(), &vector[segment.range()])?;
    }
    Ok(())
}

/// Gathers the segments of a vector, which must be finite. Takes no more memory than they do.
fn read_vector<F: Real>(checkpoint: &Checkpoint, prefix: &str, layout: &Layout) -> Result<Vec<F>> {
    let mut vector = Vec::new();
    for segment in layout.segments() {
        let name = format!("{prefix}/{}", segment.name());
        let part: Vec<F> = checkpoint.tensor_of_shape(&name, segment.shape())?;
        if let Some(bad) = part.iter().position(|x| !x.is_finite()) {
            let value = part[bad];
            return Err(unusable(format!("tensor `{name}` is {value} at element {bad}")));
        }
        vector.extend_from_slice(&part);
    }
    Ok(vector)
}

/// Refuses metadata that differ from the present settings, naming the first difference.
pub(crate) fn same<T: Serialize>(checkpoint: &Checkpoint, key: &str, present: &T) -> Result<()> {
    let saved: Value = checkpoint.meta(key)?;
    let present = serde_json::to_value(present)
        .map_err(|e| Error::Structure(format!("the present {key} is not JSON: {e}")))?;
    match first_difference(key, &saved, &present) {
        None => Ok(()),
        Some((field, saved, present)) => Err(Error::Mismatch { field, saved, present }),
    }
}

/// The path of the first difference between two JSON values, and what stands there.
fn first_difference(
    path: &str,
    saved: &Value,
    present: &Value,
) -> Option<(String, String, String)> {
    let show = |value: Option<&Value>| value.map_or("missing".to_string(), Value::to_string);
    match (saved, present) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => first_difference(&path, x, y),
                    (x, y) => Some((path, show(x), show(y))),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|i| {
            let path = format!("{path}[{i}]");
            match (a.get(i), b.get(i)) {
                (Some(x), Some(y)) => first_difference(&path, x, y),
                (x, y) => Some((path, show(x), show(y))),
            }
        }),
        (a, b) if a == b => None,
        (a, b) => Some((path.to_string(), show(Some(a)), show(Some(b)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_by_its_path() {
        let saved = json!({"a": {"b": [1, 2.5, {"c": "x"}]}, "d": null});
        assert_eq!(first_difference("s", &saved, &saved), None);
        for (present, path, old, new) in [
            (json!({"a": {"b": [1, 2.5, {"c": "y"}]}, "d": null}), "s.a.b[2].c", "\"x\"", "\"y\""),
            (json!({"a": {"b": [1, 2.5]}, "d": null}), "s.a.b[2]", r#"{"c":"x"}"#, "missing"),
            (json!({"a": 3, "d": null}), "s.a", r#"{"b":[1,2.5,{"c":"x"}]}"#, "3"),
            (json!({"a": {"b": [1, 2.5, {"c": "x"}]}}), "s.d", "null", "missing"),
        ] {
            let found = first_difference("s", &saved, &present);
            assert_eq!(found, Some((path.into(), old.into(), new.into())));
        }
    }
}
