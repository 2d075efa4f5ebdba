// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/console/consoletest"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// TestScale: bars are shares of the longest, whatever a status claims.
func TestScale(t *testing.T) {
	f := newFigure("x", nil, "a", "#b")
	f.bar([]float64{30, 10}, "one")
	f.bar([]float64{math.NaN(), 80, -5}, "two")
	f.bar([]float64{math.Inf(1)}, "three")
	f.bar(nil, "four")
	got := f.done()
	want := [][]Part{{{0, 0, 37.5}, {1, 37.5, 12.5}}, {{1, 0, 100}}, nil, nil}
	for i, row := range got.Rows {
		if fmt.Sprint(row.Bar) != fmt.Sprint(want[i]) {
			t.Errorf("row %d: %v", i, row.Bar)
		}
	}
}

func TestText(t *testing.T) {
	if got := text(consoletest.Hostile).Text; strings.ContainsAny(got, "\x1b\u202e") || !strings.Contains(got, "<script") {
		t.Errorf("%q", got)
	}
	if got := text(strings.Repeat("é", longest)).Text; len(got) > longest+3 || !strings.HasSuffix(got, "é...") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-8:])
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 90 * time.Second: "1m30s", 5*time.Minute + time.Second: "5m", 119 * time.Minute: "1h59m",
		3*time.Hour + time.Minute: "3h", 72*time.Hour + time.Minute: "3d", 400 * 24 * time.Hour: "400d",
	} {
		if got := Age(now, now.Add(-d)); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
	if got := Age(now, time.Time{}); got != unknown {
		t.Errorf("%s", got)
	}
}

func sides(t *testing.T) []Side {
	t.Helper()
	var all []Side
	for i, name := range []string{"east", "west"} {
		s := Side{Context: name, Resource: "peers"}
		objects, err := consoletest.Objects(name, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			s.Add(o, i, strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)+"s")
		}
		all = append(all, s)
	}
	return all
}

// TestNetwork: clusters that know each other are one place each, and what flows is counted once.
func TestNetwork(t *testing.T) {
	n := NetworkOf(sides(t))
	if len(n.Places) != 3 || n.Places[2].Name != "vault-dr" || n.Places[2].Context {
		t.Fatalf("%+v", n.Places)
	}
	var got []string
	for _, f := range n.Flows {
		got = append(got, fmt.Sprintf("%s to %s, %s: %s", n.Places[f.From].Name, n.Places[f.To].Name, f.State, f.Text()))
	}
	want := []string{
		"east to east, resting: 1 failed",
		"east to west, working: 540.0 MB/s, 2 running, 1 channel",
		"east to vault-dr, stalled: 1 stalled",
		"west to east, ready: idle",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	// Of a cluster that is not read, what arrives from it is known.
	n = NetworkOf(sides(t)[1:])
	if len(n.Places) != 2 || n.Places[1].Name != "east" || n.Flows[1].From != 1 || n.Flows[1].Rate != 411e6 {
		t.Errorf("%+v", n)
	}
}

// TestFlows: what goes to several destinations is counted with its legs, what is pulled with who sends it, and nothing
// is a cluster that is none.
func TestFlows(t *testing.T) {
	moving := overview.Run{Kind: "Transfer", State: overview.Working, BytesPerSecond: 1e6}
	of := func(change func(*v1alpha1.Transfer)) Run {
		transfer := &v1alpha1.Transfer{}
		transfer.Status.Peer = v1alpha1.ThisCluster
		change(transfer)
		r := overview.OfTransfer(transfer)
		r.State, r.BytesPerSecond = moving.State, moving.BytesPerSecond
		return Run{Run: r}
	}
	pulled := of(func(t *v1alpha1.Transfer) { t.Spec.Source.Peer, t.Status.Peer = "west", "west" })
	stalled := pulled
	stalled.State = overview.Stalled
	west := v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	n := NetworkOf([]Side{{Context: "east", Peers: []v1alpha1.Peer{west}, Runs: []Run{
		of(func(*v1alpha1.Transfer) {}),
		of(func(t *v1alpha1.Transfer) {
			t.Spec.Destinations, t.Status.Peer = make([]v1alpha1.NamedDestination, 2), "(2 destinations)"
		}),
		of(func(t *v1alpha1.Transfer) { t.Status.Peer = "west" }),
		of(func(t *v1alpha1.Transfer) { t.Spec.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault"} }),
		pulled, stalled, {Run: overview.Run{Kind: "Delivery", Peer: "west", State: overview.Working, BytesPerSecond: 1e6}},
	}}})
	var got []string
	for _, f := range n.Flows {
		got = append(got, fmt.Sprintf("%s to %s: %s", n.Places[f.From].Name, n.Places[f.To].Name, f.Text()))
	}
	want := []string{
		"east to east: 2.0 MB/s, 2 running", "east to west: 1.0 MB/s, 1 running",
		"west to east: 1.0 MB/s, 1 running, 1 stalled",
	}
	if !slices.Equal(got, want) || len(n.Places) != 2 {
		t.Errorf("%q", got)
	}
}

// TestPicturesOfSeveral: each destination has a bar and what is wrong with it, and so has each state of a TransferSet's
// claims.
func TestPicturesOfSeveral(t *testing.T) {
	several := &v1alpha1.Transfer{}
	several.Spec.Destinations = []v1alpha1.NamedDestination{
		{Name: "vault", ObjectStore: &v1alpha1.ObjectStorePath{Name: "archive"}}, {Name: "west", Peer: "west"},
	}
	several.Status.Destinations = []v1alpha1.DestinationStatus{
		{Name: "vault", Percent: 900, Phase: v1alpha1.TransferTransferring, Reason: "Transferring"},
		{Name: "west", Peer: "west", Phase: v1alpha1.TransferPending, Reason: "PeerGone", Message: consoletest.Hostile},
	}
	drawn := pictures(several, &explain.Report{}, now)
	if len(drawn.all) != 1 || !drawn.hides("Destinations") {
		t.Fatalf("%+v", drawn)
	}
	rows := drawn.all[0].Rows
	if rows[0].Cells[1].Text != "100 %" || rows[0].Cells[2].Text != "ObjectStore archive" ||
		rows[1].Cells[2].Text != "west" || !strings.HasPrefix(rows[1].Why, "PeerGone: ") ||
		strings.Contains(rows[1].Why, "\x1b") {
		t.Errorf("%+v", rows)
	}
	set := &v1alpha1.TransferSet{}
	set.Status.Members = &v1alpha1.TransferSetMembers{Selected: 4, Complete: 3, Failed: 1}
	if drawn = pictures(set, &explain.Report{}, now); len(drawn.all) != 1 || len(drawn.all[0].Rows[3].Bar) != 1 ||
		drawn.all[0].Rows[3].Cells[2].Text != "75 %" {
		t.Errorf("%+v", drawn.all)
	}
}

// TestCounterpart: a Peer stands for a cluster that was read only if that is certain.
func TestCounterpart(t *testing.T) {
	peer := func(name, knownAs string) v1alpha1.Peer {
		p := v1alpha1.Peer{}
		p.Name, p.Status.KnownAs = name, knownAs
		return p
	}
	for name, test := range map[string]struct {
		others [][]v1alpha1.Peer
		want   int
	}{
		"it knows this one":      {[][]v1alpha1.Peer{{peer("east", "west")}}, 1},
		"under another name":     {[][]v1alpha1.Peer{{peer("elsewhere", "west")}}, -1},
		"it does not say so yet": {[][]v1alpha1.Peer{{peer("east", "")}}, -1},
		"two that could be":      {[][]v1alpha1.Peer{{peer("east", "west")}, {peer("east", "west")}}, -1},
		"the second of two":      {[][]v1alpha1.Peer{{peer("east", "north")}, {peer("east", "west")}}, 2},
	} {
		all := []Side{{Peers: []v1alpha1.Peer{peer("west", "east")}}}
		for _, peers := range test.others {
			all = append(all, Side{Peers: peers})
		}
		if got := counterpart(all, 0, &all[0].Peers[0]); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	of := peer("west", "")
	if got := counterpart([]Side{{}, {Peers: []v1alpha1.Peer{peer("", "west")}}}, 0, &of); got != -1 {
		t.Errorf("nobody has said how it is known: %d", got)
	}
}

// TestDraw: everything that is drawn is within the drawing, for any number of clusters.
func TestDraw(t *testing.T) {
	for count := range 2 * mostDrawn {
		n := Network{}
		for i := range count {
			n.Places = append(n.Places, Place{Name: strings.Repeat("name", 20), Context: i%2 == 0})
			for j := range count {
				n.Flows = append(n.Flows, Flow{From: i, To: j, Rate: int64(i * j), Running: i, State: overview.Working})
			}
		}
		for _, width := range []float64{336, 860} {
			d := n.Draw(width)
			drawn := min(count, mostDrawn)
			if len(d.Boxes) != drawn || d.LeftOut != count-drawn || len(d.Arrows) != drawn*(drawn-1) && drawn > 0 {
				t.Fatalf("%d: %d boxes, %d arrows, %d left out", count, len(d.Boxes), len(d.Arrows), d.LeftOut)
			}
			for i, b := range d.Boxes {
				if b.X < 0 || b.Y < 0 || b.X+b.Width > d.Width || b.Y+b.Height > d.Height {
					t.Errorf("%d in %v: box %+v is outside of %vx%v", count, width, b, d.Width, d.Height)
				}
				for _, other := range d.Boxes[:i] {
					if math.Abs(b.X-other.X) < b.Width && math.Abs(b.Y-other.Y) < b.Height {
						t.Errorf("%d in %v: two boxes are at one place", count, width)
					}
				}
			}
			for _, a := range d.Arrows {
				if strings.Contains(a.Path+a.Head, "NaN") || a.X-a.Wide/2 < -1 || a.X+a.Wide/2 > d.Width+1 || a.Y < 0 ||
					a.Y > d.Height || a.Thick < 1 || a.Thick > 5 {
					t.Errorf("%d in %v: %+v", count, width, a)
				}
			}
		}
	}
}

// TestObjects: every object of a kind of the API has conditions, and pictures whose bars are within 100 percent.
func TestObjects(t *testing.T) {
	pictured := map[string][]string{}
	for _, name := range []string{"east", "west"} {
		objects, err := consoletest.Objects(name, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			in := explain.Input{Now: now}
			in.Transfer, _ = object.(*v1alpha1.Transfer)
			report, err := explain.Of(object, in)
			if err != nil {
				t.Fatal(err)
			}
			o := ObjectOf(object, report, now)
			key := report.Kind + " " + report.Name
			if len(o.Conditions.Rows) == 0 || o.State == "" {
				t.Errorf("%s: %+v", key, o)
			}
			for _, picture := range o.Pictures {
				pictured[key] = append(pictured[key], picture.Title)
				if !slices.ContainsFunc(picture.Columns, func(c Column) bool { return c.Number && !c.Wide }) {
					t.Errorf("%s: %s has no numbers on a narrow page", key, picture.Title)
				}
				for _, row := range picture.Rows {
					end := 0.0
					for _, part := range row.Bar {
						end = max(end, part.X+part.Width)
					}
					if end > 100.001 || len(row.Cells) != len(picture.Columns) {
						t.Errorf("%s: %s: %+v", key, picture.Title, row)
					}
				}
			}
			for _, facts := range o.Facts {
				if strings.HasPrefix(facts.Title, "Last attempts") || strings.HasPrefix(facts.Title, "Engines on one core") {
					t.Errorf("%s: %q is there twice", key, facts.Title)
				}
			}
		}
	}
	for key, want := range map[string]string{
		"Transfer ledger": "What compressed the data; Cost in EUR, and what compression saved; " +
			"Alternatives by cost: the run as measured, others as estimated, for a GiB; " +
			"History: last attempts by how long they took",
		"Queue orders":        "Messages; What compressed the data; Cost in EUR, and what compression saved",
		"Statement 2026-11":   "Cost by kind, in EUR; Cost by Peer, in EUR; Cost by day, in EUR",
		"DataQuota team":      "Limits",
		"Drill ledger":        "History: last drills by how long they took",
		"NodeProfile z15-a":   "Engines on one core, on the agents' sample",
		"PeerGrant from-east": "",
	} {
		if got := strings.Join(pictured[key], "; "); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

// TestSection: a row of titles in capitals becomes the head of the table.
func TestSection(t *testing.T) {
	with := section(explain.Section{Title: "x", Rows: table.Rows{{"CODEC", "ENGINE", "CPU/GiB"}, {"a", "b", "c"}}})
	without := section(explain.Section{Title: "x", Rows: table.Rows{{"CPU", "b"}, {"", "c"}}})
	if len(with.Columns) != 3 || with.Columns[0].Title != "Codec" || len(with.Rows) != 1 || len(without.Columns) != 0 ||
		len(without.Rows) != 2 {
		t.Errorf("%+v\n%+v", with, without)
	}
}

// TestNarrowLists: on a narrow page a list has numbers if it has some on a wide one.
func TestNarrowLists(t *testing.T) {
	for kind := range lists {
		numbers, narrow := 0, 0
		for _, c := range List("", 0, kind, "", nil, now).Columns {
			if c.Number && c.Title != "Age" {
				numbers++
				if !c.Wide {
					narrow++
				}
			}
		}
		if numbers > 0 && narrow == 0 {
			t.Errorf("the list of %s has no numbers on a narrow page", kind)
		}
	}
}

func TestActs(t *testing.T) {
	names := func(o explain.Object) (all []string) {
		for _, a := range Acts(o) {
			all = append(all, a.Name)
		}
		return all
	}
	transfer := &v1alpha1.Transfer{}
	if got := fmt.Sprint(names(transfer)); got != "[run pause suspend]" {
		t.Error(got)
	}
	transfer.Spec.Suspend = true
	if got := fmt.Sprint(names(transfer)); got != "[resume run]" {
		t.Error(got)
	}
	transfer.Spec.Suspend, transfer.Spec.Pause = false, true
	if got := fmt.Sprint(names(transfer)); got != "[resume run]" {
		t.Error(got)
	}
	transfer.DeletionTimestamp = &metav1.Time{Time: now}
	if got := names(transfer); got != nil {
		t.Error(got)
	}
	if got := names(&v1alpha1.Queue{}); got != nil {
		t.Error(got)
	}
}
