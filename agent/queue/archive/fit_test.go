// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// What no reader takes is left out, so that the range it is in can be read.
func TestFit(t *testing.T) {
	for name, test := range map[string]struct {
		in, want Record
		was      bool
	}{
		"as it should be": {
			in:   Record{Suffix: ".new", Headers: nats.Header{"Customer": {"7", "8"}}},
			want: Record{Suffix: ".new", Headers: nats.Header{"Customer": {"7", "8"}}}, was: true,
		},
		"a subject": {in: Record{Suffix: ".new.\x01"}, want: Record{}},
		"a wildcard": {
			in:   Record{Suffix: ".*", Headers: nats.Header{"Customer": {"7"}}},
			want: Record{Headers: nats.Header{"Customer": {"7"}}},
		},
		"a name": {
			in:   Record{Headers: nats.Header{"Cust omer": {"7"}, "": {"8"}, "A/B": {"9"}}},
			want: Record{Headers: nats.Header{"A/B": {"9"}}},
		},
		"a value": {in: Record{Headers: nats.Header{"Customer": {"7", "8\r9"}}}, want: Record{}},
		"half a form": {
			in:   Record{Headers: nats.Header{message.CodecHeader: {"zstd"}, "Customer": {"7"}}},
			want: Record{Headers: nats.Header{"Customer": {"7"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.in
			r.Sequence, r.Time, r.Payload = 3, time.Unix(1, 2).UTC(), []byte("x")
			test.want.Sequence, test.want.Time, test.want.Payload = r.Sequence, r.Time, r.Payload
			if was := fit(&r); was != test.was {
				t.Errorf("it was fit: %v", was)
			}
			if diff := cmp.Diff(test.want, r); diff != "" {
				t.Error(diff)
			}
			data, index := writeRange(t, testEncoders(t), []Record{r}, testHead, 3, nil)
			got, _, _, err := readLines(testRange(cargo.Zstd, 3), 0, data, index)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Record{r}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Names of headers that the library refuses would hold a restore up for ever.
func TestSendable(t *testing.T) {
	for _, name := range []string{
		"Customer", "a-b_c.d", "x!#$%&'*+^`|~9", "A/B", "a@b", "a[0]", "Größe", "(", "{x}", "a=b", "\"", "\\",
	} {
		m := nats.NewMsg("orders")
		m.Header[name] = []string{"7"}
		var none *nats.Conn // It looks at headers before it looks for a connection.
		err := none.PublishMsg(m)
		if refused := errors.Is(err, nats.ErrBadHeaderMsg); refused == sendable(name) {
			t.Errorf("%q is sendable: %v, and the library says %v", name, sendable(name), err)
		}
	}
}
