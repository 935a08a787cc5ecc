//! Quantiles of the normal and of the beta law.

use crate::special::incomplete_beta;

/// Inverse of the normal distribution function, to about 1e-15: algorithm AS 241 of Wichura (Applied
/// Statistics 37, 1988), whose coefficients these are. Infinite at 0 and 1, NaN outside.
pub(super) fn normal_quantile(p: f64) -> f64 {
    /// Half the width of the central region.
    const CENTRE: f64 = 0.425;
    /// Where the tail begins, in units of $\sqrt{-\log p}$.
    const TAIL: f64 = 5.0;
    /// Origin of the intermediate region, in these units.
    const SHOULDER: f64 = 1.6;
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let q = p - 0.5;
    if q.abs() <= CENTRE {
        return q * ratio(CENTRE * CENTRE - q * q, &CENTRAL);
    }
    let nearest = if q < 0.0 { p } else { 1.0 - p };
    if nearest == 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-nearest.ln()).sqrt();
    let z = if r <= TAIL { ratio(r - SHOULDER, &MIDDLE) } else { ratio(r - TAIL, &FAR) };
    z.copysign(q)
}

/// Numerator and denominator, lowest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio(x: f64, (numerator, denominator): &Rational) -> f64 {
    let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
    polynomial(numerator) / polynomial(denominator)
}

#[rustfmt::skip]
const CENTRAL: Rational = (
    [3.387_132_872_796_366_5, 133.141_667_891_784_38, 1_971.590_950_306_551_3, 13_731.693_765_509_46,
     45_921.953_931_549_87, 67_265.770_927_008_7, 33_430.575_583_588_13, 2_509.080_928_730_122_7],
    [1.0, 42.313_330_701_600_91, 687.187_007_492_057_9, 5_394.196_021_424_751,
     21_213.794_301_586_597, 39_307.895_800_092_71, 28_729.085_735_721_943, 5_226.495_278_852_854],
);
#[rustfmt::skip]
const MIDDLE: Rational = (
    [1.423_437_110_749_683_5, 4.630_337_846_156_546, 5.769_497_221_460_691, 3.647_848_324_763_204_5,
     1.270_458_252_452_368_4, 2.417_807_251_774_506e-1, 2.272_384_498_926_918_4e-2,
     7.745_450_142_783_414e-4],
    [1.0, 2.053_191_626_637_759, 1.676_384_830_183_803_8, 6.897_673_349_851e-1,
     1.481_039_764_274_800_8e-1, 1.519_866_656_361_645_7e-2, 5.475_938_084_995_345e-4,
     1.050_750_071_644_416_9e-9],
);
#[rustfmt::skip]
const FAR: Rational = (
    [6.657_904_643_501_103, 5.463_784_911_164_114, 1.784_826_539_917_291_3,
     2.965_605_718_285_048_7e-1, 2.653_218_952_657_612_4e-2, 1.242_660_947_388_078_4e-3,
     2.711_555_568_743_487_6e-5, 2.010_334_399_292_288_1e-7],
    [1.0, 5.998_322_065_558_88e-1, 1.369_298_809_227_358e-1, 1.487_536_129_085_061_5e-2,
     7.868_691_311_456_133e-4, 1.846_318_317_510_054_8e-5, 1.421_511_758_316_446e-7,
     2.044_263_103_389_939_8e-15],
);

/// Inverse of the distribution function of $\mathrm{Beta}(a, b)$ with $a, b \ge 1$, by bisection.
pub(super) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if incomplete_beta(middle, 1.0 - middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use santa::stats::normal_cdf;

    #[test]
    fn normal_quantiles_are_the_inverse_of_the_distribution_function() {
        for i in 1..2000 {
            let z = f64::from(i - 1000) / 125.0;
            let p = normal_cdf(z.min(-z));
            assert!((normal_quantile(p) + z.abs()).abs() < 1e-13 * z.abs().max(1.0), "at {z}");
        }
        // By scipy.stats.norm.ppf.
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-15);
        assert!((normal_quantile(1e-300) + 37.047_096_299_361_2).abs() < 1e-13);
        assert_eq!(normal_quantile(0.5), 0.0);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert!(normal_quantile(1.5).is_nan() && normal_quantile(f64::NAN).is_nan());
    }

    #[test]
    fn beta_quantiles_are_known_where_the_law_is_a_polynomial() {
        for p in [0.01, 0.2, 0.5, 0.99] {
            assert!((beta_quantile(p, 1.0, 1.0) - p).abs() < 1e-14);
            assert!((beta_quantile(p, 3.0, 1.0) - p.cbrt()).abs() < 1e-14);
            assert!((beta_quantile(p, 1.0, 5.0) - (1.0 - (1.0 - p).powf(0.2))).abs() < 1e-14);
        }
        assert!((beta_quantile(0.5, 400.0, 400.0) - 0.5).abs() < 1e-14);
    }
}
