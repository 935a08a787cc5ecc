//! The built-in experiments and optimizers.

/// A TOML text with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The text.
    pub toml: &'static str,
}

impl Preset {
    /// The text's own description.
    pub fn description(&self) -> String {
        let table: Option<toml::Table> = self.toml.parse().ok();
        let description = table.as_ref().and_then(|t| t.get("description")?.as_str());
        description.unwrap_or_default().to_string()
    }
}

macro_rules! presets {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Preset {
            name: $name,
            toml: include_str!(concat!("../../", $folder, "/", $name, ".toml")),
        }),*]
    };
}

/// The built-in experiments.
pub const EXPERIMENTS: &[Preset] = presets!("presets":
    "quickstart", "mnist-fnn-400", "mnist-fnn-800", "mnist-cnn",
    "jsb", "nottingham", "musedata", "piano-midi",
);

/// The built-in settings of optimizers and samplers.
pub const OPTIMIZERS: &[Preset] = presets!("optimizers":
    "santa", "santa-e", "santa-r", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "sgd", "sgd-m",
    "sgld", "psgld", "sghmc", "sgnht", "msgnht",
);

/// The settings of an optimizer.
pub fn optimizer(name: &str) -> Option<&'static str> {
    OPTIMIZERS.iter().find(|preset| preset.name == name).map(|preset| preset.toml)
}
