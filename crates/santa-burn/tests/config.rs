//! Settings: what a drop-in does without being told, and what is refused.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use santa::dynamics::{Exploration, Sghmc};
use santa::{Algorithm, InverseTemperature, OnTrouble, Prior, Santa, StepSize};
use santa_burn::{DynamicsConfig, SantaConfig, StepperConfig};

fn santa_of(config: &SantaConfig) -> Santa {
    match config.build().algorithm() {
        Algorithm::Santa(santa) => santa.clone(),
        other => panic!("{} in place of Santa", other.name()),
    }
}

#[test]
fn without_being_told_anything_santa_refines_and_draws_no_noise() {
    let expected = Santa { step: StepSize::practical(1.0, 0.9), ..Santa::default() };
    assert_eq!(santa_of(&SantaConfig::new()), expected);
}

#[test]
fn told_n_and_the_steps_it_is_the_preset_in_place_of_adam() {
    let config = SantaConfig::new().with_data_size(Some(60_000)).with_steps(Some(10_000));
    assert_eq!(santa_of(&config), Santa::new(1.0, 10_000));
    let santa =
        santa_of(&config.with_exploring(0.3).with_beta(Some(InverseTemperature::fixed(9.0))));
    assert_eq!(santa.exploration, Exploration::Steps(3_000));
    assert_eq!(santa.beta, InverseTemperature::fixed(9.0));
}

#[test]
fn a_weight_decay_is_the_prior_of_its_precision() {
    let config = SantaConfig::new().with_data_size(Some(1_000)).with_weight_decay(Some(1e-3));
    assert_eq!(config.to_dynamics().unwrap().prior, Prior::gaussian(1.0));
    let config = SantaConfig::new().with_weight_decay(Some(1e-3));
    assert_eq!(config.to_dynamics().unwrap().prior, Prior::gaussian(1e-3));
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let new = SantaConfig::new;
    for (config, words) in [
        (new().with_steps(Some(100)), "data_size"),
        (new().with_data_size(Some(0)), "data_size"),
        (new().with_prior_precision(Some(1.0)), "prior_precision"),
        (new().with_prior_precision(Some(1.0)).with_weight_decay(Some(1.0)), "weight_decay"),
        (new().with_momentum(1.0), "momentum"),
        (new().with_sigma(1.5), "sigma"),
        (new().with_data_size(Some(9)).with_steps(Some(9)).with_exploring(2.0), "exploring"),
        (new().with_on_trouble(OnTrouble::RollBack { every: 1, at_most: 1 }), "on_trouble"),
    ] {
        let message = config.try_build().unwrap_err().to_string();
        assert!(message.contains(words), "{words}: {message}");
        assert!(config.try_init().is_err());
    }
}

#[test]
fn settings_are_the_same_after_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("optimizer.json");
    let config = SantaConfig::new()
        .with_data_size(Some(10))
        .with_steps(Some(20))
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)));
    config.save(&path).unwrap();
    let back = SantaConfig::load(&path).unwrap();
    assert_eq!(back.to_string(), config.to_string());
    assert_eq!(santa_of(&back), santa_of(&config));

    let config = DynamicsConfig::new(Sghmc::new(StepSize::heavy_ball(1.0, 0.9))).with_seed(7);
    config.save(&path).unwrap();
    let back = DynamicsConfig::load(&path).unwrap();
    assert_eq!((back.algorithm, back.seed), (config.algorithm, 7));

    let config = StepperConfig::new(Santa::new(1e-3, 10)).with_chain(3);
    config.save(&path).unwrap();
    let back = StepperConfig::load(&path).unwrap();
    assert_eq!((back.algorithm, back.chain), (config.algorithm, 3));
}
