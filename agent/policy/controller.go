// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
)

// ControllerOptions describe a controller.
type ControllerOptions struct {
	// Objective is what to minimise. Cost without a usable price is Elapsed, and so is what
	// has no meaning.
	Objective Objective
	Prices    Prices
	// Ways to compress besides sending blocks as they are.
	Ways []Way
	// PreferHardware: where hardware may compress a block, software does not, unless the
	// accelerator is busy.
	PreferHardware bool
	// Limit is how many bytes a second the sender may send; 0: no limit.
	Limit float64
	// Cores are how many the sender may use, PeerCores how many the receiver has; 0: not
	// known, which counts as many as the sender's.
	Cores, PeerCores int
}

// Block is what is known of a block before it is sent.
type Block struct {
	// Size is its length in bytes, Predicted what a sample says that it compresses to.
	Size, Predicted int
	// Hardware and Software say which of the two may compress it.
	Hardware, Software bool
}

// Choice is what to do with a block.
type Choice struct {
	Option
	// Reason says why, unless the block is compressed and nothing was amiss; then it is
	// empty.
	Reason Reason
}

// Outcome is what became of a block for which an option to compress was chosen.
type Outcome struct {
	Option
	// Size and Predicted are those of the Block.
	Size, Predicted int
	// Wire is what travels of it in bytes, at most Size.
	Wire int
	// CPU is the time it took to compress, in seconds.
	CPU float64
}

// Controller chooses block by block how to send data, so that the objective gets least.
// What it does depends on nothing but the calls made to it: it has no clock, and equal
// calls in equal order get equal answers. It is not safe for concurrent use.
//
// It predicts what each option would take from how each did on blocks that promised as
// much (Observe), from what the last windows say of cores, network and peer (Window,
// Peer), and until then from what was measured elsewhere (Way). An option that was not
// tried yet and would be best if it did somewhat better than expected is tried on a block.
type Controller struct {
	model    model
	ways     []Way
	prefer   bool
	buckets  [buckets]bucket
	warm     []bool // the ways that compressed a block
	cores    int
	crowding float64

	sent, received, inflated learned
	linkKnown                bool
	linkBounds               int // windows that showed it, up to settled
	linkRecall               recall
	peerCores                int
	peerRecall               recall
	peerKnown                bool
	peerBusy, peerCPU        float64
	usual                    int // the fastest way
}

const (
	// buckets are sorts of blocks by what samples promise.
	buckets = 9
	// margin is how much better than what is done now another option must be to replace
	// it, as a share of it, and at least as a share of sending blocks as they are.
	margin, leastMargin = 0.03, 0.002
	// Where it takes less CPU time this much is enough.
	easyMargin = 0.001
	// An option that was not tried on a sort of block for so many of them may have
	// changed.
	stale = 512
	// smooth is how far one outcome moves a figure once there are a few.
	smooth = 0.125
	// Smaller blocks say little of what a byte takes.
	telling = 16 << 10
	// A first block that takes so many times as long as was expected says nothing of the next ones.
	cold = 1.5
	// An accelerator is busy when it takes so many times as long as it did at its best. After so many blocks it is
	// asked again, and after twice as many each time it still is, up to stale.
	busyFactor = 4
	firstRetry = 8
)

// undecided is the choice in a bucket that has none, asIs that to compress nothing.
const undecided, asIs = -2, -1

// hopes are by how much an option that was tried so many times is expected to do better
// than it did, or than was said of it: the share of CPU time and of bytes that it might
// need.
var hopes = []struct{ cpu, wire float64 }{{0.7, 0.85}, {0.8, 0.97}, {0.9, 0.99}}

// bucket is what is known of one sort of block.
type bucket struct {
	blocks  int
	current int
	figures []figure
}

// figure is what a way did with one sort of block.
type figure struct {
	// seen blocks, the last of which was the last-th of the bucket.
	seen, last int
	// trying is true while a block is under way to find out.
	trying bool
	// wire and cpu are bytes and seconds for each byte of plain data, least the least cpu.
	wire, cpu, least float64
	// retry is after how many blocks an accelerator that is busy is asked again; 0: it is not busy.
	retry int
}

// NewController returns a controller that has seen nothing.
func NewController(o ControllerOptions) *Controller {
	cores := max(o.Cores, 1)
	peerCores := o.PeerCores
	if peerCores < 1 {
		peerCores = cores
	}
	c := &Controller{
		model: newModel(o.Objective, o.Prices, cores, peerCores), cores: cores, peerCores: peerCores, crowding: 1,
		prefer: o.PreferHardware,
	}
	c.Limit(o.Limit)
	for _, w := range o.Ways {
		if !w.Stored() && !slices.ContainsFunc(c.ways, func(have Way) bool { return have.Option == w.Option }) {
			c.ways = append(c.ways, w.known())
		}
	}
	for i, w := range c.ways {
		if w.CompressRate > c.ways[c.usual].CompressRate {
			c.usual = i
		}
	}
	c.warm = make([]bool, len(c.ways))
	for i := range c.buckets {
		c.buckets[i] = bucket{current: undecided, figures: make([]figure, len(c.ways))}
	}
	return c
}

// Limit changes how many bytes a second the sender may send; 0: no limit.
func (c *Controller) Limit(bytesPerSecond float64) {
	c.model.limit = 0
	if positive(bytesPerSecond) {
		c.model.limit = bytesPerSecond
	}
}

// bucketOf returns the number of the bucket of blocks that shrink to a share.
func bucketOf(share float64) int {
	n := 0
	for _, limit := range [...]float64{1.0 / 64, 1.0 / 16, 3.0 / 16, 5.0 / 16, 7.0 / 16, 10.0 / 16, 13.0 / 16, 31.0 / 32} {
		if share >= limit {
			n++
		}
	}
	return n
}

func shareOf(part, whole int) float64 { return shareOf64(float64(part), float64(whole)) }

func shareOf64(part, whole float64) float64 { return sound(part/max(whole, 1), 0, 1) }

// Choose returns what to do with a block. When the choice is to compress, Observe has to
// be called.
func (c *Controller) Choose(b Block) Choice {
	share := shareOf(b.Predicted, b.Size)
	k := &c.buckets[bucketOf(share)]
	k.blocks++

	allowed := func(i int) bool { return c.allowed(i, b) }
	best := c.best(&c.model, k, share, allowed)
	if b.Size >= telling {
		if try := c.trial(k, share, best, allowed); try >= 0 {
			k.figures[try].trying = true
			return Choice{Option: c.ways[try].Option}
		}
	}
	k.current = best
	if best == asIs {
		return Choice{Reason: c.storedReason(k, share, allowed)}
	}
	choice := Choice{Option: c.ways[best].Option}
	if choice.Class == codec.Software && b.Hardware && c.busy(k) {
		choice.Reason = AcceleratorBusy
	}
	return choice
}

// allowed reports whether a way is open to a block.
func (c *Controller) allowed(i int, b Block) bool {
	if c.ways[i].Class == codec.Hardware {
		return b.Hardware
	}
	if !b.Software {
		return false
	}
	if !c.prefer || !b.Hardware {
		return true
	}
	k := &c.buckets[bucketOf(shareOf(b.Predicted, b.Size))]
	return !c.hasHardware() || c.busy(k)
}

func (c *Controller) hasHardware() bool {
	return slices.ContainsFunc(c.ways, func(w Way) bool { return w.Class == codec.Hardware })
}

// busy reports whether the accelerator is far slower with a sort of block than it was.
func (c *Controller) busy(k *bucket) bool {
	for i, w := range c.ways {
		if w.Class == codec.Hardware && k.figures[i].retry > 0 {
			return true
		}
	}
	return false
}

// best returns the way that is best by what is known, asIs if that is none. What is done
// now it prefers by a margin.
func (c *Controller) best(m *model, k *bucket, share float64, allowed func(int) bool) int {
	plain := m.value(m.takes(1, 0, 0))
	works := func(i int) work {
		if i == asIs {
			return m.takes(1, 0, 0)
		}
		return c.expected(m, k, i, share, 1, 1)
	}
	best, least := asIs, plain
	first := k.unseen(allowed)
	for i := range c.ways {
		// What was never tried on this sort of block is judged by what it promises at first;
		// then it has a trial.
		if !allowed(i) || k.figures[i].seen == 0 && !first {
			continue
		}
		if v := m.value(works(i)); v < least {
			best, least = i, v
		}
	}
	current := k.current
	if current == undecided || current != asIs && !allowed(current) || best == current {
		return best
	}
	was, will := works(current), works(best)
	if will.wire <= was.wire && will.send <= was.send && will.receive <= was.receive {
		return best // in every respect
	}
	enough := margin
	if will.send+will.receive < was.send+was.receive {
		enough = easyMargin
	}
	if now := m.value(was); now-least < max(enough*now, min(enough, leastMargin)*plain) {
		return current
	}
	return best
}

// unseen reports whether none of the allowed ways was tried on a sort of block.
func (k *bucket) unseen(allowed func(int) bool) bool {
	for i := range k.figures {
		if k.figures[i].seen > 0 && allowed(i) {
			return false
		}
	}
	return true
}

// expected returns what a byte takes by a way, when it does better than expected by so
// much.
func (c *Controller) expected(m *model, k *bucket, i int, share, hopeCPU, hopeWire float64) work {
	w, f := &c.ways[i], &k.figures[i]
	wire, cpu := f.wire, f.cpu
	if f.seen == 0 {
		wire, cpu = c.guess(k, i, share)
	}
	wire, cpu = wire*hopeWire, cpu*hopeCPU
	if hopeWire < 1 {
		// No hope goes beyond what was seen of the codec's other levels: less effort makes no fewer bytes, more effort
		// takes no less time.
		for j := range c.ways {
			other, seen := &c.ways[j], &k.figures[j]
			switch {
			case seen.seen == 0 || other.Codec != w.Codec || other.Class != w.Class:
			case other.Level > w.Level:
				wire = max(wire, seen.wire)
			case other.Level < w.Level:
				cpu = max(cpu, seen.cpu)
			}
		}
	}
	return m.takes(sound(wire, 0, 1), cpu, 1/w.InflateRate)
}

// guess returns what a way that was not tried on a sort of block may do: what another did
// or the sample promises, and how the two compare elsewhere.
func (c *Controller) guess(k *bucket, i int, share float64) (wire, cpu float64) {
	reference, seen := -1, 0
	for j := range k.figures {
		if k.figures[j].seen > seen {
			reference, seen = j, k.figures[j].seen
		}
	}
	w := &c.ways[i]
	if reference < 0 {
		// What shrinks a lot is compressed quickly too.
		usual := &c.ways[c.usual]
		return share * usual.Ratio / w.Ratio, sound(4*share, 0.1, 1) / w.CompressRate
	}
	r, f := &c.ways[reference], &k.figures[reference]
	return f.wire * r.Ratio / w.Ratio, f.cpu * r.CompressRate / w.CompressRate
}

// trial returns a way that has to be tried: it may be better than the best, and nobody
// knows. It is -1 when there is none.
func (c *Controller) trial(k *bucket, share float64, best int, allowed func(int) bool) int {
	m := &c.model
	plain := m.value(m.takes(1, 0, 0))
	least := plain
	if best != asIs {
		if k.figures[best].seen == 0 {
			return -1 // that one comes first
		}
		least = m.value(c.expected(m, k, best, share, 1, 1))
	}
	least -= max(margin*least, leastMargin*plain)
	try := -1
	for i := range c.ways {
		f := &k.figures[i]
		if i == best || f.trying || !allowed(i) {
			continue
		}
		if f.retry > 0 && k.blocks-f.last >= f.retry {
			return i // others may have left it by now, and nothing else tells
		}
		hope := hopes[min(f.seen, len(hopes)-1)]
		if f.seen >= len(hopes) && k.blocks-f.last < stale {
			continue // it had its chance
		}
		if v := m.value(c.expected(m, k, i, share, hope.cpu, hope.wire)); v < least {
			try, least = i, v
		}
	}
	return try
}

// storedReason says why a block that would shrink is not compressed.
func (c *Controller) storedReason(k *bucket, share float64, allowed func(int) bool) Reason {
	m := c.model
	if m.objective == Bytes {
		return Incompressible
	}
	if m.objective != Elapsed {
		return CPUBudget
	}
	m.cores, m.peerCores = float64(c.cores), float64(c.peerCores)
	fresh := bucket{current: undecided, figures: k.figures}
	if c.best(&m, &fresh, share, allowed) != asIs {
		return CPUBudget
	}
	return NetworkFaster
}

// Observe takes in what became of a block for which a way to compress was chosen.
func (c *Controller) Observe(o Outcome) {
	i := slices.IndexFunc(c.ways, func(w Way) bool { return w.Option == o.Option })
	if i < 0 || o.Size <= 0 {
		return
	}
	k := &c.buckets[bucketOf(shareOf(o.Predicted, o.Size))]
	f := &k.figures[i]
	f.trying = false
	if o.Size < telling {
		return
	}
	f.last = k.blocks
	wire := shareOf(o.Wire, o.Size)
	cpu := o.CPU / float64(o.Size)
	if math.IsNaN(cpu) || math.IsInf(cpu, 0) || cpu <= 0 {
		cpu = 1 / c.ways[i].CompressRate
	}
	if !c.warm[i] {
		c.warm[i] = true
		// The first block pays for memory that nobody has touched yet, which may be more than for compressing it.
		if _, promised := c.guess(k, i, shareOf(o.Predicted, o.Size)); cpu > cold*promised {
			cpu = promised
		}
	}
	f.seen++
	step := max(1/float64(f.seen), smooth)
	f.wire += step * (wire - f.wire)
	f.cpu += step * (cpu - f.cpu)
	if f.least == 0 || f.cpu < f.least {
		f.least = f.cpu
	}
	if o.Class == codec.Hardware {
		f.share(cpu)
	}
}

// share notes what an accelerator took for a byte in the end: others use it, too.
func (f *figure) share(cpu float64) {
	if f.retry > 0 && cpu <= busyFactor*f.least {
		f.cpu, f.retry = cpu, 0 // it is free again, whatever it took on average
	}
	if f.seen >= len(hopes) && f.cpu > busyFactor*f.least {
		f.retry = min(max(2*f.retry, firstRetry), stale)
	}
}
