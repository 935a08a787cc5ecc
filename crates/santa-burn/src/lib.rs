//! Santa and its samplers as optimizers of Burn.
