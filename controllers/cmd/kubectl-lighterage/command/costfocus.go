// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lighterage/lighterage/controllers/bill"
	"github.com/lighterage/lighterage/controllers/bill/focus"
	"github.com/lighterage/lighterage/controllers/bill/focus/conformance"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	focusVersion = focus.Version
	// maxViolationsShown bounds how many broken rules are named.
	maxViolationsShown = 5
)

// export writes FOCUS files.
type export struct {
	// path is a file if it ends as one of the formats, otherwise a directory.
	path   string
	format choice
	source focus.Source
}

func newExport() export { return export{format: choice{"csv", "parquet"}} }

func (e *export) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(
		&e.path, "focus", "",
		"write FOCUS "+focusVersion+" to this `path`: a file that ends in .csv or .parquet, or else a directory with a "+
			"file for each day",
	)
	flags.Var(&e.format, "focus-format", "format of the files in a directory")
	flags.StringVar(
		&e.source.Cluster, "cluster-name", "",
		"`name` of this cluster in FOCUS rows and file names; use the same name each time",
	)
	flags.StringVar(
		&e.source.Provider, "provider", "Platform team", "`name` of who runs the cluster and charges for it, in FOCUS rows",
	)
	formats := []cobra.Completion{"csv", "parquet"}
	completeFlag(cmd, "focus-format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(cmd, "focus", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	for _, needs := range []string{"focus-format", "cluster-name", "provider"} {
		cmd.Flags().Lookup(needs).Usage += " (with --focus)"
	}
}

// check finds what is wrong with the flags.
func (e *export) check() error {
	if e.path == "" {
		if e.source.Cluster != "" {
			return errors.New("--cluster-name is for --focus, which is missing")
		}
		return nil
	}
	if e.source.Cluster == "" {
		return errors.New("--focus needs --cluster-name, which identifies the cluster in the rows")
	}
	if err := pki.ValidateClusterName(e.source.Cluster); err != nil {
		return fmt.Errorf("--cluster-name: %w", err)
	}
	if strings.TrimSpace(e.source.Provider) == "" {
		return errors.New("--provider must not be empty")
	}
	return nil
}

// write writes an account of a namespace, or of all, as files, and says what it wrote.
func (e *export) write(account *bill.Account, namespace string, say io.Writer) error {
	charges, uncharged := account.Charges()
	if uncharged > 0 {
		fmt.Fprintf(say, "%d rows of Statements are left out: no prices were in force, so nothing was charged\n", uncharged)
	}
	format, files := e.files(charges, namespace)
	if err := e.twice(files); err != nil {
		return err
	}
	tables := map[string]focus.Table{}
	for path, charges := range files {
		tables[path] = focus.NewTable(e.source, charges)
		if err := unfit(conformance.Check(tables[path])); err != nil {
			return fmt.Errorf("%s is not written: %w", path, err)
		}
	}
	rows := 0
	for path, t := range tables {
		write := t.WriteCSV
		if format == "parquet" {
			write = t.WriteParquet
		}
		if err := replaceFile(path, write); err != nil {
			return err
		}
		rows += len(t.Rows)
	}
	fmt.Fprintf(say, "%d rows of FOCUS %s were written to %d files\n", rows, focusVersion, len(tables))
	return nil
}

// files says which charges each file has, and in what format.
func (e *export) files(charges []focus.Charge, namespace string) (format string, files map[string][]focus.Charge) {
	if format = strings.TrimPrefix(filepath.Ext(e.path), "."); format == "csv" || format == "parquet" {
		return format, map[string][]focus.Charge{e.path: charges}
	}
	format = e.format.String()
	files = map[string][]focus.Charge{}
	for _, c := range charges {
		// A file of one namespace must not replace that of the cluster.
		name := "lighterage_" + e.source.Cluster
		if namespace != "" {
			name += "_" + namespace
		}
		path := filepath.Join(e.path, name+"_"+c.PeriodName()+"."+format)
		files[path] = append(files[path], c)
	}
	return format, files
}

// twice fails when a file of a whole month would stand beside files of its days from an earlier export, so that a
// reader of the directory would count them twice.
func (e *export) twice(files map[string][]focus.Charge) error {
	for path, charges := range files {
		if path == e.path {
			continue // the one file, which may have no rows
		}
		period := charges[0].PeriodName()
		stem, found := strings.CutSuffix(path, period+filepath.Ext(path))
		if len(period) != len("2006-01") || !found {
			continue
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("looking for files of days of %s: %w", period, err)
		}
		var days []string
		for _, entry := range entries {
			name := filepath.Join(filepath.Dir(path), entry.Name())
			day, ofMonth := strings.CutPrefix(name, stem+period+"-")
			if _, replaced := files[name]; ofMonth && !replaced && len(day) == len("01")+len(filepath.Ext(path)) &&
				filepath.Ext(day) == filepath.Ext(path) {
				days = append(days, name)
			}
		}
		if len(days) > 0 {
			return fmt.Errorf(
				"nothing is written: %s would have the whole month, of which days are in %s already; move these files away, or "+
					"leave the month out", path, strings.Join(days, ", "))
		}
	}
	return nil
}

// unfit is an error that names the first rules that are broken.
func unfit(found []conformance.Violation) error {
	if len(found) == 0 {
		return nil
	}
	var errs []error
	for _, v := range found[:min(len(found), maxViolationsShown)] {
		errs = append(errs, v)
	}
	return fmt.Errorf("%d rules of the specification are broken: %w", len(found), errors.Join(errs...))
}

// replaceFile writes a file next to the one that it then replaces, so that readers see one or the other as a whole.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	file, err := os.CreateTemp(directory, ".lighterage-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil {
		err = syncDirectory(directory)
	}
	return err
}
