// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/bill"
	"github.com/lighterage/lighterage/controllers/bill/focus"
)

// TestMonthBesideDays: a month is not exported beside its days, which would count twice.
func TestMonthBesideDays(t *testing.T) {
	e := newExport()
	e.path, e.source.Cluster = t.TempDir(), "east"
	november := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	month := focus.Charge{Begin: november, End: november.AddDate(0, 1, 0)}
	day := focus.Charge{Begin: november.AddDate(0, 0, 8), End: november.AddDate(0, 0, 9)}
	_, files := e.files([]focus.Charge{month, day}, "")
	for _, c := range []struct {
		name string
		fail bool
	}{
		{"lighterage_east_2026-10-01.csv", false}, {"lighterage_east_2026-11.csv", false},
		{"lighterage_west_2026-11-01.csv", false}, {"lighterage_east_bank_2026-11-01.csv", false},
		{"lighterage_east_2026-11-09.csv", false}, // it is replaced
		{"lighterage_east_2026-11-02.csv", true},
	} {
		if err := os.WriteFile(filepath.Join(e.path, c.name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := e.twice(files); (err != nil) != c.fail || c.fail && !strings.Contains(err.Error(), c.name) {
			t.Errorf("beside %s: %v", c.name, err)
		}
	}
	_, files = e.files([]focus.Charge{day}, "")
	if err := e.twice(files); err != nil {
		t.Error(err)
	}
}

// TestNothingPriced: a period in which nothing was charged is a file without rows, or a directory without files.
func TestNothingPriced(t *testing.T) {
	for _, name := range []string{"none.csv", "none.parquet", "directory"} {
		e := newExport()
		e.path, e.source.Cluster, e.source.Provider = filepath.Join(t.TempDir(), name), "east", "team"
		if err := e.write(&bill.Account{}, "", io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		written, err := os.Stat(e.path)
		if one := filepath.Ext(name) != ""; one != (err == nil) || one && written.Size() == 0 {
			t.Errorf("%s: %+v, %v", name, written, err)
		}
	}
}
