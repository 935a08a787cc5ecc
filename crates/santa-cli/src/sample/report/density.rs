//! The density of some draws, estimated with a Gaussian kernel.

/// Places at which the density is computed.
const PLACES: usize = 256;

/// The density of draws between the least and the largest of them, as points of a curve: $n$ draws
/// $x_i$ have
///
/// $$\hat f(x) = \frac{1}{n h} \sum_i K\left(\frac{x - x_i}{h}\right),$$
///
/// $K$ being the standard normal density and $h$ Silverman's bandwidth. The draws are first shared
/// out among equidistant places, so that the time is linear in their number. Both ends are mirrors:
/// a quantity that cannot be negative loses nothing below zero.
///
/// Nothing for draws that are all equal, or so wide apart that their distance is no number.
pub fn density(draws: &[f64]) -> Option<Vec<(f64, f64)>> {
    let low = draws.iter().copied().fold(f64::INFINITY, f64::min);
    let high = draws.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let last = PLACES - 1;
    let distance = (high - low) / last as f64;
    if !(distance > 0.0 && distance.is_finite()) {
        return None;
    }
    // From here in units of the distance between places: no overflow, whatever the draws.
    let mut scaled: Vec<f64> = draws.iter().map(|x| (x - low) / distance).collect();
    let weights = shares(&scaled);
    // A kernel narrower than the distance would show the places, not the draws.
    let h = bandwidth(&mut scaled).max(1.0);
    let kernel: Vec<f64> = (0..2 * PLACES).map(|d| (-0.5 * (d as f64 / h).powi(2)).exp()).collect();
    let height = 1.0 / (draws.len() as f64 * h * (2.0 * std::f64::consts::PI).sqrt() * distance);
    let points = (0..PLACES).map(|place| {
        let seen = weights.iter().enumerate().map(|(i, w)| {
            w * (kernel[place.abs_diff(i)] + kernel[place + i] + kernel[2 * last - place - i])
        });
        (low + place as f64 * distance, height * seen.sum::<f64>())
    });
    Some(points.collect())
}

/// How many draws each place has; one between two places is divided in proportion.
fn shares(scaled: &[f64]) -> Vec<f64> {
    let mut weights = vec![0.0; PLACES];
    for &x in scaled {
        let left = (x as usize).min(PLACES - 2);
        let right_share = x - left as f64;
        weights[left] += 1.0 - right_share;
        weights[left + 1] += right_share;
    }
    weights
}

/// Silverman's rule of thumb (1986, equation 3.31): 0.9 times the standard deviation, or the
/// interquartile range over 1.34 if that is less, times $n^{-1/5}$. Changes the order.
fn bandwidth(draws: &mut [f64]) -> f64 {
    /// Interquartile range of the standard normal distribution, as Silverman rounds it.
    const NORMAL_RANGE: f64 = 1.34;
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let deviation = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let mut quartile = |quarters: usize| {
        let at = (draws.len() - 1) * quarters / 4;
        *draws.select_nth_unstable_by(at, f64::total_cmp).1
    };
    let range = quartile(3) - quartile(1);
    // More than half of the draws may be equal.
    let spread = if range > 0.0 { deviation.min(range / NORMAL_RANGE) } else { deviation };
    0.9 * spread * n.powf(-0.2)
}

#[cfg(test)]
mod tests {
    use super::super::testing::normals;
    use super::*;

    fn integral(points: &[(f64, f64)]) -> f64 {
        points.windows(2).map(|p| (p[1].0 - p[0].0) * (p[0].1 + p[1].1) / 2.0).sum()
    }

    fn at(points: &[(f64, f64)], x: f64) -> f64 {
        let near = |p: &&(f64, f64)| (p.0 - x).abs();
        points.iter().min_by(|a, b| near(a).total_cmp(&near(b))).unwrap().1
    }

    #[test]
    fn normal_draws_have_the_normal_density() {
        let points = density(&normals(0, 20_000)).unwrap();
        assert!((integral(&points) - 1.0).abs() < 1e-3, "{}", integral(&points));
        for x in [-2.0f64, -1.0, 0.0, 0.5, 1.5] {
            let truth = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((at(&points, x) - truth).abs() < 0.02, "{x}: {} {truth}", at(&points, x));
        }
    }

    #[test]
    fn nothing_is_lost_below_an_end() {
        let absolute: Vec<f64> = normals(0, 20_000).into_iter().map(f64::abs).collect();
        let points = density(&absolute).unwrap();
        let truth = 2.0 / (2.0 * std::f64::consts::PI).sqrt();
        assert!((points[0].1 - truth).abs() < 0.05, "{} {truth}", points[0].1);
        assert!((integral(&points) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_sum_over_places_is_the_sum_over_draws() {
        let draws = normals(0, 500);
        let points = density(&draws).unwrap();
        let (low, high) = (points[0].0, points[PLACES - 1].0);
        let distance = (high - low) / (PLACES - 1) as f64;
        let h = bandwidth(&mut draws.clone());
        assert!(h > distance);
        for &(x, found) in points.iter().step_by(15) {
            let kernel = |y: f64| (-0.5 * ((x - y) / h).powi(2)).exp();
            let mirrored = |y: f64| kernel(y) + kernel(2.0 * low - y) + kernel(2.0 * high - y);
            let sum: f64 = draws.iter().map(|&y| mirrored(y)).sum();
            let exact = sum / (500.0 * h * (2.0 * std::f64::consts::PI).sqrt());
            assert!((found - exact).abs() < 2e-3, "{x}: {found} {exact}");
        }
    }

    #[test]
    fn draws_without_width_have_no_density() {
        assert_eq!(density(&[]), None);
        assert_eq!(density(&[3.0]), None);
        assert_eq!(density(&[3.0; 10]), None);
        assert_eq!(density(&[f64::MIN, f64::MAX]), None);
        assert_eq!(density(&[0.0, 5e-324]), None);
        assert_eq!(density(&[0.0, 1e300]).unwrap().len(), PLACES);
    }
}
