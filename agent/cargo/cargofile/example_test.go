// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
)

// A program packs a file, copies it as it rests, and reads a record of the copy. With s3://BUCKET/KEY for a path it
// does so in object stores.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files := cargofile.Files{Engines: engines.Default(), Workers: 2}
	packed, copied := filepath.Join(dir, "orders.gz"), filepath.Join(dir, "copy.gz")

	_, err = files.Pack(ctx, strings.NewReader("debit\ncredit\n"), packed,
		cargo.PackOptions{Form: cargo.Gzip, Records: cargo.Records{Layout: cargo.Lines}}, false)
	if err != nil {
		log.Fatal(err)
	}
	f, err := files.Open(ctx, packed)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if err := files.Copy(ctx, f, copied, cargofile.CopyOptions{}); err != nil {
		log.Fatal(err)
	}
	again, err := files.Open(ctx, copied)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	for record, err := range again.Records(ctx, 1, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s", record)
	}
	// Output: credit
}
