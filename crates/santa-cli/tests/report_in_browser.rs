//! The report in a real browser: what a click changes, and that nothing is asked of the network.
//!
//! A copy of the page gets a script that acts like a reader and writes what it saw into the page;
//! the browser prints the page as it is then. The report itself stays in the build folder, under
//! `tmp/report-in-browser`, to be looked at.

mod support;

use santa_cli::report;
use santa_cli::run::stored::StoredRun;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{FakeRun, comparison};

/// The reader. Whatever goes wrong on the page before or after it is collected.
const WATCH: &str = r#"<script>
  window.problems = [];
  addEventListener("error", (e) => problems.push("error: " + e.message));
  addEventListener("unhandledrejection", (e) => problems.push("rejection: " + e.reason));
  addEventListener("securitypolicyviolation", (e) => problems.push("request: " + e.blockedURI));
  for (const level of ["error", "warn"]) console[level] = (...words) => problems.push(words.join(" "));
</script>"#;
const ACT: &str = r#"<script>
  addEventListener("load", () => {
    const section = document.querySelector("[data-experiment]");
    const one = (selector) => section.querySelector(selector);
    const series = (group) => section.querySelectorAll(`[data-charts=curves] [data-group="${group}"]`).length;
    const ticks = () => [...one(".chart svg").querySelectorAll("text")].map((t) => t.textContent).join(" ");
    const saw = {};
    const button = one(".legend button");
    const title = () => one("[data-charts=curves] figcaption").textContent;

    saw.charts = section.querySelectorAll(".chart:not([hidden])").length;
    saw.entries = section.querySelectorAll(".legend button").length;
    saw.pressed = [button.getAttribute("aria-pressed")];
    saw.drawn = [series(0)];
    saw.others = [series(1)];
    button.click();
    saw.pressed.push(button.getAttribute("aria-pressed"));
    saw.drawn.push(series(0));
    saw.others.push(series(1));
    button.click();
    saw.pressed.push(button.getAttribute("aria-pressed"));
    saw.drawn.push(series(0));

    const logarithmic = ticks();
    one('input[name="y-0"][value=linear]').click();
    saw.linearTicksDiffer = ticks() !== logarithmic;
    one('input[name="y-0"][value=log]').click();
    saw.logTicksReturn = ticks() === logarithmic;
    const epochs = ticks();
    one('input[name="x-0"][value=seconds]').click();
    saw.secondsDiffer = ticks() !== epochs && ticks().includes("seconds");
    saw.titles = [title()];
    one('input[name="part-0"][value=validation]').click();
    saw.titles.push(title());
    saw.averagedBefore = one("[data-charts=curves]").querySelectorAll(".series").length;
    one('input[name="prediction-0"][value=averaged]').click();
    saw.averagedAfter = one("[data-charts=curves]").querySelectorAll(".series").length;

    saw.columnHidden = getComputedStyle(one("td.validation")).display;
    one("[data-show=validation]").click();
    saw.columnShown = getComputedStyle(one("td.validation")).display;

    const chart = one(".chart svg");
    const tip = one(".chart .tip");
    saw.tipHidden = tip.hidden;
    chart.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
    saw.tip = tip.textContent;
    saw.tipShown = !tip.hidden;
    chart.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    saw.tipGone = tip.hidden;
    const box = chart.getBoundingClientRect();
    const at = { clientX: box.left + box.width / 2, clientY: box.top + 20, bubbles: true };
    chart.dispatchEvent(new PointerEvent("pointermove", { ...at, pointerType: "touch" }));
    saw.tipByTouch = !tip.hidden;
    const spot = tip.getBoundingClientRect();
    const frame = one(".chart").getBoundingClientRect();
    saw.tipInside = spot.top >= frame.top && spot.left >= frame.left && spot.right <= frame.right;

    const ground = () => getComputedStyle(document.body).backgroundColor;
    const before = ground();
    document.getElementById("theme").click();
    saw.themeChanges = ground() !== before;
    document.getElementById("theme").click();
    saw.themeReturns = ground() === before;

    saw.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    saw.wild = window.wild === undefined;
    saw.requests = performance.getEntriesByType("resource").map((r) => r.name);
    saw.notNumbers = /NaN|Infinity|undefined/.test([...document.querySelectorAll(".chart")].map((c) => c.outerHTML).join(""));
    saw.problems = problems;
    const out = document.createElement("pre");
    out.id = "saw";
    out.textContent = "SAW" + JSON.stringify(saw) + "SAW";
    document.body.append(out);
  });
</script>"#;

/// A browser, if there is one.
fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome"].map(PathBuf::from);
    let works = |path: &PathBuf| {
        Command::new(path).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    named.into_iter().chain(usual).find(works)
}

/// What the reader saw on a page, in a window of some width; none without a browser.
fn read(page: &Path, width: u32) -> Option<serde_json::Value> {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no browser (set CHROMIUM to one)");
        return None;
    };
    let text = std::fs::read_to_string(page).unwrap();
    let watched = text.replacen("<head>", &format!("<head>{WATCH}"), 1);
    let copy = page.with_extension("watched.html");
    std::fs::write(&copy, watched.replacen("</body>", &format!("{ACT}</body>"), 1)).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},1200"))
        .args(["--dump-dom", &format!("file://{}", copy.display())])
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&out.stdout);
    // The script's own text holds the mark, too; the element comes last.
    let element = dom.rfind("id=\"saw\">SAW").unwrap_or_else(|| {
        panic!("the script did not run to its end\n{}", String::from_utf8_lossy(&out.stderr))
    });
    let json = dom[element..].split("SAW").nth(1).unwrap();
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&json).unwrap())
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-in-browser").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn written(name: &str, runs: &[FakeRun]) -> PathBuf {
    let folder = folder(name);
    let stored: Vec<StoredRun> =
        runs.iter().map(|run| StoredRun::read(&run.write(&folder)).unwrap()).collect();
    report::write(&stored, "Six optimizers on digits", &folder.join("report.html")).unwrap().report
}

#[test]
fn a_reader_hides_series_changes_axes_and_colours_and_nothing_is_fetched() {
    let page = written("comparison", &comparison());
    let Some(saw) = read(&page, 1280) else { return };
    assert_eq!(saw["problems"], serde_json::json!([]));
    assert_eq!(saw["requests"], serde_json::json!([]));
    assert_eq!(saw["entries"], 6);
    // Three curves, temperature, six tensors, calibration.
    assert_eq!(saw["charts"], 11);
    assert_eq!(saw["pressed"], serde_json::json!(["true", "false", "true"]));
    assert_eq!(saw["drawn"], serde_json::json!([3, 0, 3]));
    assert_eq!(saw["others"], serde_json::json!([3, 3]));
    assert_eq!(saw["titles"], serde_json::json!(["Test error, %", "Validation error, %"]));
    assert_eq!(saw["averagedBefore"], 18);
    // Two of six have averages; training loss has nothing to do with it.
    assert_eq!(saw["averagedAfter"], 2 + 2 + 6);
    assert_eq!(saw["columnHidden"], "none");
    assert_eq!(saw["columnShown"], "table-cell");
    for key in [
        "linearTicksDiffer",
        "logTicksReturn",
        "secondsDiffer",
        "tipHidden",
        "tipShown",
        "tipGone",
        "tipByTouch",
        "tipInside",
    ] {
        assert_eq!(saw[key], true, "{key}");
    }
    assert_eq!(saw["themeChanges"], true);
    assert_eq!(saw["themeReturns"], true);
    assert!(saw["tip"].as_str().unwrap().contains("santa"), "{}", saw["tip"]);
    assert_eq!(saw["notNumbers"], false);
    assert_eq!(saw["overflow"], 0);
}

#[test]
fn wild_names_and_broken_numbers_do_no_harm_on_a_narrow_screen() {
    let mut runs = comparison();
    runs.truncate(6);
    for run in &mut runs {
        run.experiment =
            "</script><script>window.wild = 1</script><img src=x onerror=wild=1>".into();
    }
    runs[0].optimizer = "<b onclick='wild=1'>\"&amp; \u{2028}</b>".into();
    runs[0].warning = Some("<script>window.wild = 1</script>".into());
    runs[1].made = 3;
    let folder = folder("wild");
    let mut stored: Vec<StoredRun> =
        runs.iter().map(|run| StoredRun::read(&run.write(&folder)).unwrap()).collect();
    for (i, record) in stored[2].records.iter_mut().enumerate() {
        if let santa_cli::run::record::Record::Training(r) = record {
            r.loss = [f64::NAN, f64::INFINITY, f64::MAX, -1.0][i % 4];
        }
    }
    let out = folder.join("report.html");
    report::write(&stored, "<script>window.wild = 1</script>", &out).unwrap();
    let Some(saw) = read(&out, 500) else { return };
    assert_eq!(saw["problems"], serde_json::json!([]));
    assert_eq!(saw["requests"], serde_json::json!([]));
    assert_eq!(saw["wild"], true);
    assert_eq!(saw["notNumbers"], false);
    assert_eq!(saw["overflow"], 0);
}

#[test]
fn long_names_do_not_make_a_narrow_page_scroll_sideways() {
    let folder = folder("long");
    let mut stored: Vec<StoredRun> =
        comparison().iter().map(|run| StoredRun::read(&run.write(&folder)).unwrap()).collect();
    for run in &mut stored {
        let name = &mut run.summary.as_mut().unwrap().optimizer;
        name.push_str(" hidden=[400,400] precision=1000 friction_floor=0.0001 norm=1.0 and_more=1");
    }
    let out = folder.join("report.html");
    report::write(&stored, "Long names", &out).unwrap();
    // No browser makes its window narrower than this.
    let Some(saw) = read(&out, 500) else { return };
    assert_eq!(saw["overflow"], 0);
}

#[test]
fn the_watcher_notices_requests_and_errors() {
    let page = written("watched", &comparison());
    let text = std::fs::read_to_string(&page).unwrap();
    let harm = r#"<img src="https://example.invalid/x.png"><script>console.error("oh"); nothing()</script>"#;
    std::fs::write(&page, text.replacen("<header>", &format!("{harm}<header>"), 1)).unwrap();
    let Some(saw) = read(&page, 1280) else { return };
    let problems = saw["problems"].to_string();
    for expected in ["request: https://example.invalid", "oh", "nothing is not defined"] {
        assert!(problems.contains(expected), "{expected} is not in {problems}");
    }
}
