//! Experiments: what is built in runs, what is written is understood, and what cannot be is refused
//! with its place before anything is made.

mod support;

use santa_cli::experiment::{Draft, EXPERIMENTS, Experiment, OPTIMIZERS, Preset, Variational};
use santa_nn::{KlWeight, ScaleMixture};
use support::workshop::{TINY, Workshop};
use toml::Value;

fn draft(preset: &Preset, assignments: &[&str]) -> Draft {
    let mut draft = Draft::open(preset.name).unwrap();
    assignments.iter().for_each(|assignment| draft.set(assignment).unwrap());
    draft
}

fn resolved(assignments: &[&str]) -> Experiment {
    let mut draft = Draft::parse("tiny.toml", TINY).unwrap();
    assignments.iter().for_each(|assignment| draft.set(assignment).unwrap());
    draft.resolve().unwrap()
}

/// Whether a number stands anywhere below a value.
fn holds(value: &Value, number: f64) -> bool {
    match value {
        Value::Float(x) => *x == number,
        Value::Array(items) => items.iter().any(|item| holds(item, number)),
        Value::Table(table) => table.values().any(|item| holds(item, number)),
        _ => false,
    }
}

fn settings(experiment: &Experiment) -> Value {
    Value::try_from(&experiment.optimizer).unwrap()
}

#[test]
fn every_experiment_with_every_optimizer_resolves_and_then_resolves_to_itself() {
    for preset in EXPERIMENTS {
        for optimizer in OPTIMIZERS {
            let draft = draft(preset, &[&format!("optimizer={}", optimizer.name)]);
            let experiment = draft.resolve().unwrap();
            assert_eq!(experiment.optimizer.name, optimizer.name);
            let text = experiment.to_toml().unwrap();
            let again = Draft::parse("again", &text).unwrap().resolve().unwrap();
            assert_eq!(again, experiment, "{} with {}", preset.name, optimizer.name);
            assert_eq!(again.to_toml().unwrap(), text);
        }
    }
}

#[test]
fn every_optimizer_makes_steps() {
    let shop = Workshop::new();
    for Preset { name, .. } in OPTIMIZERS {
        let args = format!("train tiny.toml --set optimizer={name} --set epochs=1 --json");
        let summary = &shop.santa(&args).done().json()["summary"];
        assert_eq!(summary["optimizer"], *name);
        assert_eq!(summary["steps"], 18);
        assert!(summary["last"]["test"]["nll"].as_f64().unwrap() < 10.0, "{name}: {summary}");
        assert!(shop.path(&format!("runs/tiny/{name}-seed-7/summary.json")).is_file());
    }
}

#[test]
fn every_fully_connected_experiment_makes_steps() {
    let shop = Workshop::new();
    for name in ["quickstart", "mnist-fnn-400", "mnist-fnn-800"] {
        let small = "--set data.set=mnist-subset --set model.hidden=[8] --set batch=2000";
        let short = "--set epochs=2 --set averaging.every=1";
        let said = shop.santa(&format!("train {name} {small} {short} --json")).done();
        let summary = &said.json()["summary"];
        assert_eq!((&summary["name"], &summary["steps"]), (&name.into(), &10.into()));
        assert!(summary["averaged"]["count"].as_u64().unwrap() > 0, "{name}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "too slow without optimization")]
fn the_convolutional_experiment_makes_steps() {
    let shop = Workshop::new();
    let small = "--set data.set=mnist-subset --set batch=5000 --set epochs=1";
    let said = shop.santa(&format!("train mnist-cnn {small} --json")).done();
    assert_eq!(said.json()["summary"]["steps"], 2);
}

#[test]
fn an_optimizer_is_a_name_or_like_another_with_overrides() {
    let by_name = resolved(&["optimizer=adam"]);
    let like = resolved(&["optimizer.like=adam"]);
    assert_eq!(by_name, like);
    let given = r#"optimizer={like="adam", lr=0.5, name="mine"}"#;
    let over = resolved(&[given]);
    assert_eq!(over.optimizer.name, "mine");
    assert!(holds(&settings(&over), 0.5));
    assert_ne!(over.optimizer.algorithm, like.optimizer.algorithm);
    // From nothing but an algorithm: its defaults, and its name.
    let bare = resolved(&[r#"optimizer={algorithm="sgd"}"#]);
    assert_eq!(bare.optimizer.name, "sgd");
    // A choice of another kind replaces the preset's as a whole.
    let beta = r#"optimizer.beta={kind="constant", value=7.0}"#;
    let never = resolved(&["optimizer=santa", beta, "optimizer.exploration=never"]);
    let settings = settings(&never);
    assert!(holds(&settings["beta"], 7.0) && !holds(&settings["beta"], 1.0), "{settings}");
    assert_eq!(settings["exploration"].as_str(), Some("never"));
}

#[test]
fn every_optimizer_understands_lr_and_those_with_a_momentum_understand_momentum() {
    for Preset { name, .. } in OPTIMIZERS {
        let optimizer = format!("optimizer={name}");
        let lr = resolved(&[&optimizer, "optimizer.lr=0.0123"]);
        assert!(holds(&settings(&lr), 0.0123), "{name}");
        let mut draft = Draft::parse("tiny.toml", TINY).unwrap();
        draft.set(&optimizer).unwrap();
        draft.set("optimizer.momentum=0.77").unwrap();
        let without = ["adam", "adamw", "adagrad", "adadelta", "sgld", "psgld"];
        match (draft.resolve(), without.contains(name)) {
            (Ok(experiment), false) => assert!(holds(&settings(&experiment), 0.77), "{name}"),
            (Err(failure), true) => {
                assert!(failure.message.contains("--set optimizer.momentum=0.77"), "{failure}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_share_of_a_run_is_one_of_each_of_its_chains() {
    let steps = |more: &[&str]| {
        let settings = ["averaging.from=50 %", "averaging.every=1 epochs", "epochs=6"];
        let all: Vec<&str> = settings.iter().chain(more).copied().collect();
        let experiment = resolved(&all);
        (experiment.averaging.unwrap().from, experiment.chain_steps(), experiment.steps())
    };
    assert_eq!(steps(&[]), (54, 108, 108));
    assert_eq!(steps(&["chains=3"]), (18, 36, 108));
    // Runs of one chain are written, and known to ledgers, as they were before there were several.
    assert!(!resolved(&[]).to_toml().unwrap().contains("chains"));
    assert!(resolved(&["chains=2"]).to_toml().unwrap().contains("chains = 2"));
}

#[test]
fn durations_are_understood_wherever_steps_are_counted() {
    let text = r#"
log_every = "0.5 epochs"
name = "durations"
epochs = 10
batch = 500

[data]
set = "mnist-subset"

[model]
kind = "dense"
hidden = [8]

[optimizer]
like = "santa"
exploration.steps = "25 %"

[optimizer.step]
units = "practical"
momentum = 0.9

[optimizer.step.lr]
kind = "piecewise"
last = { kind = "cosine", start = 1e-3, end = 1e-4, steps = "3 epochs" }

[[optimizer.step.lr.pieces]]
until = "10 %"
schedule = { kind = "block_decay", start = 1e-3, factor = 0.5, every = "1 epoch" }

[evaluation]
every = "1 epoch"

[averaging]
from = "50%"
every = "3 steps"

[checkpoints]
every = "2.5 epochs"
"#;
    let experiment = Draft::parse("durations.toml", text).unwrap().resolve().unwrap();
    // 20 steps an epoch, 200 in all.
    assert_eq!((experiment.steps_per_epoch(), experiment.steps()), (20, 200));
    assert_eq!((experiment.log_every, experiment.evaluation.every), (10, 20));
    let averaging = experiment.averaging.unwrap();
    assert_eq!((averaging.from, averaging.every), (100, 3));
    assert_eq!(experiment.checkpoints.every, 50);
    let settings = settings(&experiment);
    assert_eq!(settings["exploration"]["steps"].as_integer(), Some(50));
    let lr = &settings["step"]["lr"];
    assert_eq!(lr["last"]["steps"].as_integer(), Some(60));
    assert_eq!(lr["pieces"][0]["until"].as_integer(), Some(20));
    assert_eq!(lr["pieces"][0]["schedule"]["every"].as_integer(), Some(20));
}

#[test]
fn bayes_by_backprop_has_a_default_for_every_field() {
    assert_eq!(resolved(&[]).variational, None);
    let of = |assignment: &str| resolved(&[assignment]).variational.unwrap();
    let bare = of("variational={}");
    assert_eq!(bare, Variational::default());
    let prior = of("variational.prior.sigma1=0.5").prior;
    assert_eq!(prior, ScaleMixture { sigma1: 0.5, ..ScaleMixture::default() });
    // 18 steps an epoch.
    let geometric = of("variational.kl_weight.geometric.batches=1 epoch");
    assert_eq!(geometric.kl_weight, KlWeight::Geometric { batches: 18 });
    let colder = "variational.kl_weight.constant=0.1";
    let colder = resolved(&["variational.kl_weight={geometric={batches=3}}", colder]);
    assert_eq!(colder.variational.unwrap().kl_weight, KlWeight::Constant(0.1));
    let text = colder.to_toml().unwrap();
    assert_eq!(Draft::parse("again", &text).unwrap().resolve().unwrap(), colder);
}

#[test]
fn bayes_by_backprop_learns_and_draws_the_weights_of_an_average() {
    let shop = Workshop::new();
    let adam = "--set optimizer=adam --set optimizer.lr=0.03";
    // An average of the last parameters alone.
    let once = "--set averaging={from=35,every=1}";
    let run = |settings: &str, out: &str| {
        shop.santa(&format!("train tiny.toml {adam} {once} {settings} --out {out}")).done();
        let summary = shop.run(out).summary();
        let nll = |of: &str| summary[of]["test"]["nll"].as_f64().unwrap();
        let apart = (nll("averaged") - nll("last")).abs();
        (summary, apart)
    };
    let (summary, apart) = run("--set variational.rho=-3", "wide");
    // Chance is 90 %.
    assert!(summary["last"]["test"]["error"].as_f64().unwrap() < 0.3, "{summary}");
    assert!(summary["averaged"]["test"]["error"].as_f64().unwrap() < 0.4, "{summary}");
    // Means and scales of 784-8-10.
    assert_eq!(summary["parameters"], 2 * (785 * 8 + 9 * 10));
    assert!(summary["calibration_averaged"].is_object());
    let (wrong, error) = (&summary["wrong_averaged"], &summary["averaged"]["test"]["error"]);
    // Of the 2,000 built-in test digits.
    assert_eq!(wrong.as_array().unwrap().len() as f64 / 2_000.0, error.as_f64().unwrap());
    let records = shop.run("wide").records();
    let layers = records.iter().find(|record| record["kind"] == "layers").unwrap();
    let names: Vec<_> =
        layers["layers"].as_array().unwrap().iter().map(|layer| &layer["name"]).collect();
    assert_eq!((names[0], names[7]), (&"dense1.weight.mu".into(), &"dense2.bias.rho".into()));
    // The wider the Gaussians, the farther a draw is from their means.
    let frozen = "--set groups=[{pattern=\"*.rho\",frozen=true}]";
    let (_, narrow) = run(&format!("--set variational.rho=-18 {frozen}"), "narrow");
    assert!(narrow < 1e-5 && apart > 1e-3, "{narrow} {apart}");
}

/// [`TINY`] with one more line at its beginning, which is line 1.
fn with_line(line: &str) -> String {
    format!("{line}{TINY}")
}

/// [`TINY`] with a text replaced.
fn with(from: &str, to: &str) -> String {
    assert!(TINY.contains(from));
    TINY.replace(from, to)
}

#[test]
fn what_is_wrong_in_a_file_is_refused_by_file_line_and_field_and_nothing_is_made() {
    let santa = r#"optimizer = "santa""#;
    let optimizer = |text: &str| with(santa, &format!("[optimizer]\n{text}\n"));
    let music = |line: &str| {
        format!("{line}\nname = \"m\"\nepochs = 2\noptimizer = \"sgd\"\ndata.set = \"jsb\"\n")
            + "model = { kind = \"gru\", hidden = 3 }\n"
    };
    let cases = [
        (with_line("epoch = 3"), "line 1, field `epoch`", "did you mean `epochs`?"),
        (with("hidden", "hiden = 1\nhidden"), "line 14, field `model.hiden`", "`hidden`?"),
        (with("validation", "divisr = 1\nvalidation"), "line 10, field `data.divisr`", "divisor"),
        (with("= 2", "= \"many\""), "line 4, field `epochs`", "invalid type: string"),
        (with("= 500", "= -1"), "line 5, field `batch`", "-1"),
        (with("= 500", "= 0"), "line 5, field `batch`", "at least 1"),
        (with("= 500", "= 9001"), "line 5, field `batch`", "of 9000 to train on"),
        (with("\"dense\"", "\"dens\""), "line 13, field `model.kind`", "did you mean `dense`?"),
        (with("\"dense\"", "\"gru\""), "line 12, field `model`", "expected a whole number"),
        (with("= 2", "= = 2"), "line 4", ""),
        (with_line("log_every = \"7 years\""), "line 1, field `log_every`", "7 years"),
        (with_line("log_every = 0"), "line 1, field `log_every`", "at least 1"),
        (with_line("checkpoints.every = \"0.01 epochs\""), "field `checkpoints.every`", "0 steps"),
        (with_line("averaging.every = 3"), "line 1, field `averaging`", "missing field `from`"),
        (
            with(santa, "optimizer = \"adm\""),
            "line 6, field `optimizer.like`",
            "did you mean `adam`?",
        ),
        (with(santa, "optimizer = 3"), "line 6, field `optimizer`", "a name or a table"),
        (with(santa, ""), "field `optimizer`: it is missing", "`santa presets`"),
        (with("mnist-subset", "mnits"), "line 9, field `data.set`", "did you mean `mnist`?"),
        (with("mnist-subset", "jsb"), "field `data.validation`", "of its own"),
        (with("= 1000", "= 10000"), "line 10, field `data.validation`", "leave some to train on"),
        (
            with("validation = 1000", "").replace("seed = 7", "early_stopping.patience = 1"),
            "line 3, field `early_stopping`",
            "data.validation",
        ),
        (with("\"tiny\"", "\"a/b\""), "line 2, field `name`", "it names a folder"),
        (with_line("checkpoints.keep = 0"), "line 1, field `checkpoints.keep`", "at least 1"),
        // What would be ignored.
        (with_line("averaging = { from = 36, every = 1 }"), "field `averaging.from`", "36 of 36"),
        (with_line("early_stopping.patience = 0"), "`early_stopping.patience`", "at least 1"),
        (
            with_line("early_stopping = { patience = 1, by = \"averaged\" }"),
            "field `early_stopping.by`",
            "nothing is averaged",
        ),
        (music("data.divisor = 126"), "field `data.divisor`", "no pixels"),
        (music("data.limit = 9"), "field `data.limit`", "learnt whole"),
        (with("validation", "limit = 9001\nvalidation"), "line 10, field `data.limit`", "of 9000"),
        (with("validation", "limit = 0\nvalidation"), "line 10, field `data.limit`", "at least 1"),
        (music("data.split_seed = 1"), "field `data.split_seed`", "nothing is split off"),
        (
            music("averaging = { from = 1, every = 1, pooling = \"log_probabilities\" }"),
            "line 1, field `averaging.pooling`",
            "leave it at `probabilities`",
        ),
        (music("variational = {}"), "line 1, field `variational`", "not for music"),
        (
            with_line("variational = {}\nprior = { kind = \"gaussian\", precision = 1.0 }"),
            "line 2, field `prior`",
            "`variational.prior` takes its place",
        ),
        (
            with_line("variational = {}\ngroups = [{ pattern = \"*.mu\", prior.kind = \"flat\" }]"),
            "line 2, field `groups`",
            "`*.mu` has a prior",
        ),
        (
            with_line("variational.kl_weight.geometric.batches = 0"),
            "`variational.kl_",
            "at least 1",
        ),
        (
            music("smoothness = [{ pattern = \"*\", precision = 1.0 }]"),
            "line 1, field `smoothness`",
            "not for music",
        ),
        (
            with_line(
                "variational = {}\nsmoothness = [{ pattern = \"dense1.weight\", precision = 1.0 }]",
            ),
            "line 2, field `smoothness`",
            "`variational.prior` takes its place",
        ),
        (
            with_line("smoothness = [{ pattern = \"*\", precission = 1.0 }]"),
            "line 1, field `smoothness",
            "did you mean `precision`?",
        ),
        // What the library refuses.
        (
            with_line("smoothness = [{ pattern = \"dense1.weight\", precision = 1.0 }]"),
            "line 1, field `smoothness`",
            "that see an image",
        ),
        (
            with_line("smoothness = [{ pattern = \"*\", precision = -1.0 }]"),
            "line 1, field `smoothness`",
            "a precision of -1 for `*`",
        ),
        (with_line("variational.rho = nan"), "line 1, field `variational.rho`", "finite"),
        (with_line("variational.prior.pi = 2"), "line 1, field `variational.prior.pi`", "within 0"),
        (
            with_line("variational.kl_weight.constant = -1.0"),
            "line 1, field `variational.kl_weight.constant`",
            "zero or positive",
        ),
        (optimizer("like = \"adam\"\nlrr = 1"), "line 8, field `optimizer.lrr`", "`lr`?"),
        (
            optimizer("like = \"santa\"\nmomentum = 1.5"),
            "line 8, field `optimizer.momentum`",
            "1.5",
        ),
        (optimizer("like = \"sgd\"\nmomentum = 1.5"), "line 8, field `optimizer.momentum`", "1.5"),
        (optimizer("like = \"santa\"\nlr = -1"), "line 8, field `optimizer.lr`", "-1"),
        (optimizer("like = \"sgld\"\nlr = -1"), "line 8, field `optimizer.lr`", "-1"),
        (optimizer("like = \"sgd\"\nlr = nan"), "line 8, field `optimizer.lr`", "NaN"),
        (
            optimizer("like = \"sghmc\"\nstep.lr = 0"),
            "line 8, field `optimizer.step.lr`",
            "positive",
        ),
        (with_line("clip.norm = -1"), "line 1, field `clip.norm`", "positive"),
        (with("[8]", "[0]"), "line 12, field `model`", "units"),
    ];
    for (text, place, words) in cases {
        let shop = Workshop::new();
        shop.write("bad.toml", &text);
        let said = shop.santa("train bad.toml");
        said.refuses(2, &["bad.toml", place, words]);
        assert_eq!(shop.files(), ["bad.toml", "tiny.toml"], "{place}");
    }
}

#[test]
fn what_is_wrong_on_the_command_line_is_refused_by_argument_and_nothing_is_made() {
    let shop = Workshop::new();
    let cases = [
        ("epochs", "there is no `=`"),
        ("=3", "no path of a field"),
        ("a..b=3", "no path of a field"),
        ("epochs=many", "invalid type: string"),
        ("epohs=3", "did you mean `epochs`?"),
        ("optimzer.lr=3", "did you mean `optimizer`?"),
        ("optimizer.beta.kid=3", "unknown field `kid`"),
        ("optimizer=adm", "did you mean `adam`?"),
        ("data.set=mnits", "did you mean `mnist`?"),
        ("model.kind=dens", "did you mean `dense`?"),
        ("log_every=0", "at least 1"),
        ("chains=0", "equal share"),
        ("chains=3", "it is 3, of 2 epochs"),
        ("optimizer.lr=-1", "positive"),
        ("optimizer.momentum=1.5", "between 0 and 1"),
    ];
    for (assignment, words) in cases {
        let said = shop.santa(&format!("train tiny.toml --set {assignment}"));
        said.refuses(2, &[&format!("--set {assignment}"), words]);
    }
    for (args, words) in [
        ("train tiny.toml --set epochs.x=1", "field `epochs`: invalid type"),
        ("train quikstart", "did you mean `quickstart`?"),
        ("train zzz", "`santa presets` lists"),
        ("train tiny.toml --set chains=2 --set early_stopping.patience=3", "or `chains`"),
        (
            "train tiny.toml --set chains=2 --set averaging={from=18,every=1}",
            "it is step 18 of 18: begin before the end of each chain",
        ),
        ("sample tiny.toml --set optimizer=sghmc --set chains=2", "`--chains`"),
        ("train .", "is no run"),
        ("train tiny.toml --threads 0", "--threads 0"),
        ("compare tiny.toml --optimizers adam,adm", "--optimizers adm"),
        ("compare tiny.toml --vary batch", "--vary batch"),
        ("compare tiny.toml --vary batch=10,x", "--vary batch=10,x"),
        ("compare tiny.toml --seeds 0", "--seeds 0"),
        ("compare tiny.toml --jobs 0", "--jobs 0"),
        ("compare tiny.toml tiny.toml", "the same run twice"),
        ("sweep tiny.toml --over lr", "--over lr"),
        ("sweep tiny.toml --over optimizer.lr=log(1,0)", "two rising numbers"),
        ("sweep tiny.toml --over optimizer.lr=log(1e-4,1e-1)", "`--samples`"),
        ("sweep tiny.toml --over optimizer.lr=1 --by nll-averaged", "averages no predictions"),
        (
            "sweep tiny.toml --over optimizer.lr=1 --by nll-averaged --set averaging={from=30,every=10}",
            "averages no predictions",
        ),
        ("sweep tiny.toml --over epochs=1 --set data.validation=0", "no validation data"),
        ("sweep tiny.toml --over epochs=1 --seeds 0", "--seeds 0"),
        ("presets show quikstart", "did you mean \"quickstart\"?"),
    ] {
        shop.santa(args).refuses(2, &[words]);
    }
    assert_eq!(shop.files(), ["tiny.toml"]);
}

#[test]
fn data_that_are_not_there_end_with_3_and_nothing_is_made() {
    let shop = Workshop::new();
    for name in ["mnist-fnn-400", "jsb"] {
        shop.santa(&format!("train {name}")).refuses(3, &["is missing", "SANTA_DATA"]);
    }
    assert_eq!(shop.files(), ["tiny.toml"]);
}
