// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dictionary trains dictionaries on the messages of a queue, keeps them beside the messages, and has short
// messages refer to the one that pays, as long as any does.
//
// The member that leads trains. All members use what it has put into use, and each knows all that there are. One that
// is not in use any more stays until no message that may refer to it is in the queue.
package dictionary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Timing says when what is done. The zero value of each is its default.
type Timing struct {
	// Poll is between two looks at what there is. Default 10 s.
	Poll time.Duration
	// Settle is how long members have to hear of a dictionary, and volumes to have it, before a message refers to it.
	// Default 30 s; at least twice Options.Sync.
	Settle time.Duration
	// Lease is how long a member that does not hear what is in use goes on with what was. Default 60 s.
	Lease time.Duration
	// Grace is how long one that is not in use any more is taken for used, for messages under way, and how long it is kept
	// when the messages have left that refer to it. It is twice Lease and Settle together at least. Default 10 min.
	Grace time.Duration
	// First and Interval are between the beginning, or the end of a look whether a dictionary pays, and the next. Default
	// 1 min and 10 min.
	First, Interval time.Duration
	// Always has each look put a new dictionary into use, trained on the newest messages alone, whether it pays or not and
	// however little CPU time there is. It is for tests.
	Always bool
}

// usualGrace is the default of Timing.Grace.
const usualGrace = 10 * time.Minute

func (t Timing) withDefaults(sync time.Duration) Timing {
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{
		{&t.Poll, 10 * time.Second},
		{&t.Settle, max(30*time.Second, 2*sync)},
		{&t.Lease, time.Minute},
		{&t.Grace, usualGrace},
		{&t.First, time.Minute},
		{&t.Interval, 10 * time.Minute},
	} {
		if *d.of == 0 {
			*d.of = d.usual
		}
	}
	t.Grace = max(t.Grace, 2*(t.Lease+t.Settle))
	return t
}

// Options of a Keeper.
type Options struct {
	// Conn has all rights in the store. Queue is the name of the queue.
	Conn  *nats.Conn
	Queue string
	// Leads reports whether this member trains and retires dictionaries. Two may do so for a while.
	Leads func() bool
	// Ensure makes the stream of dictionaries.
	Ensure func(context.Context) error
	// Sample returns stored messages, inflated, where too few were put here; nil: none. It is bounded as Offer is.
	Sample func(context.Context) ([][]byte, error)
	// Plain inflates a stored message that could refer to a dictionary, and is nil for another; nil: clients put at this
	// member alone. Several goroutines call it.
	Plain func(header nats.Header, payload []byte) []byte
	// Sync is how long it may take until what was stored is on the volume.
	Sync time.Duration
	// Pressed reports whether the process got too little CPU time since the last call; nil: never.
	Pressed func() bool
	// Train makes a dictionary of at most so many bytes of messages, and returns of how many. Default that of the codec.
	Train  func(messages [][]byte, size int) (content []byte, used int, err error)
	Timing Timing
	Log    *slog.Logger
}

// Settings may change while a Keeper runs.
type Settings struct {
	// Use says whether messages may refer to dictionaries.
	Use bool
	// Engine and Level are what messages are compressed with; nil: not with dictionaries, for which Problem says why.
	Engine  codec.DictionaryEngine
	Level   codec.Level
	Problem string
	// Value is what the objective makes of what messages took, the less the better; 0: that is not known yet.
	Value func(policy.Spent) float64
}

// Keeper keeps the dictionaries of a queue. It is a message.DictionarySource and message.Dictionaries.
type Keeper struct {
	options Options
	timing  Timing
	catalog catalog
	samples samples
	began   time.Time
	// using is what messages refer to until, after began, the lease ends.
	using atomic.Pointer[message.Dictionary]
	until atomic.Int64
	used  atomic.Uint64

	// What follows is Run's.
	looked  bool
	next    time.Time
	retired map[uint32]*retirement
	// watched is for how long this member has led and looked, lookedAt when it did so last.
	watched  time.Duration
	lookedAt time.Time
	hearing  []*nats.Subscription

	mu       sync.Mutex
	settings Settings
	listed   listed
	// announced is which is in use, and since when that is known here.
	announced uint32
	since     time.Time
	// missing is when a dictionary was looked for in vain.
	missing map[uint32]time.Time
	problem string
	trained uint64
}

var (
	_ message.DictionarySource = (*Keeper)(nil)
	_ message.Dictionaries     = (*Keeper)(nil)
)

const (
	// missingPause is how long nobody asks again for a dictionary that was not there, maxMissing of how many that is known.
	missingPause = 10 * time.Second
	maxMissing   = 64
	// maxProblem bounds a text in bytes.
	maxProblem = 256
)

// New returns one that uses no dictionaries until Set is called, and learns of changes while Run runs.
func New(o Options) *Keeper {
	k := &Keeper{
		options: o, timing: o.Timing.withDefaults(o.Sync), catalog: catalog{conn: o.Conn, queue: o.Queue}, began: time.Now(),
		retired: map[uint32]*retirement{}, missing: map[uint32]time.Time{}, listed: listed{entries: map[uint32]entry{}},
	}
	return k
}

// Set changes the settings.
func (k *Keeper) Set(s Settings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settings = s
	k.samples.keep(s.active())
	if !s.active() {
		k.using.Store(nil)
		k.problem = ""
	}
}

func (s Settings) active() bool { return s.Use && s.Engine != nil }

// uses reports whether messages may refer to a dictionary.
func (s Settings) uses(e entry) bool { return s.active() && s.Engine.Codec() == e.codec }

// Offer implements message.DictionarySource.
func (k *Keeper) Offer(plain []byte) { k.samples.offer(plain) }

// Used implements message.DictionarySource.
func (k *Keeper) Used() { k.used.Add(1) }

// Current implements message.DictionarySource.
func (k *Keeper) Current() *message.Dictionary {
	d := k.using.Load()
	if d == nil || int64(time.Since(k.began)) > k.until.Load() {
		return nil
	}
	return d
}

// Dictionary implements message.Dictionaries.
func (k *Keeper) Dictionary(number uint32) ([]byte, error) {
	k.mu.Lock()
	e, ok := k.listed.entries[number]
	at, missed := k.missing[number]
	k.mu.Unlock()
	switch {
	case ok:
		return e.content, nil
	case missed && time.Since(at) < missingPause:
		return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
	}
	e, err := k.catalog.get(context.Background(), number)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case errors.Is(err, message.ErrDictionary):
		if len(k.missing) >= maxMissing {
			clear(k.missing)
		}
		k.missing[number] = time.Now()
	case err == nil:
		entries := maps.Clone(k.listed.entries)
		entries[number] = e
		k.listed.entries = entries
		delete(k.missing, number)
	}
	return e.content, err
}

// Report says what there is.
func (k *Keeper) Report() *wirev1.QueueDictionaries {
	using := k.Current()
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &wirev1.QueueDictionaries{
		Kept: uint32(len(k.listed.entries)), Trained: k.trained, Messages: k.used.Load(), Deflate: true,
	}
	if k.options.Leads() {
		r.Problem = k.problem
		if r.Problem == "" && k.settings.Use && k.settings.Engine == nil {
			r.Problem = k.settings.Problem
		}
	}
	if k.until.Load() != 0 { // What there is was read once.
		r.KeptDeflate = new(uint32)
		for _, e := range k.listed.entries {
			if e.codec == codec.Deflate {
				*r.KeptDeflate++
			}
		}
	}
	if using != nil {
		if e, ok := k.listed.entries[using.Number]; ok {
			r.Current = proto.CloneOf(e.about)
		}
	}
	return r
}

// ResetStatistics has counters begin again.
func (k *Keeper) ResetStatistics() {
	k.used.Store(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trained = 0
}

// Run looks after the dictionaries until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	k.next = time.Now().Add(k.timing.First)
	ticker := time.NewTicker(k.timing.Poll)
	defer ticker.Stop()
	defer k.hearNothing()
	for {
		k.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look takes over what there is, and, in the member that leads, changes that.
func (k *Keeper) look(ctx context.Context) {
	if s, now := k.state(); k.looked && !s.active() && !now.there {
		k.hearNothing()
		return // A message that needs one nevertheless asks for it.
	}
	err := k.Refresh(ctx)
	k.looked = k.looked || err == nil
	s, now := k.state()
	leads := k.options.Leads()
	if !leads {
		// Another one may put them into use and out of it.
		clear(k.retired)
	}
	if failed := k.hear(leads && s.active()); err == nil {
		err = failed
	}
	if err == nil && leads {
		if now.there {
			err = k.retire(ctx, s, now)
		}
		if err == nil {
			err = k.change(ctx, s, now)
		}
	}
	if err != nil && ctx.Err() == nil {
		k.options.Log.Warn("Dictionaries of the queue cannot be looked after", "error", err.Error())
	}
}

// change puts dictionaries into use and out of it. Why that failed is reported until it does not.
func (k *Keeper) change(ctx context.Context, s Settings, now listed) (err error) {
	e, known := now.entries[now.current]
	switch {
	case now.current != 0 && (!s.active() || known && !s.uses(e)):
		k.next = time.Now().Add(k.timing.First) // Where the codec is another one now, it has none.
		if err = k.use(ctx, 0, now.sequence); err == nil {
			k.note("")
		}
	case s.active() && !time.Now().Before(k.next):
		err = k.consider(ctx, s, now)
	}
	if err != nil && ctx.Err() == nil {
		k.note(err.Error())
	}
	return err
}

// use is that of the catalog. A stream of an earlier release may have no space for the record.
func (k *Keeper) use(ctx context.Context, number uint32, sequence uint64) error {
	if err := k.options.Ensure(ctx); err != nil {
		return fmt.Errorf("make a place for dictionaries: %w", err)
	}
	return k.catalog.use(ctx, number, sequence)
}

func (k *Keeper) state() (Settings, listed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settings, k.listed
}

// note keeps why there is no better dictionary.
func (k *Keeper) note(problem string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = failure.Shorten(problem, maxProblem)
}

// Refresh reads what there is.
func (k *Keeper) Refresh(ctx context.Context) error {
	begun := time.Now()
	_, before := k.state()
	now, err := k.catalog.list(ctx, before)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listed = now
	if now.current != k.announced {
		if was := k.using.Load(); was != nil && was.Number != k.announced {
			k.using.Store(nil) // It was replaced once before. No member goes on with one for longer than Settle.
		}
		k.announced, k.since = now.current, begun
	}
	e, ok := now.entries[now.current]
	switch {
	case !ok || !k.settings.uses(e):
		k.using.Store(nil)
	case begun.Sub(k.since) < k.timing.Settle:
		// The one before stays in use.
	default:
		if was := k.using.Load(); was == nil || was.Number != now.current {
			k.using.Store(&message.Dictionary{Codec: e.codec, Number: now.current, Content: e.content})
		}
	}
	k.until.Store(int64(begun.Sub(k.began) + k.timing.Lease))
	return nil
}
