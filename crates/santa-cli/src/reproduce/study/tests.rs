use super::cells::cells;
use super::choice::{chosen, finalists};
use super::ledger::{Entry, Ledgers, Role, key_of};
use super::schema::{Place, Study};
use super::{ABLATION, TABLE1, TABLE2};
use crate::experiment::Experiment;
use crate::run::machine::machine;
use crate::run::record::{Score, Scores};
use crate::train::{Plan, check};
use santa::dynamics::AuthorsRun;
use santa::{InverseTemperature, Prior, Santa, Schedule, StepSize};

fn study((name, text): (&str, &str)) -> Study {
    Study::parse(name, name, text).unwrap()
}

fn place(protocol: &str, column: &str, row: &str) -> Place {
    Place { protocol: protocol.into(), column: column.into(), row: row.into() }
}

/// How Santa's settings were found.
const SEARCH: (&str, &str) = ("table1", include_str!("../../../experiments/search-fnn-400.toml"));
const WIDER: (&str, &str) = ("table1", include_str!("../../../experiments/search-fnn-800.toml"));
const IMAGES: (&str, &str) = ("table1", include_str!("../../../experiments/search-cnn.toml"));
const MUSIC: (&str, &str) = ("table2", include_str!("../../../experiments/search-jsb.toml"));

#[test]
fn every_run_of_every_study_is_an_experiment_that_fits_its_model() {
    let studies = [TABLE1, TABLE2, ABLATION, SEARCH, WIDER, IMAGES, MUSIC];
    for (small, named) in studies.iter().flat_map(|s| [(false, s), (true, s)]) {
        let study = study(*named).sized(small);
        for place in study.places() {
            // All of a grid differ in numbers alone.
            for fields in study.grid(&place).into_iter().take(1) {
                let mut drafts = vec![study.run(&place, &fields, 1).unwrap()];
                let chosen_here = study.column(&place).chosen_on.is_none();
                if study.protocol(&place).tuning.is_some() && chosen_here {
                    drafts.push(study.trial(&place, &fields).unwrap());
                }
                for draft in drafts {
                    let plan = Plan::new(draft, "runs".as_ref());
                    let fits = plan.and_then(|plan| check(&plan));
                    assert!(fits.is_ok(), "{place:?} {fields:?}: {}", fits.unwrap_err());
                }
            }
        }
    }
}

#[test]
fn trials_hold_data_out_and_leave_the_test_data_alone() {
    let study = study(TABLE1);
    for place in study.places().iter().filter(|place| place.protocol == "fair") {
        let fields = study.grid(place).pop().unwrap();
        let run = study.run(place, &fields, 1).unwrap().resolve().unwrap();
        assert_eq!((run.data.validation, run.data.training_size()), (0, 60_000));
        if study.column(place).chosen_on.is_none() {
            let mut trials = vec![study.trial(place, &fields).unwrap()];
            if study.finals(place).is_some() {
                trials.push(study.final_trial(place, &fields, 1).unwrap());
            }
            for trial in trials {
                let trial = trial.resolve().unwrap();
                assert_eq!((trial.data.validation, trial.evaluation.test), (10_000, false));
            }
        }
    }
}

#[test]
fn a_row_with_more_to_try_than_the_others_is_refused() {
    let unfair = TABLE1.1.replacen("\"optimizer.lr\" = [0.5, 1.0]", "\"optimizer.lr\" = [0.5]", 1);
    let refused = Study::parse("table1", "table1", &unfair).unwrap_err().to_string();
    assert!(refused.contains("not 12"), "{refused}");
}

#[test]
fn fields_that_go_together_are_one_choice() {
    let (study, place) = (study(TABLE1), place("fair", "fnn-400", "sgd"));
    let grid = study.grid(&place);
    let has = |name: &'static str| {
        grid.iter().filter(move |fields| fields.iter().any(|(n, _)| n == name))
    };
    assert_eq!((grid.len(), has("prior.precision").count(), has("groups").count()), (12, 12, 4));
    for fields in has("groups") {
        let run = study.run(&place, fields, 1).unwrap().resolve().unwrap();
        assert_eq!(run.prior, Prior::gaussian(3.0));
        assert_eq!(run.groups[0].prior, Some(Prior::gaussian(10.0)));
    }
    // A row without them has the same prior everywhere.
    let fields = grid.iter().find(|fields| fields.len() == 2).unwrap();
    assert!(study.run(&place, fields, 1).unwrap().resolve().unwrap().groups.is_empty());
}

#[test]
fn what_is_taken_over_is_chosen_from_the_list_of_the_other_column() {
    let study = study(TABLE1);
    let grid = |column| study.grid(&place("fair", column, "sgd"));
    assert_eq!(grid("cnn-code"), grid("cnn"));
    assert_eq!(grid("fnn-800"), grid("fnn-400"));
    assert_ne!(grid("cnn"), grid("fnn-400"));
}

#[test]
fn a_protocol_may_be_for_some_columns_alone() {
    let places = study(TABLE1).places();
    assert!(places.contains(&place("fair", "cnn-code", "santa")));
    assert!(places.contains(&place("authors", "cnn", "santa")));
    assert!(!places.contains(&place("authors", "cnn-code", "santa")));
}

#[test]
fn rows_of_a_column_differ_in_how_they_learn_and_not_in_what() {
    for named in [TABLE1, TABLE2, ABLATION] {
        let study = study(named);
        for place in study.places() {
            let of = |row: &str| {
                let place = Place { row: row.into(), ..place.clone() };
                let fields = study.grid(&place).pop().unwrap();
                study.run(&place, &fields, 1).unwrap().resolve().unwrap()
            };
            let (santa, mut own) = (of("santa"), of(&place.row));
            if place.row == "dropout" {
                own.model = santa.model.clone();
            }
            assert_eq!((&own.model, &own.data), (&santa.model, &santa.data), "{place:?}");
            assert_eq!((own.epochs, own.batch), (santa.epochs, santa.batch), "{place:?}");
            assert_eq!((own.averaging, own.clip), (santa.averaging, santa.clip), "{place:?}");
        }
    }
}

/// The files say in full what the library's presets compute.
#[test]
fn the_authors_santa_is_the_librarys() {
    let of = |named, place: Place| {
        let run = study(named).run(&place, &Vec::new(), 1).unwrap().resolve().unwrap();
        run.optimizer.algorithm
    };
    let mnist = [
        ("fnn-400", AuthorsRun::Fnn400),
        ("fnn-800", AuthorsRun::Fnn800),
        ("cnn", AuthorsRun::Cnn),
    ];
    for (column, run) in mnist {
        let preset = Santa::authors(run, 600);
        assert_eq!(of(TABLE1, place("authors", column, "santa")), preset.into(), "{column}");
    }
    // Music: the same but for N, which the files have and the authors leave out.
    let (n, steps) = (229, 13_807);
    let run = AuthorsRun::Rnn { eta: 1e-3, epochs: 100, time_steps: steps };
    let preset = Santa {
        step: StepSize::practical(2e-3, 0.5),
        beta: InverseTemperature::annealed(Schedule::power(1.0 / n as f64, 0.0, 0.5)),
        ..Santa::authors(run, n)
    };
    assert_eq!(of(TABLE2, place("authors", "jsb", "santa")), preset.into());
}

#[test]
fn what_a_file_does_not_mean_is_refused_by_name() {
    let refused = |from: &str, to: &str| {
        assert!(TABLE1.1.contains(from), "{from}");
        let text = TABLE1.1.replacen(from, to, 1);
        Study::parse("table1", "my.toml", &text).unwrap_err().to_string()
    };
    let cases = [
        ("chosen_on = \"fnn-400\"", "chosen_on = \"fnn-40\"", "fnn-40"),
        ("chosen_on = \"fnn-400\"", "chosen_on = \"fnn-800\"", "no trials"),
        ("cnn = 0.47 }", "cn = 0.47 }", "`cn`"),
        ("columns.cnn.search", "columns.cnn.serch", "serch"),
        ("score = \"error\"", "score = \"error\"\nscores = 1", "scores"),
        ("seeds_of = { fnn-800", "seeds_of = { fnn-80", "`fnn-80`"),
        ("only = [\"fnn-400\", ", "only = [\"fnn\", ", "`fnn`"),
        ("trials_of = { fnn-800 = 3", "trials_of = { fnn-800 = 4", "3 settings to try in fnn-800"),
        ("only = [\"fnn-400\", \"fnn-800\", \"cnn\"]", "only = [\"cn\"]", "`cn`"),
        ("settings = 3", "settings = 1", "at least two settings"),
        (
            "together = \"priors-800\"",
            "together = \"priors-80\"",
            "santa chooses from a list `priors-80`",
        ),
        ("[lists]", "[lists]\nspare = []", "no row chooses from the list `spare`"),
    ];
    for (from, to, word) in cases {
        let text = refused(from, to);
        assert!(text.contains("my.toml") && text.contains(word), "{to}: {text}");
    }
}

fn entry(experiment: &Experiment, role: Role, error: f64) -> Entry {
    let score = Some(Score { nll: error, error: Some(error) });
    let scores = Some(Scores { validation: score, test: score });
    Entry {
        key: key_of(experiment).unwrap(),
        role,
        seed: experiment.seed,
        chosen: Default::default(),
        epochs: 1.0,
        seconds: 1.0,
        last: scores,
        averaged: scores,
        best_averaged: None,
        best: None,
        diverged: None,
        momentum: None,
        curve: None,
        wrong: None,
        version: "0".into(),
        machine: machine(),
    }
}

#[test]
fn the_best_of_the_finals_is_chosen_once_all_are_finished_and_stored_runs_make_the_cell() {
    let folder = tempfile::tempdir().unwrap();
    let (study, place) = (study(TABLE1), place("fair", "fnn-400", "sgd"));
    let mut ledgers = Ledgers::read(folder.path(), &study.places()).unwrap();
    let grid = study.grid(&place);
    for (i, fields) in grid.iter().enumerate() {
        assert_eq!(chosen(&study, &ledgers, &place).unwrap(), None);
        let trial = study.trial(&place, fields).unwrap().resolve().unwrap();
        // The best three are 3, 5 and 4, in this order.
        let error = [0.02, 0.02, 0.02, 0.01, 0.012, 0.011].get(i).unwrap_or(&f64::NAN);
        ledgers.push(&place, entry(&trial, Role::Trial, *error)).unwrap();
    }
    let best = [3, 5, 4].map(|i: usize| grid[i].clone());
    assert_eq!(finalists(&study, &ledgers, &place).unwrap(), best);
    // In the finals the second of them is best on average, though with no seed alone.
    for (seed, errors) in [(1001, [0.01, 0.011, 0.02]), (1002, [0.02, 0.012, 0.01])] {
        for (fields, error) in best.iter().zip(errors) {
            assert_eq!(chosen(&study, &ledgers, &place).unwrap(), None);
            let again = study.final_trial(&place, fields, seed).unwrap().resolve().unwrap();
            ledgers.push(&place, entry(&again, Role::Final, error)).unwrap();
        }
    }
    assert_eq!(chosen(&study, &ledgers, &place).unwrap().as_ref(), Some(&grid[5]));
    // The larger network takes it over, and chooses a prior.
    let larger = Place { column: "fnn-800".into(), ..place.clone() };
    let priors = finalists(&study, &ledgers, &larger).unwrap();
    assert_eq!((priors.len(), &priors[0]), (3, &grid[5]));
    assert!(
        grid[5]
            .iter()
            .filter(|(name, _)| name == "optimizer.lr")
            .all(|rate| { priors.iter().all(|fields| fields.contains(rate)) })
    );
    for (fields, error) in priors.iter().zip([0.012, 0.011, 0.013]) {
        for seed in [1001, 1002] {
            assert_eq!(chosen(&study, &ledgers, &larger).unwrap(), None);
            let trial = study.final_trial(&larger, fields, seed).unwrap().resolve().unwrap();
            ledgers.push(&larger, entry(&trial, Role::Final, error)).unwrap();
        }
    }
    assert_eq!(chosen(&study, &ledgers, &larger).unwrap().as_ref(), Some(&priors[1]));

    for seed in 1..=2 {
        let run = study.run(&place, &grid[5], seed).unwrap().resolve().unwrap();
        ledgers.push(&place, entry(&run, Role::Run, 0.01 * seed as f64)).unwrap();
    }
    // A run with settings that were not chosen does not count.
    let other = study.run(&place, &grid[0], 3).unwrap().resolve().unwrap();
    ledgers.push(&place, entry(&other, Role::Run, 0.5)).unwrap();
    let read = Ledgers::read(folder.path(), &study.places()).unwrap();
    let cells = cells(&study, &read).unwrap();
    let of = |row: &str, protocol: &str| {
        cells.iter().find(|c| c.row == row && c.protocol == protocol).unwrap().clone()
    };
    let cell = of("sgd", "fair");
    assert_eq!((cell.seeds, cell.paper), (2, Some(1.72)));
    assert!((cell.mean.unwrap() - 1.5).abs() < 1e-9);
    assert!((cell.sd.unwrap() - 0.5f64.sqrt()).abs() < 1e-9);
    assert_eq!(of("maxout", "quoted").paper, Some(0.45));
    assert_eq!(of("adam", "fair").mean, None);
}

#[test]
fn where_runs_stop_by_the_average_its_best_moment_counts_and_of_old_runs_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (study, place) = (study(TABLE2), place("fair", "piano-midi", "sgd"));
    let mut ledgers = Ledgers::read(folder.path(), &study.places()).unwrap();
    for fields in study.grid(&place) {
        let trial = study.trial(&place, &fields).unwrap().resolve().unwrap();
        ledgers.push(&place, entry(&trial, Role::Trial, 8.0)).unwrap();
    }
    let fields = chosen(&study, &ledgers, &place).unwrap().unwrap();
    let mut run = |seed: u64, best: Option<f64>, end: f64| {
        let run = study.run(&place, &fields, seed).unwrap().resolve().unwrap();
        let best = best.and_then(|nll| entry(&run, Role::Run, nll).averaged);
        let entry = Entry { best_averaged: best, ..entry(&run, Role::Run, end) };
        ledgers.push(&place, entry).unwrap();
    };
    run(1, Some(8.1), 8.5);
    run(2, None, 8.3);
    let cells = cells(&study, &ledgers).unwrap();
    let cell = cells.iter().find(|cell| cell.is_at(&place)).unwrap();
    let is = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
    assert!(is(cell.mean, 8.2) && is(cell.averaged, 8.4), "{cell:?}");
}

#[test]
fn settings_whose_first_run_diverged_give_way_to_the_next_best() {
    let folder = tempfile::tempdir().unwrap();
    let (study, place) = (study(TABLE2), place("fair", "musedata", "sgd-m"));
    let mut ledgers = Ledgers::read(folder.path(), &study.places()).unwrap();
    let grid = study.grid(&place);
    for (fields, nll) in grid.iter().zip([7.5, 7.1, 7.3, f64::NAN, f64::NAN, f64::NAN]) {
        let trial = study.trial(&place, fields).unwrap().resolve().unwrap();
        ledgers.push(&place, entry(&trial, Role::Trial, nll)).unwrap();
    }
    let mut chosen_after = |setting: usize, seed: u64, diverged: Option<&str>| {
        let run = study.run(&place, &grid[setting], seed).unwrap().resolve().unwrap();
        let run = Entry { diverged: diverged.map(String::from), ..entry(&run, Role::Run, 7.0) };
        ledgers.push(&place, run).unwrap();
        let chosen = chosen(&study, &ledgers, &place).unwrap();
        grid.iter().position(|fields| Some(fields) == chosen.as_ref()).unwrap()
    };
    assert_eq!(chosen_after(1, 2, Some("a NaN")), 1, "a later seed alone");
    assert_eq!(chosen_after(1, 1, Some("a NaN")), 2);
    assert_eq!(chosen_after(2, 1, None), 2);
    assert_eq!(chosen_after(2, 1, Some("a NaN")), 0);
    assert_eq!(chosen_after(0, 1, Some("a NaN")), 1, "the best, where all diverge");
}

#[test]
fn a_run_is_known_by_what_it_computes_and_not_by_its_name() {
    let study = study(TABLE1);
    let place = place("fair", "fnn-400", "sgd");
    let fields = study.grid(&place).pop().unwrap();
    let run = |seed| study.run(&place, &fields, seed).unwrap().resolve().unwrap();
    let mut renamed = run(1);
    renamed.name = "another".into();
    renamed.optimizer.name = "another".into();
    assert_eq!(key_of(&run(1)).unwrap(), key_of(&renamed).unwrap());
    assert_ne!(key_of(&run(1)).unwrap(), key_of(&run(2)).unwrap());
    let longer = Experiment { epochs: 101, ..run(1) };
    assert_ne!(key_of(&run(1)).unwrap(), key_of(&longer).unwrap());
}

/// With other keys, all that is in the committed ledgers would be made again.
#[test]
fn runs_of_the_committed_ledgers_are_still_known() {
    let study = study(TABLE1);
    let place = place("fair", "fnn-400", "sgd");
    let chosen = |fields: &Vec<(String, toml::Value)>| {
        fields.iter().all(|(_, value)| value.as_float() == Some(1.0))
    };
    let fields = study.grid(&place).into_iter().find(chosen).unwrap();
    let run = study.run(&place, &fields, 1).unwrap().resolve().unwrap();
    assert_eq!(key_of(&run).unwrap(), "b07022217a938269");
}

#[test]
fn two_writers_share_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (study, place) = (study(TABLE1), place("fair", "fnn-400", "sgd"));
    let fields = study.grid(&place).pop().unwrap();
    let each = 20;
    std::thread::scope(|scope| {
        for first in [1, 1 + each] {
            let (study, place, fields, folder) = (&study, &place, &fields, folder.path());
            scope.spawn(move || {
                // Each reads what was there at its beginning, and appends.
                let mut own = Ledgers::read(folder, &study.places()).unwrap();
                for seed in first..first + each {
                    let run = study.run(place, fields, seed).unwrap().resolve().unwrap();
                    own.push(place, entry(&run, Role::Run, 0.01)).unwrap();
                }
            });
        }
    });
    let read = Ledgers::read(folder.path(), &study.places()).unwrap();
    assert_eq!(read.seeds(&place), (1..=2 * each).collect::<Vec<_>>());
}
