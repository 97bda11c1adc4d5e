"""Prints what Apache Arrow reads of a file of Parquet: names and types of columns, then a line for each row."""

import sys

import pyarrow.parquet

table = pyarrow.parquet.read_table(sys.argv[1])
print(", ".join(f"{field.name} {field.type}" for field in table.schema))
for row in table.to_pylist():
    print(*row.values())
