// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxCarrying bounds the sessions of a receiver that may be sent dictionaries at a time, whether any arrive or not.
	maxCarrying = 16
	// carryingWorkers bounds the goroutines that decode what refers to dictionaries: each has decoders of its own.
	carryingWorkers = 4
)

// dictionaryNumber returns the number of a dictionary that a peer sent, or is sent: it follows from the content.
func dictionaryNumber(id codec.ID, content []byte) (uint32, error) {
	format, err := dictionaries.Of(id)
	if err != nil {
		return 0, fmt.Errorf("this release (%s) does not know them: %w", wirev1.Version, err)
	}
	return format.Check(content)
}

// carrier decides for a session which messages travel as they rest though they refer to a dictionary, and has the
// dictionary sent before them. It is not safe for concurrent use.
type carrier struct {
	codec codec.ID
	// most is how many the other end keeps; 0: none.
	most int
	// beyond is the sequence up to which nothing is carried: the other end could not read a message up to it.
	beyond   uint64
	decoding *message.Decoding

	// there are the numbers of those that the other end has, or will have before the next batch, oldest first.
	there []uint32
	// needed are those of there that letters refer to which are not sent yet, unsent those that the other end lacks.
	needed map[uint32]bool
	unsent []*wirev1.ChannelDictionary
}

func newCarrier(accepted *wirev1.ChannelAccepted, id codec.ID, decoding *message.Decoding, suspect uint64) *carrier {
	return &carrier{
		codec: id, most: int(min(accepted.GetMaxDictionaries(), store.MaxDictionaries)), beyond: suspect, decoding: decoding,
		needed: map[uint32]bool{},
	}
}

// carries reports whether a message travels as it rests, and has its dictionary sent before the next batch if need be.
// One whose dictionary cannot be read here is left to who makes it plain, who says why.
func (c *carrier) carries(sequence uint64, form message.Form) bool {
	if form.Dictionary == 0 || form.Codec != c.codec || form.Length > message.MaxReferring || c.most == 0 ||
		sequence <= c.beyond {
		return false
	}
	if !slices.Contains(c.there, form.Dictionary) && !c.add(form.Dictionary) {
		return false
	}
	c.needed[form.Dictionary] = true
	return true
}

// add has a dictionary sent, which takes the place of the one that was sent first, unless letters need that.
func (c *carrier) add(number uint32) bool {
	full := len(c.there) == c.most
	if full && c.needed[c.there[0]] {
		return false
	}
	content, err := c.decoding.Dictionary(number)
	if err != nil {
		return false
	}
	if found, err := dictionaryNumber(c.codec, content); err != nil || found != number {
		return false
	}
	if full {
		c.there = slices.Delete(c.there, 0, 1)
	}
	c.there = append(c.there, number)
	c.unsent = append(c.unsent, &wirev1.ChannelDictionary{Codec: uint32(c.codec), Number: number, Content: content})
	return true
}

// take returns what is to be sent before the letters that were asked about since the last call.
func (c *carrier) take() []*wirev1.ChannelDictionary {
	out := c.unsent
	c.unsent = nil
	clear(c.needed)
	return out
}

// announce sends the dictionaries that letters need.
func (x *session) announce(c *carrier) error {
	for _, d := range c.take() {
		if err := x.write(&wirev1.ChannelRunRequest{
			Message: &wirev1.ChannelRunRequest_Dictionary{Dictionary: d},
		}); err != nil {
			return err
		}
		x.announced += uint64(len(d.GetContent()))
		x.status.update(func(now *wirev1.ChannelStatus) { now.Dictionaries++ })
		x.options.Log.Info("Dictionary is sent before messages that refer to it",
			"stream", x.options.Stream, "number", d.GetNumber(), "bytes", len(d.GetContent()))
	}
	return nil
}

// arrivals are the dictionaries that a session was sent. They are known to it alone.
type arrivals struct {
	codec codec.ID
	// encoding and classes are those by which the queue has what is put.
	encoding func() *message.Encoding
	classes  *classes.Classes
	// common decodes what refers to none. decoding is one for this session, nil before the first arrives.
	common, decoding *message.Decoding

	mu sync.Mutex
	// all, in the order in which they were sent.
	all []message.Dictionary
}

var _ message.Dictionaries = (*arrivals)(nil)

// arrivals returns what keeps the dictionaries of a session, and what frees it; nil where it takes none.
func (r *Receiver) arrivals(id codec.ID) (a *arrivals, release func()) {
	if r.options.Encoding == nil || !r.options.Decoding.Refers(id) {
		return nil, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.carrying >= maxCarrying {
		return nil, func() {}
	}
	r.carrying++
	a = &arrivals{
		codec: id, encoding: r.options.Encoding, classes: r.options.Classes, common: r.options.Decoding,
	}
	return a, func() {
		a.close()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.carrying--
	}
}

// most is how many the other end may have sent at a time.
func (a *arrivals) most() uint32 {
	if a == nil {
		return 0
	}
	return store.MaxDictionaries
}

// add takes one that a peer sent, in place of the oldest if need be. One that is there already becomes the newest.
func (a *arrivals) add(d *wirev1.ChannelDictionary) error {
	switch {
	case a == nil:
		return invalid("a dictionary, and none were negotiated")
	case d.GetCodec() != uint32(a.codec):
		return invalid("a dictionary of codec %d, and %v was negotiated", d.GetCodec(), a.codec)
	}
	number, err := dictionaryNumber(a.codec, d.GetContent())
	if err != nil {
		return invalid("a dictionary that cannot be used: %w", err)
	}
	if number != d.GetNumber() {
		return invalid("dictionary %d as number %d", number, d.GetNumber())
	}
	if a.decoding == nil {
		if a.decoding, err = a.common.With(a); err != nil {
			return fmt.Errorf("prepare for dictionaries of the sending queue: %w", err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	had := slices.IndexFunc(a.all, func(d message.Dictionary) bool { return d.Number == number })
	switch {
	case had >= 0 && !bytes.Equal(a.all[had].Content, d.GetContent()):
		return invalid("another dictionary %d than before", number)
	case had >= 0:
		// A sender that keeps fewer sends one again, as the newest.
		a.all = slices.Delete(a.all, had, had+1)
	case len(a.all) == store.MaxDictionaries:
		a.all = slices.Delete(a.all, 0, 1)
	}
	a.all = append(a.all, message.Dictionary{Codec: a.codec, Number: number, Content: d.GetContent()})
	return nil
}

// Dictionary implements message.Dictionaries.
func (a *arrivals) Dictionary(number uint32) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.all {
		if d.Number == number {
			return d.Content, nil
		}
	}
	return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
}

// close frees the decoders.
func (a *arrivals) close() {
	if a.decoding != nil {
		a.decoding.Close()
	}
}

// refers reports whether a message of a batch refers to a dictionary.
func refers(m *wirev1.ChannelMessage) bool { return m.GetForm().GetDictionary() != 0 }
