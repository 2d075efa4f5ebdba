// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
)

//go:embed report.md.tmpl
var reportTemplate string

// row is the medians of one contender with messages of one size. Bytes and CPU time are
// of a message.
type row struct {
	Size      int
	Contender string
	PutRate   float64 // a second
	PutCPU    float64 // microseconds, client and server
	PutServer float64 // microseconds, server alone
	GetRate   float64
	GetCPU    float64
	GetServer float64
	Stored    float64 // bytes
	// Bytes of files that the server wrote and read.
	PutWritten, PutRead, GetWritten, GetRead float64
}

// IO is all bytes of files in the life of a message.
func (r row) IO() float64 { return r.PutWritten + r.PutRead + r.GetWritten + r.GetRead }

// CPU of put and get together.
func (r row) CPU() float64 { return r.PutCPU + r.GetCPU }

// table is the rows of a part.
type table []row

func (t table) row(size int, name string) (row, bool) {
	i := slices.IndexFunc(t, func(r row) bool { return r.Size == size && r.Contender == name })
	if i < 0 {
		return row{}, false
	}
	return t[i], true
}

// medians makes rows of turns.
func medians(turns []turn) table {
	var t table
	for _, size := range sizes {
		for _, name := range append(slices.Clone(contenders), broker) {
			const us = 1e6
			mid := func(factor float64, figure func(turn) float64) float64 {
				var all []float64
				for _, t := range turns {
					if t.size == size && t.contender == name {
						all = append(all, factor*figure(t))
					}
				}
				return median(all)
			}
			r := row{
				Size: size, Contender: name,
				PutRate:    mid(1, func(t turn) float64 { return t.put.rate }),
				GetRate:    mid(1, func(t turn) float64 { return t.get.rate }),
				PutCPU:     mid(us, func(t turn) float64 { return t.put.cpu }),
				GetCPU:     mid(us, func(t turn) float64 { return t.get.cpu }),
				PutServer:  mid(us, func(t turn) float64 { return t.put.server }),
				GetServer:  mid(us, func(t turn) float64 { return t.get.server }),
				Stored:     mid(1, func(t turn) float64 { return float64(t.stored) / float64(t.messages) }),
				PutWritten: mid(1, func(t turn) float64 { return t.put.written }),
				GetWritten: mid(1, func(t turn) float64 { return t.get.written }),
				PutRead:    mid(1, func(t turn) float64 { return t.put.read }),
				GetRead:    mid(1, func(t turn) float64 { return t.get.read }),
			}
			if r.PutRate > 0 {
				t = append(t, r)
			}
		}
	}
	return t
}

func median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return 0
	}
	return (all[(n-1)/2] + all[n/2]) / 2
}

type report struct {
	Name, Date, Took, Busy, Machine string
	Rounds, DiskRounds              int
	Memory, Disk                    table
	DiskSpeed, DiskLimit            float64 // MB/s
	Targets                         []target
	Missing                         []string
	Saved                           string // as row 3 has it
	Mbits                           int
	ChannelRounds                   int
	Channel, Fast                   string // as row 4 has it
	ArchiveRounds, ArchiveMB        int
	Archives                        string // as row 7 has it
	journeys                        []journey
}

func newReport(e extent, got results, took time.Duration) (*report, error) {
	r := &report{
		Name: e.name, Date: time.Now().UTC().Format(time.DateOnly), Took: took.Round(time.Second).String(),
		Rounds: e.rounds, DiskRounds: e.diskRounds, Memory: medians(got.memory), Disk: medians(got.disk),
		DiskSpeed: got.diskSpeed / 1e6, DiskLimit: diskSpeed / 1e6,
		Missing: got.missing, Mbits: linkMbits, ChannelRounds: e.channelRounds, journeys: medianJourneys(got.journeys),
		ArchiveRounds: e.archiveRounds, ArchiveMB: e.archiveBytes / 1e6, Archives: archiveTable(got.archives),
		Machine: fmt.Sprintf("%d cores, %s, %s, %s", runtime.NumCPU(), processor(), runtime.GOARCH, runtime.Version()),
	}
	if got.load >= 0.5 {
		r.Busy = fmt.Sprintf(" Other work ran beside it: the load was %.1f when it began.", got.load)
	}
	for _, a := range memoryAims {
		r.Targets = append(r.Targets, a.meet(r.Memory)...)
	}
	for _, a := range diskAims {
		r.Targets = append(r.Targets, a.meet(r.Disk)...)
	}
	r.Targets = append(r.Targets, journeyTargets(r.journeys)...)
	r.Channel, r.Fast = journeyTable(r.journeys, true), journeyTable(r.journeys, false)
	var err error
	r.Saved, err = r.saved()
	return r, err
}

// saved says what compression saves and costs by the size of messages.
func (r *report) saved() (string, error) {
	head := []string{"message bytes"}
	var lines [][]string
	for _, name := range []string{deflate, zstd} {
		short := strings.TrimPrefix(name, "queue, ")
		lines = append(
			lines, []string{"ratio of messages, " + short}, []string{"stored bytes, " + short}, []string{"file I/O, " + short},
		)
	}
	for _, name := range []string{plain, deflate, zstd} {
		lines = append(lines, []string{"CPU us of put and get, " + strings.TrimPrefix(name, "queue, ")})
	}
	for _, size := range sizes {
		head = append(head, grouped(size))
		var column []string
		memory, _ := r.Memory.row(size, plain)
		disk, _ := r.Disk.row(size, plain)
		for _, name := range []string{deflate, zstd} {
			ratio, err := ratioOf(size, codecOf(name))
			if err != nil {
				return "", err
			}
			inMemory, _ := r.Memory.row(size, name)
			onDisk, _ := r.Disk.row(size, name)
			column = append(column, percent(ratio), change(inMemory.Stored, memory.Stored), change(onDisk.IO(), disk.IO()))
		}
		for _, name := range []string{plain, deflate, zstd} {
			own, _ := r.Memory.row(size, name)
			column = append(column, figure("%.1f", own.CPU()))
		}
		for i := range lines {
			lines[i] = append(lines[i], column[i])
		}
	}
	return markdown(head, lines), nil
}

// codecOf is what a contender compresses with.
func codecOf(name string) codec.ID {
	switch name {
	case deflate:
		return codec.Deflate
	case zstd:
		return codec.Zstd
	default:
		return codec.None
	}
}

// ratioOf is which part of messages of a size compression takes away, headers included.
func ratioOf(size int, id codec.ID) (float64, error) {
	data, err := payloads(size)
	if err != nil {
		return 0, err
	}
	encoding, err := message.NewEncoding(encodingOptions(id))
	if err != nil {
		return 0, err
	}
	defer encoding.Close()
	encoder, err := encoding.Encoder()
	if err != nil {
		return 0, err
	}
	defer encoder.Release()
	before, after := 0, 0
	for _, plain := range data[:min(len(data), leastMessages)] {
		_, _, outcome, err := encoder.Encode(nil, plain)
		if err != nil {
			return 0, err
		}
		before, after = before+outcome.PlainBytes, after+outcome.WireBytes
	}
	return 1 - float64(after)/float64(before), nil
}

func percent(f float64) string { return fmt.Sprintf("%.0f %%", 100*f) }

// change is by how much one figure differs from another.
func change(own, other float64) string {
	if own == 0 || other == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*(own/other-1))
}

// figure writes what was measured.
func figure(format string, f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf(format, f)
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// markdown makes a table.
func markdown(head []string, lines [][]string) string {
	var out strings.Builder
	write := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	write(head)
	out.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, line := range lines {
		write(line)
	}
	return out.String()
}

// processor is its name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

func (r *report) write(directory string) error {
	parsed, err := template.New("report").Parse(reportTemplate)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := parsed.Execute(&text, r); err != nil {
		return err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(directory, "queue.md"), []byte(text.String()), 0o644),
		os.WriteFile(filepath.Join(directory, "queue.svg"), []byte(r.plot()), 0o644),
	)
}
