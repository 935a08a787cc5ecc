//! `santa sample` by a team: what rank 0 has to tell is what a single process would tell.

mod support;

use clap::Parser;
use santa_cli::args::Cli;
use santa_cli::console::{Console, Volume};
use santa_cli::data::Library;
use santa_cli::failure::Result;
use santa_cli::sample::{self, Context, Outcome, Request};
use santa_distributed::{Solo, Team, Threads};
use support::workshop::Workshop;

/// A member's outcome, with the draws in the folder `out`.
fn sampled(shop: &Workshop, request: &str, out: &str, team: &dyn Team) -> Result<Outcome> {
    let request: Request = toml::from_str(request).unwrap();
    let data_dir = shop.path("no-data").to_str().unwrap().to_owned();
    let cli = Cli::parse_from(["santa", "presets", "--offline", "--data-dir", &data_dir]);
    let context = Context {
        folder: shop.path(out),
        seed: 1,
        resume: false,
        console: &Console::new(Volume::Quiet, false),
        data_sets: &Library::new(&cli.global)?,
        show: &[],
        request: &request,
        team,
    };
    sample::run(&request, &context)
}

#[test]
fn two_members_find_what_one_does() {
    let shop = Workshop::new();
    let network = format!(
        "model = {:?}\nset = [\"optimizer=sghmc\", \"optimizer.beta=100.0\"]\n\
         sampler = {{ chains = 3, draws = 4, warm_up = 10, thin = 2 }}",
        shop.path("tiny.toml")
    );
    let density = "model = \"gaussian\"\nsampler = { chains = 3, draws = 40, warm_up = 20 }";
    for (name, request) in [("network", network.as_str()), ("density", density)] {
        let alone = sampled(&shop, request, &format!("{name}-alone"), &Solo).unwrap();
        let out = format!("{name}-team");
        let all = Threads::run(2, |team| sampled(&shop, request, &out, &team).unwrap());
        for one in &all {
            assert_eq!(one.draws, alone.draws);
            assert_eq!(one.statistics, alone.statistics);
        }
        let told = |outcome: &Outcome| {
            let Outcome { tables, stein, exact, summary, notes, .. } = outcome;
            serde_json::to_value((tables, stein, exact, summary, notes)).unwrap()
        };
        assert_eq!(told(&all[0]), told(&alone));
        assert!(all[1].tables.is_empty() && all[1].exact.is_none() && all[1].stein.is_none());

        // Nobody overwrites draws.
        for refused in Threads::run(2, |team| sampled(&shop, request, &out, &team).map(drop)) {
            assert!(refused.unwrap_err().message.contains("there are draws in"));
        }
    }
}
