// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package focus

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// decimalBytes hold a decimal of precision digits.
const decimalBytes = 16

// WriteParquet writes the table as one file, compressed with zstd. Decimals are DECIMAL(38, 18), times are TIMESTAMP in
// milliseconds UTC, objects of JSON are strings. All columns are optional. The error names a value that does not have
// the type of its column.
func (t Table) WriteParquet(to io.Writer) error {
	group := parquet.Group{}
	for _, c := range t.Columns {
		group[c.Name] = parquet.Compressed(parquet.Optional(node(c.Type)), &zstd.Codec{})
	}
	schema := parquet.NewSchema("CostAndUsage", group)
	// A group has its fields by name.
	order := make([]int, 0, len(t.Columns))
	for _, field := range schema.Fields() {
		order = append(order, slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == field.Name() }))
	}
	out := parquet.NewWriter(
		to, schema, parquet.CreatedBy("lighterage", wirev1.Version, ""), parquet.KeyValueMetadata("FocusVersion", Version),
	)
	for i, cells := range t.Rows {
		row := make(parquet.Row, len(order))
		for at, from := range order {
			value, err := parse(t.Columns[from].Type, cells[from])
			if err != nil {
				return fmt.Errorf("writing Parquet: row %d, column %s: %w", i, t.Columns[from].Name, err)
			}
			defined := 1
			if value.IsNull() {
				defined = 0
			}
			row[at] = value.Level(0, defined, at)
		}
		if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
			return fmt.Errorf("writing Parquet: row %d: %w", i, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}

func node(of Type) parquet.Node {
	switch of {
	case Decimal:
		return parquet.Decimal(scale, precision, parquet.FixedLenByteArrayType(decimalBytes))
	case DateTime:
		return parquet.Timestamp(parquet.Millisecond)
	case Boolean:
		return parquet.Leaf(parquet.BooleanType)
	}
	return parquet.String()
}

func parse(as Type, cell *string) (parquet.Value, error) {
	if cell == nil {
		return parquet.NullValue(), nil
	}
	switch as {
	case Decimal:
		bytes, err := twosComplement(*cell)
		return parquet.FixedLenByteArrayValue(bytes), err
	case DateTime:
		at, err := time.Parse(time.RFC3339, *cell)
		return parquet.Int64Value(at.UnixMilli()), err
	case Boolean:
		if *cell != "true" && *cell != "false" {
			return parquet.Value{}, fmt.Errorf("%q is neither true nor false", *cell)
		}
		return parquet.BooleanValue(*cell == "true"), nil
	}
	return parquet.ByteArrayValue([]byte(*cell)), nil
}

// twosComplement is the form that Parquet has for decimals, big endian.
func twosComplement(decimal string) ([]byte, error) {
	units, fraction, _ := strings.Cut(decimal, ".")
	if len(fraction) > scale {
		return nil, fmt.Errorf("%q has more than %d digits after the point", decimal, scale)
	}
	value, ok := new(big.Int).SetString(units+fraction+strings.Repeat("0", scale-len(fraction)), 10)
	if !ok {
		return nil, fmt.Errorf("%q is no decimal", decimal)
	}
	if len(new(big.Int).Abs(value).String()) > precision {
		return nil, fmt.Errorf("%q has more than %d digits before the point", decimal, precision-scale)
	}
	if value.Sign() < 0 {
		value.Add(value, new(big.Int).Lsh(big.NewInt(1), 8*decimalBytes))
	}
	return value.FillBytes(make([]byte, decimalBytes)), nil
}
