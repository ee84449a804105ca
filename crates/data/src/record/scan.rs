//! Reading the rows that match a filter, and no page that holds none.

use super::{
    filter::{Filter, Resolved},
    page::Page,
    reader::Reader,
    schema::Label,
};
use crate::error::Result;

/// A row that matches a filter.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Match<'a> {
    /// Its index in the file.
    pub row: usize,
    /// Its time.
    pub time: i64,
    /// Its label, if the file has labels.
    pub label: Option<Label>,
    /// Its values, in place.
    pub values: &'a [f32],
}

/// How much a scan has read so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct ScanReport {
    /// Pages whose rows were read.
    pub pages_read: usize,
    /// Pages that their zone maps ruled out.
    pub pages_skipped: usize,
    /// Rows that matched.
    pub rows_matched: usize,
}

/// An iterator over matching rows. A damaged page gives one error, and the scan goes on behind it.
pub struct Scan<'a> {
    reader: &'a Reader,
    filter: Resolved,
    page: Option<Page<'a>>,
    next_page: usize,
    next_row: usize,
    report: ScanReport,
}

impl<'a> Scan<'a> {
    pub(super) fn new(reader: &'a Reader, filter: &Filter) -> Result<Scan<'a>> {
        Ok(Scan {
            reader,
            filter: filter.resolve(reader.schema())?,
            page: None,
            next_page: 0,
            next_row: 0,
            report: ScanReport::default(),
        })
    }

    /// What was read and skipped up to now.
    pub fn report(&self) -> ScanReport {
        self.report
    }

    /// Whether the zone maps leave a chance of a match in a page.
    fn may_match(&self, number: usize) -> Result<bool> {
        let (first, last) = self.reader.times(number)?;
        if !self.filter.time.iter().all(|range| range.may_hold(first, last)) {
            return Ok(false);
        }
        if !self.filter.label.is_empty() {
            let Some((low, high)) = self.reader.labels(number)? else {
                return Ok(false);
            };
            if !self.filter.label.iter().all(|range| range.may_hold(low, high)) {
                return Ok(false);
            }
        }
        for (column, range) in &self.filter.columns {
            let zone = self.reader.zone(number, *column)?;
            if !range.may_hold(zone.min, zone.max) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matching(&self, page: &Page<'a>, i: usize) -> Option<Match<'a>> {
        let (time, label, values) = (*page.times.get(i)?, page.labels.get(i), page.row(i)?);
        let filter = &self.filter;
        let in_time = filter.time.iter().all(|range| range.holds(time));
        let labelled = |range: &super::filter::Limits<f64>| label.is_some_and(|l| range.holds(l.value()));
        let kept = in_time
            && filter.label.iter().all(labelled)
            && filter.columns.iter().all(|(c, range)| range.holds(values[*c]));
        kept.then_some(Match {
            row: page.first_row + i,
            time,
            label,
            values,
        })
    }

    /// Moves to the next page that may hold a match; false at the end of the file.
    fn advance(&mut self) -> Result<bool> {
        self.page = None;
        self.next_row = 0;
        while self.next_page < self.reader.pages() {
            let number = self.next_page;
            self.next_page += 1;
            if self.may_match(number)? {
                self.report.pages_read += 1;
                self.page = Some(self.reader.page(number)?);
                return Ok(true);
            }
            self.report.pages_skipped += 1;
        }
        Ok(false)
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<Match<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(page) = self.page {
                while self.next_row < page.rows() {
                    let i = self.next_row;
                    self.next_row += 1;
                    if let Some(found) = self.matching(&page, i) {
                        self.report.rows_matched += 1;
                        return Some(Ok(found));
                    }
                }
            }
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
