// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
)

func newList(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "ls NAME...",
		Short: "List files with their sizes and records",
		Long: `List files with their sizes and records: those that are named, and those in directories and below. Indexes alone
are read, so files without one are not listed.`,
		Args: some,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			out := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "FORM\tSIZE\tSTORED\tRATIO\tBLOCKS\tRECORDS\tNAME")
			var failed []error
			for _, name := range arguments {
				failed = append(failed, p.list(cmd.Context(), out, name))
			}
			return errors.Join(append(failed, out.Flush())...)
		},
	}
}

// list goes on after a file whose index cannot be read.
func (p *program) list(ctx context.Context, out io.Writer, name string) error {
	var failed []error
	for found, err := range p.files.List(ctx, name) {
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		i, err := p.files.Index(ctx, found)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		records := "-"
		if i.Records().Layout != cargo.NoRecords {
			records = fmt.Sprint(i.RecordCount())
		}
		fmt.Fprintf(out, "%v\t%d\t%d\t%s\t%d\t%s\t%s\n", i.Form(), i.Size(), i.StoredSize(), ratio(i), i.Blocks(), records,
			printable(found))
	}
	return errors.Join(failed...)
}

// ratio is the plain size by that which rests.
func ratio(i *cargo.Index) string {
	if i.Size() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(i.Size())/float64(i.StoredSize()))
}

// printable is a name without what commands a terminal.
func printable(name string) string {
	for _, r := range name {
		if !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}

func newReport(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report NAME",
		Short: "Show what the index of a file says",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.with(cmd.Context(), arguments[0], cargo.Records{}, func(f *cargofile.File) error {
				i := f.Index()
				out := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintf(out, "Name:\t%s\nForm:\t%v\nPlain size:\t%d bytes\n", printable(f.Name), i.Form(), i.Size())
				fmt.Fprintf(out, "Stored size:\t%d bytes\nRatio:\t%s\nBlocks:\t%d\n", i.StoredSize(), ratio(i), i.Blocks())
				fmt.Fprintf(out, "Records:\t%v", i.Records())
				if i.Records().Layout != cargo.NoRecords {
					fmt.Fprintf(out, ", %d", i.RecordCount())
				}
				fmt.Fprintln(out)
				return out.Flush()
			})
		},
	}
	p.addScan(cmd)
	return cmd
}

// with opens a file for a function.
func (p *program) with(
	ctx context.Context, name string, records cargo.Records, do func(*cargofile.File) error,
) error {
	f, err := p.open(ctx, name, records)
	if err != nil {
		return err
	}
	if err := do(f); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f.Close()
}

func newCat(p *program) *cobra.Command {
	var offset, length int64
	cmd := &cobra.Command{
		Use:   "cat NAME",
		Short: "Write the plain file, or a part of it, to standard output",
		Long: `Write the plain file, or a part of it, to standard output. Blocks that are not needed are neither read nor
expanded. All that is written has been checked.`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if offset < 0 || length < 0 {
				return usagef("--offset and --length must not be negative")
			}
			return p.with(cmd.Context(), arguments[0], cargo.Records{}, func(f *cargofile.File) error {
				return p.written(func(w io.Writer) error {
					return f.WriteRange(cmd.Context(), w, offset, length, p.files.Workers)
				})
			})
		},
	}
	cmd.Flags().Int64Var(&offset, "offset", 0, "byte of the plain file to begin at")
	cmd.Flags().Int64Var(&length, "length", math.MaxInt64, "how many bytes to write")
	cmd.Flags().Lookup("length").DefValue = "all"
	p.addScan(cmd)
	return cmd
}

func newRecords(p *program) *cobra.Command {
	var layout, key string
	cmd := &cobra.Command{
		Use:   "records NAME N|N-M",
		Short: "Write records of a file to standard output",
		Long: `Write records of a file to standard output, as they are in the plain file: lines with their newlines, others
with their record descriptor words. They are numbered from 0. One request reads the blocks that have them.

With --key the records are lines of JSON, and N and M are values of a number in them that grows from line to line, such
as sequence in the archive of a Queue. Where it grows by 1 the records are known by the first and the last one; else a
binary search reads some single blocks. The first and the last line need not have the number.`,
		Example: `  lighterage-cargo records orders.csv.gz 1000000-1000099
  lighterage-cargo records --key sequence 00000000000000000001-00000000000000004711-1a2b3c4d.jsonl.zst 42`,
		Args: exactly("NAME", "N|N-M"),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			first, count, err := parseRange(arguments[1])
			if err != nil {
				return err
			}
			records, err := parseRecords(layout)
			if err != nil {
				return err
			}
			return p.with(cmd.Context(), arguments[0], records, func(f *cargofile.File) error {
				if key != "" {
					if first, count, err = findKeys(cmd.Context(), f, key, first, count); err != nil {
						return err
					}
				}
				return p.written(func(w io.Writer) error {
					return f.WriteRecords(cmd.Context(), w, first, count, p.files.Workers)
				})
			})
		},
	}
	cmd.Flags().StringVar(&layout, "records", "none", "with --scan: the records of the file: lines, fixed=N or rdw")
	cmd.Flags().StringVar(&key, "key", "", "N and M are values of this `FIELD` of lines of JSON, a number that grows")
	p.addScan(cmd)
	return cmd
}

func newVerify(p *program) *cobra.Command {
	var inflate bool
	cmd := &cobra.Command{
		Use:   "verify NAME...",
		Short: "Compare files with their indexes",
		Long: `Compare files with their indexes: every byte that rests, by its checksums, without expanding it. With --inflate
also every plain byte and the numbers of records.`,
		Args: some,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			var failed []error
			for _, name := range arguments {
				err := p.with(cmd.Context(), name, cargo.Records{}, func(f *cargofile.File) error {
					return f.Scrub(cmd.Context(), inflate)
				})
				failed = append(failed, err)
				if err == nil {
					fmt.Fprintf(p.Out, "%s: ok\n", printable(name))
				}
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().BoolVar(&inflate, "inflate", false, "expand every block, and check the plain bytes and the records as well")
	return cmd
}
