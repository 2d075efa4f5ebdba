// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

// Side is what was read of a cluster.
type Side struct {
	// Context is its name.
	Context string
	// Trouble says why nothing, or not everything, was read of it.
	Trouble string
	Peers   []v1alpha1.Peer
	// Runs of its Transfers, and of Deliveries from other clusters.
	Runs   []Run
	Queues []v1alpha1.Queue
	// Resource is that of Peers.
	Resource string
}

// Place is a cluster on the map.
type Place struct {
	Name string
	// Context: it is one that the console reads; others are known by the Peers that stand for them.
	Context bool
	State   overview.State
	// Notes are lines about it.
	Notes []string
}

// Flow is what goes from one place to another, or within one.
type Flow struct {
	From, To int
	// State is the worst of the Peer and of what is under way.
	State overview.State
	// Rate of uncompressed data that move now, in bytes a second.
	Rate int64
	// Running are runs that go on, Stalled those for which somebody must act; Failed are those that failed last.
	Running, Waiting, Stalled, Failed int
	// Channels of Queues.
	Channels int
	// Peer is the object that stands for the other side; nil within a cluster.
	Peer *Link
	// Why is what is wrong with the Peer.
	Why string
}

// Network is the clusters and what flows between them.
type Network struct {
	Places []Place
	Flows  []Flow
}

// NetworkOf makes the network of what was read. A Peer stands for a cluster that was read if that one has exactly one
// Peer which stands for this one, by the names under which the managers say that they know each other.
func NetworkOf(sides []Side) Network {
	n := Network{}
	for i := range sides {
		p := Place{Name: text(sides[i].Context).Text, Context: true, State: overview.Ready}
		if sides[i].Trouble != "" {
			p.State, p.Notes = overview.Failed, []string{text(sides[i].Trouble).Text}
		}
		n.Places = append(n.Places, p)
	}
	flows := map[[2]int]*Flow{}
	flow := func(from, to int) *Flow {
		key := [2]int{from, to}
		if flows[key] == nil {
			flows[key] = &Flow{From: from, To: to, State: overview.Resting}
		}
		return flows[key]
	}
	others := map[string]int{}
	for i := range sides {
		stands := map[string]int{"": i, v1alpha1.ThisCluster: i}
		for j := range sides[i].Peers {
			peer := &sides[i].Peers[j]
			at := counterpart(sides, i, peer)
			if at < 0 {
				at = n.other(others, peer.Name)
			}
			stands[peer.Name] = at
			f := flow(i, at)
			state, why := overview.StateOf(peer.Status.Conditions)
			f.State = state
			f.Why = attention(state, why)
			f.Peer = &Link{i, sides[i].Resource, "", peer.Name}
		}
		place := func(peer string) int {
			if at, ok := stands[peer]; ok {
				return at
			}
			return n.other(others, peer)
		}
		for j := range sides[i].Runs {
			r := &sides[i].Runs[j]
			switch {
			case r.Several(): // its legs tell
			case r.Kind == "Transfer" && r.Pulls:
				// Of data that move, the Transfer or Delivery of who sends them tells.
				if r.State != overview.Working {
					flow(place(r.Peer), i).count(&r.Run)
				}
			case r.Kind == "Transfer":
				flow(i, place(r.Peer)).count(&r.Run)
			case r.Kind == "Delivery" && r.Peer != "" && !n.Places[place(r.Peer)].Context:
				// Of what a cluster sends that is read itself, its Transfers tell.
				flow(place(r.Peer), i).count(&r.Run)
			}
		}
		for j := range sides[i].Queues {
			for _, channel := range sides[i].Queues[j].Spec.SendingChannels() {
				flow(i, place(channel.Peer)).Channels++
			}
		}
	}
	for _, f := range flows {
		n.Flows = append(n.Flows, *f)
	}
	slices.SortFunc(n.Flows, func(a, b Flow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return n
}

// other is the place of a cluster that is not read.
func (n *Network) other(known map[string]int, name string) int {
	if _, ok := known[name]; !ok {
		known[name] = len(n.Places)
		n.Places = append(n.Places, Place{Name: text(name).Text, State: overview.Resting})
	}
	return known[name]
}

// counterpart is the cluster that a Peer of another one stands for; -1 if that is not known.
func counterpart(sides []Side, of int, peer *v1alpha1.Peer) int {
	found := -1
	for i := range sides {
		for j := range sides[i].Peers {
			back := &sides[i].Peers[j]
			if i == of || peer.Status.KnownAs == "" || back.Name != peer.Status.KnownAs || back.Status.KnownAs != peer.Name {
				continue
			}
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

func (f *Flow) count(r *overview.Run) {
	switch {
	case r.State == overview.Stalled:
		f.Stalled++
		f.State = overview.Stalled
	case r.Active():
		f.Running++
		f.Rate += min(r.BytesPerSecond, 1<<50)
		if f.State == overview.Ready || f.State == overview.Resting {
			f.State = overview.Working
		}
	case r.State == overview.Failed:
		f.Failed++
	case r.State == overview.Waiting && !r.Idle():
		f.Waiting++
	}
}

// Text is what flows, as short as it may be.
func (f *Flow) Text() string {
	var parts []string
	if f.Rate > 0 {
		parts = append(parts, table.Rate(float64(f.Rate)))
	}
	for _, count := range []struct {
		n    int
		what string
	}{
		{f.Running, "running"}, {f.Waiting, "waiting"}, {f.Stalled, "stalled"}, {f.Failed, "failed"}, {f.Channels, "channel"},
	} {
		if count.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	if f.Channels > 1 {
		parts[len(parts)-1] += "s"
	}
	return cmp.Or(strings.Join(parts, ", "), "idle")
}

// short is the first thing of that.
func (f *Flow) short() string {
	first, _, _ := strings.Cut(f.Text(), ",")
	return first
}

func number(n int) Cell {
	if n == 0 {
		return Cell{Text: unknown}
	}
	return Cell{Text: fmt.Sprint(n)}
}

// Table has all flows.
func (n *Network) Table() Table {
	t := Table{
		Title: "Flows", Columns: columns("From", "To", "State", "#Rate", "#Running", "#Waiting+", "#Stalled+", "#Failed+",
			"#Channels+"),
	}
	for i := range n.Flows {
		f := &n.Flows[i]
		rate := unknown
		if f.Rate > 0 {
			rate = table.Rate(float64(f.Rate))
		}
		to := Cell{Text: n.Places[f.To].Name, Link: f.Peer}
		if f.From == f.To {
			to.Text = "itself"
		}
		row := t.add(Cell{Text: n.Places[f.From].Name}, to, stateCell(f.State), Cell{Text: rate},
			number(f.Running), number(f.Waiting), number(f.Stalled), number(f.Failed), number(f.Channels))
		row.Why = f.Why
	}
	return t
}
