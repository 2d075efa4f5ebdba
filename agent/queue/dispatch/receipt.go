// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"encoding/base64"
	"encoding/binary"
)

// pile is what a dispatcher gives out. The numbers are part of receipts and permanent.
type pile uint8

const (
	messages    pile = 1
	deadLetters pile = 2
)

// String names the pile in subjects.
func (p pile) String() string {
	if p == deadLetters {
		return "dead"
	}
	return "messages"
}

// receipt names one giving out of a message.
type receipt struct {
	pile     pile
	sequence uint64
	nonce    uint64
}

const receiptLength = 1 + 8 + 8

var receiptText = base64.RawURLEncoding.Strict()

func (r receipt) String() string {
	b := make([]byte, 0, receiptLength)
	b = append(b, byte(r.pile))
	b = binary.BigEndian.AppendUint64(b, r.sequence)
	return receiptText.EncodeToString(binary.BigEndian.AppendUint64(b, r.nonce))
}

// parseReceipt reads what String returned.
func parseReceipt(text string) (receipt, bool) {
	if len(text) != receiptText.EncodedLen(receiptLength) {
		return receipt{}, false
	}
	b, err := receiptText.DecodeString(text)
	if err != nil || len(b) != receiptLength { // line ends are passed over
		return receipt{}, false
	}
	r := receipt{pile(b[0]), binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}
	return r, (r.pile == messages || r.pile == deadLetters) && r.nonce != 0
}
