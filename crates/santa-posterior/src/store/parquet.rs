//! Parts as Parquet: a column per quantity.

use super::Part;
use crate::error::{Error, Result};
use crate::sampler::STATISTICS;
use bytes::Bytes;
use parquet::basic::{Encoding, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;

/// Columns before the quantities: `chain` and `draw`.
const INDICES: [&str; 2] = ["chain", "draw"];
/// What the names of the statistics' columns begin with.
const STATISTIC: &str = "stat.";

pub fn encode(
    names: &[String],
    chain: usize,
    first: u64,
    quantities: &[f64],
    statistics: &[f64],
) -> Result<Vec<u8>> {
    let rows = quantities.len() / names.len();
    try_encode(names, rows, chain, first, quantities, statistics).map_err(refused)
}

fn try_encode(
    names: &[String],
    rows: usize,
    chain: usize,
    first: u64,
    quantities: &[f64],
    statistics: &[f64],
) -> Result<Vec<u8>, ParquetError> {
    let column = |name: &str, kind: Physical| {
        let field = Type::primitive_type_builder(name, kind);
        field.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let mut fields = Vec::new();
    for name in INDICES {
        fields.push(column(name, Physical::INT64)?);
    }
    for name in names {
        fields.push(column(name, Physical::DOUBLE)?);
    }
    for name in STATISTICS {
        fields.push(column(&format!("{STATISTIC}{name}"), Physical::DOUBLE)?);
    }
    let schema = Type::group_type_builder("draws").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_created_by(concat!("santa-posterior ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let indices = [vec![chain as i64; rows], (0..rows).map(|i| first as i64 + i as i64).collect()];
    for values in indices {
        let mut writer = group.next_column()?.ok_or_else(missing)?;
        writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        writer.close()?;
    }
    for (table, width) in [(quantities, names.len()), (statistics, STATISTICS.len())] {
        for k in 0..width {
            let values: Vec<f64> = table.iter().skip(k).step_by(width).copied().collect();
            let mut writer = group.next_column()?.ok_or_else(missing)?;
            writer.typed::<DoubleType>().write_batch(&values, None, None)?;
            writer.close()?;
        }
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

fn missing() -> ParquetError {
    ParquetError::General("fewer columns than the schema has".into())
}

pub fn decode(bytes: Vec<u8>, dim: usize) -> Result<Part> {
    try_decode(bytes, dim).map_err(refused)
}

fn try_decode(bytes: Vec<u8>, dim: usize) -> Result<Part, ParquetError> {
    let file = SerializedFileReader::new(Bytes::from(bytes))?;
    let columns = file.metadata().file_metadata().schema_descr().num_columns();
    let expected = INDICES.len() + dim + STATISTICS.len();
    if columns != expected {
        let reason = format!("{columns} columns where there should be {expected}");
        return Err(ParquetError::General(reason));
    }
    let mut part = Part { quantities: Vec::new(), statistics: Vec::new() };
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let tables = [
            (&mut part.quantities, dim, INDICES.len()),
            (&mut part.statistics, STATISTICS.len(), INDICES.len() + dim),
        ];
        for (table, width, from) in tables {
            let start = table.len();
            table.resize(start + rows * width, f64::NAN);
            for k in 0..width {
                let ColumnReader::DoubleColumnReader(mut reader) =
                    group.get_column_reader(from + k)?
                else {
                    return Err(ParquetError::General("a column that is not of doubles".into()));
                };
                let mut values = Vec::with_capacity(rows);
                let (_, read, _) = reader.read_records(rows, None, None, &mut values)?;
                if read != rows {
                    return Err(ParquetError::General(format!("{read} values of {rows}")));
                }
                for (row, value) in values.into_iter().enumerate() {
                    table[start + row * width + k] = value;
                }
            }
        }
    }
    Ok(part)
}

fn refused(error: ParquetError) -> Error {
    Error::data(format!("Parquet: {error}"))
}
