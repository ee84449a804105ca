//! NumPy's array file, versions 1 to 3.

use std::{io::Read, path::Path};

use super::{
    Batch, ReadOptions, RowReader,
    fixed::{Element, FixedRows, Shape},
    input, malformed,
};
use crate::error::{Error, Place, Result};

const ADVICE: &str = "save it again with numpy.save(file, numpy.ascontiguousarray(array, dtype='float32'))";
const MAGIC: &[u8] = b"\x93NUMPY";
const MAX_HEADER: usize = 1 << 20;

/// An array file as rows: the first axis counts rows, the others make up a row. Columns are called `0`, `1`, ….
pub struct Npy {
    rows: FixedRows,
}

impl Npy {
    /// Opens a file and reads its header. Arrays of more than one axis must be in C order.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Npy> {
        let path = path.as_ref();
        let wrong = |problem: String| -> Error { malformed(path, Place::Byte(0), problem, ADVICE) };
        let mut input = input::open(path)?;
        let mut take = |bytes: usize| -> Result<Vec<u8>> {
            let mut out = Vec::new();
            let read = (&mut input.reader).take(bytes as u64).read_to_end(&mut out);
            match read {
                Ok(read) if read == bytes => Ok(out),
                Ok(_) => Err(wrong("the file ends inside its header".to_owned())),
                Err(e) => Err(wrong(format!("the header cannot be read: {e}"))),
            }
        };
        let front = take(8)?;
        if !front.starts_with(MAGIC) {
            return Err(wrong("this is not an npy file".to_owned()));
        }
        let length_bytes = match front[6] {
            1 => 2,
            2 | 3 => 4,
            other => return Err(wrong(format!("npy version {other} is not known"))),
        };
        let length = take(length_bytes)?
            .iter()
            .rev()
            .fold(0usize, |n, &b| n << 8 | usize::from(b));
        if length > MAX_HEADER {
            return Err(wrong(format!("a header of {length} bytes")));
        }
        let header = String::from_utf8_lossy(&take(length)?).into_owned();
        let begin = (8 + length_bytes + length) as u64;
        let shape = shape(&header, begin).map_err(wrong)?;
        Ok(Npy {
            rows: FixedRows::new(path, input, shape, options)?,
        })
    }

    /// Rows not yet read.
    pub fn rows_left(&self) -> u64 {
        self.rows.rows_left()
    }
}

impl RowReader for Npy {
    fn names(&self) -> &[String] {
        &self.rows.selection.names
    }

    fn read(&mut self, limit: usize, batch: &mut Batch) -> Result<usize> {
        self.rows.read(limit, batch)
    }
}

/// Reads the Python dictionary `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn shape(header: &str, begin: u64) -> Result<Shape, String> {
    let descr = entry(header, "descr")?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split('\'').next());
    let descr = descr.ok_or("structured arrays are not supported")?;
    let (big_endian, element) = element(descr)?;
    let shape = entry(header, "shape")?;
    let inside = shape.strip_prefix('(').and_then(|s| s.split(')').next());
    let inside = inside.ok_or("the shape is not a tuple")?;
    let extents = inside.split(',').map(str::trim).filter(|e| !e.is_empty());
    let extents: Vec<u64> = extents
        .map(|e| e.parse().map_err(|_| format!("the shape holds {e:?}")))
        .collect::<Result<_, _>>()?;
    let wide = extents.iter().filter(|&&e| e > 1).count() > 1;
    match entry(header, "fortran_order")? {
        order if order.starts_with("False") => {}
        order if order.starts_with("True") && !wide => {}
        order if order.starts_with("True") => return Err("the array is in Fortran order".to_owned()),
        _ => return Err("fortran_order is neither True nor False".to_owned()),
    }
    let columns = extents.iter().skip(1).try_fold(1u64, |n, &e| n.checked_mul(e));
    Ok(Shape {
        element,
        big_endian,
        rows: extents.first().copied().unwrap_or(1),
        columns: columns.ok_or("the axes multiply to more than 64 bits")?,
        begin,
    })
}

/// What follows a key of the dictionary.
fn entry<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = format!("'{key}'");
    let value = header.split_once(&quoted).map(|(_, rest)| rest.trim_start());
    let value = value.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    value.ok_or_else(|| format!("the header has no entry {key:?}"))
}

fn element(descr: &str) -> Result<(bool, Element), String> {
    let unknown = || format!("numbers of type {descr:?} are not supported");
    let order = descr.chars().next().filter(char::is_ascii).ok_or_else(unknown)?;
    let element = match &descr[1..] {
        "u1" | "b1" => Element::U8,
        "i1" => Element::I8,
        "u2" => Element::U16,
        "i2" => Element::I16,
        "u4" => Element::U32,
        "i4" => Element::I32,
        "u8" => Element::U64,
        "i8" => Element::I64,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => return Err(unknown()),
    };
    match order {
        '<' | '|' | '=' => Ok((false, element)),
        '>' => Ok((true, element)),
        _ => Err(unknown()),
    }
}
