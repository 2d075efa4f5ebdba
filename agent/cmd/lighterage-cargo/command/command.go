// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command holds the commands of lighterage-cargo.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Streams are those of the program.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv has the variables by which object stores are found; nil: os.Getenv.
	Getenv func(string) string
}

// errUsage is a command line that cannot be followed.
var errUsage = errors.New("invalid command line")

// ExitCode returns that of the program.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		return 1
	}
}

// Describe returns the text of an error without what commands a terminal: names of files are what somebody wrote.
func Describe(err error) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, err.Error())
}

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errUsage, fmt.Errorf(format, args...))
}

// program is what commands share.
type program struct {
	Streams
	files cargofile.Files
	scan  bool
}

// Run carries out a command line.
func Run(ctx context.Context, arguments []string, streams Streams) error {
	root := New(streams) //nolint:contextcheck // Commands take it from ExecuteContext.
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, cargofile.ErrExists) {
		err = fmt.Errorf("%w; --force replaces it", err)
	}
	return err
}

// New returns the root of the commands.
func New(streams Streams) *cobra.Command {
	p := &program{Streams: streams, files: cargofile.Files{Engines: engines.Default(), Getenv: streams.Getenv}}
	root := &cobra.Command{
		Use:   "lighterage-cargo",
		Short: "List, read, pack, copy and verify files that rest compressed with an index",
		Long: `List, read, pack, copy and verify files that rest compressed with an index.

A name is a path, or s3://BUCKET/KEY. The index of DIRECTORY/NAME is DIRECTORY/.NAME.lgci. Object stores are found by
AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and
AWS_CA_BUNDLE. With credentials the endpoint must begin with https://.

What is written appears as a whole, index first, or not at all. Files whose names end with .age are encrypted; they are
read with --identity. A copy of one is not encrypted, and its name must not end with .age.

Exit codes: 0 success, 1 failure, 2 invalid command line.`,
		Example: `  lighterage-cargo copy --as gzip --records lines orders.csv orders.csv.gz
  lighterage-cargo ls /data
  lighterage-cargo records orders.csv.gz 1000000
  lighterage-cargo verify --inflate s3://archive/orders.csv.gz`,
		Version: wirev1.Version, SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 0 {
				return usagef("there is no command %q; see lighterage-cargo --help", arguments[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.PersistentFlags().IntVar(&p.files.Workers, "workers", runtime.NumCPU(),
		"blocks that are compressed or expanded at once")
	root.PersistentFlags().Lookup("workers").DefValue = "processors"
	identities := root.PersistentFlags().String("identity", "",
		"`FILE` with age identities, for files whose names end with .age")
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		if *identities != "" {
			p.files.Identities, err = agefile.ReadIdentities(*identities)
		}
		return err
	}
	root.AddCommand(newList(p), newCat(p), newRecords(p), newCopy(p), newVerify(p), newRebuild(p), newReport(p))
	return root
}

// exactly is cobra.ExactArgs whose error is of usage.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, arguments []string) error {
		if len(arguments) != len(names) {
			return usagef("it takes %s", strings.Join(names, " "))
		}
		return nil
	}
}

func some(_ *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return usagef("it takes at least one NAME")
	}
	return nil
}

// addScan adds the flag for files without an index.
func (p *program) addScan(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.scan, "scan", false,
		"read all of the file, and make its index again in memory, if it has none or that of another file")
}

// open opens a file, if need be and permitted without its index.
func (p *program) open(ctx context.Context, name string, records cargo.Records) (*cargofile.File, error) {
	f, err := p.files.Open(ctx, name)
	lacks := errors.Is(err, cargofile.ErrNoIndex) || errors.Is(err, cargo.ErrIndex)
	switch {
	case lacks && p.scan:
		return p.files.Scan(ctx, name, records)
	case lacks && strings.HasSuffix(name, agefile.Suffix):
		return nil, fmt.Errorf("%w; with --scan cat, records, report and copy read the file without it", err)
	case lacks:
		return nil, fmt.Errorf("%w; lighterage-cargo rebuild makes it again of the file", err)
	}
	return f, err
}

// written runs what writes to standard output.
func (p *program) written(write func(io.Writer) error) error {
	out := bufio.NewWriterSize(p.Out, 1<<16)
	return errors.Join(write(out), out.Flush())
}

// parseRange reads N or N-M.
func parseRange(text string) (first, count int64, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseInt(low, 10, 64)
	last, err2 := strconv.ParseInt(high, 10, 64)
	if err1 != nil || err2 != nil || first < 0 || last < first || last-first+1 <= 0 {
		return 0, 0, usagef("records %q: write N or N-M, numbered from 0", text)
	}
	return first, last - first + 1, nil
}

func parseRecords(text string) (cargo.Records, error) {
	r, err := cargo.ParseRecords(text)
	if err != nil {
		return r, usagef("%w", err)
	}
	return r, nil
}
