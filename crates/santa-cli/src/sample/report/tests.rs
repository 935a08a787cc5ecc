use super::testing::{draws, row};
use super::*;
use crate::failure::Kind;
use santa::noise::{Purpose, Stream};

/// A number of a draw: normal, and the same on each call.
fn noise(chain: usize, draw: usize, quantity: usize) -> f64 {
    let mut out = [0.0];
    let stream = Stream::new(9, chain as u32, Purpose::Data);
    stream.normals(draw as u64, quantity as u32, 0, &mut out);
    out[0]
}

/// The page, which must be whole, have no number that is none, and ask nothing of any network.
fn page(report: &Report<'_>) -> String {
    let page = html(report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for absent in ["NaN", "inf\"", "http", "<script", "href=", "src=", "{{", "{%"] {
        // The policy's header is the one thing with that name.
        let text = page.replace("http-equiv", "").replace("default-src", "");
        assert!(!text.contains(absent), "{absent}");
    }
    for tag in ["svg", "figure", "section", "table", "details", "dl", "ul", "div", "g"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let ids: Vec<&str> =
        page.split("id=\"inside-").skip(1).map(|t| &t[..t.find('"').unwrap()]).collect();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "two figures have the same number");
    page
}

#[test]
fn everything_that_was_given_is_in_the_page() {
    let (draws, rows) = draws(&["slope", "offset", "noise"], (4, 200), noise);
    let mut report = Report::new("Linear regression", &draws, rows);
    report.rows[1].r_hat = 1.234;
    report.verdict = vec!["R-hat of offset is 1.234.".into(), "Another thing.".into()];
    report.facts = vec![("Model".into(), "linear".into()), ("Seed".into(), "17".into())];
    report.tables = vec![Table {
        title: "Predictions".into(),
        columns: vec!["Measure".into(), "Value".into()],
        rows: vec![vec!["accuracy".into(), "0.91".into()]],
        note: "On data not seen.".into(),
        bins: vec![Bin { count: 7, confidence: 0.8, accuracy: 0.7 }],
    }];
    let text = page(&report);
    for word in [
        "<h1>Linear regression</h1>",
        "4 chains of 200 draws each, 3 quantities.",
        "doubtful",
        "R-hat of offset is 1.234.",
        "Another thing.",
        "<dt>Model</dt><dd>linear</dd>",
        "17",
        "Predictions",
        "accuracy",
        "0.91",
        "On data not seen.",
        "Share that is right, by confidence",
        "Number of predictions, by confidence",
        "chain 3",
        "<td class=\"number bad\">1.234",
        "Trace of slope",
        "Density of noise",
        "Ranks of offset",
        "Autocorrelation of slope",
        "slope against offset",
    ] {
        assert!(text.contains(word), "{word}");
    }
    assert_eq!(text.matches("number bad").count(), 1);
    assert!(text.find("R-hat of offset is").unwrap() < text.find("Another thing").unwrap());
    report.verdict.clear();
    let text = page(&report);
    assert!(text.contains("verdict good") && text.contains("No trouble found"));
}

#[test]
fn names_are_escaped() {
    let evil = "<script>alert(\"1\")</script> & 'co' {{ title }}";
    let (draws, rows) = draws(&[evil, "b"], (2, 50), noise);
    let mut report = Report::new(evil, &draws, rows);
    report.verdict = vec![evil.into()];
    report.facts = vec![(evil.into(), evil.into())];
    let row = vec![evil.into()];
    report.tables = vec![Table {
        title: evil.into(),
        columns: row.clone(),
        rows: vec![row],
        note: evil.into(),
        bins: Vec::new(),
    }];
    let text = html(&report).unwrap();
    assert!(!text.contains("<script") && !text.contains("alert(\"1"));
    assert!(text.matches("&lt;script&gt;").count() > 10);
}

#[test]
fn one_chain_has_no_ranks_and_says_so() {
    let (draws, rows) = draws(&["a", "b"], (1, 100), noise);
    let text = page(&Report::new("t", &draws, rows));
    assert!(text.contains("1 chain of 100 draws, 2 quantities."));
    assert!(text.contains("Ranks compare chains, and there is one."));
    assert!(!text.contains("Ranks of a") && text.contains("Trace of a"));
}

#[test]
fn few_draws_are_drawn_as_far_as_they_go() {
    for (chains, count) in [(1, 0), (3, 0), (1, 1), (3, 1), (2, 2), (2, 9), (20, 12)] {
        let (draws, rows) = draws(&["a", "b", "c"], (chains, count), noise);
        let text = page(&Report::new("t", &draws, rows));
        assert_eq!(text.contains("There are no draws yet."), count == 0);
    }
}

#[test]
fn constant_draws_are_told_and_not_drawn() {
    let value = |chain, draw, q| if q == 1 { 2.5 } else { noise(chain, draw, q) };
    let (draws, mut rows) = draws(&["a", "still", "c"], (2, 60), value);
    rows[1] = Row { sd: 0.0, mcse: f64::NAN, mean: 2.5, ..row("still", f64::NAN, f64::NAN) };
    let text = page(&Report::new("t", &draws, rows));
    assert!(text.contains("Every draw is 2.5: there is nothing to plot."));
    assert!(!text.contains("Trace of still") && text.contains("c against a"));
    assert!(text.contains("<td class=\"number\">–</td>"));
}

#[test]
fn draws_that_are_not_finite_are_counted_and_left_out() {
    let value = |chain, draw, q| match (q, draw) {
        (0, 7) => f64::NAN,
        (0, 8) => f64::INFINITY,
        (1, _) => f64::NEG_INFINITY,
        _ => noise(chain, draw, q) * 1e299,
    };
    let (draws, mut rows) = draws(&["holes", "nowhere", "huge"], (2, 60), value);
    rows[0].mean = f64::INFINITY;
    let text = page(&Report::new("t", &draws, rows));
    assert!(text.contains("4 of 120 draws are not finite."));
    assert!(text.contains("120 of 120 draws are not finite. No draw is finite"));
    assert!(text.contains("Trace of holes") && text.contains("huge against holes"));
    assert!(text.contains("∞"));
}

#[test]
fn of_many_quantities_the_worst_come_first_and_the_others_are_folded() {
    let names: Vec<String> = (0..200).map(|i| format!("w[{i}]")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (draws, mut rows) = draws(&names, (2, 40), noise);
    rows[150].r_hat = 1.5;
    rows[77].ess_tail = 12.0;
    let mut report = Report::new("t", &draws, rows);
    let text = page(&report);
    let at = |name: &str| text.find(&format!("title=\"{name}\"")).unwrap();
    assert!(at("w[150]") < at("w[77]") && at("w[77]") < at("w[0]"));
    assert!(
        at("w[0]") < text.find("180 more").unwrap() && text.find("180 more").unwrap() < at("w[30]")
    );
    assert_eq!(text.matches("aria-label=\"Trace of").count(), 12);
    assert!(text.contains("Trace of w[150]") && text.contains("w[77] against w[150]"));
    assert!(text.contains("Of the 12 quantities that look worst."));
    assert_eq!(text.matches(" against ").count(), 10, "a triangle of five");

    report.shown = vec!["w[3]".into(), "w[2]".into(), "w[3]".into()];
    let text = page(&report);
    assert_eq!(text.matches("aria-label=\"Trace of").count(), 2);
    assert!(text.contains("w[2] against w[3]") && text.contains("asked for"));
}

#[test]
fn equal_reports_are_equal_files() {
    let made = || {
        let (draws, rows) = draws(&["a", "b"], (3, 300), noise);
        html(&Report::new("t", &draws, rows)).unwrap()
    };
    assert_eq!(made(), made());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (draws, mut rows) = draws(&["slope", "b"], (1, 3), noise);
    let mut report = Report::new("t", &draws, rows.clone());
    report.shown = vec!["slop".into()];
    let failure = html(&report).unwrap_err();
    assert_eq!(failure.kind, Kind::Usage);
    assert!(failure.message.contains("slop") && failure.hint.unwrap().contains("slope"));
    rows.pop();
    assert_eq!(html(&Report::new("t", &draws, rows)).unwrap_err().kind, Kind::Data);
}

#[test]
fn a_report_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let (draws, rows) = draws(&["a"], (2, 20), noise);
    let report = Report::new("t", &draws, rows);
    write(&report, &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), html(&report).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// To look at: `SANTA_PAGE=page.html cargo test -p santa-cli --lib sample::report -- --ignored`
/// writes a page of good and of bad chains.
#[test]
#[ignore = "writes a page for people to look at"]
fn a_page_to_look_at() {
    let Some(path) = std::env::var_os("SANTA_PAGE") else {
        eprintln!("skipped: SANTA_PAGE names no file");
        return;
    };
    const DRAWS: usize = 2_500;
    let names = [
        "intercept",
        "slope",
        "log noise",
        "slow",
        "one chain apart",
        "positive",
        "a stuck chain",
        "fixed",
        "some draws are not finite",
        "large, and a name that goes on and on: layers.7.weight[12, 345]",
    ];
    let mut state = [[0.0; 4]; 4];
    let mut draws = Draws::new(names, 4).unwrap();
    for i in 0..DRAWS {
        for chain in 0..4 {
            let z = |q| noise(chain, i, q);
            for (x, (phi, q)) in
                state[chain].iter_mut().zip([(0.3, 0), (0.3, 1), (0.5, 2), (0.98, 3)])
            {
                *x = phi * *x + (1.0f64 - phi * phi).sqrt() * z(q);
            }
            let [a, b, c, slow] = state[chain];
            let apart = if chain == 2 { 2.2 } else { 0.0 };
            let stuck = if chain == 1 { 0.4 } else { z(6) };
            let holes = if i % 500 == 3 { f64::NAN } else { z(8) };
            draws
                .push(
                    chain,
                    &[
                        a,
                        2.0 + 0.1 * (b - 1.5 * a),
                        -1.3 + 0.2 * c,
                        slow,
                        z(4) + apart,
                        z(5).abs(),
                        stuck,
                        1.0,
                        holes,
                        123_456.0 + 30.0 * z(9),
                    ],
                )
                .unwrap();
        }
    }
    let mut rows: Vec<Row> = names.iter().map(|name| row(name, 1.0008, 6_412.0)).collect();
    (rows[3].r_hat, rows[3].ess_bulk, rows[3].ess_tail) = (1.031, 97.4, 143.0);
    (rows[4].r_hat, rows[4].ess_bulk) = (1.412, 11.0);
    (rows[6].r_hat, rows[6].ess_bulk) = (1.08, 61.0);
    rows[7] = Row { mean: 1.0, sd: 0.0, ..row("fixed", f64::NAN, f64::NAN) };
    (rows[9].mean, rows[9].sd, rows[9].q5, rows[9].q50, rows[9].q95) =
        (123_455.8, 29.87, 123_406.4, 123_455.9, 123_505.0);
    let mut report = Report::new("Regression of murders on illiteracy", &draws, rows);
    report.verdict = vec![
        "The chains disagree about “one chain apart”: R-hat is 1.412. Run them longer, or start them from other places.".into(),
        "“slow” has 97 effective draws, fewer than 400: its mean is known to 0.1 standard deviations only.".into(),
        "20 draws of “some draws are not finite” are not finite: take a smaller step.".into(),
    ];
    report.facts = [
        ("Model", "robust regression of 50 rows on 8 columns"),
        ("Sampler", "SGHMC, friction 0.1, step 0.01, 4 chains, 1000 steps of warm-up"),
        ("Kinetic temperature", "1.003 ± 0.004"),
        ("Configurational temperature", "0.998 ± 0.011"),
        ("Seed", "1"),
        ("Command", "santa sample states.csv --target murder --chains 4 --draws 2500"),
        ("Version", "0.1.0"),
        ("Machine", "a processor, 2 threads, linux x86_64"),
        ("Seconds", "3.2"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    report.tables = vec![Table {
        title: "Predictions".into(),
        columns: ["Data", "Log density", "Coverage of 90 %"].map(Into::into).to_vec(),
        rows: vec![
            ["training", "−1.021", "0.93"].map(Into::into).to_vec(),
            ["held out", "−1.114", "0.88"].map(Into::into).to_vec(),
        ],
        note: "Coverage: how often the middle 90 % of the predictive distribution hold the truth."
            .into(),
        bins: Vec::new(),
    }];
    report.cycles = (0..5).map(|i| i * 500..(i + 1) * 500).collect();
    write(&report, Path::new(&path)).unwrap();
}
