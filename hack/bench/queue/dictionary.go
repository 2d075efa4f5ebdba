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
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/engines"
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

// dictionaryCodecs are those whose messages refer to dictionaries.
var dictionaryCodecs = []codec.ID{codec.Deflate, codec.Zstd}

// dictionarySizes of messages in bytes, with the share of their bytes that has to be saved.
var dictionarySizes = []struct {
	bytes int
	saved float64
}{{1000, 0.7}, {3000, 0.8}}

// referred is what messages of a size take in a round by a codec, with a dictionary and without.
type referred struct {
	codec         codec.ID
	size          int
	dictionary    int // its length in bytes
	with, without spent
}

// spent is what one way takes: bytes of all messages, those that are stored of them, headers included, and CPU time to
// compress and to decompress a message in microseconds.
type spent struct{ plain, stored, put, get float64 }

// saved is the share of bytes that are not stored.
func (s spent) saved() float64 { return 1 - s.stored/s.plain }

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

// withDictionaries measures messages in XML of a kind that nothing was tuned by.
func (b *bench) withDictionaries(ctx context.Context) error {
	return b.Rounds(b.rounds, func(round int) error {
		for _, id := range dictionaryCodecs {
			for _, s := range dictionarySizes {
				if err := ctx.Err(); err != nil {
					return err
				}
				what := fmt.Sprintf("messages of %d bytes with a dictionary of %s", s.bytes, id)
				r, err := harness.Undisturbed(what, func() (referred, error) { return refer(id, s.bytes, uint64(round)) })
				if err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				b.referred = append(b.referred, r)
			}
		}
		return nil
	})
}

func refer(id codec.ID, size int, seed uint64) (referred, error) {
	format, err := dictionaries.Of(id)
	if err != nil {
		return referred{}, err
	}
	all := payments(seed, dictionaryTraining+dictionaryMessages, size)
	content, _, err := format.Train(all[:dictionaryTraining], format.TrainingSize)
	if err != nil {
		return referred{}, err
	}
	number, err := format.Number(content)
	if err != nil {
		return referred{}, err
	}
	source := one{&message.Dictionary{Codec: id, Number: number, Content: content}}
	with, without := &way{codec: id, source: &source}, &way{codec: id}
	for turn := range dictionaryTurns {
		ways := []*way{with, without}
		if turn%2 == 1 {
			slices.Reverse(ways)
		}
		for _, w := range ways {
			if err := w.turn(all[dictionaryTraining:]); err != nil {
				return referred{}, err
			}
		}
	}
	return referred{
		codec: id, size: size, dictionary: len(content), with: with.spent(), without: without.spent(),
	}, nil
}

// way is with a dictionary or without.
type way struct {
	codec    codec.ID
	source   *one
	wire     int
	plain    int
	put, get time.Duration // of the fastest turn
	count    int
}

// spent is that of the fastest turn.
func (w *way) spent() spent {
	each := func(d time.Duration) float64 { return 1e6 * d.Seconds() / float64(w.count) }
	return spent{plain: float64(w.plain), stored: float64(w.wire), put: each(w.put), get: each(w.get)}
}

func (w *way) turn(messages [][]byte) (err error) {
	o := encodingOptions(w.codec)
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
func (b *bench) referredOf(id codec.ID, size int) []referred {
	return slices.DeleteFunc(slices.Clone(b.referred), func(r referred) bool { return r.codec != id || r.size != size })
}

// dictionaryTargets are those of both codecs and sizes. What was not measured has none.
func (b *bench) dictionaryTargets() []harness.Target {
	var all []harness.Target
	for _, id := range dictionaryCodecs {
		for _, s := range dictionarySizes {
			own := b.referredOf(id, s.bytes)
			if len(own) == 0 {
				continue
			}
			var saved, plain, with, without []float64
			for _, r := range own {
				saved, plain = append(saved, r.with.plain-r.with.stored), append(plain, r.with.plain)
				with, without = append(with, r.with.put+r.with.get), append(without, r.without.put+r.without.get)
			}
			all = append(all, harness.Target{
				Name: fmt.Sprintf("dictionary-saved-%s-%d", id, s.bytes), Measured: harness.Share(saved, plain),
				What: "share of bytes of messages that a dictionary saves", Bound: s.saved, AtLeast: true, Digits: 3,
			}, harness.Target{
				Name: fmt.Sprintf("dictionary-cpu-%s-%d", id, s.bytes), Measured: harness.Ratio(with, without),
				What: "CPU of compressing and decompressing by that without one", Bound: 1, Digits: 2,
			})
		}
	}
	return all
}

// dictionaryTable has a line for each codec and size.
func (b *bench) dictionaryTable() string {
	var lines [][]string
	for _, id := range dictionaryCodecs {
		for _, s := range dictionarySizes {
			own := b.referredOf(id, s.bytes)
			if len(own) == 0 {
				continue
			}
			middle := func(format string, of func(referred) float64) string {
				return fmt.Sprintf(format, harness.MedianOf(own, of))
			}
			lines = append(lines, []string{
				id.String(), harness.Grouped(s.bytes),
				harness.Grouped(harness.MedianOf(own, func(r referred) float64 { return float64(r.dictionary) })),
				middle("%.1f %%", func(r referred) float64 { return 100 * r.without.saved() }),
				middle("%.1f %%", func(r referred) float64 { return 100 * r.with.saved() }),
				middle("%.2f", func(r referred) float64 { return r.without.put }),
				middle("%.2f", func(r referred) float64 { return r.with.put }),
				middle("%.2f", func(r referred) float64 { return r.without.get }),
				middle("%.2f", func(r referred) float64 { return r.with.get }),
			})
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return harness.Table([]string{
		"codec", "message bytes", "dictionary bytes", "saved, without", "saved, with", "CPU us to compress, without", "with",
		"CPU us to decompress, without", "with",
	}, lines)
}
