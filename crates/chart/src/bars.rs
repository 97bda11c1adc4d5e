//! Stacked bars: shares of a whole.

use crate::{COLOURS, escape};
use std::fmt::Write;

/// A stack of bars per category: `parts` gives each category's label and its heights, from 0 to 1, in the order of `names`. `label` is
/// that of the categories.
pub fn stacks(names: &[String], parts: &[(String, Vec<f64>)], label: &str) -> String {
    let mut svg = format!("<svg class=\"plot\" role=\"img\" aria-label=\"shares by {}\">", escape(label));
    // Writing to a String cannot fail, here and below.
    for tick in [0, 50, 100] {
        let y = 100 - tick;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}%\" y2=\"{y}%\"/><text class=\"tick\" x=\"-6\" y=\"{y}%\" dy=\"4\" \
             text-anchor=\"end\">{tick} %</text>"
        );
    }
    let slot = 100.0 / parts.len().max(1) as f64;
    // No more labels than fit side by side on a telephone.
    let every = parts.len().div_ceil(6).max(1);
    for (i, (category, heights)) in parts.iter().enumerate() {
        let (x, width) = ((i as f64 + 0.1) * slot, slot * 0.8);
        let mut top = 100.0;
        for (j, share) in heights.iter().enumerate() {
            let height = 100.0 * share.clamp(0.0, 1.0);
            top -= height;
            if height > 0.0 {
                let _ = write!(
                    svg,
                    "<rect class=\"part d{}\" x=\"{x:.2}%\" y=\"{top:.2}%\" width=\"{width:.2}%\" height=\"{height:.2}%\"><title>{}: \
                     {height:.1} % at {}</title></rect>",
                    j % COLOURS,
                    escape(&names[j]),
                    escape(category)
                );
            }
        }
        if i % every == 0 {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.2}%\" y=\"100%\" dy=\"17\" text-anchor=\"middle\">{}</text>",
                x + width / 2.0,
                escape(category)
            );
        }
    }
    format!("<div class=\"small\">{svg}</svg><div class=\"xlabel\">{}</div></div>", escape(label))
}

#[cfg(test)]
mod tests {
    #[test]
    fn shares_stack_up() {
        let names = ["cpu".to_owned(), "nic".to_owned()];
        let svg =
            super::stacks(&names, &[("10".into(), vec![0.75, 0.25]), ("20".into(), vec![1.0, 0.0])], "load");
        assert!(svg.contains("y=\"25.00%\" width=\"40.00%\" height=\"75.00%\""), "{svg}");
        assert!(
            svg.contains("y=\"0.00%\" width=\"40.00%\" height=\"25.00%\"><title>nic: 25.0 % at 10"),
            "{svg}"
        );
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
