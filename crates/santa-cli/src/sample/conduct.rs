//! Running the chains, and what is known of the draws afterwards.

use super::Context;
use super::bars::Bars;
use super::exact::{self, Comparison, Difference, Exact};
use super::judgement::{
    compared, heated, hot_or_cold, of_another_law, plain, shortened, tempered, without_correlations,
};
use super::report;
use super::stein::{self, Measured, Subject};
use crate::failure::{Failure, Kind, Result};
use crate::nearest::unknown;
use santa::{Potential, Real};
use santa_posterior::diagnostics::Summary;
use santa_posterior::sampler::{
    Figures, Member, Metric, Plan, Posterior, Recorder, Sampler, Scales, Temperature,
};
use santa_posterior::store::Format;
use santa_posterior::{Draws, Error, Store};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::Instant;

/// What is sampled, for the reader, and how it can be sampled exactly.
pub struct Model<P, R> {
    /// The report's title.
    pub title: String,
    /// What there is to say about it.
    pub facts: Vec<(String, String)>,
    /// What is wrong with it, whatever the draws are.
    pub troubles: Vec<String>,
    /// For checks with exact gradients.
    pub exact: Option<Exact<P, R>>,
}

/// What came of it.
pub struct Outcome {
    /// The report's title.
    pub title: String,
    /// Facts for the report.
    pub facts: Vec<(String, String)>,
    /// The settings.
    pub sampler: Sampler,
    /// The draws.
    pub draws: Draws,
    /// The statistics of each.
    pub statistics: Draws,
    /// Means, errors and diagnostics.
    pub summary: Summary,
    /// The configurational temperature.
    pub configurational: Temperature,
    /// The kinetic temperature.
    pub kinetic: Temperature,
    /// What the warm-up found.
    pub figures: Figures,
    /// Which steps became draws.
    pub plan: Plan,
    /// The kernel Stein discrepancy, where it was measured: by rank 0.
    pub stein: Option<Measured>,
    /// The comparison with exact gradients, where it was made: by rank 0.
    pub exact: Option<Vec<Difference>>,
    /// What is wrong, in words, the worst first.
    pub troubles: Vec<String>,
    /// What is to be known, and not wrong.
    pub notes: Vec<String>,
    /// Tables of predictions, on rank 0.
    pub tables: Vec<report::Table>,
    /// Wall-clock seconds of this sitting.
    pub seconds: f64,
}

/// A recorder's last word: tables for the report.
pub trait Tables: Sized {
    /// Tables of what all chains have gathered.
    fn tables(_recorders: &[Self]) -> Result<Vec<report::Table>> {
        Ok(Vec::new())
    }
}

impl Tables for santa_posterior::sampler::Parameters {}
impl<G> Tables for santa_posterior::sampler::Quantities<G> {}

/// Runs chains in double precision, and checks the draws with exact gradients where that is quick.
pub fn conduct<P: Potential<f64> + Send, R: Recorder<f64, P> + Tables + Clone>(
    sampler: Sampler,
    members: Vec<Member<f64, P, R>>,
    model: Model<P, R>,
    context: &Context<'_>,
) -> Result<Outcome> {
    let Model { title, facts, troubles, exact } = model;
    let (posterior, mut outcome) = draw(sampler, members, title, facts, context)?;
    outcome.troubles.splice(0..0, troubles);
    let Some(mut exact) = exact.filter(|_| context.leads()) else { return Ok(outcome) };
    let scales = &posterior.tuning.scales;
    context.console.detail("comparing the draws with the gradient");
    let measured = stein::measure(Subject {
        potential: &mut exact.potential,
        parameters: &exact.parameters,
        scales,
        draws: &outcome.draws,
        summary: &outcome.summary,
        sampler: &outcome.sampler,
    })?;
    match measured {
        Ok(measured) => {
            outcome.troubles.extend(of_another_law(&measured));
            outcome.stein = Some(measured);
        }
        Err(why) => outcome.notes.push(why),
    }
    // At another temperature it is another law.
    if !exact.is_small() || outcome.sampler.beta != 1.0 {
        return Ok(outcome);
    }
    context.console.detail("comparing with exact gradients");
    let comparison = exact::compare(exact, scales, outcome.sampler.seed, &outcome.summary)?;
    outcome.troubles.extend(compared(&comparison));
    if let Comparison::Of(differences) = comparison {
        outcome.exact = Some(differences);
    }
    Ok(outcome)
}

/// Runs chains.
pub fn draw<F: Real, P: Potential<F> + Send, R: Recorder<F, P> + Tables + Clone>(
    sampler: Sampler,
    members: Vec<Member<F, P, R>>,
    mut title: String,
    facts: Vec<(String, String)>,
    context: &Context<'_>,
) -> Result<(Posterior<F, R>, Outcome)> {
    if sampler.beta != 1.0 {
        title += &format!(", at temperature {}", plain(1.0 / sampler.beta));
    }
    let format = context.request.sampler.format.unwrap_or(Format::Parquet);
    let description = serde_json::to_value(Description::of(context)).map_err(Failure::system)?;
    let store = Store::new(&context.folder, format).describing(description);
    if let Some(member) = members.first() {
        check_shown(context.show, &member.recorder.names())?;
    }
    let mut there = vec![u8::from(store.is_begun())];
    context.team.broadcast(0, &mut there).map_err(Failure::system)?;
    if there != [0] && !context.resume {
        return Err(Failure::usage(format!("there are draws in {}", context.folder.display()))
            .hint("`--resume` goes on with them; `--out` chooses another folder"));
    }
    if !context.resume && context.leads() {
        store.forget_warm_up()?;
    }
    let started = Instant::now();
    let bars = Bars::new(*context.console, sampler.chains_in_team(context.team));
    let posterior = sampler.run_in_team(context.team, members, Some(&store), &bars);
    bars.finish();
    let posterior = match posterior {
        Err(Error::Interrupted) if store.is_warming_up() => {
            return Err(interrupted(Done::PartOfWarmUp));
        }
        Err(Error::Interrupted) => return Err(interrupted(Done::Nothing)),
        Err(error @ Error::Diverged(_)) if sampler.dynamics.is_none() => {
            return Err(Failure::from(error).hint(with_half_the_step(&sampler, &store)));
        }
        other => other?,
    };
    if !posterior.complete {
        return Err(interrupted(Done::Draws(posterior.draws.len())));
    }
    let summary = Summary::new(&posterior.draws);
    let configurational = posterior.configurational_temperature();
    let kinetic = posterior.kinetic_temperature();
    let mut troubles: Vec<String> =
        summary.verdict().troubles.iter().map(ToString::to_string).collect();
    troubles.extend(hot_or_cold(&configurational, &sampler));
    troubles.extend(heated(&kinetic, &sampler));
    let mut notes: Vec<String> = tempered(&sampler).into_iter().collect();
    notes.extend(shortened(posterior.tuning.reference.len(), &posterior.tuning.figures));
    // Only where the diagonal was not asked for; and given dynamics have no scales.
    let (tuning, dim) = (&posterior.tuning, posterior.tuning.reference.len());
    if sampler.metric == Metric::Auto && matches!(tuning.scales, Scales::Diagonal { .. }) {
        notes.extend(without_correlations(dim, &tuning.figures, !troubles.is_empty()));
    }
    let outcome = Outcome {
        title,
        facts,
        draws: posterior.draws.clone(),
        statistics: posterior.statistics.clone(),
        configurational,
        kinetic,
        figures: posterior.tuning.figures,
        plan: posterior.plan,
        stein: None,
        exact: None,
        troubles,
        notes,
        tables: if context.leads() { R::tables(&posterior.recorders)? } else { Vec::new() },
        summary,
        sampler,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok((posterior, outcome))
}

/// What an interrupted run has to go on with.
enum Done {
    Nothing,
    PartOfWarmUp,
    /// So many of each chain.
    Draws(usize),
}

fn interrupted(done: Done) -> Failure {
    let goes_on = "the same command with `--resume` goes on from there";
    let (text, hint) = match done {
        Done::Nothing => (
            "interrupted in the warm-up; nothing is lost but the warm-up".into(),
            "the same command begins it again, with other settings too",
        ),
        Done::PartOfWarmUp => {
            ("interrupted in the warm-up; the part that was done is written".into(), goes_on)
        }
        Done::Draws(0) => (
            "interrupted before every chain had a draw; the warm-up is done and written".into(),
            goes_on,
        ),
        Done::Draws(draws) => {
            (format!("interrupted after {draws} draws of each chain; they are written"), goes_on)
        }
    };
    Failure::new(Kind::Interrupted, text).hint(hint)
}

/// What to try after chains that ran away: half of the step that the warm-up found, which may be far
/// below the largest one; where there is none yet, half of that.
fn with_half_the_step(sampler: &Sampler, store: &Store) -> String {
    let found = store.figures().ok().flatten().map(|figures| figures.step);
    let step = found.map_or(sampler.largest_step, |found| found.min(sampler.largest_step));
    format!(
        "`--largest-step {}` allows half the step, with `--out` another folder for its draws",
        plain(0.5 * step)
    )
}

/// What the store is told about the model: what a run that goes on must agree with.
#[derive(Serialize)]
struct Description<'a> {
    model: &'a str,
    dim: Option<usize>,
    data: Option<String>,
    data_sha256: Option<String>,
    response: Option<&'a str>,
    features: &'a [String],
    intercept: Option<bool>,
    degrees: Option<f64>,
    priors: &'a std::collections::BTreeMap<String, String>,
    set: &'a [String],
}

impl<'a> Description<'a> {
    fn of(context: &Context<'a>) -> Self {
        let request = context.request;
        // By its name alone: where it lies is of no interest.
        let data = request.data.as_ref().and_then(|path| path.file_name());
        Description {
            model: &request.model,
            dim: request.dim,
            data: data.map(|name| name.to_string_lossy().into_owned()),
            data_sha256: request.data.as_deref().and_then(digest),
            response: request.response.as_deref(),
            features: &request.features,
            intercept: request.intercept,
            degrees: request.degrees,
            priors: &request.priors,
            set: &request.set,
        }
    }
}

/// What is in a file, as a number: the same name may hold other data another day.
fn digest(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Refuses quantities that there are not, before the work and not after it.
fn check_shown(show: &[String], names: &[String]) -> Result<()> {
    match show.iter().find(|name| !names.contains(name)) {
        Some(name) => Err(unknown("quantity", name, names.iter().map(String::as_str))),
        None => Ok(()),
    }
}
