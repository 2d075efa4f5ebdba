// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"errors"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// rounds is how often all messages are compressed and inflated; the fastest counts, since others use the machine too.
const rounds = 3

// spent measures what messages take with each of several dictionaries, nil for without any, which take turns. CPU and
// Inflate are seconds of one thread; Wire has the headers of the form. A message that does not shrink counts as it is.
func spent(engine codec.DictionaryEngine, level codec.Level, dictionaries []*message.Dictionary, messages [][]byte) (
	[]policy.Spent, error,
) {
	benches := make([]*bench, 0, len(dictionaries))
	defer func() {
		for _, b := range benches {
			b.close()
		}
	}()
	longest := 0
	for _, m := range messages {
		longest = max(longest, len(m))
	}
	out := make([]policy.Spent, len(dictionaries))
	for i, d := range dictionaries {
		b, err := newBench(engine, level, d, longest)
		if err != nil {
			return nil, err
		}
		benches = append(benches, b)
		out[i].CPU, out[i].Inflate = time.Hour.Seconds(), time.Hour.Seconds()
	}
	for range rounds {
		for i, b := range benches {
			s, err := b.round(messages)
			if err != nil {
				return nil, fmt.Errorf("measure a dictionary with engine %s: %w", engine.Name(), err)
			}
			out[i] = policy.Spent{
				Plain: s.Plain, Wire: s.Wire, CPU: min(out[i].CPU, s.CPU), Inflate: min(out[i].Inflate, s.Inflate),
			}
		}
	}
	return out, nil
}

// bench is an encoder and a decoder with a dictionary or without.
type bench struct {
	encoder         codec.Encoder
	decoder         codec.Decoder
	overhead        int
	scratch, packed []byte
	ends            []int
}

func newBench(engine codec.DictionaryEngine, level codec.Level, d *message.Dictionary, longest int) (*bench, error) {
	b := &bench{overhead: message.Form{}.Overhead(), scratch: make([]byte, longest)}
	var first, second error
	if d == nil {
		b.encoder, first = engine.NewEncoder(level)
		b.decoder, second = engine.NewDecoder()
	} else {
		b.overhead = message.Form{Codec: d.Codec, Dictionary: d.Number}.Overhead()
		b.encoder, first = engine.NewDictionaryEncoder(level, d.Content)
		b.decoder, second = engine.NewDictionaryDecoder(d.Content)
	}
	if err := errors.Join(first, second); err != nil {
		b.close()
		return nil, fmt.Errorf("measure a dictionary: %w", err)
	}
	return b, nil
}

func (b *bench) close() {
	if b.encoder != nil {
		_ = b.encoder.Close()
	}
	if b.decoder != nil {
		_ = b.decoder.Close()
	}
}

func (b *bench) round(messages [][]byte) (s policy.Spent, err error) {
	b.packed, b.ends = b.packed[:0], b.ends[:0]
	s.CPU = meter.ThreadCPU(func() {
		for _, m := range messages {
			n := 0
			if space := len(m) - b.overhead; space > 0 {
				if n, err = b.encoder.Encode(b.scratch[:space], m); errors.Is(err, codec.ErrDoesNotFit) {
					n, err = 0, nil
				}
				if err != nil {
					return
				}
			}
			b.packed = append(b.packed, b.scratch[:n]...)
			b.ends = append(b.ends, len(b.packed))
		}
	}).Seconds()
	if err != nil {
		return s, err
	}
	s.Inflate = meter.ThreadCPU(func() {
		begin := 0
		for i, end := range b.ends {
			if end > begin {
				if _, err = b.decoder.Decode(b.scratch[:len(messages[i])], b.packed[begin:end]); err != nil {
					return
				}
			}
			begin = end
		}
	}).Seconds()
	begin := 0
	for i, end := range b.ends {
		s.Plain += float64(len(messages[i]))
		if end > begin {
			s.Wire += float64(end - begin + b.overhead)
		} else {
			s.Wire += float64(len(messages[i]))
		}
		begin = end
	}
	return s, err
}
