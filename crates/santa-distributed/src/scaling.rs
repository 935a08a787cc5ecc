//! How long a step takes with many members: a model of latency, bandwidth, overlap and waiting.
//!
//! With K members a step takes
//!
//! $$ t(K) = c + w(K) + x(K), \qquad c = t_0 + t_1 \lceil \text{batch} / K \rceil $$
//!
//! - **Computing** is a fixed time and a time for each datum of the member's part.
//! - **Waiting** for the slowest: the times vary independently from member to member and from step to step
//!   by a share s of c, normally, and the largest of K such times exceeds the mean by no more than
//!   $w(K) = s c \sqrt{2 \ln K}$, a bound that is close for large K and double the truth for K = 2.
//! - **Communication** that computing does not hide. A sum of n bytes takes
//!   $$ r(K, n) = 2 \lceil \log_2 K \rceil\ a + 2 \frac{K-1}{K} \frac nB $$
//!   with the latency a of a message and the bandwidth B: reduce-scatter by halving, then all-gather by
//!   doubling (Rabenseifner's algorithm; Thakur, Rabenseifner and Gropp, *Optimization of Collective
//!   Communication Operations in MPICH*, 2005, without their term for the additions). A ring has the same
//!   bandwidth term and K - 1 in the place of the logarithm. Groups of layers are summed one after
//!   another while a share o of c is being computed, but the last group, which is complete only when
//!   computing is over, cannot be hidden: $x = \max(r_\text{last}, \sum r - o c)$.
//!
//! [Local steps](crate::local) divide what they average by H, hide none of it, and wait only for the sum of
//! H times, whose variation grows as $\sqrt H$: per step $w / \sqrt H$.
//!
//! The efficiency is the throughput of a member over that of one who is alone. What the model leaves out:
//! links that several members share, the additions of the sum, and members that are always slower.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What lies between two members.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Seconds that the shortest message takes.
    pub latency_s: f64,
    /// Bytes a second, in one direction.
    pub bytes_per_s: f64,
}

/// Bytes a second of 1 Gbit/s.
const GBIT: f64 = 1e9 / 8.0;

impl Network {
    /// 10 Gbit/s. Assumed latency: 30 microseconds, TCP over Ethernet.
    pub const GBIT_10: Network = Network { latency_s: 30e-6, bytes_per_s: 10.0 * GBIT };
    /// 100 Gbit/s. Assumed latency: 5 microseconds, RDMA over Ethernet.
    pub const GBIT_100: Network = Network { latency_s: 5e-6, bytes_per_s: 100.0 * GBIT };
    /// 400 Gbit/s. Assumed latency: 2 microseconds, InfiniBand.
    pub const GBIT_400: Network = Network { latency_s: 2e-6, bytes_per_s: 400.0 * GBIT };

    /// Seconds of a sum of so many bytes to all of `ranks` members.
    pub fn all_reduce(&self, ranks: u64, bytes: f64) -> f64 {
        let [latencies, moved] = all_reduce_terms(ranks, bytes);
        latencies * self.latency_s + moved / self.bytes_per_s
    }

    /// Latency and bandwidth by least squares of the relative errors. Needs sums of at least two lengths
    /// by at least two members, of which the longest must be long enough to tell a bandwidth.
    pub fn fit(times: &[AllReduceTime]) -> Result<Network> {
        let rows: Vec<Row> = times
            .iter()
            .filter(|time| time.ranks > 1)
            .map(|time| Row { terms: all_reduce_terms(time.ranks, time.bytes), y: time.seconds })
            .collect();
        let fit = least_squares("all_reduce", &rows)?;
        match fit {
            Some([latency_s, per_byte]) if per_byte > 0.0 => {
                Ok(Network { latency_s, bytes_per_s: 1.0 / per_byte })
            }
            _ => Err(refused(
                "all_reduce",
                format!("{} times of two ranks or more", rows.len()),
                "they do not tell latency from bandwidth; measure short and long messages",
            )),
        }
    }
}

/// What multiplies the latency, and one over the bandwidth.
fn all_reduce_terms(ranks: u64, bytes: f64) -> [f64; 2] {
    let k = ranks.max(1);
    let levels = f64::from(u64::BITS - (k - 1).leading_zeros());
    [2.0 * levels, 2.0 * (k - 1) as f64 / k as f64 * bytes]
}

/// What a model asks of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Seconds for each datum of the member's part of a batch.
    pub per_datum_s: f64,
    /// Seconds whatever the batch: the step itself, and overheads.
    pub fixed_s: f64,
    /// Bytes of the gradient, group of layers by group, as the backward pass completes them. With one
    /// group nothing can be hidden.
    pub group_bytes: Vec<f64>,
    /// Bytes of everything that local steps average: the parameters, and the state vectors of the
    /// dynamics (Santa has three).
    pub averaged_bytes: f64,
}

/// What grows with the number of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// Nothing: a batch of this size is divided.
    Strong {
        /// Data in all members' parts together.
        batch: u64,
    },
    /// The batch: every member has so many data of it.
    Weak {
        /// Data of a member.
        batch_per_rank: u64,
    },
}

impl Scaling {
    /// Data of the member that has most.
    fn largest_part(self, ranks: u64) -> u64 {
        match self {
            Scaling::Strong { batch } => batch.div_ceil(ranks),
            Scaling::Weak { batch_per_rank } => batch_per_rank,
        }
    }
    /// Data of all members.
    fn batch(self, ranks: u64) -> f64 {
        match self {
            Scaling::Strong { batch } => batch as f64,
            Scaling::Weak { batch_per_rank } => batch_per_rank as f64 * ranks as f64,
        }
    }
}

/// When the members exchange something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// At every step: gradients.
    Synchronous,
    /// After so many steps: parameters and state.
    Local {
        /// H, at least 1.
        every: u64,
    },
}

/// Seconds of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Gradient and step.
    pub compute_s: f64,
    /// For the slowest member.
    pub wait_s: f64,
    /// Communication that is not hidden.
    pub communicate_s: f64,
}

impl StepTime {
    /// All together.
    pub fn total(&self) -> f64 {
        self.compute_s + self.wait_s + self.communicate_s
    }
}

/// Members and what is between them.
///
/// ```
/// use santa_distributed::scaling::{Cluster, Meeting, Network, Scaling, Workload};
///
/// // A million parameters in single precision, 10 microseconds for each datum.
/// let model = Workload {
///     per_datum_s: 1e-5,
///     fixed_s: 1e-4,
///     group_bytes: vec![4e6],
///     averaged_bytes: 16e6,
/// };
/// let cluster = Cluster { network: Network::GBIT_10, overlap: 0.0, spread: 0.02 };
/// let batch = Scaling::Strong { batch: 4096 };
/// let synchronous = cluster.efficiency(&model, batch, Meeting::Synchronous, 64);
/// let local = cluster.efficiency(&model, batch, Meeting::Local { every: 16 }, 64);
/// assert!(synchronous < 0.2 && local > 0.2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Between any two members.
    pub network: Network,
    /// The share of computing that can hide communication, from 0 to 1.
    pub overlap: f64,
    /// Standard deviation of the time that a member computes, as a share of it.
    pub spread: f64,
}

impl Cluster {
    /// The time of a step with so many members, at least one.
    pub fn step(
        &self,
        model: &Workload,
        scaling: Scaling,
        meeting: Meeting,
        ranks: u64,
    ) -> StepTime {
        let ranks = ranks.max(1);
        let part = scaling.largest_part(ranks) as f64;
        let compute_s = model.fixed_s + model.per_datum_s * part;
        let slowest = self.spread * compute_s * (2.0 * (ranks as f64).ln()).sqrt();
        let sum = |bytes: f64| self.network.all_reduce(ranks, bytes);
        let (wait_s, communicate_s) = match meeting {
            Meeting::Synchronous => {
                let all: f64 = model.group_bytes.iter().map(|bytes| sum(*bytes)).sum();
                let last = model.group_bytes.last().map_or(0.0, |bytes| sum(*bytes));
                (slowest, last.max(all - self.overlap * compute_s))
            }
            Meeting::Local { every } => {
                let every = every.max(1) as f64;
                (slowest / every.sqrt(), sum(model.averaged_bytes) / every)
            }
        };
        StepTime { compute_s, wait_s, communicate_s }
    }

    /// The throughput of each of so many members over that of one who is alone.
    pub fn efficiency(
        &self,
        model: &Workload,
        scaling: Scaling,
        meeting: Meeting,
        ranks: u64,
    ) -> f64 {
        let ranks = ranks.max(1);
        let each =
            |k: u64| scaling.batch(k) / (k as f64 * self.step(model, scaling, meeting, k).total());
        each(ranks) / each(1)
    }

    /// The largest power of two up to `limit` until which the efficiency is at least `least`.
    pub fn most_ranks(
        &self,
        model: &Workload,
        scaling: Scaling,
        meeting: Meeting,
        least: f64,
        limit: u64,
    ) -> u64 {
        std::iter::successors(Some(1u64), |k| k.checked_mul(2))
            .take_while(|k| *k <= limit && self.efficiency(model, scaling, meeting, *k) >= least)
            .last()
            .unwrap_or(1)
    }
}

/// What a program that measures writes down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// Steps of models.
    pub steps: Vec<MeasuredStep>,
    /// Sums.
    pub all_reduce: Vec<AllReduceTime>,
}

/// The time of a step of a model, mean over the members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStep {
    /// Its name.
    pub model: String,
    /// Members.
    pub ranks: u64,
    /// Data in all parts together.
    pub batch: u64,
    /// How many parameters it has.
    pub parameters: u64,
    /// How many in each group of layers, as the backward pass completes them; one group if not known.
    #[serde(default)]
    pub groups: Vec<u64>,
    /// Computing the own part, and the step.
    pub compute_s: f64,
    /// Waiting for the slowest.
    pub wait_s: f64,
    /// Summing.
    pub communicate_s: f64,
}

/// The time of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllReduceTime {
    /// Members.
    pub ranks: u64,
    /// Length of what is summed.
    pub bytes: f64,
    /// How long it took.
    pub seconds: f64,
}

/// What the measured steps of a model come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// How many parameters it has.
    pub parameters: u64,
    /// How many in each group of layers.
    pub groups: Vec<u64>,
    /// Seconds for each datum.
    pub per_datum_s: f64,
    /// Seconds whatever the batch; 0 if all parts were of one size.
    pub fixed_s: f64,
    /// The largest batch.
    pub batch: u64,
}

impl Measured {
    /// The model as a workload: gradients, and `vectors` of the length of theta that local steps average,
    /// with so many bytes for a number.
    pub fn workload(&self, bytes_per_number: f64, vectors: u32) -> Workload {
        let bytes = |numbers: u64| bytes_per_number * numbers as f64;
        let groups: &[u64] = if self.groups.is_empty() { &[self.parameters] } else { &self.groups };
        Workload {
            per_datum_s: self.per_datum_s,
            fixed_s: self.fixed_s,
            group_bytes: groups.iter().map(|n| bytes(*n)).collect(),
            averaged_bytes: f64::from(vectors) * bytes(self.parameters),
        }
    }
}

impl Measurements {
    /// The models, in the order in which they first occur: fixed time and time for each datum by least
    /// squares of the relative errors.
    pub fn models(&self) -> Result<Vec<Measured>> {
        let mut models: Vec<Measured> = Vec::new();
        for step in &self.steps {
            if models.iter().any(|model| model.name == step.model) {
                continue;
            }
            let own: Vec<_> = self.steps.iter().filter(|s| s.model == step.model).collect();
            if let Some(odd) = own.iter().find(|s| s.ranks == 0 || s.batch == 0) {
                let value = format!("{} data on {} ranks", odd.batch, odd.ranks);
                return Err(refused(&step.model, value, "both must be at least 1"));
            }
            let row = |s: &&MeasuredStep| Row {
                terms: [1.0, s.batch.div_ceil(s.ranks) as f64],
                y: s.compute_s,
            };
            let rows: Vec<Row> = own.iter().map(row).collect();
            let [fixed_s, per_datum_s] = match least_squares(&step.model, &rows)? {
                Some(fit) => fit,
                // Parts of one size: all of it is put down to the data.
                None => [0.0, one_term(&rows, 1)],
            };
            models.push(Measured {
                name: step.model.clone(),
                parameters: step.parameters,
                groups: step.groups.clone(),
                per_datum_s,
                fixed_s,
                batch: own.iter().map(|s| s.batch).max().unwrap_or_default(),
            });
        }
        Ok(models)
    }
}

/// An equation `terms . x = y`.
struct Row {
    terms: [f64; 2],
    y: f64,
}

/// The two coefficients, neither negative, with the smallest squares of the relative errors; `None` if
/// the equations do not determine both.
fn least_squares(name: &str, rows: &[Row]) -> Result<Option<[f64; 2]>> {
    /// Share of the product of the squares that the determinant must exceed.
    const DETERMINED: f64 = 1e-9;
    if let Some(bad) = rows.iter().find(|row| !(row.y > 0.0 && row.y.is_finite())) {
        return Err(refused(name, format!("{} s", bad.y), "times are positive"));
    }
    let sum = |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| of(row) / (row.y * row.y)).sum();
    let a: f64 = sum(&|row| row.terms[0] * row.terms[0]);
    let b: f64 = sum(&|row| row.terms[0] * row.terms[1]);
    let c: f64 = sum(&|row| row.terms[1] * row.terms[1]);
    let p: f64 = sum(&|row| row.terms[0] * row.y);
    let q: f64 = sum(&|row| row.terms[1] * row.y);
    let determinant = a * c - b * b;
    if determinant.is_nan() || determinant <= DETERMINED * a * c {
        return Ok(None);
    }
    let both = [(c * p - b * q) / determinant, (a * q - b * p) / determinant];
    Ok(Some(match both {
        [x, _] if x < 0.0 => [0.0, one_term(rows, 1)],
        [_, y] if y < 0.0 => [one_term(rows, 0), 0.0],
        both => both,
    }))
}

/// The coefficient of one term alone.
fn one_term(rows: &[Row], term: usize) -> f64 {
    let ratios = || rows.iter().map(|row| row.terms[term] / row.y);
    ratios().sum::<f64>() / ratios().map(|ratio| ratio * ratio).sum::<f64>()
}

fn refused(field: &str, value: String, allowed: &str) -> Error {
    Error::Setting { field: field.into(), value, allowed: allowed.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: (f64, f64) = (1e-5, 2e-4);

    fn model(groups: &[f64]) -> Workload {
        Workload {
            per_datum_s: MODEL.0,
            fixed_s: MODEL.1,
            group_bytes: groups.to_vec(),
            averaged_bytes: 4.0 * groups.iter().sum::<f64>(),
        }
    }

    fn quiet(network: Network) -> Cluster {
        Cluster { network, overlap: 0.0, spread: 0.0 }
    }

    const STRONG: Scaling = Scaling::Strong { batch: 1024 };
    const WEAK: Scaling = Scaling::Weak { batch_per_rank: 32 };
    const NOTHING_BETWEEN: Network = Network { latency_s: 0.0, bytes_per_s: f64::INFINITY };

    #[test]
    fn a_sum_takes_latencies_and_twice_its_length() {
        let network = Network { latency_s: 1e-6, bytes_per_s: 1e9 };
        assert_eq!(network.all_reduce(1, 1e9), 0.0);
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
        close(network.all_reduce(2, 0.0), 2e-6);
        close(network.all_reduce(4, 0.0), 4e-6);
        close(network.all_reduce(5, 0.0), 6e-6);
        close(network.all_reduce(4096, 0.0), 24e-6);
        close(network.all_reduce(2, 1e9), 1.0 + 2e-6);
        close(network.all_reduce(4, 1e9), 1.5 + 4e-6);
    }

    #[test]
    fn nobody_else_is_no_loss() {
        let cluster = Cluster { network: Network::GBIT_10, overlap: 0.3, spread: 0.2 };
        for meeting in [Meeting::Synchronous, Meeting::Local { every: 8 }] {
            for scaling in [STRONG, WEAK] {
                assert_eq!(cluster.efficiency(&model(&[4e6]), scaling, meeting, 1), 1.0);
                let alone = cluster.step(&model(&[4e6]), scaling, meeting, 1);
                assert_eq!((alone.wait_s, alone.communicate_s), (0.0, 0.0));
            }
        }
    }

    /// What is left is the fixed time: Amdahl's law.
    #[test]
    fn without_a_network_only_the_fixed_time_is_lost() {
        let cluster = quiet(NOTHING_BETWEEN);
        for ranks in [2, 64, 1024] {
            assert_eq!(cluster.efficiency(&model(&[4e6]), WEAK, Meeting::Synchronous, ranks), 1.0);
            let expected =
                (MODEL.1 + MODEL.0 * 1024.0) / (ranks as f64 * MODEL.1 + MODEL.0 * 1024.0);
            let found = cluster.efficiency(&model(&[4e6]), STRONG, Meeting::Synchronous, ranks);
            assert!((found - expected).abs() < 1e-12);
        }
        // More members than data: those without have nothing to do.
        let half = cluster.efficiency(&model(&[4e6]), STRONG, Meeting::Synchronous, 2048)
            / cluster.efficiency(&model(&[4e6]), STRONG, Meeting::Synchronous, 1024);
        assert!((half - 0.5).abs() < 1e-12);
    }

    #[test]
    fn overlap_hides_all_but_the_last_group() {
        let groups = [1e6, 2e6, 1e5];
        let mut cluster = quiet(Network::GBIT_400);
        let exposed = |cluster: &Cluster| {
            cluster.step(&model(&groups), WEAK, Meeting::Synchronous, 16).communicate_s
        };
        let sum = |bytes: f64| Network::GBIT_400.all_reduce(16, bytes);
        let all: f64 = groups.iter().map(|bytes| sum(*bytes)).sum();
        assert_eq!(exposed(&cluster), all);
        cluster.overlap = 0.1;
        let compute = MODEL.1 + 32.0 * MODEL.0;
        assert!((exposed(&cluster) - (all - 0.1 * compute)).abs() < 1e-15);
        cluster.overlap = 1.0;
        assert_eq!(exposed(&cluster), sum(1e5));
        // One group has nothing to hide behind.
        let one = cluster.step(&model(&[3e6]), WEAK, Meeting::Synchronous, 16);
        assert_eq!(one.communicate_s, sum(3e6));
    }

    #[test]
    fn local_steps_divide_what_they_average() {
        let cluster = Cluster { network: Network::GBIT_10, overlap: 0.5, spread: 0.1 };
        let at = |every| cluster.step(&model(&[4e6]), WEAK, Meeting::Local { every }, 64);
        let (one, sixteen) = (at(1), at(16));
        assert!((one.communicate_s / sixteen.communicate_s - 16.0).abs() < 1e-12);
        assert!((one.wait_s / sixteen.wait_s - 4.0).abs() < 1e-12);
        let efficiency =
            |every| cluster.efficiency(&model(&[4e6]), WEAK, Meeting::Local { every }, 64);
        assert!(efficiency(u64::MAX) > 1.0 - 1e-6);
        // They average four vectors: every second step is too often to gain anything.
        let synchronous = cluster.efficiency(&model(&[4e6]), WEAK, Meeting::Synchronous, 64);
        assert!(efficiency(2) < synchronous && efficiency(16) > synchronous);
    }

    #[test]
    fn the_most_ranks_are_where_the_efficiency_falls() {
        let cluster = quiet(Network::GBIT_10);
        let most =
            |least| cluster.most_ranks(&model(&[4e6]), STRONG, Meeting::Synchronous, least, 4096);
        let k = most(0.5);
        let at = |k| cluster.efficiency(&model(&[4e6]), STRONG, Meeting::Synchronous, k);
        assert!(at(k) >= 0.5 && at(2 * k) < 0.5, "{k}");
        assert_eq!((most(0.0), most(2.0)), (4096, 1));
    }

    #[test]
    fn latency_and_bandwidth_are_found_again() {
        let network = Network { latency_s: 7e-6, bytes_per_s: 3e9 };
        let mut times = Vec::new();
        for ranks in [1, 2, 4] {
            for power in 0..24 {
                let bytes = f64::from(1u32 << power);
                let seconds = network.all_reduce(ranks, bytes).max(1e-9);
                times.push(AllReduceTime { ranks, bytes, seconds });
            }
        }
        let found = Network::fit(&times).unwrap();
        assert!((found.latency_s / network.latency_s - 1.0).abs() < 1e-9);
        assert!((found.bytes_per_s / network.bytes_per_s - 1.0).abs() < 1e-9);
        // Negative control: from sums of one length nobody can tell.
        times.retain(|time| time.ranks == 2 && time.bytes == 1024.0);
        assert!(Network::fit(&times).unwrap_err().to_string().contains("short and long"));
        times[0].seconds = -1.0;
        assert!(Network::fit(&times).unwrap_err().to_string().contains("positive"));
        assert!(Network::fit(&[]).is_err());
    }

    #[test]
    fn models_are_read_from_what_was_measured() {
        let step = |model: &str, ranks: u64, batch: u64, fixed: f64| {
            let compute = fixed + 1e-5 * (batch / ranks) as f64;
            format!(
                r#"{{"model": "{model}", "ranks": {ranks}, "batch": {batch}, "parameters": 100,
                    "compute_s": {compute}, "wait_s": 1e-6, "communicate_s": 1e-5}}"#
            )
        };
        let text = format!(
            r#"{{"steps": [{}, {}, {}, {}], "all_reduce": [{{"ranks": 2, "bytes": 8, "seconds": 1e-6}}]}}"#,
            step("FNN", 1, 100, 1e-3),
            step("CNN", 1, 64, 0.0),
            step("FNN", 2, 100, 1e-3),
            step("FNN", 2, 50, 1e-3),
        );
        let measured: Measurements = serde_json::from_str(&text).unwrap();
        let models = measured.models().unwrap();
        assert_eq!(models.len(), 2);
        let [fnn, cnn] = [&models[0], &models[1]];
        assert!((fnn.fixed_s / 1e-3 - 1.0).abs() < 1e-9, "{fnn:?}");
        assert!((fnn.per_datum_s / 1e-5 - 1.0).abs() < 1e-9, "{fnn:?}");
        assert_eq!((fnn.name.as_str(), fnn.batch), ("FNN", 100));
        assert!((cnn.per_datum_s / 1e-5 - 1.0).abs() < 1e-9 && cnn.fixed_s == 0.0);
        let workload = fnn.workload(4.0, 3);
        assert_eq!((workload.group_bytes, workload.averaged_bytes), (vec![400.0], 1200.0));
        let mut odd = measured;
        odd.steps[0].ranks = 0;
        assert!(odd.models().unwrap_err().to_string().contains("FNN"));
    }
}
