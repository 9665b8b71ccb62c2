//! The conversions as a whole: every rule with its text, real pages, and pages that mean harm.

use std::time::Duration;

use proptest::prelude::*;

use super::{to_markdown, to_text};

fn check(cases: &[(&str, &str)]) {
    for (html, expected) in cases {
        assert_eq!(to_markdown(html), *expected, "{html}");
    }
}

#[test]
fn documents_are_content() {
    check(&[
        ("", ""),
        (" \n\t ", ""),
        ("text", "text"),
        (
            "<!doctype html><html><head><title>T</title></head><body><p>a</p></body></html>",
            "T\n\na",
        ),
        ("<head><title>A &amp; B</title><style>p{}</style></head>x", "A & Bx"),
        ("<p>a</p></body></html><p>b</p>", "a\n\nb"),
        ("<html class=x><body class=y>a", "a"),
        ("a<!-- b -->c", "ac"),
        ("a <!-- b --> c", "a c"),
        ("<template><p>lost</p></template>a", "a"),
        ("<frameset><frame></frameset>kept", "kept"),
        ("<title>T</title><frameset><frame src=x></frameset>", "T"),
        ("<iframe><b>x</b></iframe>", "<b>x</b>"),
        ("<textarea><b>x</b></textarea>", "<b>x</b>"),
        ("<noscript><b>x</b></noscript>", "**x**"),
        ("<nav>n</nav><svg><title>t</title><a href=x>l</a></svg>", "n\n\ntl"),
        (
            "&lt;p&gt; &copy; &#x41; &eacute; &nosuch; &amp;amp;",
            "<p> © A é &nosuch; &amp;",
        ),
        ("a\0b", "ab"),
    ]);
}

#[test]
fn removed_elements_leave_nothing() {
    check(&[
        ("<script>alert('<p>')</script>a", "a"),
        ("<style>p { }</style>a<link rel=x><meta name=y>b", "ab"),
        ("<p><script>x</script></p>a", "a"),
        ("<b><script>x</script></b>a", "a"),
        ("<svg><style>x</style><script>y</script></svg>a", "a"),
    ]);
}

#[test]
fn white_space_is_what_a_browser_shows() {
    check(&[
        ("a \n\t b", "a b"),
        ("<p> a </p> <p> b </p>", "a\n\nb"),
        ("<b>a</b> <b>b</b>", "**a** **b**"),
        ("<b>a </b> <b> b</b>", "**a** **b**"),
        ("a <b> b </b> c", "a **b** c"),
        ("a<b> b </b>c", "a **b** c"),
        ("a<span> </span>b", "a b"),
        ("a<span>&nbsp;</span>b", "a\u{a0}b"),
        ("a<b>&nbsp;b&nbsp; </b>c", "a\u{a0}**b**\u{a0} c"),
        ("a<br> b", "a  \nb"),
        ("a <br>b", "a  \nb"),
        ("a <img src=x> b", "a ![](x) b"),
        ("<p><img src=x> a</p>", "![](x) a"),
        ("<p>a <img src=x></p>", "a ![](x)"),
        ("<pre>x</pre> y", "x\n\ny"),
        ("<div>a<div>b</div>c</div>", "a\n\nb\n\nc"),
        ("a&#12;b", "a\u{c}b"),
        ("&nbsp;a&nbsp;", "\u{a0}a"),
        ("<img src=x> ", "![](x)"),
        (" <img src=x>", "![](x)"),
        ("<a href=x> a </a>b", "[a](x) b"),
        ("a<a href=x> b</a>", "a [b](x)"),
    ]);
}

#[test]
fn blocks_are_separated_by_a_blank_line() {
    let blocks = [
        "address",
        "article",
        "aside",
        "audio",
        "blockquote",
        "canvas",
        "center",
        "dd",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "isindex",
        "main",
        "menu",
        "nav",
        "noscript",
        "ol",
        "output",
        "p",
        "pre",
        "section",
        "ul",
    ];
    for name in blocks {
        let mark = if name == "blockquote" { "> " } else { "" };
        let expected = format!("a\n\n{mark}b\n\nc");
        assert_eq!(to_markdown(&format!("a<{name}>b</{name}>c")), expected, "{name}");
    }
    for name in [
        "span", "button", "details", "summary", "label", "video", "object", "select", "time", "x-y",
    ] {
        assert_eq!(to_markdown(&format!("a<{name}>b</{name}>c")), "abc", "{name}");
    }
    check(&[
        ("<table><tr><th>A<th>B<tr><td>1<td>2</table>c", "A\n\nB\n\n1\n\n2\n\nc"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n\nb\n\nc\n\nd"),
        ("<details><summary>s</summary>t</details>", "st"),
        ("<del>a</del> <s>b</s> <u>c</u>", "a b c"),
        ("<div><div><div>a</div></div></div><div>b</div>", "a\n\nb"),
    ]);
}

#[test]
fn blank_elements_are_line_ends_or_nothing() {
    check(&[
        ("a<p></p>b", "a\n\nb"),
        ("a<p>&nbsp;</p>b", "a\n\nb"),
        ("a<b></b>b", "ab"),
        ("a<b> </b>b", "a b"),
        ("a<h1></h1>b", "a\n\nb"),
        ("a<pre> \n </pre>b", "a\n\nb"),
        ("<ul><li></li><li>a</li></ul>", "-   a"),
        ("<a href=x></a>", "[](x)"),
        ("a<a href=x> </a>b", "a [](x)b"),
        ("a<em><img></em>b", "ab"),
        ("<blockquote><img></blockquote>a", ">\u{20}\n\na"),
        ("<p><code></code>a</p>", "a"),
    ]);
}

#[test]
fn headings() {
    check(&[
        ("<h1>a</h1><h2>b</h2><h6>c</h6>", "# a\n\n## b\n\n###### c"),
        ("a<h3> b \n c </h3>d", "a\n\n### b c\n\nd"),
        ("<h2>a <em>b</em> <a href=#c>#</a></h2>", "## a *b* [#](#c)"),
        ("<h1>a<br>b</h1>", "# a  \nb"),
    ]);
}

#[test]
fn quotes() {
    check(&[
        ("<blockquote>a</blockquote>", "> a"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n> \n> b"),
        ("<blockquote>a<blockquote>b</blockquote></blockquote>", "> a\n> \n> > b"),
        ("<blockquote><ul><li>a<li>b</ul></blockquote>", "> -   a\n> -   b"),
        (
            "<blockquote><pre><code>a\n\nb</code></pre></blockquote>",
            "> ```\n> a\n> \n> b\n> ```",
        ),
    ]);
}

#[test]
fn lists() {
    check(&[
        ("<ul><li>a</li><li>b</li></ul>c", "-   a\n-   b\n\nc"),
        ("<ul>\n<li>a\n</li>\n<li>b\n</li>\n</ul>", "-   a\n-   b"),
        ("<ol><li>a<li>b</ol>", "1.  a\n2.  b"),
        ("<ol start=9><li>a<li>b</ol>", "9.  a\n10.  b"),
        ("<ol start=x><li>a<li>b</ol>", "NaN.  a\nNaN.  b"),
        ("<ol start=''><li>a</ol>", "1.  a"),
        ("<ol start=-1><li>a<li>b</ol>", "-1.  a\n0.  b"),
        ("<ol><p>x</p><li>a</ol>", "x\n\n2.  a"),
        (
            "<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>",
            "-   a\n    -   b\n        1.  c\n-   d",
        ),
        ("<ul><li><ul><li>a</ul></ul>", "-   -   a"),
        ("<ul><li>a<ul><li>b</ul>c<li>d</ul>", "-   a\n    -   bc\n-   d"),
        (
            "<ul><li>a<ul><li>b</ul><p>c</p></ul>",
            "-   a\n    \n    -   b\n    \n    c",
        ),
        ("<ul><li><p>a</p><li><p>b</p></ul>", "-   a\n    \n-   b"),
        ("<ul><li><p>a</p><p>b</p></ul>c", "-   a\n    \n    b\n    \n\nc"),
        ("<li>a</li>", "-   a"),
        ("<div><li>a</li><li>b</li></div>", "-   a\n-   b"),
        ("<menu><li>a</li></menu>", "-   a"),
        ("<ul><li>a<br>b</ul>", "-   a  \n    b"),
        ("<ul><ul><li>a</ul></ul>", "-   a"),
        ("<ul><li><input type=checkbox> a</ul>", "-    a"),
    ]);
}

#[test]
fn code_blocks() {
    check(&[
        ("<pre><code>a\n  b\n</code></pre>", "```\na\n  b\n```"),
        (
            "<pre><code class='hljs language-rust x'>a</code></pre>",
            "```rust\na\n```",
        ),
        ("<pre class=language-rust><code>a</code></pre>", "```\na\n```"),
        ("<pre><code class=lang-rust>a</code></pre>", "```\na\n```"),
        (
            "<pre><code><span>a</span> <b>*b*</b>\n\n\n\nc</code></pre>",
            "```\na *b*\n\n\n\nc\n```",
        ),
        ("<pre><code>a\n````\nb</code></pre>", "`````\na\n````\nb\n`````"),
        ("<pre><code>a</code>lost</pre>", "```\na\n```"),
        ("<pre>a<code>b</code></pre>", "a`b`"),
        ("<pre> <code>b</code></pre>", " `b`"),
        ("<pre><!-- --><code>b</code></pre>", "`b`"),
        ("<pre>\na  b\n  *c* # d</pre>", "a  b\n  \\*c\\* # d"),
        ("<pre># a\n# b</pre>", "\\# a\n# b"),
        ("<pre>a <b> b</b> c</pre>", "a ** b** c"),
        ("<pre>a<b> b </b>c</pre>", "a **b** c"),
        ("<pre>a\n\n\n\n<b>b</b></pre>", "a\n\n**b**"),
        ("a<pre>b</pre>c", "a\n\nb\n\nc"),
        (
            "<ul><li>a<pre><code>b\n\nc</code></pre></ul>",
            "-   a\n    \n    ```\n    b\n    \n    c\n    ```",
        ),
    ]);
}

#[test]
fn code_in_the_line() {
    check(&[
        ("<code>a_b*c</code>", "`a_b*c`"),
        ("<code>a`b</code>", "``a`b``"),
        ("<code>`a`</code>", "`` `a` ``"),
        ("<code>a <b>b</b></code>", "`a **b**`"),
        ("<code>a<br>b</code>", "`a   b`"),
        ("a<code> b </code>c", "a `b` c"),
        ("<code><code>a</code></code>", "`` `a` ``"),
        ("<kbd>a_b</kbd>", "a\\_b"),
        ("<a href=x><code>f()</code></a>", "[`f()`](x)"),
    ]);
}

#[test]
fn links_and_images() {
    check(&[
        ("<a href=/x>a</a>", "[a](/x)"),
        ("<a href='x y'>a</a>", "[a](x y)"),
        ("<a href='?a=1&amp;b=2#c'>a</a>", "[a](?a=1&b=2#c)"),
        ("<a href=''>a</a> <a>b</a> <a name=x>c</a>", "a b c"),
        ("<a href='f_(x)'>a</a>", r"[a](f_\(x\))"),
        ("<a href=x title='say \"t\"'>a</a>", "[a](x \"say \\\"t\\\"\")"),
        ("<a href=x title='a\n\n  b\nc'>a</a>", "[a](x \"a\nb\nc\")"),
        ("<a href=x title=''>a</a>", "[a](x)"),
        ("a<a> b </a>c", "a b c"),
        ("<a href=x>[a]</a>", r"[\[a\]](x)"),
        ("<a href=x><p>a</p></a>", "[\n\na\n\n](x)"),
        ("<a href=x><img src=y alt=z></a>", "[![z](y)](x)"),
        ("<img src=y>", "![](y)"),
        ("<img alt=z>", ""),
        ("<img src='' alt=z>", ""),
        (
            "<img src='a b(c)' alt='[x]_' title='t \"u\"'>",
            "![[x]_](a b(c) \"t \"u\"\")",
        ),
        ("<img src=y alt='a\n\n b'>", "![a\nb](y)"),
        ("<picture><source srcset=a><img src=b></picture>", "![](b)"),
    ]);
}

#[test]
fn emphasis() {
    check(&[
        ("<em>a</em><i>b</i><strong>c</strong><b>d</b>", "*a**b***c****d**"),
        ("<b>a <i>b</i></b>", "**a *b***"),
        ("<em></em>a", "a"),
        ("<p><b>a</b></p><p><b>b</b></p>", "**a**\n\n**b**"),
        ("<b><p>a</p></b>", "**\n\na\n\n**"),
        ("<b>a<p>b</p>c</b>", "**a\n\nb\n\nc**"),
    ]);
}

#[test]
fn rules_and_breaks() {
    check(&[
        ("a<hr>b", "a\n\n---\n\nb"),
        ("a<br>b<br/>c", "a  \nb  \nc"),
        ("a<br><br>b", "a  \n  \nb"),
        ("<p>a<br></p>b", "a  \n\nb"),
        ("a<hr><hr>b", "a\n\n---\n\n---\n\nb"),
    ]);
}

#[test]
fn the_start_of_each_text_is_escaped() {
    check(&[
        ("1. a", r"1\. a"),
        ("<b>x</b>- a", r"**x**\- a"),
        ("<p>a<b># b</b></p>", r"a**\# b**"),
        ("a # b", "a # b"),
        ("&lt;b&gt; [x] *y* _z_ `c` \\", r"<b> \[x\] \*y\* \_z\_ \`c\` \\"),
    ]);
}

#[test]
fn markup_that_is_wrong_is_mended_like_browsers_do() {
    check(&[
        ("<p>a<p>b", "a\n\nb"),
        ("<b>a<i>b</b>c</i>", "**a*b****c*"),
        ("<table>a<tr><td>b</table>", "a\n\nb"),
        ("</p>a</div></x>b", "ab"),
        ("<a href=x>a<a href=y>b", "[a](x)[b](y)"),
        ("<li>a<li>b", "-   a\n-   b"),
        ("a < b <3", "a < b <3"),
        ("<p", ""),
        ("<p>a</p", "a"),
        ("<a href='x", ""),
        ("<h1>a<h2>b</h2></h1>", "# a\n\n## b"),
    ]);
}

#[test]
fn text_is_what_stands_between_tags() {
    for (html, expected) in [
        ("", ""),
        ("<h1>A</h1><p>b</p>", "Ab"),
        ("just text", "just text"),
        (" <p> a\n b </p> c ", "a\n b  c"),
        ("<div>a</div>b<p>c</p>d", "abcd"),
        ("caf&eacute; &#8212; &lt;b&gt; &amp;amp;", "café — <b> &amp;"),
        ("<title>T &amp; U</title><textarea><b>x</b></textarea>", "T & U<b>x</b>"),
        ("<script>a<b</script>b<style>c</style>d", "bd"),
        ("<script>a<!-- <script> </script> --> </script>b", "b"),
        ("<noscript>a<br>b<p>c<p>d</noscript>e", "e"),
        ("<noscript><ul><li>a<li>b</noscript>c", "c"),
        ("<object>a<param><embed>b</object>c<embed>d", "cd"),
        ("<object>a<object>b</object>c</object>d", "d"),
        ("<iframe src=x>a</iframe>b", "b"),
        ("<noscript>a</div></p></noscript>b", "b"),
        ("<object><svg><path/><path/></svg></object>a", "a"),
        ("<object><svg><path/></object>a", "a"),
        ("a</noscript>b</script>c", "abc"),
        ("a<!-- b -->c<!doctype x>d<?x?>e<![CDATA[f]]>g", "acdeg"),
        ("<object>a", ""),
        ("a<b", "a"),
        ("\u{feff}a", "a"),
    ] {
        assert_eq!(to_text(html), expected, "{html}");
    }
}

/// Pages as they are found, each with what becomes of it.
#[test]
fn pages_read_well() {
    for (page, expected) in [
        (include_str!("pages/reference.html"), include_str!("pages/reference.md")),
        (include_str!("pages/article.html"), include_str!("pages/article.md")),
        (include_str!("pages/questions.html"), include_str!("pages/questions.md")),
    ] {
        assert_eq!(to_markdown(page), expected.trim_end());
    }
}

/// Returns how long this thread has worked. What else the machine does, does not count.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Returns how long both conversions take together, and the length of the longer result.
fn measured(html: &str) -> (Duration, usize) {
    let start = worked();
    let size = to_markdown(html).len().max(to_text(html).len());
    (worked() - start, size)
}

/// Pages that take a careless converter for ever, its stack or the memory; a factor says how long each is.
fn harmful(times: usize) -> Vec<(&'static str, String)> {
    let each = |one: &dyn Fn(usize) -> String| (0..times).map(one).collect::<String>();
    vec![
        ("nested blocks", "<div>".repeat(times) + "x"),
        (
            "nested blocks that end",
            "<div>".repeat(times) + "x" + &"</div>".repeat(times),
        ),
        ("nested quotes", "<blockquote>a".repeat(times)),
        ("nested lists", "<ul><li>a".repeat(times)),
        (
            "deep lines",
            "<blockquote><ul><li>".repeat(times.min(100)) + &"a<br>".repeat(times),
        ),
        ("nested lines", "<b><i>a".repeat(times)),
        ("nested tables", "<table><tr><td>".repeat(times)),
        ("nested drawings", "<svg><title>".repeat(times)),
        ("styles in a drawing", "<svg>".to_owned() + &"<style>".repeat(times)),
        ("nested templates", "<template>".repeat(times)),
        (
            "opened again",
            each(&|at| format!("<code class=c{at}>")) + &"<p>x".repeat(times),
        ),
        (
            "a link opened again",
            format!("<a href={}>", "x".repeat(times)) + &"<p>x".repeat(times),
        ),
        ("attributes", format!("<p{}>x", each(&|at| format!(" a{at}")))),
        (
            "attributes of an end tag",
            format!("<p>x</p{}>", each(&|at| format!(" a{at}"))),
        ),
        (
            "attributes that look like an end",
            format!("<p{}>x", each(&|at| format!(" a{at}='>'"))),
        ),
        (
            "attributes after raw text",
            format!("<title>x</title a='>'{}>", each(&|at| format!(" a{at}"))),
        ),
        (
            "attributes after a trick",
            format!(
                "<script><!--<script></script x=\"--></script><p{}",
                each(&|at| format!(" a{at}"))
            ),
        ),
        ("before a table", "<table>".to_owned() + &"<b>x".repeat(times)),
        ("misnested", "<b><p>x</b>".repeat(times)),
        ("unknown ends", "<div>".repeat(times) + &"</x>".repeat(times)),
        ("comments that do not end", "<!--".repeat(times)),
        ("white space that stays", "<span>".repeat(200) + &"&nbsp;".repeat(times)),
        ("spaces", " <b> ".repeat(times)),
        (
            "back-ticks",
            format!("<code>{}</code>", each(&|at| "`".repeat(at % 100) + " ")),
        ),
        ("items", "<ol start=1e308>".to_owned() + &"<li>a".repeat(times)),
        ("nothing but openings", "<".repeat(times)),
        ("references", "&#0;&lt&am".repeat(times)),
    ]
}

#[test]
fn no_page_takes_for_ever() {
    let deep = ("as deep as can be", "<div>".repeat(100_000));
    for (name, html) in harmful(20_000).into_iter().chain([deep]) {
        let (time, size) = measured(&html);
        assert!(
            size < 8 * html.len() + 512 * 1024,
            "{name}: {size} bytes of {}",
            html.len()
        );
        assert!(time < Duration::from_secs(20), "{name}: {time:?}");
    }
}

#[test]
fn text_survives_any_depth() {
    let html =
        "<div>a<b>".repeat(2_000) + "<script>no</script><p>end</p>" + &"</b></div>".repeat(2_000) + "<h1>after</h1>";
    let text = to_markdown(&html);
    assert_eq!(text.matches('a').count(), 2_001);
    assert!(text.ends_with("# after"), "{}", &text[text.len() - 100..]);
    assert!(text.contains("end") && !text.contains("no"));
}

#[test]
fn a_page_that_is_too_large_says_so() {
    let text = to_markdown(&"<p>a".repeat(600_000));
    assert!(text.ends_with("a\n\n(This page is too large; the rest of it is left out.)"));
}

proptest! {
    #[test]
    fn any_text_is_converted(html in any::<String>()) {
        to_markdown(&html);
        to_text(&html);
    }

    #[test]
    fn any_tags_are_converted(parts in prop::collection::vec(part(), 0..60)) {
        let html = parts.concat();
        let markdown = to_markdown(&html);
        prop_assert!(markdown.len() <= 64 * 1024 + 64 * html.len());
        prop_assert!(!markdown.starts_with('\n') && !markdown.ends_with(char::is_whitespace));
        to_text(&html);
    }

    #[test]
    fn words_are_kept_in_their_order(words in prop::collection::vec("[a-z]{1,8}", 1..20), tags in prop::collection::vec(0..TAGS.len(), 20)) {
        let html: String = words.iter().zip(&tags).map(|(word, tag)| format!("<{0}>{word}</{0}>", TAGS[*tag])).collect();
        let markdown = to_markdown(&html);
        let mut rest = markdown.as_str();
        for word in &words {
            let at = rest.find(word.as_str());
            prop_assert!(at.is_some(), "{word} is not in {rest:?} of {html}");
            rest = &rest[at.unwrap() + word.len()..];
        }
        prop_assert_eq!(to_text(&html), words.concat());
    }
}

const TAGS: [&str; 12] = [
    "p",
    "div",
    "b",
    "em",
    "code",
    "h2",
    "li",
    "ul",
    "blockquote",
    "span",
    "pre",
    "section",
];

/// One piece of a page, mostly of a tag.
fn part() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a",
        "b",
        "blockquote",
        "body",
        "br",
        "button",
        "caption",
        "code",
        "col",
        "div",
        "em",
        "form",
        "frameset",
        "h1",
        "head",
        "hr",
        "html",
        "iframe",
        "img",
        "input",
        "li",
        "math",
        "mi",
        "nobr",
        "noscript",
        "object",
        "ol",
        "option",
        "p",
        "pre",
        "script",
        "select",
        "style",
        "svg",
        "table",
        "tbody",
        "td",
        "template",
        "textarea",
        "title",
        "tr",
        "ul",
        "x-y",
    ]);
    let attribute = prop::sample::select(vec![
        "",
        " href=x",
        " href='a b' title=\"c\n\nd\"",
        " src=y alt=z",
        " start=7",
        " class=language-c",
        " type=hidden",
        "/",
        " a=",
    ]);
    let text = prop::sample::select(vec![
        " ",
        "\n",
        "\n\n\n",
        "x",
        " x ",
        "- ",
        "1. ",
        "*",
        "`",
        "``",
        "&nbsp;",
        "&lt;",
        "\u{a0}",
        "<!-- c -->",
        "<![CDATA[x]]>",
        "\0",
        "<",
        "</",
        "<!",
        "é",
    ]);
    prop_oneof![
        3 => (name.clone(), attribute).prop_map(|(name, attribute)| format!("<{name}{attribute}>")),
        2 => name.prop_map(|name| format!("</{name}>")),
        3 => text.prop_map(str::to_owned),
    ]
}
