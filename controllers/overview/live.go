// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// wide is the least width at which a run is one line.
	wide = 110
	// heartbeat is how long a run that goes on has no line of its own at most.
	heartbeat = 30 * time.Second
	// step is how many percent a run must have advanced to have another line before that.
	step = 10
)

// Sort puts runs in the order in which they are shown.
func Sort(runs []Run) {
	slices.SortFunc(runs, func(a, b Run) int { return Compare(&a, &b) })
}

// Compare is the order in which runs are shown: those that run, those that wait, those that ended.
func Compare(a, b *Run) int {
	rank := func(r *Run) int {
		switch {
		case r.Active():
			return 0
		case !r.Ended():
			return 1
		}
		return 2
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Kind, b.Kind),
	)
}

// Frame is a page about runs, in the order given, of at most height lines that have at most width columns. A height of
// 0 is any.
func Frame(runs []Run, width, height int) []string {
	lines := strings.Split(table.Wrap(Sum(runs), "  ", width), "\n")
	for i := range runs {
		block := runs[i].block(width)
		rest := min(len(runs)-1-i, 1) // a line for those that have none
		if height > 0 && len(lines)+len(block)+rest > height {
			lines = append(lines, Fit(fmt.Sprintf("... and %d more", len(runs)-i), width))
			return lines[:min(len(lines), height)]
		}
		lines = append(lines, block...)
	}
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	return lines
}

// Sum is a line about all runs together.
func Sum(runs []Run) string {
	count := map[State]int{}
	var rate, eta int64
	var cost Costs
	for i := range runs {
		r := &runs[i]
		count[r.State]++
		cost = cost.add(r.Cost)
		if r.Active() && !r.sum {
			rate, eta = rate+r.BytesPerSecond, max(eta, r.ETASeconds)
		}
	}
	if len(runs) == 0 {
		return "no runs"
	}
	var parts []string
	for _, s := range states {
		if n := count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := strings.Join(parts, ", ")
	if rate > 0 {
		text += "; " + table.Rate(float64(rate))
	}
	if eta > 0 {
		text += ", " + left(eta) + " left"
	}
	if len(cost) > 0 {
		text += "; cost so far " + cost.String()
	}
	return text
}

// block are the lines about a run: one if they are wide, or else two, and one more for what is wrong.
func (r *Run) block(width int) []string {
	phase := cmp.Or(r.Phase, string(r.State))
	if r.Attempt > 1 {
		phase += fmt.Sprintf(" (%d)", r.Attempt)
	}
	name := r.Namespace + "/" + r.Name
	switch r.Kind {
	case "Delivery":
		name = "from " + cmp.Or(r.Peer, "?") + ": " + name
	case trialKind:
		name = "trial " + name
	}
	var lines []string
	if width >= wide {
		// All but the name take 64 columns, and the price 14 at most as a rule.
		lines = append(lines, Fit(
			pad(name, width-64-14)+" "+pad(phase, 16)+" "+r.bar(20)+" "+r.figures()+r.price(), width,
		))
	} else {
		room := max(width-utf8.RuneCountInString(phase)-1, 8)
		lines = append(lines, Fit(pad(name, room)+" "+phase, width))
		if r.Measured() {
			lines = append(lines, Fit("  "+r.bar(10)+" "+r.figures(), width))
		}
		if price := r.price(); price != "" {
			lines = append(lines, Fit(" "+price, width))
		}
	}
	if why := r.Why(); why != "" {
		lines = append(lines, Fit("  "+why, width))
	}
	return lines
}

// Why is what keeps a run from going on, or else from being in time.
func (r *Run) Why() string {
	if r.State != Failed && r.State != Stalled && r.State != Waiting || r.Reason+r.Message == "" {
		return r.Late
	}
	return strings.TrimPrefix(r.Reason+": "+r.Message, ": ")
}

// Left is the time that is left; "" while it is not known.
func (r *Run) Left() string {
	if r.ETASeconds <= 0 {
		return ""
	}
	return left(r.ETASeconds)
}

// figures are percent, rate and time left. Each has a column.
func (r *Run) figures() string {
	rate, percent := "", ""
	if r.Measured() {
		percent = fmt.Sprintf("%3d%%", r.Percent)
	}
	if r.Active() && r.BytesPerSecond > 0 {
		rate = table.Rate(float64(r.BytesPerSecond))
	}
	return fmt.Sprintf("%4s %11s %6s", percent, rate, r.Left())
}

func (r *Run) price() string {
	if len(r.Cost) == 0 {
		return ""
	}
	return "  " + r.Cost.String()
}

func (r *Run) bar(width int) string {
	if !r.Measured() {
		return strings.Repeat(" ", width+2)
	}
	full := int(min(max(r.Percent, 0), 100)) * width / 100
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}

// columns that a character may take. East Asian and later characters are taken to be wide.
func columns(c rune) int {
	if c >= 0x1100 {
		return 2
	}
	return 1
}

// Fit cuts a text, made printable, to a width. A width of 0 cuts nothing.
func Fit(text string, width int) string {
	text = strings.TrimRight(table.Printable(text), " ")
	used, end := 0, 0
	for i, c := range text {
		if used += columns(c); width > 0 && used > width {
			return strings.TrimRight(text[:end], " ") + "~"
		}
		if used < width {
			end = i + utf8.RuneLen(c)
		}
	}
	return text
}

// pad is a text of exactly the width.
func pad(text string, width int) string {
	text = Fit(text, width)
	used := 0
	for _, c := range text {
		used += columns(c)
	}
	return text + strings.Repeat(" ", max(width-used, 0))
}

// Log turns what is seen of runs into lines for what is no terminal: one when a run changes its state, attempt or
// phase, when it advanced by a tenth, and at times while it goes on.
type Log struct{ last map[string]logged }

type logged struct {
	Run

	at time.Time
}

// News are the runs that are worth a line at this time. Runs of a former call that are not among these are forgotten.
func (l *Log) News(now time.Time, runs []Run) []Run {
	seen := map[string]logged{}
	var news []Run
	for i := range runs {
		r := &runs[i]
		before, known := l.last[r.Key()]
		if known && r.State == before.State && r.Phase == before.Phase && r.ID == before.ID && r.Attempt == before.Attempt &&
			r.Reason == before.Reason && (r.Late == "") == (before.Late == "") && r.Percent < before.Percent+step &&
			(!r.Active() || now.Sub(before.at) < heartbeat) {
			seen[r.Key()] = before
			continue
		}
		seen[r.Key()] = logged{*r, now}
		news = append(news, *r)
	}
	l.last = seen
	return news
}

// Text is a line about a run, of any length.
func (r *Run) Text() string {
	parts := []string{strings.ToLower(r.Kind), r.Namespace + "/" + r.Name, cmp.Or(r.Phase, string(r.State))}
	if r.ID != "" {
		parts = append(parts, fmt.Sprintf("run %s attempt %d", r.ID, r.Attempt))
	}
	if r.BytesTotal > 0 || r.FilesTotal > 0 {
		parts = append(parts, fmt.Sprintf(
			"%d%% %s of %s, %d of %d files", r.Percent, table.Bytes(r.Bytes), table.Bytes(r.BytesTotal), r.Files, r.FilesTotal,
		))
	}
	if r.Active() && r.BytesPerSecond > 0 {
		parts = append(parts, table.Rate(float64(r.BytesPerSecond)))
	}
	if eta := r.Left(); eta != "" {
		parts = append(parts, eta+" left")
	}
	if len(r.Cost) > 0 {
		parts = append(parts, "cost "+r.Cost.String())
	}
	if why := r.Why(); why != "" {
		parts = append(parts, why)
	}
	return table.Printable(strings.Join(parts, "  "))
}
