// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"strconv"
)

// FormHeaders are the headers of a form.
var FormHeaders = []string{CodecHeader, EngineHeader, LengthHeader, ChecksumHeader}

// FormOf is ParseForm for headers that were taken apart, such as those of nats.Msg.
func FormOf(headers map[string][]string) (Form, error) {
	if len(headers) == 0 {
		return Form{}, nil
	}
	var block []byte
	for _, name := range FormHeaders {
		for _, value := range headers[name] {
			block = append(append(append(append(block, name...), ": "...), value...), "\r\n"...)
		}
	}
	return ParseForm(block)
}

// Fields are the headers of a form as nats.Msg has them; nil for a plain one.
func (f Form) Fields() map[string]string {
	switch {
	case f.Plain():
		return nil
	case f.Dictionary != 0:
		return map[string]string{CodecHeader: string(f.appendShort(nil))}
	}
	return map[string]string{
		CodecHeader: f.Codec.String(), EngineHeader: f.Class.String(), LengthHeader: strconv.Itoa(f.Length),
		ChecksumHeader: fmt.Sprintf("%016x", f.Checksum),
	}
}
