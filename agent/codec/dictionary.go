// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

// DictionaryEngine is an Engine of Zstd that reads and writes frames which refer to a dictionary as well. Those are
// not of codec Zstd: a frame has the number of its dictionary in its header, and only a decoder with that dictionary
// reads it. Dictionaries are in the format of RFC 8878; package zstddict makes them.
//
// Every DictionaryEngine reads what every other one wrote with the same dictionary. An encoder or decoder prepares the
// dictionary once and keeps it, which takes up to 1 MiB. Neither is a StreamEncoder or StreamDecoder.
type DictionaryEngine interface {
	Engine
	// NewDictionaryEncoder returns an encoder for one level. It fails where NewEncoder does, and when the dictionary
	// is not one.
	NewDictionaryEncoder(level Level, dictionary []byte) (Encoder, error)
	// NewDictionaryDecoder returns a decoder. Frames without a dictionary, or with another one, are corrupt to it.
	NewDictionaryDecoder(dictionary []byte) (Decoder, error)
}

// WithDictionary is the engine all of whose frames refer to a dictionary. It has the name of the one without.
func WithDictionary(e DictionaryEngine, dictionary []byte) Engine {
	return withDictionary{e, dictionary}
}

type withDictionary struct {
	DictionaryEngine
	dictionary []byte
}

// NewEncoder implements Engine.
func (e withDictionary) NewEncoder(l Level) (Encoder, error) {
	return e.NewDictionaryEncoder(l, e.dictionary)
}

// NewDecoder implements Engine.
func (e withDictionary) NewDecoder() (Decoder, error) { return e.NewDictionaryDecoder(e.dictionary) }
