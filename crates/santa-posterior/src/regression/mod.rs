//! Regression models as potentials.
