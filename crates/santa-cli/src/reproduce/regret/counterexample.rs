//! Where methods of Adam's kind go wrong (Reddi, Kale and Kumar, 2018): linear losses on an interval,
//! rarely steep in one direction, mostly flat in the other. The rare ones count more, but a metric of
//! short memory has them divided by themselves.

use crate::commands::table::Table;
use crate::failure::Result;
use crate::figure::{Axis, Figure, Series, Style, sheet};
use crate::reproduce::fit::{Point, log_spaced};
use crate::reproduce::section::{Curve, Section, rounded, short};
use crate::reproduce::settings::Method;
use rayon::prelude::*;
use santa::noise::{Purpose, Stream};
use santa::stats::Moments;
use santa::{Stepper, Target};
use serde::Deserialize;
use serde_json::{Map, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    periodic: Game,
    random: Game,
}

/// Losses $s_t x$ on [-1, 1].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Game {
    large: f64,
    small: f64,
    period: u64,
    start: f64,
    copies: usize,
    rounds: u64,
    methods: toml::Table,
}

/// The best fixed point, mean slopes being positive.
const BEST: f64 = -1.0;

/// How steep a round is, for every copy.
enum Slopes {
    Periodic,
    Random(Stream),
}

/// What a method paid above the best fixed point.
struct Outcome {
    curve: Curve,
    /// Mean of the last x.
    end: f64,
}

impl Game {
    fn slope(&self, slopes: &Slopes, t: u64, copy: usize) -> f64 {
        let steep = match slopes {
            Slopes::Periodic => t % self.period == 1 % self.period,
            Slopes::Random(stream) => stream.below(t, 0, copy as u32, self.period) == 0,
        };
        if steep { self.large } else { -self.small }
    }

    /// What a round is charged by: its slope, or the mean slope where x cannot know it.
    fn charge(&self, slopes: &Slopes, t: u64) -> f64 {
        match slopes {
            Slopes::Periodic => self.slope(slopes, t, 0),
            Slopes::Random(_) => self.mean_slope(),
        }
    }

    fn mean_slope(&self) -> f64 {
        let chance = 1.0 / self.period as f64;
        chance * self.large - (1.0 - chance) * self.small
    }

    /// Average regrets R(T)/T of a method, over its copies; those of random rounds are expected ones.
    fn play(&self, slopes: &Slopes, method: &Method, seed: u64) -> Result<Outcome> {
        const FIRST: u64 = 100;
        const LOOKS: usize = 40;
        let looks = log_spaced(FIRST.min(self.rounds), self.rounds, LOOKS);
        let target = Target::density(self.copies)?;
        let mut stepper = Stepper::<f64>::new(method.algorithm.clone(), &target, seed, 0)?;
        let mut x = vec![self.start; self.copies];
        let mut gradient = vec![0.0; self.copies];
        let mut regrets = vec![0.0; self.copies];
        let (mut points, mut t) = (Vec::new(), 0);
        for rounds in looks {
            while t < rounds {
                t += 1;
                let charge = self.charge(slopes, t);
                for i in 0..self.copies {
                    gradient[i] = self.slope(slopes, t, i);
                    regrets[i] += charge * (x[i] - BEST);
                }
                stepper.step(&mut x, &gradient)?;
                x.iter_mut().for_each(|x| *x = x.clamp(-1.0, 1.0));
            }
            let average: Moments = regrets.iter().map(|regret| regret / rounds as f64).collect();
            let alone = self.copies < 2;
            let standard_error = if alone { 0.0 } else { average.standard_error() };
            let y = Some(average.mean());
            points.push(Point { x: rounds as f64, y, standard_error, fitted: false });
        }
        let end = x.iter().sum::<f64>() / self.copies as f64;
        let (name, label) = (method.name.clone(), method.label.clone());
        Ok(Outcome { curve: Curve { name, label, claim: None, slope: None, points }, end })
    }

    fn all(&self, slopes: &Slopes, seed: u64) -> Result<Vec<Outcome>> {
        let methods = Method::all("regret", self.methods.clone())?;
        methods.par_iter().map(|method| self.play(slopes, method, seed)).collect()
    }

    /// Average regret of who stays at the wrong end: twice the mean slope.
    fn worst(&self) -> f64 {
        self.mean_slope() * (1.0 - BEST)
    }
}

impl Outcome {
    fn last(&self) -> f64 {
        self.curve.points.last().and_then(|point| point.y).unwrap_or(f64::NAN)
    }
    /// Whether the method ended on the wrong half of the interval.
    fn fails(&self) -> bool {
        self.end > 0.0
    }
}

/// The figure.
pub fn section(settings: &Settings, seed: u64) -> Result<Section> {
    let random = Slopes::Random(Stream::new(seed, 0, Purpose::Data));
    let games = [
        ("periodic", "Periodic, short memory", &settings.periodic, Slopes::Periodic),
        ("random", "Random, usual settings", &settings.random, random),
    ];
    let mut table = Table::new([
        "method",
        "periodic: R(T)/T",
        "periodic: last x",
        "random: R(T)/T",
        "random: last x",
    ]);
    let (mut played, mut panels, mut ends) = (Vec::new(), Vec::new(), Map::new());
    for (name, title, game, slopes) in &games {
        let outcomes = game.all(slopes, seed)?;
        let axes = (Axis::new("rounds T").log(), Axis::new("average regret R(T) / T"));
        let high = 1.1 * game.worst();
        let mut panel = Figure::new(axes.0, axes.1.between(-0.05 * high, high))
            .titled(*title)
            .sized(430.0, 320.0);
        let ends_of_x = (outcomes[0].curve.points[0].x, game.rounds as f64);
        let level = |y: f64| vec![(ends_of_x.0, y), (ends_of_x.1, y)];
        let grey = Style { width: 1.2, ..Style::reference() };
        panel = panel.with(Series::line("always at the wrong end", grey, level(game.worst())));
        for (i, outcome) in outcomes.iter().enumerate() {
            let Curve { label, points, .. } = &outcome.curve;
            let points = points.iter().filter_map(|point| Some((point.x, point.y?))).collect();
            panel = panel.with(Series::line(label.clone(), Style::numbered(i), points));
            ends.insert(
                format!("{name}-{}", outcome.curve.name),
                json!({ "average_regret": outcome.last(), "last_x": outcome.end }),
            );
        }
        panels.push(panel);
        played.push(outcomes);
    }
    for (periodic, random) in played[0].iter().zip(&played[1]) {
        table.row([
            periodic.curve.label.clone(),
            short(periodic.last()),
            rounded(periodic.end),
            short(random.last()),
            rounded(random.end),
        ]);
    }
    let remarks = remarks(&played);
    let mut curves = Vec::new();
    for ((name, ..), outcomes) in games.iter().zip(played) {
        curves.extend(outcomes.into_iter().map(|Outcome { curve, .. }| Curve {
            name: format!("{name}-{}", curve.name),
            ..curve
        }));
    }
    let title = "Average regret on the counter-example to Adam's bound";
    let more = Map::from_iter([("ends".into(), ends.into())]);
    let svg = sheet(&panels, 1);
    Ok(Section { name: "counterexample", title, curves, table, remarks, svg, more })
}

fn remarks(played: &[Vec<Outcome>]) -> Vec<String> {
    let names = |outcomes: &[Outcome], failing: bool| {
        let of = outcomes.iter().filter(|outcome| outcome.fails() == failing);
        of.map(|outcome| outcome.curve.label.as_str()).collect::<Vec<_>>().join("; ")
    };
    let mut all = vec![
        "The supplement takes its bound from Adam's Theorem 10.5, whose proof has a gap: Reddi, Kale and \
         Kumar (2018) gave convex problems on which Adam's average regret does not vanish. Refining \
         Santa divides by the same metric and runs the same risk."
            .to_string(),
    ];
    for (name, outcomes) in ["periodic", "random"].into_iter().zip(played) {
        all.push(format!(
            "In the {name} game the wrong end is where these go: {}. Not so: {}.",
            names(outcomes, true),
            names(outcomes, false)
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(rounds: u64) -> Game {
        let methods =
            "sgd = { algorithm = 'sgd', lr = { kind = 'power', a = 0.2, b = 0.0, gamma = -0.5 } }
            adam = { algorithm = 'adam', beta1 = 0.0, beta2 = 0.058823529411764705,
                     lr = { kind = 'power', a = 0.5, b = 0.0, gamma = -0.5 } }
            still = { algorithm = 'sgd', lr = 1e-300 }";
        let methods = methods.parse().unwrap();
        Game { large: 4.0, small: 1.0, period: 3, start: 0.5, copies: 1, rounds, methods }
    }

    /// Slopes 4, -1, -1 sum to 2 in three rounds: who stays at x pays 2 x, the best pays -2.
    #[test]
    fn the_regret_of_who_does_not_move_is_known() {
        let game = game(3_000);
        assert!((game.worst() - 4.0 / 3.0).abs() < 1e-15);
        let still = &game.all(&Slopes::Periodic, 1).unwrap()[2];
        assert!((still.last() - (2.0 * 0.5 + 2.0) / 3.0).abs() < 1e-12, "{}", still.last());
        assert!((still.end - 0.5).abs() < 1e-12);
    }

    #[test]
    fn adam_goes_to_the_wrong_end_and_sgd_to_the_right_one() {
        let game = game(30_000);
        let outcomes = game.all(&Slopes::Periodic, 1).unwrap();
        assert!(!outcomes[0].fails() && outcomes[0].last() < 0.1, "{}", outcomes[0].last());
        assert!(outcomes[1].fails() && outcomes[1].last() > 1.0, "{}", outcomes[1].last());
    }
}
