// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envelope turns messages of MessageService into messages of the queue's stream
// and back. What is put by one way in is got by the other with the same id, key and
// headers.
package envelope

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// KeyHeader names the messages among which the order counts, for clients of NATS as well.
const KeyHeader = "Lighterage-Key"

// IDHeader is the id that a message had before it became a dead letter or went through a
// channel. As Nats-Msg-Id it would make the dead letter a duplicate of the message.
const IDHeader = "Lighterage-Message-Id"

// The headers of a dead letter, beside those that the message had. Nothing else has a header
// whose name begins with DeadPrefix.
const (
	DeadPrefix           = "Lighterage-Dead-"
	DeadReasonHeader     = DeadPrefix + "Reason"
	DeadDetailHeader     = DeadPrefix + "Detail"
	DeadDeliveriesHeader = DeadPrefix + "Deliveries"
	DeadSequenceHeader   = DeadPrefix + "Sequence"
)

// DeadIDPrefix begins the ids by which a message becomes one dead letter and not two. No other
// message has such an id: a dead letter would be taken for a duplicate of it.
const DeadIDPrefix = "lighterage-dead."

// Reasons of dead letters.
const (
	// MaxDeliveries means: given out as often as the queue allows, and not acknowledged.
	MaxDeliveries = "MaxDeliveries"
	// Rejected means: a client said so.
	Rejected = "Rejected"
	// Unsendable means: the queue's channel cannot carry it.
	Unsendable = "Unsendable"
)

const (
	natsPrefix = "Nats-"
	ownPrefix  = "Lighterage-"

	// MaxText is the longest id, key or detail in bytes.
	MaxText = 256
	// MaxHeaders and MaxHeaderBytes bound the headers of a sender's own.
	MaxHeaders = 64
	// MaxHeaderBytes see MaxHeaders.
	MaxHeaderBytes = 32 << 10
)

var (
	// ErrInvalid says that a message is not allowed as it is.
	ErrInvalid = errors.New("invalid message")
	// ErrDictionary says that a client put a message that refers to a dictionary.
	ErrDictionary = fmt.Errorf("%w: it refers to a dictionary, which only the queue does: put it plain, or compressed "+
		"without one", ErrInvalid)
)

// New returns what is put into the stream for a message, but for the payload and the
// headers of its form. Errors match ErrInvalid.
func New(subject string, q *messagesv1.QueueMessage) (*nats.Msg, error) {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, len(q.GetHeaders())+6)}
	for name, text := range map[string]string{"id": q.GetId(), "key": q.GetKey()} {
		if err := CheckText(name, text); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(q.GetId(), DeadIDPrefix) {
		return nil, fmt.Errorf(
			"%w: id %.40q: ids that begin with %s are those of dead letters: put the message with another", ErrInvalid,
			q.GetId(), DeadIDPrefix,
		)
	}
	if len(q.GetHeaders()) > MaxHeaders {
		return nil, fmt.Errorf("%w: %d headers; the limit is %d", ErrInvalid, len(q.GetHeaders()), MaxHeaders)
	}
	total := 0
	for name, value := range q.GetHeaders() {
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
		if total += len(name) + len(value); total > MaxHeaderBytes {
			return nil, fmt.Errorf("%w: headers of more than %d bytes", ErrInvalid, MaxHeaderBytes)
		}
		m.Header[name] = []string{value}
	}
	if q.GetId() != "" {
		m.Header[nats.MsgIdHdr] = []string{q.GetId()}
	}
	if q.GetKey() != "" {
		m.Header[KeyHeader] = []string{q.GetKey()}
	}
	return m, nil
}

// CheckText returns an error that matches ErrInvalid unless a text is short and printable.
func CheckText(name, text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("%w: %s of %d bytes; the limit is %d", ErrInvalid, name, len(text), MaxText)
	}
	if !printable(text) || strings.TrimSpace(text) != text {
		return fmt.Errorf("%w: %s %.40q: use printable characters of ASCII, and spaces only within", ErrInvalid, name, text)
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func checkHeader(name, value string) error {
	switch {
	case name == "" || strings.ContainsFunc(name, notToken):
		return fmt.Errorf("%w: header %.40q: use letters, digits and hyphens for the name", ErrInvalid, name)
	case Reserved(name):
		return fmt.Errorf(
			"%w: header %.40q: names that begin with Nats- or Lighterage- are the queue's own", ErrInvalid, name,
		)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("%w: header %.40q: its value has a control character", ErrInvalid, name)
	case strings.Trim(value, " \t") != value:
		return fmt.Errorf("%w: header %.40q: its value begins or ends with white space", ErrInvalid, name)
	default:
		return nil
	}
}

// Reserved reports whether a header is none of a sender's own.
func Reserved(name string) bool {
	for _, prefix := range []string{natsPrefix, ownPrefix} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

func notToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' ||
		r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// SetForm adds the headers of a compressed payload.
func SetForm(m *nats.Msg, f message.Form) {
	for name, value := range f.Fields() {
		m.Header[name] = []string{value}
	}
}

// ParseForm reads a form that a client or another member states; the zero Form for nil. One with a dictionary is not for
// clients.
func ParseForm(s *messagesv1.StoredForm) (message.Form, error) {
	if s == nil {
		return message.Form{}, nil
	}
	if s.GetLength() > message.MaxLength {
		return message.Form{}, fmt.Errorf(
			"%w: %d bytes; the limit is %d", message.ErrTooLong, s.GetLength(), message.MaxLength,
		)
	}
	if s.GetDictionary() != 0 {
		id := codec.Zstd
		if s.GetCodec() == codec.Deflate.String() {
			id = codec.Deflate
		}
		return message.Form{
			Codec: id, Class: codec.Software, Length: int(s.GetLength()), Checksum: s.GetChecksum(),
			Dictionary: s.GetDictionary(),
		}, nil
	}
	return message.FormOf(nats.Header{
		message.CodecHeader: {s.GetCodec()}, message.EngineHeader: {s.GetEngineClass()},
		message.LengthHeader:   {strconv.FormatUint(s.GetLength(), 10)},
		message.ChecksumHeader: {fmt.Sprintf("%016x", s.GetChecksum())},
	})
}

// Stated is a form as clients see it; nil for a plain one.
func Stated(f message.Form) *messagesv1.StoredForm {
	if f.Plain() {
		return nil
	}
	return &messagesv1.StoredForm{
		Codec: f.Codec.String(), EngineClass: f.Class.String(), Length: uint64(f.Length), Checksum: f.Checksum,
		Dictionary: f.Dictionary,
	}
}

// Key returns the key of a message in the stream.
func Key(h nats.Header) string { return first(h, KeyHeader) }

func first(h nats.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Read returns a message of the stream with its payload as it is stored. damage says why
// its form is not known; it has none then.
func Read(m *nats.Msg) (q *messagesv1.QueueMessage, dead *messagesv1.DeadLetter, damage string) {
	q = &messagesv1.QueueMessage{Id: text(first(m.Header, nats.MsgIdHdr)), Key: text(Key(m.Header)), Payload: m.Data}
	form, err := message.FormOf(m.Header)
	if err != nil {
		damage = text(err.Error())
	}
	q.StoredForm = Stated(form)
	if former := first(m.Header, IDHeader); former != "" {
		q.Id = text(former)
	}
	if reason := first(m.Header, DeadReasonHeader); reason != "" {
		deliveries, _ := strconv.ParseUint(first(m.Header, DeadDeliveriesHeader), 10, 32) // ours, or 0
		sequence, _ := strconv.ParseUint(first(m.Header, DeadSequenceHeader), 10, 64)
		if first(m.Header, IDHeader) == "" {
			q.Id = "" // what it has is the queue's own, and the message had none
		}
		dead = &messagesv1.DeadLetter{
			Reason: text(reason), Detail: text(first(m.Header, DeadDetailHeader)), Deliveries: uint32(deliveries),
			Sequence: sequence,
		}
	}
	for name, values := range m.Header {
		if Reserved(name) {
			continue
		}
		if q.Headers == nil {
			q.Headers = make(map[string]string, len(m.Header))
		}
		q.Headers[text(name)] = text(strings.Join(values, ", "))
	}
	return q, dead, damage
}

// text makes what clients of NATS put as they liked fit to be a string of protobuf.
func text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// maxDeadFields bounds the headers of the message in its dead letter, which has some more: a server takes no more than
// 64 KiB.
const maxDeadFields = 60 << 10

// DeadLetter returns what is put under a subject in place of a message. Headers for which there
// is no space beside its own are left out.
func DeadLetter(subject string, m *nats.Msg, sequence uint64, d *messagesv1.DeadLetter) *nats.Msg {
	out := &nats.Msg{Subject: subject, Data: m.Data, Header: make(nats.Header, len(m.Header)+6)}
	left := maxDeadFields
	keep := func(name, value string) {
		if size := FieldSize(len(name), len(value)); size <= left {
			left -= size
			out.Header[name] = append(out.Header[name], value)
		}
	}
	if id := first(m.Header, nats.MsgIdHdr); id != "" {
		keep(IDHeader, id)
	}
	// Those that say what the payload is come first, the others always in the same order.
	for _, name := range slices.SortedFunc(maps.Keys(m.Header), func(a, b string) int {
		if Reserved(a) != Reserved(b) {
			if Reserved(a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	}) {
		// What JetStream reads was meant for the message itself.
		if len(name) >= len(natsPrefix) && strings.EqualFold(name[:len(natsPrefix)], natsPrefix) {
			continue
		}
		for _, value := range m.Header[name] {
			keep(fittingName(name), value) // As it is, the name could not be written.
		}
	}
	out.Header[nats.MsgIdHdr] = []string{DeadIDPrefix + strconv.FormatUint(sequence, 10)}
	out.Header[DeadReasonHeader] = []string{d.GetReason()}
	if d.GetDetail() != "" {
		out.Header[DeadDetailHeader] = []string{d.GetDetail()}
	}
	out.Header[DeadDeliveriesHeader] = []string{strconv.FormatUint(uint64(d.GetDeliveries()), 10)}
	out.Header[DeadSequenceHeader] = []string{strconv.FormatUint(sequence, 10)}
	return out
}

// Coding names a codec in HTTP.
func Coding(id codec.ID) string {
	switch id {
	case codec.Deflate:
		return "deflate-raw"
	case codec.Zstd:
		return "zstd"
	default:
		return "identity"
	}
}
