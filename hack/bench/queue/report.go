// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed report.md.tmpl
var reportTemplate string

// row is the medians of one contender with messages of one size.
type row struct {
	Size      int
	Contender string
	PutRate   float64 // a second
	PutCPU    float64 // microseconds a message, client and server
	PutServer float64 // microseconds a message, server alone
	GetRate   float64
	GetCPU    float64
	GetServer float64
	Stored    float64 // bytes a message
}

// target is a figure that has to be met.
type target struct {
	Name, What string
	Measured   float64
	Bound      float64
	Least      bool // Bound is the least, else the most
}

// OK reports whether it was.
func (t target) OK() bool {
	return t.Least && t.Measured >= t.Bound || !t.Least && t.Measured <= t.Bound
}

// Verdict says so.
func (t target) Verdict() string {
	if t.OK() {
		return "ok"
	}
	return "miss"
}

// Limit is the bound with its direction.
func (t target) Limit() string {
	if t.Least {
		return fmt.Sprintf(">=%.2f", t.Bound)
	}
	return fmt.Sprintf("<=%.2f", t.Bound)
}

// Line is what scripts read.
func (t target) Line() string {
	return fmt.Sprintf("target %s %.2f %s %s", t.Name, t.Measured, t.Limit(), t.Verdict())
}

type report struct {
	Name    string
	Rounds  int
	Rows    []row
	Targets []target
	Took    string
	Cores   int
	Arch    string
}

func newReport(e extent, turns []turn, took time.Duration) *report {
	r := &report{Name: e.name, Rounds: e.rounds, Took: took.Round(time.Second).String(), Cores: runtime.NumCPU(), Arch: runtime.GOARCH}
	for _, size := range sizes {
		for _, name := range contenders {
			mid := func(figure func(turn) float64) float64 {
				var all []float64
				for _, t := range turns {
					if t.size == size && t.contender == name {
						all = append(all, figure(t))
					}
				}
				return median(all)
			}
			const us = 1e6
			r.Rows = append(r.Rows, row{
				Size: size, Contender: name,
				PutRate: mid(func(t turn) float64 { return t.put.rate }), PutCPU: us * mid(func(t turn) float64 { return t.put.cpu }),
				PutServer: us * mid(func(t turn) float64 { return t.put.server }),
				GetRate:   mid(func(t turn) float64 { return t.get.rate }), GetCPU: us * mid(func(t turn) float64 { return t.get.cpu }),
				GetServer: us * mid(func(t turn) float64 { return t.get.server }),
				Stored:    mid(func(t turn) float64 { return float64(t.stored) / float64(t.messages) }),
			})
		}
	}
	for _, size := range sizes {
		if size < 12000 {
			continue
		}
		for _, name := range []string{deflate, zstd} {
			own, short := r.row(size, name), strings.TrimPrefix(name, "queue, ")
			add := func(what, text string, measured, bound float64, least bool) {
				r.Targets = append(r.Targets, target{fmt.Sprintf("%s-%s-%d", what, short, size), text, measured, bound, least})
			}
			add("puts", "puts a second by those of JetStream with S2", own.PutRate/r.row(size, s2).PutRate, 1.2, true)
			add("cpu", "CPU of a put by that of JetStream with S2", own.PutCPU/r.row(size, s2).PutCPU, 0.8, false)
			add("stored", "stored bytes by those of plain JetStream", own.Stored/r.row(size, plain).Stored, 0.5, false)
		}
	}
	return r
}

func (r *report) row(size int, name string) row {
	i := slices.IndexFunc(r.Rows, func(row row) bool { return row.Size == size && row.Contender == name })
	return r.Rows[i]
}

func median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return 0
	}
	return (all[(n-1)/2] + all[n/2]) / 2
}

func (r *report) write(directory string) error {
	var text strings.Builder
	parsed, err := template.New("report").Parse(reportTemplate)
	if err != nil {
		return err
	}
	if err := parsed.Execute(&text, r); err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, "queue.md"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "queue.svg"), []byte(r.plot()), 0o644)
}
