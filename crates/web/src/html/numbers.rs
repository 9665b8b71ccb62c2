//! Numbers of list items, as the language of browsers reads and writes them.
//!
//! *Invariant:* whatever a page says is a number then, or `NaN`; its text is short.

/// Returns the number of an item: from what the list says it starts with, if it says anything.
pub(super) fn of_item(start: &str, index: usize) -> String {
    if start.is_empty() {
        return (index + 1).to_string();
    }
    // The index is a number of elements, far below where it would be rounded.
    #[allow(clippy::cast_precision_loss)]
    let number = parse(start) + index as f64;
    write(number)
}

fn parse(text: &str) -> f64 {
    let text = super::space::trim(text);
    let radix = [("0x", 16), ("0o", 8), ("0b", 2)];
    for (prefix, radix) in radix {
        let digits = text.strip_prefix(prefix).or(text.strip_prefix(&prefix.to_uppercase()));
        if let Some(digits) = digits {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let number = u32::from_str_radix(digits, radix).ok().filter(|_| is_plain);
            return number.map_or(f64::NAN, f64::from);
        }
    }
    match text {
        "" => 0.0,
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        // Rust knows words for numbers that are none there.
        _ if text.contains(|c: char| c.is_alphabetic() && !matches!(c, 'e' | 'E')) => f64::NAN,
        _ => text.parse().unwrap_or(f64::NAN),
    }
}

fn write(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    match number.abs() {
        size if size >= 1e21 => format!("{number:e}").replace('e', "e+"),
        size if size > 0.0 && size < 1e-6 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_what_the_list_says() {
        let check = |start: &str, numbers: [&str; 2]| {
            assert_eq!([of_item(start, 0), of_item(start, 1)], numbers, "{start:?}");
        };
        check("", ["1", "2"]);
        check("3", ["3", "4"]);
        check(" 7 ", ["7", "8"]);
        check("0", ["0", "1"]);
        check(" ", ["0", "1"]);
        check("-1", ["-1", "0"]);
        check("-0", ["0", "1"]);
        check("1.5", ["1.5", "2.5"]);
        check("0x10", ["16", "17"]);
        check("0x-1", ["NaN", "NaN"]);
        check("1e21", ["1e+21", "1e+21"]);
        check("Infinity", ["Infinity", "Infinity"]);
        check("inf", ["NaN", "NaN"]);
        check("nan", ["NaN", "NaN"]);
        check("a", ["NaN", "NaN"]);
        check("3a", ["NaN", "NaN"]);
    }
}
