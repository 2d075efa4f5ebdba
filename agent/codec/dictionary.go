// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

// DictionaryEngine is an Engine of Zstd that reads and writes frames which refer to a dictionary as well. Those are
// not of codec Zstd: a frame has the number of its dictionary in its header, and only a decoder with that dictionary
// reads it. Dictionaries are in the format of RFC 8878; package zstddict makes them.
//
// Every DictionaryEngine reads what every other one wrote with the same dictionary. An encoder or decoder prepares the
// dictionary once and keeps it, which takes up to about 5 MiB (go-zstd at level High). Neither is a StreamEncoder or
// StreamDecoder.
type DictionaryEngine interface {
	Engine
	// NewDictionaryEncoder returns an encoder for one level. It fails where NewEncoder does, and when the dictionary
	// is not one.
	NewDictionaryEncoder(level Level, dictionary []byte) (Encoder, error)
	// NewDictionaryDecoder returns a decoder. Frames without a dictionary, or with another one, are corrupt to it.
	NewDictionaryDecoder(dictionary []byte) (Decoder, error)
}

// WithDictionary is the engine all of whose frames refer to a dictionary. It is for measuring: it has the name and the
// codec of the one without, whose frames it does not read. Never add it to a chain or a registry.
func WithDictionary(e DictionaryEngine, dictionary []byte) Engine {
	return withDictionary{Engine: e, with: e, dictionary: dictionary}
}

// HasDictionary reports whether an engine is one of WithDictionary.
func HasDictionary(e Engine) bool {
	_, ok := e.(withDictionary)
	return ok
}

// withDictionary is no DictionaryEngine: it has one dictionary.
type withDictionary struct {
	Engine
	with       DictionaryEngine
	dictionary []byte
}

// NewEncoder implements Engine.
func (e withDictionary) NewEncoder(l Level) (Encoder, error) {
	return e.with.NewDictionaryEncoder(l, e.dictionary)
}

// NewDecoder implements Engine.
func (e withDictionary) NewDecoder() (Decoder, error) {
	return e.with.NewDictionaryDecoder(e.dictionary)
}
