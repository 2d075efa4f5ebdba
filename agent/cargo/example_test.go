// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
)

// A program packs records and keeps the index. It then reads one record and a range of bytes, of which only the blocks
// that have them are expanded, and verifies the file.
func Example() {
	ctx := context.Background()
	var file bytes.Buffer
	index, err := cargo.Pack(ctx, &file, strings.NewReader("id,amount\n1,50\n2,70\n3,20\n"), cargo.PackOptions{
		Form: cargo.Gzip, Records: cargo.Records{Layout: cargo.Lines}, Engines: engines.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	kept := index.Append(nil) // beside the file, for whoever reads it

	if index, err = cargo.ParseIndex(kept); err != nil {
		log.Fatal(err)
	}
	r, err := cargo.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), index, engines.Default())
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.WriteRecords(ctx, os.Stdout, 2, 1, 1); err != nil {
		log.Fatal(err)
	}
	part := make([]byte, 6)
	if _, err := r.ReadAt(part, 3); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d records\n", part, index.RecordCount())
	if err := r.Scrub(ctx, true); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2,70
	// amount, 4 records
}

// A program sums up records of a fixed length.
func ExampleReader_Records() {
	ctx := context.Background()
	var file bytes.Buffer
	index, err := cargo.Pack(ctx, &file, strings.NewReader("0010002000300004"), cargo.PackOptions{
		Form: cargo.Zstd, Records: cargo.Records{Layout: cargo.Fixed, Length: 4}, Engines: engines.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := cargo.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), index, engines.Default())
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for record, err := range r.Records(ctx, 1, 2) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", record)
	}
	// Output:
	// 0020
	// 0030
}

// A program that lost an index makes it again of the file.
func ExampleRebuildRecords() {
	ctx := context.Background()
	var file bytes.Buffer
	_, err := cargo.Pack(ctx, &file, strings.NewReader("one\ntwo\n"),
		cargo.PackOptions{Form: cargo.Gzip, Engines: engines.Default()})
	if err != nil {
		log.Fatal(err)
	}
	index, err := cargo.RebuildRecords(ctx, &file, engines.Default(), cargo.Records{Layout: cargo.Lines})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(index.Form(), index.Size(), "bytes,", index.RecordCount(), "records")
	// Output: Gzip 8 bytes, 2 records
}
