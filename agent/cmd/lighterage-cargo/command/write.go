// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec"
)

// copying are the flags of copy.
type copying struct {
	inflate, force, noCheck bool
	as, records, level      string
	blockSize               int
}

func newCopy(p *program) *cobra.Command {
	var c copying
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a file as it rests, expand it, or pack a plain one",
		Long: `Copy a file as it rests, with its index. Nothing is expanded; every byte is compared with the index unless --no-check is
given.

With --inflate write the plain file. With --as compress a plain file, and write its index; FROM may be - for standard
input. With --records blocks end at the borders of records, which get numbers:

  lines     a record ends in a newline; what follows the last newline is a record as well
  fixed=N   all records have N bytes (LRECL); the size of the file must be a multiple
  rdw       a record begins with a record descriptor word; all segments of a spanned record are one record

A record that is longer than a block lies in several ones.`,
		Example: `  lighterage-cargo copy --as gzip --records lines orders.csv orders.csv.gz
  lighterage-cargo copy --as zstd --records fixed=80 cards s3://archive/cards.zst
  lighterage-cargo copy orders.csv.gz s3://archive/orders.csv.gz
  lighterage-cargo copy --inflate s3://archive/orders.csv.gz orders.csv`,
		Args: exactly("FROM", "TO"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.copy(cmd.Context(), arguments[0], arguments[1], c)
		},
	}
	cmd.Flags().BoolVar(&c.inflate, "inflate", false, "write the plain file")
	cmd.Flags().StringVar(&c.as, "as", "", "compress the plain file FROM as gzip or zstd")
	cmd.Flags().StringVar(&c.records, "records", "none", "with --as: the records of the file: lines, fixed=N or rdw")
	cmd.Flags().StringVar(&c.level, "level", "", "with --as: the effort: Fast, Balanced or High")
	cmd.Flags().Lookup("level").DefValue = codec.Fast.String()
	cmd.Flags().IntVar(&c.blockSize, "block-size", 0, "with --as: the most bytes of a plain block (default 1048576)")
	cmd.Flags().BoolVar(&c.noCheck, "no-check", false, "copy what rests without comparing it with the index")
	cmd.Flags().BoolVar(&c.force, "force", false, "replace what is there under the name TO")
	p.addScan(cmd)
	return cmd
}

func (p *program) copy(ctx context.Context, from, to string, c copying) error {
	switch {
	case c.as != "" && (c.inflate || c.noCheck || p.scan):
		return usagef("--as takes a plain file, so that --inflate, --no-check and --scan mean nothing")
	case c.as == "" && (c.records != "none" || c.blockSize != 0 || c.level != ""):
		return usagef("--records, --block-size and --level need --as gzip or --as zstd")
	case c.inflate && c.noCheck:
		return usagef("--inflate compares every block that it expands with the index; remove --no-check, or " +
			"copy the file as it rests, without --inflate")
	case c.as != "":
		return p.pack(ctx, from, to, c)
	}
	o := cargofile.CopyOptions{Replace: c.force, Unchecked: c.noCheck}
	return p.with(ctx, from, cargo.Records{}, func(f *cargofile.File) error {
		if c.inflate {
			return p.files.Inflate(ctx, f, to, o)
		}
		return p.files.Copy(ctx, f, to, o)
	})
}

func (p *program) pack(ctx context.Context, from, to string, c copying) error {
	records, err := parseRecords(c.records)
	if err != nil {
		return err
	}
	o := cargo.PackOptions{Records: records, BlockSize: c.blockSize}
	switch c.as {
	case "gzip":
		o.Form = cargo.Gzip
	case "zstd":
		o.Form = cargo.Zstd
	default:
		return usagef("--as %q: write gzip or zstd", c.as)
	}
	if o.Level, err = codec.ParseLevel(cmp.Or(c.level, codec.Fast.String())); err != nil {
		return usagef("%w", err)
	}
	var plain io.ReadCloser
	if from == "-" {
		plain = interruptible(ctx, p.In)
	} else if plain, err = p.files.OpenPlain(ctx, from); err != nil {
		return err
	}
	if _, err = p.files.Pack(ctx, plain, to, o, c.force); err != nil {
		return errors.Join(fmt.Errorf("pack %s: %w", from, err), plain.Close())
	}
	return plain.Close()
}

// interruptible reads a stream, such as that of a terminal, until the context ends: a read itself may wait for ever.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	out, to := io.Pipe()
	stop := context.AfterFunc(ctx, func() { to.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		_, err := io.Copy(to, in)
		to.CloseWithError(err)
	}()
	return out
}

func newRebuild(p *program) *cobra.Command {
	var layout string
	cmd := &cobra.Command{
		Use:   "rebuild NAME",
		Short: "Make the index of a file again and write it beside the file",
		Long: `Make the index of a file again of all of the file, and write it beside the file in the place of one that is there.
With --records it has the numbers of records, at whose borders the blocks of the file need not end. Files that other
programs compressed have no blocks that can be read apart, and are rejected. So are encrypted ones, whose names end with
.age: their indexes are encrypted, too.`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			records, err := parseRecords(layout)
			if err != nil {
				return err
			}
			return p.files.Rebuild(cmd.Context(), arguments[0], records)
		},
	}
	cmd.Flags().StringVar(&layout, "records", "none", "the records of the file: lines, fixed=N or rdw")
	return cmd
}
