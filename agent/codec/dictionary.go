// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

// DictionaryEngine is an Engine of Zstd or Deflate that reads and writes streams which refer to a dictionary as well. Those
// are not of its codec: only a decoder with that dictionary reads them. A frame of zstd names its dictionary by number; a
// stream of DEFLATE does not, and with another dictionary it gives other bytes. Who keeps streams keeps the number and a
// checksum with them. Packages zstddict and deflatedict make dictionaries.
//
// Every DictionaryEngine of a codec reads what every other one wrote with the same dictionary. An encoder or decoder
// prepares the dictionary once as far as it can, and keeps it, which takes up to about 5 MiB (go-zstd at level High).
// Neither is a StreamEncoder or StreamDecoder.
type DictionaryEngine interface {
	Engine
	// NewDictionaryEncoder returns an encoder for one level. It fails where NewEncoder does, and with ErrDictionary when the
	// dictionary is not one.
	NewDictionaryEncoder(level Level, dictionary []byte) (Encoder, error)
	// NewDictionaryDecoder returns a decoder. It fails where NewDecoder does, and with ErrDictionary. Frames of zstd without
	// a dictionary, or with another one, are corrupt to it.
	NewDictionaryDecoder(dictionary []byte) (Decoder, error)
}

// OnlyBlocks is an encoder without what else it implements, as one with a dictionary is no StreamEncoder.
func OnlyBlocks(e Encoder) Encoder { return onlyBlocks{e} }

type onlyBlocks struct{ Encoder }

// Wrapped is implemented by an engine that adds to another one.
type Wrapped interface {
	// Unwrap returns the other one.
	Unwrap() Engine
}

// WithDictionaries returns an engine as one with dictionaries, and whether it is one or wraps one. What wraps it does not
// restrict the levels at which it refers to dictionaries.
func WithDictionaries(e Engine) (DictionaryEngine, bool) {
	for {
		if with, ok := e.(DictionaryEngine); ok {
			return with, true
		}
		wrapped, ok := e.(Wrapped)
		if !ok {
			return nil, false
		}
		e = wrapped.Unwrap()
	}
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
