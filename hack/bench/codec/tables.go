// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// table is one of Markdown that is made row by row. The first one is the head.
type table [][]string

func newTable(columns ...string) *table { return &table{columns} }

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t *table) String() string { return harness.Table((*t)[0], (*t)[1:]) }

// cell is a speed and a ratio.
func cell(speed, ratio float64) string {
	if ratio < 0.0005 {
		return fmt.Sprintf("%.0f <.001", speed)
	}
	return fmt.Sprintf("%.0f %s", speed, strings.TrimPrefix(fmt.Sprintf("%.3f", ratio), "0"))
}

func (r *report) corpora(ordinary bool) []string {
	var names []string
	for _, d := range r.bench.data {
		if d.ordinary == ordinary {
			names = append(names, d.name)
		}
	}
	return names
}

// compressTable has a row for each contender and a column for each corpus; that of
// the ordinary ones begins with the mean.
func (r *report) compressTable(ordinary bool) string {
	columns := []string{""}
	if ordinary {
		columns = append(columns, "mean")
	}
	t := newTable(append(columns, r.corpora(ordinary)...)...)
	for _, name := range r.contenders(ordinary) {
		cells := []string{r.emphasis(name)}
		if ordinary {
			cells = append(cells, cell(r.means(name)))
		}
		for _, corpus := range r.corpora(ordinary) {
			text := ""
			if found, ok := find(r.compress, name, corpus); ok {
				text = cell(found.speed(), found.ratio())
			}
			cells = append(cells, text)
		}
		t.row(cells...)
	}
	return t.String()
}

// emphasis tells our engines from the others.
func (r *report) emphasis(name string) string {
	if r.family(name) == peer && !slices.ContainsFunc(r.bench.engines, func(e codec.Engine) bool {
		return e.Name() == name
	}) {
		return name
	}
	return "**" + name + "**"
}

// unique returns the values of a field in the order of their first occurrence.
func unique[T any](all []T, field func(T) string) []string {
	var values []string
	for _, one := range all {
		if v := field(one); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

func (r *report) inflateTable() string {
	t := newTable(append([]string{"", "made by", "mean"}, r.corpora(true)...)...)
	for _, stream := range unique(r.inflate, func(f result) string { return f.stream }) {
		ofStream := slices.DeleteFunc(slices.Clone(r.inflate), func(f result) bool { return f.stream != stream })
		for _, name := range unique(ofStream, func(f result) string { return f.contender }) {
			madeBy := stream
			if strings.HasSuffix(name, " -d") {
				madeBy = "itself"
			}
			cells := []string{r.emphasis(name), madeBy}
			var speeds []float64
			for _, corpus := range r.corpora(true) {
				text := ""
				if found, ok := find(ofStream, name, corpus); ok {
					speeds = append(speeds, found.speed())
					text = fmt.Sprintf("%.0f", found.speed())
				}
				cells = append(cells, text)
			}
			t.row(slices.Insert(cells, 2, fmt.Sprintf("%.0f", harness.GeometricMean(speeds)))...)
		}
	}
	return t.String()
}

// mean returns the mean of what a contender did on all corpora of the results.
func mean(results []result, contender string, of func(result) float64) float64 {
	var values []float64
	for _, found := range results {
		if found.contender == contender {
			values = append(values, of(found))
		}
	}
	return harness.GeometricMean(values)
}

func (r *report) blockTable() string {
	columns := []string{""}
	for _, size := range blockSizes {
		columns = append(columns, fmt.Sprintf("%d KiB", size>>10))
	}
	t := newTable(columns...)
	for _, name := range unique(r.blocks[0].compress, func(f result) string { return f.contender }) {
		cells := []string{name}
		for _, size := range r.blocks {
			cells = append(cells, cell(mean(size.compress, name, result.speed), mean(size.compress, name, result.ratio)))
		}
		t.row(cells...)
	}
	for _, name := range unique(r.blocks[0].inflate, func(f result) string { return f.contender }) {
		cells := []string{name + ", inflating"}
		for _, size := range r.blocks {
			cells = append(cells, fmt.Sprintf("%.0f", mean(size.inflate, name, result.speed)))
		}
		t.row(cells...)
	}
	return t.String()
}

func (r *report) coresTable() string {
	t := newTable("", "one core", fmt.Sprintf("%d cores", r.cores), "times", "least", "on", "CPU per byte")
	for _, inflate := range []bool{false, true} {
		ofKind := slices.DeleteFunc(slices.Clone(r.results.cores), func(c coresResult) bool { return c.inflate != inflate })
		for _, name := range unique(ofKind, func(c coresResult) string { return c.name }) {
			var one, all, cost []float64
			var scaling spread
			for _, c := range ofKind {
				if c.name == name {
					one, all = append(one, c.one.wallSpeed()), append(all, c.all.wallSpeed())
					cost = append(cost, harness.Median(c.all.cpu)/harness.Median(c.one.cpu))
					scaling.add(c.corpus, c.scaling())
				}
			}
			label := name
			if inflate {
				label += ", inflating"
			}
			t.row(label, fmt.Sprintf("%.0f", harness.GeometricMean(one)), fmt.Sprintf("%.0f", harness.GeometricMean(all)),
				fmt.Sprintf("%.2f", harness.MeanRatio(scaling.values).Value), fmt.Sprintf("%.2f", scaling.worst.Value),
				scaling.where, fmt.Sprintf("%+.0f%%", 100*(harness.GeometricMean(cost)-1)))
		}
	}
	return t.String()
}

func (r *report) estimateTable() string {
	var text strings.Builder
	for _, ordinary := range []bool{true, false} {
		names, times, shares := []string{""}, []string{"µs for 1 MiB"}, []string{"of compressing it"}
		for i, e := range r.decisions.estimates {
			if slices.Contains(r.corpora(ordinary), e.corpus) {
				names = append(names, e.corpus)
				times = append(times, fmt.Sprintf("%.0f", harness.Median(e.cpu)*mainBlock/1e3))
				shares = append(shares, fmt.Sprintf("%.1f%%", 100/e.faster(r.decisions.compressed[i]).Value))
			}
		}
		part := newTable(names...)
		part.row(times...)
		part.row(shares...)
		text.WriteString(part.String() + "\n")
	}
	return text.String()
}

func (r *report) modeTable() string {
	t := newTable("", "corpus", "Never", "Auto", "Always", "Auto / Always", "beyond Never", "ratio in Auto", "in Always")
	for _, m := range r.decisions.modes {
		micros := func(f result) string { return fmt.Sprintf("%.0f", harness.Median(f.cpu)*mainBlock/1e3) }
		t.row(m.setting.name(), m.auto.corpus, micros(m.never), micros(m.auto), micros(m.always), fmt.Sprintf(
			"%.1f%%", 100/m.auto.faster(m.always).Value,
		), fmt.Sprintf("%.1f%%", 100*m.beyond().Value),
			fmt.Sprintf("%.3f", m.auto.ratio()), fmt.Sprintf("%.3f", m.always.ratio()))
	}
	return t.String()
}

// beyond is what the decision costs by what the attempt would, without what a stored
// block costs in any mode.
func (m modeResult) beyond() harness.Estimate {
	without := func(of result) []float64 {
		left := slices.Clone(of.cpu)
		for i := range left {
			left[i] -= m.never.cpu[i]
		}
		return left
	}
	return harness.Share(without(m.auto), without(m.always))
}

func (r *report) corporaTable() string {
	t := newTable("corpus", "what", "bytes", "SHA-256")
	for _, d := range r.bench.data {
		t.row(d.name, d.about, fmt.Sprint(len(d.plain)), "`"+d.digest+"`")
	}
	return t.String()
}

// hardwareTable has space for what nobody has measured; where there is hardware it is
// in the other tables.
func (r *report) hardwareTable() string {
	if slices.ContainsFunc(r.bench.engines, func(e codec.Engine) bool { return e.Class() == codec.Hardware }) {
		return ""
	}
	t := newTable(append([]string{""}, r.corpora(true)...)...)
	for _, row := range []string{"dfltcc, compressing", "dfltcc, inflating"} {
		t.row(append([]string{row}, slices.Repeat([]string{"–"}, len(r.corpora(true)))...)...)
	}
	return t.String()
}
