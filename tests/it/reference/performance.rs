//! The page of figures has the rows of the benchmark that writes it, which is too slow, and too easily disturbed, to be a test.

#[path = "../../bench/rows.rs"]
mod rows;

use self::rows::MEASURED;
use super::read;

#[test]
fn the_page_of_figures_has_the_rows_of_the_benchmark() {
    let page = read("docs/reference/performance.md");
    let mut found = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let mut lines = section.lines();
        let title = lines.next().unwrap_or_default().to_owned();
        // The head of the table, and the line below it.
        let rows = lines.filter(|line| line.starts_with('|')).skip(2);
        let rows = rows.map(|row| row.split('|').nth(1).unwrap_or_default().trim().to_owned());
        found.push((title, rows.collect::<Vec<_>>()));
    }
    let expected = MEASURED.iter().map(|one| {
        let rows = one.rows.iter().map(|row| (*row).to_owned());
        (one.title.to_owned(), rows.collect())
    });
    let expected: Vec<(String, Vec<String>)> = expected.collect();
    assert_eq!(
        found, expected,
        "left: docs/reference/performance.md; right: tests/bench/rows.rs. Write the page anew: \
         `TOOLGATE_UPDATE_DOCS=1 cargo bench --bench ratios`"
    );
}
