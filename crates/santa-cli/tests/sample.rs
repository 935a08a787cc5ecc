//! `santa sample`: densities, regressions and networks, and what is said about their draws.

mod support;

use serde_json::Value;
use support::workshop::{Said, Workshop, signal, wait_until};

/// A table in which y is 1 + 2 x - z with a little noise, and a word that means nothing.
fn table() -> String {
    let mut text = String::from("x,z,colour,y,yes\n");
    for i in 0..300u32 {
        let x = f64::from(i * 37 % 100) / 10.0;
        let z = f64::from(i * 53 % 90) / 30.0;
        let noise = f64::from(i * 71 % 64) / 64.0 - 0.5;
        let y = 1.0 + 2.0 * x - z + noise;
        let colour = ["red", "green", "blue"][(i % 3) as usize];
        let yes = u8::from(2.0 * x + 8.0 * noise > 10.0);
        text += &format!("{x},{z},{colour},{y},{yes}\n");
    }
    text
}

fn row<'a>(object: &'a Value, name: &str) -> &'a Value {
    let rows = object["summary"]["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {object}"))
}

#[test]
fn a_gaussian_gives_its_known_moments_a_summary_and_a_report() {
    let shop = Workshop::new();
    let said = shop.santa("sample gaussian --dim 3 --draws 500 --out g --json --arviz").done();
    let object = said.json();
    assert_eq!(object["converged"], true, "{}", object["troubles"]);
    let sd = row(&object, "theta[2]")["sd"].as_f64().unwrap();
    assert!((sd / 10.0 - 1.0).abs() < 0.15, "{sd}");
    assert!(object["exact"].as_array().unwrap().len() == 3);
    let stein = &object["stein"];
    assert_eq!((&stein["is_off"], &stein["draws"]), (&false.into(), &2_000.into()), "{stein}");
    assert!((100..=1_000).contains(&stein["points"].as_u64().unwrap()), "{stein}");
    let page = std::fs::read_to_string(shop.path("g/report.html")).unwrap();
    assert!(page.contains("<dt>kernel Stein discrepancy</dt>"));
    for file in ["g/report.html", "g/summary.json", "g/settings.json", "g/arviz.zarr/.zgroup"] {
        assert!(shop.path(file).exists(), "{file}");
    }
    let parts = std::fs::read_dir(shop.path("g/chain-3")).unwrap().count();
    assert_eq!(parts, 2, "a part and a checkpoint");
    // The same seed, the same draws, whatever the threads.
    let again = shop.santa("sample gaussian --dim 3 --draws 500 --out h --json --threads 1").done();
    assert_eq!(again.json()["summary"], object["summary"]);
    shop.santa("sample gaussian --dim 3 --draws 500 --out g")
        .refuses(2, &["draws in g", "--resume"]);
    let other = "sample gaussian --dim 3 --draws 500 --seed 7 --out g --resume";
    shop.santa(other).refuses(3, &["another `seed`"]);
    shop.santa("sample gaussian --dim 3 --draws 400 --out g --resume")
        .refuses(2, &["`draws` is 400", "500 draws already", "another folder"]);
}

#[test]
fn a_part_that_was_lost_is_named_before_the_work_goes_on() {
    let shop = Workshop::new();
    let args = "sample gaussian --warm-up 40 --out g";
    shop.santa(&format!("{args} --draws 40")).done();
    std::fs::remove_file(shop.path("g/chain-1/draws-000000000.parquet")).unwrap();
    for draws in [40, 60] {
        shop.santa(&format!("{args} --draws {draws} --resume")).refuses(
            3,
            &["chain-1/draws-000000000.parquet is missing", "draws 0 to 39", "restore"],
        );
    }
}

#[test]
fn the_draws_of_a_file_lie_in_a_folder_of_its_name() {
    let shop = Workshop::new();
    shop.write(
        "narrow.toml",
        "model = \"gaussian\"\n[sampler]\nchains = 2\ndraws = 20\nwarm_up = 20\n",
    );
    let object = shop.santa("sample narrow.toml --json").done().json();
    assert_eq!(object["folder"], "posteriors/narrow");
    assert!(shop.path("posteriors/narrow/report.html").exists());
}

#[test]
fn chains_that_have_not_met_are_said_to_have_not() {
    let shop = Workshop::new();
    let said = shop.santa("sample mixture --dim 2 --draws 400 --seed 1 --out m").done();
    for words in ["not to be trusted", "R-hat", "theta[0]"] {
        assert!(said.out.contains(words), "{words} is not in {}", said.out);
    }
    let page = std::fs::read_to_string(shop.path("m/report.html")).unwrap();
    assert!(page.contains("R-hat"));
}

/// All chains may happen to begin on one side of a mixture. Those of the exact run begin elsewhere.
#[test]
fn chains_that_all_miss_a_mode_are_not_trusted() {
    let shop = Workshop::new();
    for seed in 1..=12 {
        let args = format!("sample mixture --dim 2 --draws 300 --seed {seed} --out m{seed} --json");
        let object = shop.santa(&args).done().json();
        assert_eq!(object["converged"], false, "seed {seed}");
    }
}

#[test]
fn a_colder_law_is_not_called_the_posterior() {
    let shop = Workshop::new();
    let said = shop.santa("sample gaussian --draws 200 --temperature 0.01 --out c").done();
    assert!(said.out.contains("at temperature 0.01, not of the posterior"), "{}", said.out);
    let page = std::fs::read_to_string(shop.path("c/report.html")).unwrap();
    assert!(page.contains("gaussian in 2 dimensions, at temperature 0.01"));
}

#[test]
fn draws_of_a_colder_law_are_compared_with_that_law() {
    let shop = Workshop::new();
    let said = shop.santa("sample gaussian --temperature 0.5 --out c --json").done().json();
    assert_eq!(said["stein"]["is_off"], false, "{}", said["stein"]);
    assert_eq!(said["exact"], Value::Null, "the exact run is at temperature 1");
}

#[test]
fn a_cold_law_is_sampled_as_quickly_as_a_warm_one() {
    let shop = Workshop::new();
    let said = shop.santa("sample gaussian --temperature 0.01 --out c --json").done().json();
    // In coordinates of the cold law's own width there were five.
    let effective = row(&said, "theta[0]")["ess_bulk"].as_f64().unwrap();
    assert!(effective > 400.0, "{effective}");
    assert_eq!(said["stein"]["is_off"], false, "{}", said["stein"]);
}

#[test]
fn draws_of_other_data_are_not_mixed_and_a_failed_warm_up_leaves_nothing_in_the_way() {
    let shop = Workshop::new();
    shop.write("table.csv", &table());
    let args = "sample linear --data table.csv --response y --features x,z --draws 200 --out l";
    shop.santa(args).done();
    shop.write("table.csv", &table().replace("red", "blue"));
    let more = args.replace("--draws 200", "--draws 300");
    shop.santa(&format!("{more} --resume")).refuses(3, &["data_sha256"]);
    // A folder in which no warm-up came to its end.
    std::fs::remove_file(shop.path("l/tuning.safetensors")).unwrap();
    for chain in 0..4 {
        std::fs::remove_dir_all(shop.path(&format!("l/chain-{chain}"))).unwrap();
    }
    shop.santa(&format!("{args} --seed 5")).done();
}

#[test]
fn an_interrupted_warm_up_is_called_one_and_leaves_nothing_in_the_way() {
    let shop = Workshop::new();
    let mut child = shop.start("sample gaussian --warm-up 1000000000 --out g");
    let begun = shop.path("g/settings.json");
    assert!(wait_until(&mut child, || begun.exists()));
    signal(&child, "INT");
    let said = Said::of(child.wait_with_output().unwrap()).ends_with(130);
    for words in ["interrupted in the warm-up", "nothing is lost but", "begins it again"] {
        assert!(said.err.contains(words), "{words} is not in {}", said.err);
    }
    shop.santa("sample gaussian --warm-up 40 --draws 40 --out g").done();
}

#[test]
fn an_interrupted_warm_up_of_a_network_is_kept() {
    let shop = Workshop::new();
    let args = "sample tiny.toml --set optimizer=sghmc --set optimizer.beta=100.0 --chains 2 \
                --draws 6 --warm-up 1000000000 --out n";
    for resume in ["", " --resume"] {
        let mut child = shop.start(&format!("{args}{resume}"));
        let begun = shop.path("n/settings.json");
        assert!(wait_until(&mut child, || begun.exists()));
        signal(&child, "INT");
        let said = Said::of(child.wait_with_output().unwrap()).ends_with(130);
        for words in ["interrupted in the warm-up", "that was done is written", "`--resume`"] {
            assert!(said.err.contains(words), "{words} is not in {}", said.err);
        }
        assert!(shop.path("n/chain-1/warm-up-0.safetensors").exists());
    }
    // Without `--resume` it is begun anew, with other settings too.
    shop.santa(&args.replace("1000000000", "20")).done();
    assert!(!shop.path("n/chain-1/warm-up-0.safetensors").exists());
}

#[test]
fn chains_that_run_away_are_followed_by_a_command_to_try() {
    let shop = Workshop::new();
    // Far below the largest step that was asked for: the warm-up had found a shorter one.
    let args = "sample rosenbrock --dim 2 --seed 42 --largest-step 1.9 --out r";
    shop.santa(args).refuses(4, &["`--largest-step 0.04`", "--out"]);
    shop.santa("sample rosenbrock --dim 2 --seed 42 --largest-step 0.04 --out half").done();
}

#[test]
fn words_are_named_as_what_they_count_for() {
    let shop = Workshop::new();
    let words = table().replace(",0\n", ",no\n").replace(",1\n", ",so\n");
    shop.write("words.csv", &words);
    let args = "sample logistic --data words.csv --response yes --features x,colour --draws 200 \
                --prior colour=green=normal(0.01) --out w --json";
    let object = shop.santa(args).done().json();
    assert!(row(&object, "colour=green")["sd"].as_f64().unwrap() < 0.1);
    let page = std::fs::read_to_string(shop.path("w/report.html")).unwrap();
    assert!(page.contains("1 for yes=so"), "which of the words is 1");
}

#[test]
fn regressions_find_what_made_the_data() {
    let shop = Workshop::new();
    shop.write("table.csv", &table());
    let common = "--data table.csv --draws 500 --json";
    let linear = format!("sample linear {common} --response y --features x,z,colour --out l");
    let object = shop.santa(&linear).done().json();
    assert_eq!(object["converged"], true, "{}", object["troubles"]);
    for (name, value) in [("x", 2.0), ("z", -1.0)] {
        let mean = row(&object, name)["mean"].as_f64().unwrap();
        assert!((mean - value).abs() < 0.05, "{name}: {mean}");
    }
    assert!(row(&object, "sigma")["mean"].as_f64().unwrap() < 0.4);
    assert!(row(&object, "colour=green")["mean"].is_number());

    let logistic = format!("sample logistic {common} --response yes --features x,z --out b");
    let object = shop.santa(&logistic).done().json();
    assert!(row(&object, "x")["mean"].as_f64().unwrap() > 0.3);

    // Minibatches give the same posterior.
    let small = format!("sample robust {common} --response y --features x,z --batch 30 --out r");
    let object = shop.santa(&small).done().json();
    assert!((row(&object, "x")["mean"].as_f64().unwrap() - 2.0).abs() < 0.05);

    // A strong prior pulls.
    let prior = "--prior normal(0.1) --prior x=laplace(0.001) --prior sigma=half-cauchy(1)";
    let pulled = format!("sample linear {common} --response y --features x,z --out p {prior}");
    let object = shop.santa(&pulled).done().json();
    assert!(row(&object, "x")["mean"].as_f64().unwrap() < 1.9);

    // All of it may be in a file.
    shop.write(
        "model.toml",
        "model = \"linear\"\ndata = \"table.csv\"\nresponse = \"y\"\nfeatures = [\"x\", \"z\"]\n\
         [priors]\ndefault = \"normal(0.1)\"\nx = \"laplace(0.001)\"\nsigma = \"half-cauchy(1)\"\n\
         [sampler]\ndraws = 500\n",
    );
    let filed = shop.santa("sample model.toml --out f --json").done().json();
    assert_eq!(filed["summary"], object["summary"]);
}

#[test]
fn what_cannot_be_sampled_is_named() {
    const SGHMC: &str = "--set optimizer=sghmc --set optimizer.beta=1";
    let shop = Workshop::new();
    shop.write("table.csv", &table());
    shop.write("holes.csv", "x,y\n1,2\n,3\n");
    shop.write("line.csv", "x,y\n1,2\n2,4\n3,6\n4,8\n5,10\n");
    shop.write("named.csv", "sigma,y\n1,2\n2,3\n3,5\n4,4\n");
    shop.write("ones.csv", "x,y\n1,1\n2,1\n3,1\n");
    shop.write("one.csv", "x,y\n1,1\n");
    for (args, code, words) in [
        ("gausian", 2, vec!["gausian"]),
        ("linear", 2, vec!["--data"]),
        ("linear --data table.csv", 2, vec!["--response"]),
        ("linear --data missing.csv --response y", 3, vec!["missing.csv", "--data"]),
        ("linear --data table.csv --response yy", 3, vec!["yy"]),
        ("linear --data holes.csv --response y", 3, vec!["line 3"]),
        ("linear --data table.csv --response y --prior nomal(1)", 2, vec!["nomal", "normal"]),
        ("linear --data table.csv --response y --features x --prior q=flat", 2, vec!["q"]),
        ("logistic --data table.csv --response y --features x", 3, vec!["0"]),
        ("gaussian --data table.csv", 2, vec!["--data", "no meaning"]),
        ("gaussian --chains 0", 2, vec!["chains"]),
        ("gaussian --dim 100000", 2, vec!["--dim 100000", "fewer parameters"]),
        ("gaussian --largest-step 3", 2, vec!["largest_step"]),
        ("gaussian --temperature 0", 2, vec!["--temperature 0", "santa train"]),
        ("gaussian --show theta[7] --draws 100000000", 2, vec!["theta[7]", "theta[1]"]),
        ("linear --data line.csv --response y", 3, vec!["sigma", "exactly"]),
        ("linear --data named.csv --response y --prior sigma=flat", 2, vec!["rename", "sigma"]),
        ("linear --data named.csv --response y", 3, vec!["rename", "sigma"]),
        ("logistic --data ones.csv --response y", 3, vec!["y is 1 in every row", "both kinds"]),
        ("linear --data one.csv --response y", 3, vec!["one row"]),
        ("linear --data table.csv --response y --prior flat(3)", 2, vec!["takes no number"]),
        ("gaussian --chains 100000000", 2, vec!["chains"]),
        ("gaussian --temperature -1", 2, vec!["--temperature -1", "positive"]),
        ("robust --data table.csv --response y --degrees -1", 2, vec!["degrees", "-1"]),
        ("tiny.toml --set optimizer=sghmc --cycle 10", 2, vec!["no cycles", "cyclical"]),
        ("tiny.toml --set optimizer=adam", 2, vec!["without noise", "sghmc", "optimizer.beta=1"]),
        (&format!("tiny.toml {SGHMC} --set model.dropout.hidden=0.5"), 2, vec!["dropout", "model"]),
        (&format!("mnist-cnn {SGHMC} --set model.dropout.hidden=0.5"), 2, vec!["dropout", "model"]),
        (
            "tiny.toml --set optimizer=santa --set optimizer.exploration=always",
            2,
            vec!["`optimizer.beta` changes", "--set optimizer.beta=1"],
        ),
    ] {
        let said = shop.santa(&format!("sample {args} --out o"));
        said.refuses(code, &words);
    }
}

#[test]
fn a_network_s_posterior_is_sampled_with_its_predictions_and_goes_on_after_ctrl_c() {
    let shop = Workshop::new();
    let args = "sample tiny.toml --set optimizer=sghmc --set optimizer.beta=100.0 --chains 2 \
                --draws 6 --warm-up 20 --thin 5";
    let whole = shop.santa(&format!("{args} --out whole --json")).done().json();
    let predictions = &whole["predictions"][0];
    assert_eq!(predictions["rows"].as_array().unwrap().len(), 3, "two chains and both");
    assert_eq!(predictions["rows"][2][1], "12");
    assert_eq!(whole["predictions"][1]["columns"][0], "confidence");
    let count = |bin: &Value| bin["count"].as_u64().unwrap();
    let bins = whole["predictions"][1]["bins"].as_array().unwrap();
    assert!(bins.len() == 15 && bins.iter().map(count).sum::<u64>() > 0);
    let page = std::fs::read_to_string(shop.path("whole/report.html")).unwrap();
    assert!(page.contains("Share that is right, by confidence"));
    assert!(page.contains("Number of predictions, by confidence"));
    assert!(whole["notes"][0].as_str().unwrap().contains("at temperature 0.01"));
    assert!(row(&whole, "test_nll")["mean"].is_number());

    let long = args.replace("--draws 6", "--draws 100000");
    let mut child = shop.start(&format!("{long} --out part"));
    let began = shop.path("part/tuning.safetensors");
    assert!(wait_until(&mut child, || began.exists()));
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let held =
        |chain: u32| std::fs::read_dir(shop.path(&format!("part/chain-{chain}"))).unwrap().count();
    assert!(held(0) >= 1 && held(1) >= 1);

    // A shorter run, stopped and gone on with, is the whole one.
    let resumed = shop.santa(&format!("{args} --out whole --resume --json")).done().json();
    assert_eq!(resumed["summary"], whole["summary"]);
    let more = args.replace("--draws 6", "--draws 8");
    let more = shop.santa(&format!("{more} --out whole --resume --json")).done().json();
    let eight = args.replace("--draws 6", "--draws 8");
    let eight = shop.santa(&format!("{eight} --out eight --json")).done().json();
    assert_eq!(more["summary"], eight["summary"]);
    assert_eq!(more["predictions"], eight["predictions"]);
}
