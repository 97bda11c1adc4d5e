//! Pages: one file each, no script, nothing loaded from anywhere.

use crate::plot::marker;
use crate::{COLOURS, escape};
use std::fmt::Write;

/// The style of all pages.
pub const STYLE: &str = concat!(include_str!("style.css"), include_str!("plot.css"));

/// The style of charts alone, for pages that have one of their own.
pub const CHART_STYLE: &str = include_str!("plot.css");

/// Begins what is scrolled by itself where it is wider than the screen, with the keyboard, too; ends with `</div>`.
pub const SCROLL: &str = "<div class=\"scroll\" role=\"group\" aria-label=\"Table\" tabindex=\"0\">";

/// A page under construction.
pub struct Page {
    title: String,
    style: &'static str,
    body: String,
}

impl Page {
    /// With this title, which is also its heading.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), style: "", body: String::new() }
    }

    /// Further rules, after those of [`STYLE`].
    pub fn style(mut self, rules: &'static str) -> Self {
        self.style = rules;
        self
    }

    /// Adds HTML.
    pub fn push(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// Adds what is needed to make it again: names and values, such as version, command, seeds, machine.
    pub fn origin<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        self.heading("How this was made");
        self.body.push_str("<dl class=\"origin\">\n");
        for (name, value) in facts {
            let _ = writeln!(self.body, "<dt>{}<dd>{}", escape(name), escape(&value));
        }
        self.body.push_str("</dl>\n");
    }

    /// The whole page.
    pub fn html(self) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n\
             <body>\n<main>\n<h1>{title}</h1>\n{}</main>\n</body>\n</html>\n",
            self.style, self.body
        )
    }
}

/// Names with their colours; with marks as in a line chart, or plain swatches as in stacked bars.
pub fn legend<'a>(names: impl Iterator<Item = &'a str>, marks: bool) -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (i, name) in names.enumerate() {
        let mut key = String::new();
        if marks {
            key.push_str("<line x1=\"0\" y1=\"7\" x2=\"22\" y2=\"7\"/><g class=\"dot\">");
            marker(&mut key, i, 11.0, 7.0);
            key.push_str("</g>");
        } else {
            key.push_str("<rect class=\"part\" x=\"4\" y=\"1\" width=\"14\" height=\"12\"/>");
        }
        let (kind, colour) = (if marks { "s" } else { "d" }, i % COLOURS);
        let _ = write!(
            out,
            "<span><svg class=\"key {kind}{colour}\" viewBox=\"0 0 22 14\" aria-hidden=\"true\">{key}</svg>{}</span>",
            escape(name)
        );
    }
    out.push_str("</div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page() {
        let mut page = Page::new("a <b>");
        page.push("<p>text</p>\n");
        page.origin([("command", "pointsman sim \"x\"".to_owned())]);
        let html = page.html();
        assert!(html.contains("<title>a &lt;b&gt;</title>") && html.contains("<h1>a &lt;b&gt;</h1>"));
        assert!(html.contains("<dt>command<dd>pointsman sim &quot;x&quot;"));
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!html.contains(outside), "{outside}");
        }
        // Nothing is smaller than 11 pixels: sizes in the style sheet are in pixels, or in rem of at least 0.75.
        for size in STYLE.split("font-size: ").skip(1).chain(STYLE.split("font: ").skip(1)) {
            let first = size.split(['p', 'r', ' ']).find_map(|t| t.parse::<f64>().ok()).unwrap_or(99.0);
            assert!(first >= 11.0 || (0.75..=2.0).contains(&first), "{}", &size[..20]);
        }
        assert!(legend(["a&b"].into_iter(), true).contains("a&amp;b"));
    }
}
