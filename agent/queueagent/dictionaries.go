// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"math/rand/v2"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/regret"
	"github.com/lighterage/lighterage/agent/sampling"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// dictionarySample bounds what is read of the queue to train a dictionary on.
var dictionarySample = sampling.Request{MaxItems: 2048, MaxBytes: 4 << 20}

// openDictionaries has messages decoded that refer to dictionaries. It is nil with external servers, whose other clients
// could not read such messages.
func (a *Agent) openDictionaries(
	ctx context.Context, kept engine, conn *nats.Conn, c *wirev1.QueueConfig, o store.Options, decoding *message.Decoding,
) *dictionary.Keeper {
	own, ok := kept.(*store.Store)
	if !ok {
		return nil
	}
	options := dictionary.Options{
		Conn: conn, Queue: c.GetQueue(), Leads: own.Leader, Sync: o.Sync.Every(),
		Ensure: func(ctx context.Context) error {
			return own.EnsureDictionaries(ctx, conn, streamSettings(a.frame.Config()))
		},
		Sample:  func(ctx context.Context) ([][]byte, error) { return sampleShort(ctx, own, conn, decoding) },
		Pressed: regret.System().Pressed, Timing: a.options.Dictionaries, Log: a.options.Log,
	}
	if o.Cluster != nil {
		options.Plain = func(header nats.Header, payload []byte) []byte { return plainShort(decoding, header, payload) }
	}
	keeper := dictionary.New(options)
	decoding.Use(keeper)
	if err := keeper.Refresh(ctx); err != nil {
		// They are read when a message needs one.
		a.options.Log.Warn("Dictionaries of the queue are not known yet", "error", err.Error())
	}
	return keeper
}

// sampleShort returns stored messages that could refer to a dictionary, inflated.
func sampleShort(ctx context.Context, kept engine, conn *nats.Conn, decoding *message.Decoding) ([][]byte, error) {
	decoder, err := decoding.Decoder()
	if err != nil {
		return nil, err
	}
	defer decoder.Release()
	var out [][]byte
	var looked, bytes int64
	err = kept.Sample(ctx, conn, rand.Uint64(), func(header nats.Header, payload []byte) (bool, error) {
		// Long messages, which are of no use here, take their part of what is read too.
		looked, bytes = looked+1, bytes+int64(len(payload))
		more := looked < int64(dictionarySample.MaxItems) && bytes < dictionarySample.MaxBytes
		if plain := short(decoder, header, payload); plain != nil {
			out, bytes = append(out, plain), bytes+int64(len(plain))
		}
		return more && bytes < dictionarySample.MaxBytes, nil
	})
	return out, err
}

// plainShort inflates a stored message that could refer to a dictionary; nil: it could not.
func plainShort(decoding *message.Decoding, header nats.Header, payload []byte) []byte {
	decoder, err := decoding.Decoder()
	if err != nil {
		return nil // Who gets the message is told why.
	}
	defer decoder.Release()
	return short(decoder, header, payload)
}

// short is plainShort with a decoder. What is wrong with a message is for who gets it.
func short(decoder *message.Decoder, header nats.Header, payload []byte) []byte {
	form, err := message.FormOf(header)
	if err != nil || max(form.Length, len(payload)) > message.MaxReferring {
		return nil
	}
	plain, err := inflate(decoder, nil, header, payload)
	if err != nil || len(plain) == 0 || len(plain) > message.MaxReferring {
		return nil
	}
	return plain
}

// useDictionaries takes over what a configuration says.
func (r *running) useDictionaries(c *wirev1.QueueConfig, encoding *message.Encoding) {
	if r.dictionaries == nil {
		return
	}
	engine, problem := encoding.Referring(), ""
	switch {
	case engine == nil:
		problem = "they are for mode Auto, and for engines that have dictionaries"
	case engine.Codec() == codec.Deflate && !c.GetDeflateDictionaries():
		engine = nil
		problem = "members do not all know dictionaries of deflate yet: all have to answer, and to be of this release"
	}
	r.dictionaries.Set(dictionary.Settings{
		Use: c.GetDictionaries(), Engine: engine, Problem: problem, Level: encoding.Policy().Level,
		Value: r.front.Classes().Value,
	})
}

func (r *running) runDictionaries(ctx context.Context) {
	if r.dictionaries != nil {
		r.dictionaries.Run(ctx)
	}
}
