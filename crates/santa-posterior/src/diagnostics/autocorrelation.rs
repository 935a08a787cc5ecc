//! How much a chain remembers.

use super::chains::mean;
use super::fft::transform;

/// Autocovariance of one chain at the lags $0 \ldots N - 1$:
///
/// $$ c_t = \frac{1}{N} \sum_{n=1}^{N-t} (\theta_n - \bar\theta)(\theta_{n+t} - \bar\theta) $$
///
/// The divisor is $N$ at every lag, which keeps the sequence positive definite. In
/// $O(N \log N)$ operations, by Wiener and Khinchin's theorem.
pub fn autocovariance(chain: &[f64]) -> Vec<f64> {
    mean_autocovariance(&[chain])
}

/// Autocorrelation of one chain, $c_t / c_0$, at the lags $0 \ldots N - 1$; NaN for a chain that does
/// not move.
pub fn autocorrelation(chain: &[f64]) -> Vec<f64> {
    if chain.windows(2).all(|pair| pair[0] == pair[1]) {
        return vec![f64::NAN; chain.len()];
    }
    let mut correlation = autocovariance(chain);
    let variance = correlation[0];
    correlation.iter_mut().for_each(|c| *c /= variance);
    correlation
}

/// The mean over chains of one length of their autocovariances.
///
/// Two chains $a$ and $b$ share a transform: the real part of the autocovariance of $a + ib$ is the
/// sum of theirs. The sum over chains is taken before the way back, which is therefore gone once.
pub(super) fn mean_autocovariance<C: AsRef<[f64]>>(chains: &[C]) -> Vec<f64> {
    let n = chains.first().map_or(0, |chain| chain.as_ref().len());
    if n == 0 {
        return Vec::new();
    }
    // Zeros behind the chain keep its end from meeting its beginning.
    let padded = (2 * n).next_power_of_two();
    let mut power = vec![0.0; padded];
    let (mut re, mut im) = (vec![0.0; padded], vec![0.0; padded]);
    for pair in chains.chunks(2) {
        centred(pair[0].as_ref(), &mut re);
        centred(pair.get(1).map_or(&[], AsRef::as_ref), &mut im);
        transform(&mut re, &mut im);
        for k in 0..padded {
            power[k] += re[k] * re[k] + im[k] * im[k];
        }
    }
    // The spectrum is real, so forward and backward differ by the sign of the imaginary part only.
    im.fill(0.0);
    transform(&mut power, &mut im);
    power.truncate(n);
    let scale = 1.0 / (padded as f64 * n as f64 * chains.len() as f64);
    power.iter_mut().for_each(|c| *c *= scale);
    power
}

/// The chain without its mean, and zeros behind it.
fn centred(chain: &[f64], out: &mut [f64]) {
    let centre = mean(chain);
    out.fill(0.0);
    for (out, x) in out.iter_mut().zip(chain) {
        *out = x - centre;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::noise::{Purpose, Stream};

    fn direct(chain: &[f64], lag: usize) -> f64 {
        let centre = mean(chain);
        let products = chain.iter().zip(&chain[lag..]).map(|(a, b)| (a - centre) * (b - centre));
        products.sum::<f64>() / chain.len() as f64
    }

    #[test]
    fn the_fast_autocovariance_is_the_sum_of_its_definition() {
        for n in [2usize, 5, 64, 101] {
            let chains: Vec<Vec<f64>> = (0..3)
                .map(|c| {
                    let mut chain = vec![0.0; n];
                    Stream::new(7, c, Purpose::Custom(0)).normals(0, 0, 0, &mut chain);
                    chain
                })
                .collect();
            let single = autocovariance(&chains[0]);
            let shared = mean_autocovariance(&chains);
            assert_eq!((single.len(), shared.len()), (n, n));
            for t in 0..n {
                assert!((single[t] - direct(&chains[0], t)).abs() < 1e-14);
                let average = chains.iter().map(|chain| direct(chain, t)).sum::<f64>() / 3.0;
                assert!((shared[t] - average).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn a_chain_that_does_not_move_has_no_autocorrelation() {
        assert!(autocorrelation(&[0.1; 9]).iter().all(|r| r.is_nan()));
        assert!(autocorrelation(&[]).is_empty());
        assert_eq!(autocorrelation(&[1.0, -1.0])[0], 1.0);
    }
}
