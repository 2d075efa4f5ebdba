// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package regret finds out while an agent works what the choices of mode Auto lose: it compresses a sample of the real
// blocks, messages and bodies in every way that the policy allows, beside their way to their destination, and compares
// what that takes by what the choices are made by.
package regret

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

const (
	// share of the CPU time of the process is what sampling takes at most.
	share = 0.01
	// maxPiece is how much of a unit is compressed at most, in bytes: short enough for an agent that works for some
	// seconds to afford several dozen.
	maxPiece = 64 << 10
	// firstCost is what a byte of a unit is taken to cost until it was measured, all alternatives together, in seconds;
	// copyCost is what copying it costs.
	firstCost, copyCost = 200e-9, 0.5e-9
	// Between two looks at a unit that waits for CPU time or for the end of pressure. The distance doubles with each look.
	firstWait, lastWait = 20 * time.Millisecond, 5 * time.Second
	// crowd bounds by how many units the next that is drawn may be away.
	crowd = 1 << 40
)

// Ways are what units are compressed by.
type Ways struct {
	// Settings say which of the engines may compress a unit.
	Settings policy.Settings
	// Engines by what they are chosen as.
	Engines map[policy.Option]codec.Engine
	// Prefer says that software may not compress what hardware may.
	Prefer bool
	// Overhead is how many bytes a unit has besides if it is compressed.
	Overhead int
	// Inflate returns the CPU seconds of inflating a byte that was compressed in a way.
	Inflate func(policy.Option) float64
}

// Serving returns the ways of an agent that serves: the engines that a registry has for codecs, at every level up to
// that of the settings. An accelerator does all that it may.
func Serving(s policy.Settings, engines *codec.Registry, codecs []codec.ID, inflate func(policy.Option) float64) Ways {
	w := Ways{Settings: s, Engines: make(map[policy.Option]codec.Engine), Prefer: true, Inflate: inflate}
	for _, id := range codecs {
		if id == codec.None || engines == nil {
			continue
		}
		if e, ok := engines.Best(id, codec.Hardware, s.Level); ok {
			w.Engines[policy.Option{Codec: id, Class: codec.Hardware, Level: s.Level}] = e
		}
		for _, level := range codec.Levels() {
			if e, ok := engines.Best(id, codec.Software, level); ok && level <= s.Level && !s.SoftwareDisabled {
				w.Engines[policy.Option{Codec: id, Class: codec.Software, Level: level}] = e
			}
		}
	}
	return w
}

// Unit is a piece of a block, message or body that was drawn.
type Unit struct {
	of     *alternatives
	piece  []byte
	length int
	only   codec.ID
	chosen int
}

// Sampler draws units and measures them. All methods but Run may be called at once, also of a nil Sampler, which draws
// nothing.
type Sampler struct {
	machine Machine
	pressed func() bool
	began   time.Duration // CPU time of the process
	spent   atomic.Int64  // CPU time in nanoseconds
	wake    chan struct{}

	// left is how many units pass until the next is drawn; 0 or less: none is.
	left atomic.Int64

	mu      sync.Mutex
	now     *alternatives
	paused  bool
	passed  float64 // units of those that one is drawn from, with left
	waiting *Unit   // for Run

	// cost is the CPU seconds of a byte, using are the alternatives whose encoders are open; only Run looks at them.
	cost  float64
	using *alternatives
}

// alternatives are ways with what is known of them.
type alternatives struct {
	ways    Ways
	options []policy.Option // the first is to compress nothing
	tally   *policy.Regret  // under the Sampler's mu
	// encoders and broken are by the number of the option; only Run looks at them.
	encoders map[int]codec.Encoder
	broken   map[int]bool // an engine failed
}

// New returns a sampler that draws nothing until Set is called, and measures while Run runs. pressed says whether the
// agent is under pressure besides what the machine says; nil: never. A nil machine is this one.
func New(machine Machine, pressed func() bool) *Sampler {
	if machine == nil {
		machine = System()
	}
	if pressed == nil {
		pressed = func() bool { return false }
	}
	return &Sampler{
		machine: machine, pressed: pressed, began: machine.CPU(), wake: make(chan struct{}, 1), cost: firstCost,
	}
}

// Set replaces the ways. What was measured by others is forgotten; the same ways again change nothing. Without engines
// nothing is drawn.
func (s *Sampler) Set(w Ways) {
	if s == nil || s.has(w) {
		return
	}
	w.Engines = maps.Clone(w.Engines) // which the next ones are compared with
	a := &alternatives{ways: w, options: []policy.Option{{}}, encoders: map[int]codec.Encoder{}, broken: map[int]bool{}}
	for o := range w.Engines {
		a.options = append(a.options, o)
	}
	slices.SortFunc(a.options, compare)
	a.tally = policy.NewRegret(len(a.options))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.waiting = a, nil
	s.begin()
}

// has reports whether the ways are those that it has, by engines of the same names.
func (s *Sampler) has(w Ways) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return false
	}
	now := s.now.ways
	return now.Settings == w.Settings && now.Prefer == w.Prefer && now.Overhead == w.Overhead &&
		maps.EqualFunc(now.Engines, w.Engines, func(a, b codec.Engine) bool { return a.Name() == b.Name() })
}

// begin begins to draw one of the units that come. mu is held.
func (s *Sampler) begin() {
	s.passed = 0
	s.left.Store(0)
	if s.now != nil && len(s.now.options) > 1 && !s.paused {
		s.passed = 1
		s.left.Store(1)
	}
}

// Draw returns a unit if data are drawn, else nil, which is what it is for nearly all. Keep has to be called with it.
// Alternatives are of one codec only, if that is not 0: it is what whoever gets the unit accepts.
func (s *Sampler) Draw(plain []byte, only codec.ID) *Unit {
	if s == nil || s.left.Load() <= 0 || len(plain) == 0 || s.left.Add(-1) != 0 {
		return nil
	}
	s.mu.Lock()
	of := s.now
	if s.paused || of == nil || s.passed == 0 {
		s.mu.Unlock()
		return nil
	}
	// Of n units each is the one that is kept in the end if the n-th replaces the one before with probability 1/n. How far
	// away the next is that does follows from that.
	next := min(s.passed/(1-rand.Float64()), crowd)
	s.left.Store(int64(max(next-s.passed, 0)) + 1)
	s.passed += float64(s.left.Load())
	s.mu.Unlock()
	n := min(len(plain), maxPiece)
	at := rand.IntN(len(plain) - n + 1)
	s.spent.Add(int64(copyCost * float64(n) * 1e9))
	return &Unit{of: of, piece: slices.Clone(plain[at : at+n]), length: len(plain), only: only}
}

// Keep has a unit measured, of so many bytes in all, unless another is drawn before that. It was compressed, or was to
// be, as chosen; without a class, as hardware or software as it may be. The unit may be nil.
func (s *Sampler) Keep(u *Unit, length int, chosen policy.Option) {
	if u == nil {
		return
	}
	u.length = max(length, len(u.piece))
	if u.chosen = u.of.number(chosen, u.length); u.chosen < 0 {
		return
	}
	s.mu.Lock()
	kept := u.of == s.now && !s.paused
	if kept {
		s.waiting = u
	}
	s.mu.Unlock()
	if kept {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Offer is Draw and Keep.
func (s *Sampler) Offer(plain []byte, chosen policy.Option) {
	s.Keep(s.Draw(plain, 0), len(plain), chosen)
}

// number of an option, -1 if there is none.
func (a *alternatives) number(o policy.Option, length int) int {
	if o.Stored() {
		return 0
	}
	if o.Class == codec.NoClass {
		o.Class = codec.Software
		hardware := policy.Option{Codec: o.Codec, Class: codec.Hardware, Level: o.Level}
		if i := slices.Index(a.options, hardware); i > 0 && a.open(i, length, 0) {
			o = hardware
		}
	}
	return slices.Index(a.options, o)
}

// open reports whether an alternative is open to a unit.
func (a *alternatives) open(i, length int, only codec.ID) bool {
	o := a.options[i]
	if i == 0 {
		return true
	}
	if only != 0 && o.Codec != only {
		return false
	}
	facts := policy.Facts{Size: int64(length), Accelerator: policy.Absent}
	for _, other := range a.options {
		if other.Class == codec.Hardware && (only == 0 || other.Codec == only) {
			facts.Accelerator = policy.Verified
		}
	}
	hardware, software := policy.Classes(a.ways.Settings, facts)
	if o.Class == codec.Hardware {
		return hardware
	}
	return software && !(a.ways.Prefer && hardware)
}

// Run measures what was drawn until the context ends.
func (s *Sampler) Run(ctx context.Context) {
	if s == nil {
		return
	}
	defer s.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for wait := firstWait; s.step(); wait = min(2*wait, lastWait) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// step measures the unit that waits, if there is CPU time for it and no pressure. It reports whether to look again.
func (s *Sampler) step() (again bool) {
	spent := s.machine.Spend(func() { again = s.try() })
	s.spent.Add(int64(spent))
	return again
}

func (s *Sampler) try() bool {
	s.mu.Lock()
	u, paused := s.waiting, s.paused
	s.mu.Unlock()
	if u == nil && !paused {
		return false
	}
	if u != nil && !s.affordable(s.cost*float64(len(u.piece))) || u == nil && !s.affordable(0) {
		return true
	}
	pressed := s.machine.Pressed() || s.pressed()
	s.mu.Lock()
	if s.paused = pressed; pressed {
		s.waiting = nil // it is of a time in which nothing is to be drawn
	} else if paused || s.waiting == nil {
		u = nil
	} else {
		u, s.waiting = s.waiting, nil
	}
	s.begin()
	s.mu.Unlock()
	if !pressed && u != nil {
		s.measure(u)
	}
	return pressed
}

// affordable reports whether so many more CPU seconds are within the share.
func (s *Sampler) affordable(seconds float64) bool {
	return float64(s.spent.Load())/1e9+seconds <= share*(s.machine.CPU()-s.began).Seconds()
}

// measure compresses a unit in all ways that are open to it. An alternative that is not is as was chosen.
func (s *Sampler) measure(u *Unit) {
	a := u.of
	if s.using != a {
		s.free()
		s.using = a
	}
	spent := make([]policy.Spent, len(a.options))
	scale := float64(u.length) / float64(len(u.piece))
	total := 0.0
	for i := range a.options {
		if i != u.chosen && (a.broken[i] || !a.open(i, u.length, u.only)) {
			continue
		}
		one, whole, ok := s.compress(a, i, u.piece)
		total += whole.Seconds()
		if !ok {
			a.broken[i] = true
			return
		}
		spent[i] = policy.Spent{
			Plain: one.Plain * scale, Wire: one.Wire * scale, CPU: one.CPU * scale, Inflate: one.Inflate * scale,
		}
		if !s.affordable(total) {
			s.cost = max(s.cost, 2*total/float64(len(u.piece)))
			return // it is dearer than was expected
		}
	}
	const smooth = 0.25
	s.cost += smooth * (1.5*total/float64(len(u.piece)) - s.cost)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.tally.Observe(spent[u.chosen], spent)
}

// compress compresses a piece, and says what that takes in the end, and what it took now. The first time it touches
// memory that is new, which does not count.
func (s *Sampler) compress(a *alternatives, i int, piece []byte) (_ policy.Spent, whole time.Duration, ok bool) {
	plain := float64(len(piece))
	if i == 0 {
		return policy.Spent{Plain: plain, Wire: plain}, 0, true
	}
	o := a.options[i]
	rounds := 1
	if a.encoders[i] == nil {
		encoder, err := a.ways.Engines[o].NewEncoder(o.Level)
		if err != nil {
			return policy.Spent{}, 0, false
		}
		a.encoders[i], rounds = encoder, 2
	}
	// What is not shorter with what it has besides travels as it is.
	out := make([]byte, max(len(piece)-1-a.ways.Overhead, 0))
	var n int
	var fits bool
	var cpu time.Duration
	for range rounds {
		cpu = s.machine.Spend(func() { n, fits, ok = encode(a.encoders[i], o.Class, out, piece) })
		whole += cpu
	}
	if !ok {
		return policy.Spent{}, whole, false
	}
	spent := policy.Spent{Plain: plain, Wire: plain, CPU: cpu.Seconds()}
	if fits {
		spent.Wire, spent.Inflate = float64(n+a.ways.Overhead), plain*a.ways.Inflate(o)
	}
	return spent, whole, true
}

// close ends drawing.
func (s *Sampler) close() {
	s.mu.Lock()
	s.waiting, s.paused = nil, true
	s.begin()
	s.mu.Unlock()
	s.free()
}

// free closes the encoders. They hold nothing that an error could be about.
func (s *Sampler) free() {
	if s.using == nil {
		return
	}
	for _, e := range s.using.encoders {
		_ = e.Close()
	}
	clear(s.using.encoders)
}

// Lost is what was lost by what the objective makes of what data took, and the best alternative. ok is false until
// enough is known.
func (s *Sampler) Lost(value func(policy.Spent) float64) (lost policy.Lost, best policy.Option, ok bool) {
	if s == nil {
		return lost, best, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return lost, best, false
	}
	if lost, ok = s.now.tally.Lost(value); ok {
		best = s.now.options[lost.Best]
	}
	return lost, best, ok
}

// encode compresses a piece. ok is false if the engine failed, or is an accelerator's that did not use it, fits if it
// becomes shorter.
func encode(e codec.Encoder, class codec.Class, out, piece []byte) (n int, fits, ok bool) {
	n, err := e.Encode(out, piece)
	if errors.Is(err, codec.ErrDoesNotFit) {
		return 0, false, true
	}
	if w, says := e.(codec.Witness); class == codec.Hardware && says && !w.UsedHardware() {
		return 0, false, false
	}
	return n, err == nil, err == nil
}

// compare orders options, which decides between alternatives that are equally good: the least effort is first.
func compare(a, b policy.Option) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(b.Class, a.Class), cmp.Compare(a.Codec, b.Codec))
}
