// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// dictionaryTraining messages are trained on, and the dictionaryMessages after them are measured.
	dictionaryTraining, dictionaryMessages = 1500, 2000
	// dictionaryTurns of each way count in a round; the fastest does.
	dictionaryTurns = 5
)

// dictionarySizes of messages in bytes, with the share of their bytes that has to be saved.
var dictionarySizes = []struct {
	bytes int
	saved float64
}{{1000, 0.7}, {3000, 0.8}}

// referred is what messages of a size take in a round, with a dictionary and without: the share of their bytes that is
// saved, headers included, and CPU time to compress and to decompress one in microseconds.
type referred struct {
	size              int
	saved, savedPlain float64
	put, putPlain     float64
	get, getPlain     float64
}

// one dictionary is that of a queue whose messages do not change.
type one struct{ dictionary *message.Dictionary }

func (o one) Current() *message.Dictionary { return o.dictionary }
func (one) Offer([]byte)                   {}
func (one) Used()                          {}

func (o one) Dictionary(number uint32) ([]byte, error) {
	if number != o.dictionary.Number {
		return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
	}
	return o.dictionary.Content, nil
}

// withDictionaries measures orders in XML, of a sender of which nothing here was made.
func (b *bench) withDictionaries(ctx context.Context) error {
	return b.Rounds(b.rounds, func(round int) error {
		for _, s := range dictionarySizes {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := refer(s.bytes, uint64(round))
			if err != nil {
				return fmt.Errorf("messages of %d bytes with a dictionary: %w", s.bytes, err)
			}
			b.referred = append(b.referred, r)
		}
		return nil
	})
}

func refer(size int, seed uint64) (referred, error) {
	all := codectest.Orders(1000+seed, dictionaryTraining+dictionaryMessages, size)
	content, _, err := zstddict.Train(all[:dictionaryTraining], zstddict.MaxSize)
	if err != nil {
		return referred{}, err
	}
	number, err := zstddict.Number(content)
	if err != nil {
		return referred{}, err
	}
	source := one{&message.Dictionary{Codec: codec.Zstd, Number: number, Content: content}}
	with, without := &way{source: &source}, &way{}
	r := referred{size: size}
	for range dictionaryTurns {
		for _, w := range []*way{with, without} {
			if err := w.turn(all[dictionaryTraining:]); err != nil {
				return referred{}, err
			}
		}
	}
	r.saved, r.put, r.get = with.figures()
	r.savedPlain, r.putPlain, r.getPlain = without.figures()
	return r, nil
}

// way is with a dictionary or without.
type way struct {
	source   *one
	wire     int
	plain    int
	put, get time.Duration // of the fastest turn
	count    int
}

// figures of the fastest turn.
func (w *way) figures() (saved, put, get float64) {
	each := func(d time.Duration) float64 { return 1e6 * d.Seconds() / float64(w.count) }
	return 1 - float64(w.wire)/float64(w.plain), each(w.put), each(w.get)
}

func (w *way) turn(messages [][]byte) (err error) {
	o := encodingOptions(codec.Zstd)
	if w.source != nil {
		o.Dictionaries = w.source
	}
	encoding, err := message.NewEncoding(o)
	if err != nil {
		return err
	}
	defer encoding.Close()
	decoding, err := message.NewDecoding(engines.Default())
	if err != nil {
		return err
	}
	defer decoding.Close()
	if w.source != nil {
		decoding.Use(w.source)
	}
	encoder, err := encoding.Encoder()
	if err != nil {
		return err
	}
	defer encoder.Release()
	decoder, err := decoding.Decoder()
	if err != nil {
		return err
	}
	defer decoder.Release()
	packed, forms := make([][]byte, len(messages)), make([]message.Form, len(messages))
	for i, m := range messages {
		packed[i] = make([]byte, 0, len(m))
	}
	w.wire, w.plain = 0, 0
	put := meter.ThreadCPU(func() {
		for i, m := range messages {
			var outcome meter.Outcome
			if packed[i], forms[i], outcome, err = encoder.Encode(packed[i], m); err != nil {
				return
			}
			w.wire, w.plain = w.wire+outcome.WireBytes, w.plain+outcome.PlainBytes
		}
	})
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(forms, func(f message.Form) bool { return (f.Dictionary != 0) != (w.source != nil) }); i >= 0 {
		return fmt.Errorf("message %d has the form %+v", i, forms[i])
	}
	scratch := make([]byte, 0, 2*len(messages[0]))
	get := meter.ThreadCPU(func() {
		for i := range messages {
			if _, _, err = decoder.Decode(scratch, forms[i], packed[i], message.MaxLength); err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if w.count == 0 || put < w.put {
		w.put = put
	}
	if w.count == 0 || get < w.get {
		w.get = get
	}
	w.count = len(messages)
	if w.plain == 0 {
		return errors.New("no messages")
	}
	return nil
}

// referredOf are the rounds with messages of a size.
func (b *bench) referredOf(size int) []referred {
	return slices.DeleteFunc(slices.Clone(b.referred), func(r referred) bool { return r.size != size })
}

// dictionaryTargets are those of both sizes. What was not measured has none.
func (b *bench) dictionaryTargets() []harness.Target {
	var all []harness.Target
	for _, s := range dictionarySizes {
		own := b.referredOf(s.bytes)
		if len(own) == 0 {
			continue
		}
		var with, without []float64
		for _, r := range own {
			with, without = append(with, r.put+r.get), append(without, r.putPlain+r.getPlain)
		}
		all = append(all, harness.Target{
			Name: fmt.Sprintf("dictionary-saved-%d", s.bytes), What: "share of bytes of messages that a dictionary saves",
			Measured: harness.Exactly(harness.MedianOf(own, func(r referred) float64 { return r.saved })), Bound: s.saved,
			AtLeast: true, Digits: 3,
		}, harness.Target{
			Name: fmt.Sprintf("dictionary-cpu-%d", s.bytes), What: "CPU of compressing and decompressing by that without one",
			Measured: harness.Ratio(with, without), Bound: 1, Digits: 2,
		})
	}
	return all
}

// dictionaryTable has a line for each size.
func (b *bench) dictionaryTable() string {
	var lines [][]string
	for _, s := range dictionarySizes {
		own := b.referredOf(s.bytes)
		if len(own) == 0 {
			continue
		}
		line := []string{harness.Grouped(s.bytes)}
		for _, f := range []func(referred) float64{
			func(r referred) float64 { return 100 * r.savedPlain }, func(r referred) float64 { return 100 * r.saved },
		} {
			line = append(line, fmt.Sprintf("%.1f %%", harness.MedianOf(own, f)))
		}
		for _, f := range []func(referred) float64{
			func(r referred) float64 { return r.putPlain }, func(r referred) float64 { return r.put },
			func(r referred) float64 { return r.getPlain }, func(r referred) float64 { return r.get },
		} {
			line = append(line, fmt.Sprintf("%.2f", harness.MedianOf(own, f)))
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return ""
	}
	return harness.Table([]string{
		"bytes", "saved, without", "saved, with", "CPU us to compress, without", "with", "CPU us to decompress, without", "with",
	}, lines)
}
