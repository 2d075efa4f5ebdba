// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// leastMessages is how many have to be known before one is trained.
	leastMessages = 256
	// maxMeasured is on how many messages a dictionary is measured at most.
	maxMeasured = 512
	// gain is by which share a dictionary has to be better than none, or than the one before it.
	gain = 0.02
	// worse is by which share messages may become longer with a dictionary, compared with the same without, than when it
	// was trained, before another is trained.
	worse = 0.1
)

// outcome is what was measured of the same messages without a dictionary, with the one in use, and with a new one.
type outcome struct{ without, current, candidate policy.Spent }

// consider looks whether the dictionary in use pays, and trains another if it does not, or less than when it was trained.
func (k *Keeper) consider(ctx context.Context, s Settings, now listed) error {
	if !k.timing.Always && k.options.Pressed != nil && k.options.Pressed() {
		k.note("the member has too little CPU time for training")
		return nil // The next look may find it otherwise.
	}
	recent, err := k.recent(ctx)
	if err != nil {
		return err
	}
	if len(recent) < leastMessages {
		k.next = time.Now().Add(k.timing.Interval / 10) // Reading stored messages takes time as well.
		k.note(fmt.Sprintf("%d messages of at most %d bytes are known, and training needs %d", len(recent),
			message.MaxReferring, leastMessages))
		return nil
	}
	// Where training takes longer than the interval, the member would do nothing else if it counted from the beginning.
	defer func() { k.next = time.Now().Add(k.timing.Interval) }()
	if k.timing.Always {
		recent = recent[len(recent)-leastMessages:]
	}
	split := len(recent) * 3 / 4
	training, later := recent[:split], recent[max(split, len(recent)-maxMeasured):]
	current, pays, ages, err := k.pays(s, now, later)
	if err != nil {
		return err
	}
	if pays && !ages && !k.timing.Always {
		k.note("")
		return nil
	}
	stop := func(problem string) error {
		k.note(problem)
		if current == nil || pays {
			return nil
		}
		return k.use(ctx, 0, now.sequence)
	}
	id := s.Engine.Codec()
	format, err := dictionaries.Of(id)
	if err != nil {
		return err
	}
	train := format.Train
	if k.options.Train != nil {
		train = k.options.Train
	}
	content, used, err := train(training, format.TrainingSize)
	if err != nil {
		return stop(err.Error()) //nolint:contextcheck // It has the context.
	}
	number, err := format.Number(content)
	if err != nil {
		return fmt.Errorf("train a dictionary: %w", err)
	}
	candidate := &message.Dictionary{Codec: id, Number: number, Content: content}
	o, err := measure(s, current, candidate, later)
	if err != nil {
		return err
	}
	if problem := k.against(s, o, current != nil); problem != "" && !k.timing.Always {
		return stop(problem)
	}
	if _, there := now.entries[number]; !there && len(now.entries) >= store.MaxDictionaries {
		return stop(fmt.Sprintf("messages refer to %d earlier dictionaries, and there are no more at once", len(now.entries)))
	}
	about := &wirev1.QueueDictionary{
		Codec: id.String(), Number: number, TrainedTime: timestamppb.Now(), Bytes: uint32(len(content)),
		TrainingMessages: uint32(used),
		MeasuredMessages: uint32(len(later)), PlainBytes: uint64(o.without.Plain), WireBytes: uint64(o.candidate.Wire),
		WireBytesWithout: uint64(o.without.Wire), CompressNanos: nanos(o.candidate.CPU),
		CompressNanosWithout: nanos(o.without.CPU), InflateNanos: nanos(o.candidate.Inflate),
		InflateNanosWithout: nanos(o.without.Inflate),
	}
	return k.adopt(ctx, about, content, now.sequence)
}

// recent are messages to train on, the oldest first as far as that is known.
func (k *Keeper) recent(ctx context.Context) ([][]byte, error) {
	recent := k.samples.recent()
	if len(recent) >= leastMessages || k.options.Sample == nil {
		return recent, nil
	}
	// Clients put at other members.
	stored, err := k.options.Sample(ctx)
	if err != nil {
		return nil, fmt.Errorf("sample stored messages: %w", err)
	}
	return append(stored, recent...), nil
}

// pays measures the dictionary in use, nil if there is none. It reports whether it is better than none, and whether it
// does less than when it was trained.
func (k *Keeper) pays(s Settings, now listed, later [][]byte) (
	current *message.Dictionary, pays, ages bool, err error,
) {
	e, ok := now.entries[now.current]
	if !ok {
		return nil, false, false, nil
	}
	current = &message.Dictionary{Codec: e.codec, Number: now.current, Content: e.content}
	o, err := measure(s, current, nil, later)
	if err != nil {
		return nil, false, false, err
	}
	before := float64(e.about.GetWireBytes()) / max(float64(e.about.GetWireBytesWithout()), 1)
	// Nothing is known of what a byte takes just after the start.
	without := s.Value(o.without)
	pays = !known(without) || s.Value(o.current) < without
	return current, pays, o.current.Wire/o.without.Wire > before*(1+worse), nil
}

// against says why a new dictionary is not used; empty: it is.
func (k *Keeper) against(s Settings, o outcome, has bool) string {
	without, current, candidate := s.Value(o.without), s.Value(o.current), s.Value(o.candidate)
	switch {
	case !known(without):
		return "it is not known yet what a byte of a message takes"
	case candidate > without*(1-gain):
		return fmt.Sprintf("a dictionary does not pay: with it messages take %.1f %% of their length and %.2f times the CPU "+
			"time, without it %.1f %%", percent(o.candidate), ratio(o.candidate, o.without), percent(o.without))
	case has && candidate > current*(1-gain):
		return "a new dictionary is no better than the one before"
	}
	return ""
}

// known reports whether a value is one that others can be compared with.
func known(value float64) bool { return value > 0 && value <= math.MaxFloat64 }

func percent(s policy.Spent) float64 { return 100 * s.Wire / max(s.Plain, 1) }

func ratio(a, b policy.Spent) float64 { return (a.CPU + a.Inflate) / max(b.CPU+b.Inflate, 1e-9) }

func nanos(seconds float64) uint64 { return uint64(max(seconds, 0) * float64(time.Second)) }

// measure returns what messages take without, with the one in use and with a new one, each of which may be nil.
func measure(s Settings, current, candidate *message.Dictionary, later [][]byte) (outcome, error) {
	all := []*message.Dictionary{nil}
	for _, d := range []*message.Dictionary{current, candidate} {
		if d != nil {
			all = append(all, d)
		}
	}
	figures, err := spent(s.Engine, s.Level, all, later)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{without: figures[0]}
	if current != nil {
		o.current = figures[1]
	}
	if candidate != nil {
		o.candidate = figures[len(figures)-1]
	}
	return o, nil
}

// adopt keeps a dictionary and puts it into use, unless another member that leads has done so since the record with a
// sequence.
func (k *Keeper) adopt(ctx context.Context, about *wirev1.QueueDictionary, content []byte, sequence uint64) error {
	if err := k.options.Ensure(ctx); err != nil {
		return fmt.Errorf("make a place for dictionaries: %w", err)
	}
	if err := k.catalog.put(ctx, about, content); err != nil {
		return err
	}
	if err := k.catalog.use(ctx, about.GetNumber(), sequence); err != nil {
		return err
	}
	k.options.Log.Info("Dictionary is put into use", "dictionaryInUse", about.GetNumber(),
		"codec", about.GetCodec(), "bytes", len(content),
		"messages", about.GetTrainingMessages())
	k.note("")
	k.mu.Lock()
	k.trained++
	k.mu.Unlock()
	return k.Refresh(ctx)
}
