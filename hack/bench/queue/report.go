// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

//go:embed report.md.tmpl
var reportTemplate string

// Figures of turns. Bytes and CPU time are of a message, this in microseconds.
func putRate(t turn) float64   { return t.put.rate }
func getRate(t turn) float64   { return t.get.rate }
func putCPU(t turn) float64    { return 1e6 * t.put.cpu }
func getCPU(t turn) float64    { return 1e6 * t.get.cpu }
func putServer(t turn) float64 { return 1e6 * t.put.server }
func getServer(t turn) float64 { return 1e6 * t.get.server }
func stored(t turn) float64    { return float64(t.stored) / float64(t.messages) }

// bothCPU is that of put and get together, and io all bytes of files in the life of a message.
func bothCPU(t turn) float64 { return putCPU(t) + getCPU(t) }
func io(t turn) float64      { return t.put.written + t.put.read + t.get.written + t.get.read }

// of returns the turns of one contender with messages of one size.
func of(turns []turn, size int, name string) []turn {
	return slices.DeleteFunc(slices.Clone(turns), func(t turn) bool { return t.size != size || t.contender != name })
}

// rows has a line for each contender with messages of each size: a size, a name, and a figure for each format.
func rows(turns []turn, formats []string, figures ...[]func(turn) float64) [][]string {
	var lines [][]string
	for _, size := range sizes {
		for _, name := range everybody {
			own := of(turns, size, name)
			if len(own) == 0 {
				continue
			}
			line := []string{fmt.Sprint(size), name}
			for i, format := range formats {
				var values []any
				for _, figure := range figures[i] {
					values = append(values, harness.MedianOf(own, figure))
				}
				if values[0] == 0.0 && format == "%.0f" {
					line = append(line, "-")
				} else {
					line = append(line, fmt.Sprintf(format, values...))
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// everybody is all contenders.
var everybody = append(slices.Clone(contenders), broker)

// leastTarget is the size in bytes from which on there are most targets.
const leastTarget = 12000

// aim says what has to be met by a codec with messages of a size.
type aim struct {
	name, what string
	of         func(turn) float64
	// beside whom.
	other string
	bound float64
	least bool
	// from which size on, in bytes.
	from int
}

var memoryAims = []aim{
	{"puts", "puts a second by those of JetStream with S2", putRate, s2, 1.2, true, leastTarget},
	{"put-cpu", "CPU of a put by that of JetStream with S2", putCPU, s2, 0.8, false, leastTarget},
	{"gets", "gets a second by those of JetStream with S2", getRate, s2, 1.2, true, 0},
	{"get-cpu", "CPU of a get by that of JetStream with S2", getCPU, s2, 0.8, false, leastTarget},
	{"stored", "stored bytes by those of plain JetStream", stored, plain, 0.5, false, leastTarget},
}

var diskAims = []aim{
	{"io", "bytes of files written and read, put and get, by those of plain JetStream", io, plain, 0.5, false, leastTarget},
	{"disk-puts", "puts a second on the limited disk by those of plain JetStream", putRate, plain, 1.3, true, leastTarget},
	{"disk-gets", "gets a second on the limited disk by those of plain JetStream", getRate, plain, 1.3, true, leastTarget},
}

// meet returns the targets of a part. What was not measured has none.
func (a aim) meet(turns []turn) []harness.Target {
	var all []harness.Target
	for _, size := range sizes {
		other := of(turns, size, a.other)
		for _, name := range []string{deflate, zstd} {
			if own := of(turns, size, name); size >= a.from && len(own) > 0 && harness.MedianOf(other, a.of) > 0 {
				all = append(all, harness.Target{
					Name: fmt.Sprintf("%s-%s-%d", a.name, strings.TrimPrefix(name, "queue, "), size), What: a.what,
					Measured: harness.RatioOf(own, other, a.of), Bound: a.bound, AtLeast: a.least, Digits: 2,
				})
			}
		}
	}
	return all
}

// report is queue.md and queue.svg.
func (b *bench) report() (harness.Report, error) {
	r := harness.Report{Name: benchmark, Template: reportTemplate, Drawing: b.draw()}
	for _, a := range memoryAims {
		r.Targets = append(r.Targets, a.meet(b.memory)...)
	}
	for _, a := range diskAims {
		r.Targets = append(r.Targets, a.meet(b.disk)...)
	}
	r.Targets = append(append(r.Targets, b.journeyTargets()...), b.stoppedTargets()...)
	r.Targets = append(r.Targets, b.dictionaryTargets()...)
	saved, err := b.saved()
	type list = []func(turn) float64
	data := map[string]any{
		"Rounds": b.rounds, "DiskRounds": b.diskRounds, "DiskSpeed": b.diskSpeed / 1e6, "DiskLimit": diskSpeed / 1e6,
		"Missing": b.missing, "Saved": saved, "Mbits": linkMbits, "ChannelRounds": b.channelRounds,
		"Channel": b.journeyTable(true), "Fast": b.journeyTable(false), "ArchiveRounds": b.archiveRounds,
		"ArchiveMB": b.archiveBytes / 1e6, "Archives": archiveTable(b.archives),
		"Stopped": b.stoppedTable(), "StoppedRounds": b.stoppedRounds,
		"StoppedSeconds": (time.Duration(b.stoppedMessages) * stoppedInterval).Seconds(),
		"Dictionaries":   b.dictionaryTable(),
		"Neighbours":     neighbourTable(b.neighbours), "NeighbourMB": b.neighbourBytes / 1e6,
		"Memory": harness.Table(
			[]string{"bytes", "contender", "puts/s", "CPU us a put", "gets/s", "CPU us a get", "stored bytes a message"},
			rows(b.memory, []string{"%.0f", "%.1f (%.1f)", "%.0f", "%.1f (%.1f)", "%.0f"}, list{putRate},
				list{putCPU, putServer}, list{getRate}, list{getCPU, getServer}, list{stored})),
	}
	if len(b.disk) > 0 {
		data["Disk"] = harness.Table([]string{
			"bytes", "contender", "puts/s", "gets/s", "stored bytes a message", "written, put", "read, put", "written, get",
			"read, get",
		}, rows(b.disk, slices.Repeat([]string{"%.0f"}, 7), list{putRate}, list{getRate}, list{stored},
			list{func(t turn) float64 { return t.put.written }}, list{func(t turn) float64 { return t.put.read }},
			list{func(t turn) float64 { return t.get.written }}, list{func(t turn) float64 { return t.get.read }}))
	}
	r.Data = data
	return r, err
}

// draw returns charts of bars.
func (b *bench) draw() string {
	var groups, loads []string
	for _, size := range sizes {
		groups = append(groups, harness.Grouped(size)+" bytes")
	}
	var limited []stretch
	for _, s := range stretches {
		if s.mbits > 0 {
			limited, loads = append(limited, s), append(loads, harness.Grouped(s.size)+" bytes")
		}
	}
	chart := func(title string, names []string, turns []turn, figure func(turn) float64) harness.Bars {
		return harness.Bars{Title: title, Groups: groups, Names: names, Format: "%.0f", Value: func(group, name int) float64 {
			return harness.MedianOf(of(turns, sizes[group], names[name]), figure)
		}}
	}
	return harness.DrawBars(
		chart("CPU of a put, client and server, microseconds", everybody, b.memory, putCPU),
		chart("CPU of a get, client and server, microseconds", everybody, b.memory, getCPU),
		chart(fmt.Sprintf("Puts a second on a disk of %.0f MB/s", diskSpeed/1e6), contenders, b.disk, putRate),
		harness.Bars{
			Title:  fmt.Sprintf("Messages a second by a channel over %d Mbit/s", linkMbits),
			Groups: loads, Names: channelCodecs, Format: "%.0f", Value: func(group, name int) float64 {
				return harness.MedianOf(b.journeysOf(limited[group], channelCodecs[name]), rateOf)
			},
		},
	)
}

// saved says what compression saves and costs by the size of messages.
func (b *bench) saved() (string, error) {
	head := []string{"message bytes"}
	codecs := []string{deflate, zstd}
	lines := make([][]string, 0, 9)
	for _, name := range codecs {
		short := strings.TrimPrefix(name, "queue, ")
		lines = append(
			lines, []string{"ratio of messages, " + short}, []string{"stored bytes, " + short}, []string{"file I/O, " + short},
		)
	}
	for _, name := range append([]string{plain}, codecs...) {
		lines = append(lines, []string{"CPU us of put and get, " + strings.TrimPrefix(name, "queue, ")})
	}
	for _, size := range sizes {
		head = append(head, harness.Grouped(size))
		mid := func(turns []turn, name string, figure func(turn) float64) float64 {
			return harness.MedianOf(of(turns, size, name), figure)
		}
		var column []string
		for _, name := range codecs {
			ratio, err := ratioOf(size, codecOf(name))
			if err != nil {
				return "", err
			}
			column = append(column, percent(ratio), change(mid(b.memory, name, stored), mid(b.memory, plain, stored)),
				change(mid(b.disk, name, io), mid(b.disk, plain, io)))
		}
		for _, name := range append([]string{plain}, codecs...) {
			column = append(column, figure("%.1f", mid(b.memory, name, bothCPU)))
		}
		for i := range lines {
			lines[i] = append(lines[i], column[i])
		}
	}
	return harness.Table(head, lines), nil
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
