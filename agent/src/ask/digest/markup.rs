//! HTML that is right by its making: text goes in through one door, which escapes it.

use std::fmt::Write as _;

use crate::ask::text::clean;

/// A piece of HTML.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Markup of our own, as it stands.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text of anybody.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for c in clean(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Text between two pieces of markup.
    pub(super) fn within(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    /// A bar as long as this share of its cell. It is drawn beside its number, and is nothing for who cannot see it.
    pub(super) fn bar(&mut self, share: f64) -> &mut Self {
        let percent = if share.is_finite() { (share * 100.0).clamp(0.0, 100.0) } else { 0.0 };
        self.raw("<span class=\"bar\" aria-hidden=\"true\"><span style=\"width:");
        let _written = write!(self.0, "{percent:.1}");
        self.raw("%\"></span></span>")
    }

    /// The whole.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_text() {
        let mut markup = Markup::default();
        markup.within("<td>", "<script>alert(\"&'\")</script>\u{1b}[2J\u{202e}", "</td>");
        let expected = "<td>&lt;script&gt;alert(&quot;&amp;&#39;&quot;)&lt;/script&gt; [2J </td>";
        assert_eq!(markup.into_string(), expected);
    }

    #[test]
    fn a_bar_is_never_longer_than_its_cell() {
        for (share, width) in [(0.5, "50.0%"), (7.0, "100.0%"), (-1.0, "0.0%"), (f64::NAN, "0.0%")] {
            let mut markup = Markup::default();
            markup.bar(share);
            assert!(markup.into_string().contains(&format!("width:{width}")), "{share}");
        }
    }
}
