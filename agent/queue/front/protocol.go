// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"errors"
	"fmt"
)

// kind is an operation of the protocol of NATS.
type kind uint8

const (
	opOther kind = iota // without a payload and of no interest here: PING, PONG, +OK, -ERR
	opInfo
	opConnect
	opPub // PUB and HPUB
	opSub
	opUnsub
	opMsg // MSG and HMSG
)

// operation is one operation. The slices are parts of the buffer it was read from.
type operation struct {
	kind kind
	// raw is all of it, with its line ends.
	raw     []byte
	subject []byte
	reply   []byte
	// sid is the client's name for a subscription.
	sid []byte
	// header is the block of headers with its empty line; nil when there is none.
	header  []byte
	payload []byte
	// args are what follows the name of other operations, such as the JSON of INFO.
	args []byte
	// max of UNSUB; 0: at once.
	max int
}

const (
	// maxLine is the longest line of an operation but INFO and CONNECT, which is that of
	// the server.
	maxLine = 4096
	// maxConnect bounds the lines of INFO and CONNECT.
	maxConnect = 64 << 10
	// maxHeader bounds the headers of a message.
	maxHeader = 64 << 10
	// maxSizeDigits bounds numbers. The server takes no more either.
	maxSizeDigits = 9
)

var (
	// errProtocol says that a peer does not speak the protocol.
	errProtocol = errors.New("invalid protocol")
	// errPayload says that a message is too long.
	errPayload = errors.New("message too long")
)

// peer says who wrote what is read.
type peer uint8

const (
	fromClient peer = iota
	fromServer
)

// read reads the operation at the start of buf, of whose payload at most limit bytes are allowed. When it is not there
// in full, op.raw is empty, and need is how many bytes it has if that is known, else 0.
func (op *operation) read(buf []byte, from peer, limit int) (need int, err error) {
	end := bytes.IndexByte(buf[:min(len(buf), maxConnect)], '\n')
	if end < 0 {
		if len(buf) >= maxConnect || len(buf) >= maxLine && !long(buf, from) {
			return 0, fmt.Errorf("%w: a line of more than %d bytes", errProtocol, len(buf))
		}
		return 0, nil
	}
	line := bytes.TrimSuffix(buf[:end], []byte("\r"))
	if len(line) > maxLine && !long(buf, from) {
		return 0, fmt.Errorf("%w: a line of %d bytes", errProtocol, len(line))
	}
	headerLen, total, err := op.parse(line, from)
	if err != nil {
		return 0, err
	}
	length := end + 1
	if op.kind == opPub || op.kind == opMsg {
		if headerLen > total || headerLen > maxHeader {
			return 0, fmt.Errorf("%w: %d bytes of headers in %d", errProtocol, headerLen, total)
		}
		if total-headerLen > limit {
			return 0, fmt.Errorf("%w: %d bytes; the limit is %d", errPayload, total-headerLen, limit)
		}
		length += total + 2
		if len(buf) < length {
			return length, nil
		}
		body := buf[end+1 : length-2]
		if buf[length-2] != '\r' || buf[length-1] != '\n' {
			return 0, fmt.Errorf("%w: a payload without its end", errProtocol)
		}
		if headerLen > 0 {
			op.header = body[:headerLen]
		}
		op.payload = body[headerLen:]
	}
	op.raw = buf[:length]
	return length, nil
}

// long reports whether a line may be long.
func long(buf []byte, from peer) bool {
	if from == fromServer {
		return named(buf, "INFO")
	}
	return named(buf, "CONNECT")
}

// named reports whether a line begins with the name of an operation, in either case.
func named(line []byte, name string) bool {
	if len(line) < len(name) || len(line) > len(name) && line[len(name)] != ' ' && line[len(name)] != '\t' &&
		line[len(name)] != '\r' && line[len(name)] != '\n' {
		return false
	}
	for i := range len(name) {
		if line[i]&^0x20 != name[i]&^0x20 {
			return false
		}
	}
	return true
}

// parse reads a line without its end.
func (op *operation) parse(line []byte, from peer) (header, total int, err error) {
	switch {
	case from == fromServer && named(line, "MSG"):
		return op.message(opMsg, line[3:], false)
	case from == fromServer && named(line, "HMSG"):
		return op.message(opMsg, line[4:], true)
	case from == fromServer && named(line, "INFO"):
		op.kind, op.args = opInfo, bytes.TrimSpace(line[4:])
		return 0, 0, nil
	case from == fromClient && named(line, "PUB"):
		return op.message(opPub, line[3:], false)
	case from == fromClient && named(line, "HPUB"):
		return op.message(opPub, line[4:], true)
	case from == fromClient && named(line, "SUB"):
		return 0, 0, op.subscribe(line[3:])
	case from == fromClient && named(line, "UNSUB"):
		return 0, 0, op.unsubscribe(line[5:])
	case from == fromClient && named(line, "CONNECT"):
		op.kind, op.args = opConnect, bytes.TrimSpace(line[7:])
		return 0, 0, nil
	case named(line, "PING"), named(line, "PONG"), named(line, "+OK"), named(line, "-ERR"):
		return 0, 0, nil
	default:
		return 0, 0, fmt.Errorf("%w: operation %.20q", errProtocol, line)
	}
}

// maxArgs is the most arguments that an operation has.
const maxArgs = 5

// split cuts arguments at blanks.
func split(line []byte, into *[maxArgs][]byte) int {
	n := 0
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		start := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		if n == maxArgs {
			return maxArgs + 1
		}
		into[n] = line[start:i]
		n++
	}
	return n
}

// message reads SUBJECT [REPLY] [HEADER] SIZE of a client, or SUBJECT SID [REPLY] [HEADER] SIZE of the server.
func (op *operation) message(k kind, line []byte, headers bool) (header, total int, err error) {
	var args [maxArgs][]byte
	n, before, sizes := split(line, &args), 1, 1
	if k == opMsg {
		before, op.sid = 2, args[1]
	}
	if headers {
		sizes = 2
	}
	if n != before+sizes && n != before+1+sizes {
		return 0, 0, fmt.Errorf("%w: a message with %d arguments", errProtocol, n)
	}
	op.kind, op.subject = k, args[0]
	if n > before+sizes {
		op.reply = args[before]
	}
	return lengths(args[n-sizes : n])
}

// lengths reads [HEADER] SIZE.
func lengths(args [][]byte) (header, total int, err error) {
	total, ok := number(args[len(args)-1])
	if len(args) == 2 && ok {
		header, ok = number(args[0])
		ok = ok && header > 0
	}
	if !ok {
		return 0, 0, fmt.Errorf("%w: length %.20q", errProtocol, args)
	}
	return header, total, nil
}

// subscribe reads SUBJECT [QUEUE] SID.
func (op *operation) subscribe(line []byte) error {
	var args [maxArgs][]byte
	n := split(line, &args)
	if n != 2 && n != 3 {
		return fmt.Errorf("%w: SUB with %d arguments", errProtocol, n)
	}
	op.kind, op.subject, op.sid = opSub, args[0], args[n-1]
	return nil
}

// unsubscribe reads SID [MAX].
func (op *operation) unsubscribe(line []byte) error {
	var args [maxArgs][]byte
	n := split(line, &args)
	if n != 1 && n != 2 {
		return fmt.Errorf("%w: UNSUB with %d arguments", errProtocol, n)
	}
	op.kind, op.sid = opUnsub, args[0]
	if n == 2 {
		limit, ok := number(args[1])
		if !ok {
			return fmt.Errorf("%w: UNSUB after %.20q messages", errProtocol, args[1])
		}
		op.max = limit
	}
	return nil
}

// number reads decimal digits.
func number(text []byte) (int, bool) {
	if len(text) == 0 || len(text) > maxSizeDigits {
		return 0, false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
