//! Santa and its samplers as optimizers of Candle.
