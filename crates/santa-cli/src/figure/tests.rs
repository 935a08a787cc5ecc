use super::*;

fn figure(y: Axis, points: Vec<(f64, f64)>) -> Figure {
    Figure::new(Axis::new("epoch"), y).with(Series::line("a", Style::numbered(0), points))
}

/// Every number in every path and circle.
fn coordinates(svg: &str) -> Vec<f64> {
    let shapes = svg.lines().filter(|l| l.starts_with("<path") || l.starts_with("<circle"));
    shapes
        .flat_map(|l| l.split(['"', ' ', 'M', 'L', 'Z', 'h']).filter_map(|t| t.parse().ok()))
        .collect()
}

/// Tags that are opened and not closed, or closed and not opened.
fn unbalanced(svg: &str) -> i64 {
    let opened = svg.matches('<').count() - svg.matches("</").count() - svg.matches("/>").count();
    opened as i64 - svg.matches("</").count() as i64
}

#[test]
fn names_are_escaped() {
    let evil = r#"<script>alert("1")</script> & 'co' "#;
    let mut figure = figure(Axis::new(evil), vec![(0.0, 1.0), (1.0, 2.0)]).titled(evil);
    figure.series[0].label = format!("{evil}\u{0}\u{7}");
    let svg = figure.svg();
    assert!(!svg.contains("<script"));
    assert_eq!(svg.matches("&lt;script&gt;").count(), 3);
    assert!(!svg.contains('\u{0}') && !svg.contains('\u{7}'));
    assert_eq!(unbalanced(&svg), 0);
}

#[test]
fn a_figure_without_data_is_still_a_figure() {
    for y in [Axis::new("loss"), Axis::new("loss").log()] {
        for points in [vec![], vec![(f64::NAN, 1.0)], vec![(1.0, f64::INFINITY)]] {
            let figure = figure(y.clone(), points);
            assert!(figure.is_empty());
            let svg = figure.svg();
            assert!(svg.contains("no data"));
            assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        }
    }
    assert!(sheet(&[], 3).ends_with("</svg>\n"));
}

#[test]
fn zeros_on_a_log_axis_are_gaps() {
    let points = vec![(0.0, 1.0), (1.0, 0.1), (2.0, 0.0), (3.0, -1.0), (4.0, 0.01), (5.0, 0.02)];
    let svg = figure(Axis::new("t").log(), points).svg();
    let lines = svg.lines().filter(|l| l.contains("fill=\"none\"")).count();
    assert_eq!(lines, 2, "one line on each side of the gap");
    assert!(coordinates(&svg).iter().all(|c| c.is_finite()));
}

#[test]
fn a_lone_point_is_a_dot() {
    let svg = figure(Axis::new("t"), vec![(1.0, 1.0)]).svg();
    assert_eq!(svg.matches("<circle").count(), 1);
}

#[test]
fn numbers_at_the_ends_of_their_type_stay_within_the_figure() {
    for points in [
        vec![(0.0, f64::MAX), (1.0, f64::MIN)],
        vec![(0.0, 5e-324), (1.0, f64::MAX)],
        vec![(0.0, 1.0), (1.0, 1.0 + f64::EPSILON)],
        vec![(f64::MIN, 0.0), (f64::MAX, 0.0)],
    ] {
        for y in [Axis::new("y"), Axis::new("y").log()] {
            let svg = figure(y, points.clone()).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn values_that_are_never_negative_have_an_axis_that_is_not() {
    let axis = Axis::new("error");
    assert_eq!(axis.ends([0.0, 1.0].into_iter(), 0.1).0, 0.0);
    assert_eq!(axis.ends([-1.0, 1.0].into_iter(), 0.1).0, -1.2);
    assert_eq!(axis.clone().between(0.0, 1.0).ends([7.0].into_iter(), 0.1), (0.0, 1.0));
    // Ends that a logarithmic axis cannot have are as if not given.
    assert_eq!(axis.log().between(0.0, 1.0).ends([2.0, 8.0].into_iter(), 0.0), (2.0, 8.0));
}

#[test]
fn a_sheet_puts_figures_side_by_side() {
    let one = figure(Axis::new("y"), vec![(0.0, 1.0), (1.0, 2.0)]).sized(200.0, 100.0);
    let svg = sheet(&vec![one; 5], 2);
    assert_eq!(svg.matches("<g transform=").count(), 5);
    assert!(svg.contains("height=\"300\""));
    assert_eq!(unbalanced(&svg), 0);
}

#[test]
fn a_cloud_has_no_line_and_leaves_out_what_cannot_be_shown() {
    let points = vec![(0.0, 1.0), (1.0, f64::NAN), (0.5, 2.0), (1.0, 1.5)];
    let cloud = Series::scatter("", Style::numbered(1), points);
    let svg = Figure::new(Axis::new(""), Axis::new("")).with(cloud).svg();
    assert_eq!(svg.matches("h0").count(), 3);
    assert!(!svg.contains("fill=\"none\"") && !svg.contains("NaN"));
    assert_eq!(unbalanced(&svg), 0);
}

#[test]
fn a_figure_in_a_page_takes_its_colours_from_the_page() {
    let points = vec![(0.0, 1.0), (1.0, 2.0)];
    let reference = Series::line("b", Style::reference(), points.clone());
    let figure = figure(Axis::new("y"), points).with(reference);
    let svg = figure.inline(7, "a \"name\"");
    assert!(svg.contains("stroke=\"var(--series-0)\"") && svg.contains("stroke=\"var(--faint)\""));
    assert!(svg.contains("aria-label=\"a &quot;name&quot;\""));
    assert!(svg.contains("id=\"inside-7\"") && svg.contains("url(#inside-7)"));
    assert!(!svg.replace("url(#", "").replace("&#", "").contains('#'), "{svg}");
    assert_eq!(unbalanced(&svg), 0);
}

#[test]
fn axes_without_labels_leave_no_room_for_them() {
    let left = |figure: Figure| -> f64 {
        let svg = figure.svg();
        let (_, clip) = svg.split_once("<clipPath").unwrap();
        clip.split('"').nth(3).unwrap().parse().unwrap()
    };
    let points = vec![(0.0, 1.0), (1.0, 2.0)];
    let bare = figure(Axis::new(""), points.clone());
    assert!(left(bare) < left(figure(Axis::new("y"), points)));
}

#[test]
fn small_figures_have_marks_that_do_not_touch() {
    for (low, high) in [(-4.1, 3.9), (1.1, 9.7), (123_400.0, 123_520.0), (-1e-7, 3e-7)] {
        let points = vec![(low, low), (high, high)];
        let svg =
            Figure { x: Axis::new(""), ..figure(Axis::new(""), points) }.sized(240.0, 160.0).svg();
        assert!((2..=6).contains(&svg.matches("text-anchor=\"end\"").count()), "{low}..{high}");
        let marks = svg
            .lines()
            .filter(|l| l.contains("middle") && l.contains("<text x=") && !l.contains("></text"));
        // Where each begins and ends: a letter is about six pixels wide.
        let ends: Vec<(f64, f64)> = marks
            .map(|mark| {
                let x: f64 = mark.split('"').nth(1).unwrap().parse().unwrap();
                let words = mark.split(['>', '<']).nth(2).unwrap();
                let half = 3.0 * words.chars().count() as f64;
                (x - half, x + half)
            })
            .collect();
        assert!((2..=6).contains(&ends.len()), "{low}..{high}: {ends:?}");
        assert!(ends.windows(2).all(|pair| pair[0].1 + 3.0 < pair[1].0), "{low}..{high}: {ends:?}");
        assert!(ends.iter().all(|&(_, end)| end < 241.0), "{low}..{high}: {ends:?}");
    }
}
