// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// MaxReferring is the length in bytes of the longest message that refers to a dictionary. A longer one finds most of
// what it repeats in itself.
const MaxReferring = 16 << 10

// Dictionary is one that messages are compressed with. It is never changed.
type Dictionary struct {
	// Codec is Deflate or Zstd.
	Codec   codec.ID
	Number  uint32
	Content []byte
}

// DictionarySource says what messages are compressed with. It is safe for concurrent use.
type DictionarySource interface {
	// Current is the dictionary that messages refer to from now on; nil: none.
	Current() *Dictionary
	// Offer shows a message that is to be compressed and that a dictionary might be trained on. It copies what it keeps.
	Offer(plain []byte)
	// Used counts a message that refers to one.
	Used()
}

// Dictionaries are those that stored messages refer to. It is safe for concurrent use.
type Dictionaries interface {
	// Dictionary returns the content of one. The error matches ErrDictionary if there is none with that number, and is
	// another one if that is not known now. One of another codec than that of the message makes the message corrupt.
	Dictionary(number uint32) ([]byte, error)
}

// DictionaryError says that a dictionary cannot be read now. The message is not corrupt.
type DictionaryError struct {
	Number uint32
	Err    error
}

func (e *DictionaryError) Error() string {
	return fmt.Sprintf("read dictionary %d of the queue: %v", e.Number, e.Err)
}

// Unwrap returns why.
func (e *DictionaryError) Unwrap() error { return e.Err }

const (
	// shortSum is the length of number and checksum in base64.
	shortSum = 16
	// shortBound is the length in bytes of the header of a form with a dictionary at most, without its codec.
	shortBound = len(CodecHeader+": "+";"+";"+"\r\n") + 8 + shortSum
)

// Overhead is the length in bytes of the headers of the form at most, for a plain one as if it were compressed without a
// dictionary.
func (f Form) Overhead() int {
	if f.Dictionary != 0 {
		return shortBound + len(f.Codec.String())
	}
	return HeaderBound
}

// appendShort appends the value of the one header of a form with a dictionary.
func (f Form) appendShort(dst []byte) []byte {
	var sum [12]byte
	binary.BigEndian.PutUint32(sum[:], f.Dictionary)
	binary.BigEndian.PutUint64(sum[4:], f.Checksum)
	dst = strconv.AppendInt(append(append(dst, f.Codec.String()...), ';'), int64(f.Length), 10)
	return base64.RawURLEncoding.AppendEncode(append(dst, ';'), sum[:])
}

// setShort reads such a value, whose codec was read.
func (f *Form) setShort(id codec.ID, value []byte) error {
	length, encoded, _ := bytes.Cut(value, []byte(";"))
	n, ok := decimal(length)
	var sum [12]byte
	if len(encoded) != shortSum || !ok {
		return fmt.Errorf(
			"%w: %s is %v and %.40q: use %v;LENGTH;SUM with 16 characters of base64", ErrHeader, CodecHeader, id, value, id,
		)
	}
	// All lengths of 16 characters fill their bytes, so no two values mean the same.
	if _, err := base64.RawURLEncoding.Decode(sum[:], encoded); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrHeader, CodecHeader, err)
	}
	number := binary.BigEndian.Uint32(sum[:])
	if number == 0 {
		return fmt.Errorf("%w: %s names dictionary 0, which there is not", ErrHeader, CodecHeader)
	}
	*f = Form{
		Codec: id, Class: codec.Software, Length: n, Checksum: binary.BigEndian.Uint64(sum[4:]), Dictionary: number,
	}
	return nil
}

// Use makes the dictionaries known that messages refer to. Without, payloads with one are of a dictionary that is
// missing.
func (d *Decoding) Use(dictionaries Dictionaries) { d.dictionaries.Store(&dictionaries) }

// maxReferringDecoders is how many dictionaries a decoder keeps prepared.
const maxReferringDecoders = 4

type referringDecoder struct {
	number uint32
	engineDecoder
}

// refer returns the decoder of a codec with a dictionary.
func (d *Decoder) refer(id codec.ID, number uint32) (engineDecoder, error) {
	if i := slices.IndexFunc(d.referring, func(r referringDecoder) bool {
		return r.number == number && r.codec == id
	}); i >= 0 {
		r := d.referring[i]
		d.referring = append(slices.Delete(d.referring, i, i+1), r)
		return r.engineDecoder, nil
	}
	engine := d.decoding.dictionaryEngine(id)
	if engine == nil {
		return engineDecoder{}, &CodecError{Codec: id}
	}
	content, err := d.decoding.Dictionary(number)
	if errors.Is(err, ErrDictionary) {
		return engineDecoder{}, err
	}
	if err != nil {
		return engineDecoder{}, &DictionaryError{Number: number, Err: err}
	}
	decoder, err := engine.NewDictionaryDecoder(content)
	if errors.Is(err, codec.ErrDictionary) {
		return engineDecoder{}, fmt.Errorf("%w: number %d: %w", ErrDictionary, number, err)
	}
	if err != nil {
		return engineDecoder{}, &DictionaryError{Number: number, Err: err}
	}
	if len(d.referring) == maxReferringDecoders {
		_ = d.referring[0].decoder.Close()
		d.referring = slices.Delete(d.referring, 0, 1)
	}
	made := newEngineDecoder(engine, decoder)
	d.referring = append(d.referring, referringDecoder{number, made})
	return made, nil
}

// dictionaryEngine is the first of a codec that has dictionaries; nil: none has.
func (d *Decoding) dictionaryEngine(id codec.ID) codec.DictionaryEngine {
	for _, engine := range d.engines.ForCodec(id) {
		if with, ok := codec.WithDictionaries(engine); ok {
			return with
		}
	}
	return nil
}

// Ordinary returns headers and payload of a stored message in a form that does not refer to a dictionary: one that does
// is made plain. The headers are not changed but replaced. After an error, which is one of Decode, both come back as they
// were.
func (d *Decoding) Ordinary(headers map[string][]string, payload []byte) (map[string][]string, []byte, error) {
	form, err := FormOf(headers)
	if err != nil || form.Dictionary == 0 {
		return headers, payload, err
	}
	decoder, err := d.Decoder()
	if err != nil {
		return headers, payload, fmt.Errorf("make a message plain: %w", err)
	}
	defer decoder.Release()
	plain, _, err := decoder.Decode(nil, form, payload, MaxLength)
	if err != nil {
		return headers, payload, err
	}
	out := maps.Clone(headers)
	for _, name := range FormHeaders {
		delete(out, name)
	}
	return out, plain, nil
}

// current is the dictionary for messages that are encoded now; nil: none.
func (e *Encoding) current() *Dictionary {
	if e.Referring() == nil {
		return nil
	}
	if d := e.options.Dictionaries.Current(); d != nil && d.Codec == e.codec {
		return d
	}
	return nil
}

// Referring is an engine that compresses with dictionaries, that in software if there is one; nil: none does, because
// there are none for the codec, one of the engines that messages are compressed with has none, or the mode is not Auto.
func (e *Encoding) Referring() codec.DictionaryEngine {
	if e.options.Dictionaries == nil || e.options.Policy.Mode != policy.Auto {
		return nil
	}
	var referring codec.DictionaryEngine
	for _, engine := range []codec.Engine{e.hardware, e.usable()} {
		if engine == nil {
			continue
		}
		with, ok := codec.WithDictionaries(engine)
		if !ok {
			return nil
		}
		referring = with
	}
	return referring
}

// usable is the engine in software, nil where there is none or messages are not to be compressed with it.
func (e *Encoding) usable() codec.Engine {
	if e.options.Policy.SoftwareDisabled {
		return nil
	}
	return e.software
}

// offer shows a message that a dictionary might be trained on.
func (e *Encoding) offer(plain []byte) {
	if e.options.Dictionaries != nil && len(plain) <= MaxReferring {
		e.options.Dictionaries.Offer(plain)
	}
}

// adopt has short messages refer to a dictionary; nil: to none. One that an engine cannot use, they do not refer to.
func (e *Encoder) adopt(d *Dictionary) {
	if e.dictionary == d {
		return
	}
	for _, c := range []codec.Encoder{e.referring.hardware, e.referring.software} {
		if c != nil {
			_ = c.Close()
		}
	}
	e.dictionary, e.referring, e.refers = d, encoders{}, false
	if d == nil {
		return
	}
	first, hardware := e.refer(e.encoding.hardware, d)
	second, software := e.refer(e.encoding.usable(), d)
	e.referring, e.refers = encoders{first, second}, hardware && software
}

// refer returns the encoder of an engine with a dictionary, and whether that works; nil if there is no engine.
func (e *Encoder) refer(engine codec.Engine, d *Dictionary) (codec.Encoder, bool) {
	if engine == nil {
		return nil, true
	}
	with, ok := codec.WithDictionaries(engine)
	if !ok {
		return nil, false
	}
	encoder, err := with.NewDictionaryEncoder(e.encoding.options.Policy.Level, d.Content)
	if err != nil {
		return nil, false
	}
	return encoder, true
}

// refersTo is the number of the dictionary that a message of a length refers to; 0: none.
func (e *Encoder) refersTo(length int) uint32 {
	if !e.refers || length > MaxReferring {
		return 0
	}
	return e.dictionary.Number
}

// Expected is the form that a payload of a length has when it is compressed. Class and Checksum may differ, which have
// the same length in headers.
func (e *Encoder) Expected(length int) Form {
	return Form{Codec: e.encoding.codec, Class: codec.Software, Length: length, Dictionary: e.refersTo(length)}
}
