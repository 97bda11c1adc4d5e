use super::*;

fn series(name: &str, ys: &[f64]) -> Series {
    let dots = ys.iter().enumerate().map(|(i, y)| Dot { x: i as f64, y: *y, ..Dot::default() });
    Series { name: name.into(), dots: dots.collect(), ..Series::default() }
}

fn chart(series: Vec<Series>) -> Chart {
    Chart {
        series,
        x: Axis::linear(4.0),
        y: Axis::linear(100.0),
        labels: ("load <1/s>".into(), "P99, ms".into()),
        guides: Vec::new(),
        caption: "A caption.".into(),
    }
}

fn balanced(html: &str) {
    for tag in ["svg", "g", "figure", "div", "text"] {
        let (open, close) =
            (html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count());
        let more = if tag == "g" { 0 } else { html.matches(&format!("<{tag}/>")).count() };
        assert!(
            open >= close && open - close <= more + html.matches("<!").count(),
            "{tag}: {open} and {close}"
        );
    }
    assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
}

#[test]
fn curves_have_names_intervals_and_places() {
    let mut all = vec![series("a<b", &[0.0, 50.0, 100.0]), series("c", &[100.0, 20.0, 10.0])];
    all[0].dots[1].interval = Some((40.0, 75.0));
    let html = chart(all).html();
    balanced(&html);
    assert!(
        html.contains("<line class=\"error\" x1=\"25.00%\" x2=\"25.00%\" y1=\"60.00%\" y2=\"25.00%\"/>"),
        "{html}"
    );
    assert!(html.contains("<polyline points=\"0.0,1000.0 250.0,500.0 500.0,0.0\"/>"), "{html}");
    assert!(
        html.contains(">a&lt;b</text>") && html.contains("load &lt;1/s&gt;") && !html.contains("multiples")
    );
}

#[test]
fn a_curve_under_another_one_has_a_chart_of_its_own() {
    let hidden = vec![series("a", &[10.0, 20.0, 30.0, 90.0]), series("b", &[10.0, 20.0, 30.5, 20.0])];
    let html = chart(hidden).html();
    balanced(&html);
    assert!(html.contains("multiples") && html.matches("class=\"small\"").count() == 2, "{html}");
    assert_eq!(html.matches("class=\"other\"").count(), 2);
    let apart = vec![series("a", &[10.0, 20.0, 30.0, 90.0]), series("b", &[10.0, 40.0, 50.0, 20.0])];
    assert!(!chart(apart).html().contains("multiples"));
}

#[test]
fn a_paper_is_drawn_with_ours() {
    let mut one = series("ours", &[10.0, 20.0]);
    one.companion = series("", &[12.0, 25.0]).dots;
    let html = chart(vec![one]).html();
    assert_eq!(
        (html.matches("class=\"companion\"").count(), html.matches("class=\"hollow\"").count()),
        (1, 2)
    );
    assert_eq!(html.matches("class=\"plot\"").count(), 1);
}

#[test]
fn events_are_marked_and_listed() {
    let mut with = chart(vec![Series { shape: Shape::Plain, ..series("a", &[1.0, 2.0]) }]);
    with.guides = vec![
        Guide::Event(1.0, "s1/cpu fails".into()),
        Guide::Level(50.0, "limit".into()),
        Guide::Event(2.5, "s1/cpu works <again>".into()),
    ];
    let html = with.html();
    balanced(&html);
    assert!(html.contains("<line class=\"event\" x1=\"25.00%\""), "{html}");
    assert!(html.contains("<b>2</b> at 2.5: s1/cpu works &lt;again&gt;") && html.contains(">limit</text>"));
}

#[test]
fn names_do_not_overlap() {
    assert_eq!(spread(&[10.0, 12.0, 200.0]), [10.0, 25.0, 200.0]);
    assert_eq!(spread(&[290.0, 299.0, 300.0]), [270.0, 285.0, 300.0]);
}

#[test]
fn bands() {
    let mut plain = Series { shape: Shape::Plain, ..series("a", &[10.0, 20.0]) };
    plain.dots[0].interval = Some((0.0, 30.0));
    plain.dots[1].interval = Some((15.0, 25.0));
    let html = chart(vec![plain]).html();
    assert!(
        html.contains("<polygon class=\"band\" points=\"0.0,700.0 250.0,750.0 250.0,850.0 0.0,1000.0\"/>"),
        "{html}"
    );
}

#[test]
fn nothing_to_show() {
    balanced(&chart(Vec::new()).html());
    let html = chart(vec![series("a", &[f64::NAN]), series("b", &[])]).html();
    balanced(&html);
}

#[test]
fn more_curves_than_colours_have_a_chart_each() {
    let html = chart((0..9).map(|i| series("x", &[f64::from(i), 5.0])).collect()).html();
    balanced(&html);
    assert_eq!((html.matches("class=\"plot\"").count(), html.matches("class=\"small\"").count()), (9, 9));
}
