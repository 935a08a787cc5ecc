//! The fast Fourier transform of powers of two.

use std::f64::consts::TAU;

/// Replaces $z = re + i\ im$ by $\hat z_k = \sum_j z_j e^{-2 \pi i jk/n}$, in place, by
/// Cooley and Tukey's halving.
///
/// # Panics
/// If the lengths differ or are no power of two.
pub(super) fn transform(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    assert!(n.is_power_of_two() && im.len() == n, "{n} and {} numbers", im.len());
    if n == 1 {
        return;
    }
    let shift = usize::BITS - n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> shift;
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    // Each angle by itself, since a recurrence would add up its rounding.
    let turns: Vec<(f64, f64)> =
        (0..n / 2).map(|k| (TAU * k as f64 / n as f64).sin_cos()).collect();
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (sin, cos) = turns[k * stride];
                let (a, b) = (start + k, start + k + half);
                let (x, y) = (re[b] * cos + im[b] * sin, im[b] * cos - re[b] * sin);
                (re[b], im[b]) = (re[a] - x, im[a] - y);
                (re[a], im[a]) = (re[a] + x, im[a] + y);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    #[test]
    fn the_fast_transform_is_the_sum_of_its_definition() {
        for n in [1usize, 2, 4, 64] {
            let mut numbers = vec![0.0; 2 * n];
            Stream::new(1, 0, Purpose::Custom(0)).normals(0, 0, 0, &mut numbers);
            let (re, im) = numbers.split_at(n);
            let (mut fast_re, mut fast_im) = (re.to_vec(), im.to_vec());
            transform(&mut fast_re, &mut fast_im);
            for k in 0..n {
                let (mut x, mut y) = (0.0, 0.0);
                for j in 0..n {
                    let (sin, cos) = (-TAU * (j * k % n) as f64 / n as f64).sin_cos();
                    x += re[j] * cos - im[j] * sin;
                    y += re[j] * sin + im[j] * cos;
                }
                assert!((fast_re[k] - x).abs() < 1e-13 && (fast_im[k] - y).abs() < 1e-13);
            }
        }
    }
}
