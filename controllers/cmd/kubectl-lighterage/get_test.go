// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

var fullResult = &wirev1.PutResult{Refused: wirev1.PutRefusal_PUT_REFUSAL_FULL, Error: "full"}

func TestGet(t *testing.T) {
	for name, test := range map[string]struct {
		line      string
		out, said string
		events    []string
		left      int
	}{
		"one":           {"", "a", "1 messages were acknowledged", []string{"ack r1"}, 2},
		"all":           {"--count 0", "ab\xff\n", "3 messages were acknowledged", []string{"ack r1", "ack r2", "ack r3"}, 0},
		"more than are": {"--count 1000 --ack", "ab\xff\n", "3 messages were acknowledged", []string{"ack r1", "ack r2", "ack r3"}, 0},
		"lines":         {"--count 2 --lines", "a\nb\n", "2 messages", []string{"ack r1", "ack r2"}, 1},
		"a look":        {"--count 2 --no-ack", "ab", "2 messages were given back; this counted as a delivery of each", []string{"release r1", "release r2"}, 3},
		"without ack":   {"--ack=false", "a", "1 messages were given back", []string{"release r1"}, 3},
		"JSON": {"--count 0 -o json", `{"sequence":1,"id":"7","key":"k","headers":{"color":"<red>"},"putTime":"2026-05-04T03:02:01Z","deliveries":1,"body":"a"}
{"sequence":2,"putTime":"2026-05-04T03:02:01Z","deliveries":1,"deadLetter":{"reason":"Rejected","detail":"no","deliveries":4,"sequence":9},"body":"b"}
{"sequence":3,"putTime":"2026-05-04T03:02:01Z","deliveries":1,"bodyBase64":"/wo="}
`, "3 messages", []string{"ack r1", "ack r2", "ack r3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			service := three(t)
			out, said, err := try(t, "", service.direct(append([]string{"queue", "get", "orders"}, strings.Fields(test.line)...)...)...)
			if err != nil || out != test.out || !strings.Contains(said, test.said) {
				t.Errorf("%q, %q, %v", out, said, err)
			}
			if !slices.Equal(service.events, test.events) || len(service.messages) != test.left {
				t.Errorf("%v, %d left", service.events, len(service.messages))
			}
		})
	}
}

// three has messages a, with everything that a message can have, b, a dead letter, and one that is no text.
func three(t *testing.T) *fakeService {
	t.Helper()
	service := startService(t)
	for _, payload := range []string{"a", "b", "\xff\n"} {
		service.add(payload)
	}
	q := service.messages[0].GetMessage()
	q.Id, q.Key, q.Headers = "7", "k", map[string]string{"color": "<red>"}
	service.messages[1].DeadLetter = &wirev1.DeadLetter{Reason: "Rejected", Detail: "no", Deliveries: 4, Sequence: 9}
	return service
}

func TestGetNothing(t *testing.T) {
	service := startService(t)
	out, said, err := try(t, "", service.direct("queue", "get", "orders", "--wait", "1s")...)
	if !errors.Is(err, errNoMessage) || out+said != "" {
		t.Errorf("%q, %q, %v", out, said, err)
	}
	if len(service.waits) == 0 || service.waits[0] <= 0 || service.waits[0] > time.Second {
		t.Errorf("waited %v", service.waits)
	}
}

// full is an output without room after some bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

// TestNotWritten: what could not be written is not acknowledged, and comes back at once.
func TestNotWritten(t *testing.T) {
	service := three(t)
	var said bytes.Buffer
	err := run(t.Context(), service.direct("queue", "get", "orders", "--count", "0"), streams{out: &full{room: 1}, say: &said})
	if err == nil || !strings.Contains(err.Error(), "message 2 is given back: writing the message: no room") || !strings.Contains(said.String(), "1 messages were acknowledged") {
		t.Errorf("%v, %s", err, &said)
	}
	if want := []string{"ack r1", "release r2", "release r3"}; !slices.Equal(service.events, want) {
		t.Errorf("%v", service.events)
	}
}

func TestDamaged(t *testing.T) {
	service := three(t)
	service.messages[1].Damage = "the checksum does not match"
	out, said, err := try(t, "", service.direct("queue", "get", "orders", "--count", "0")...)
	if err == nil || !strings.Contains(err.Error(), "message 2 is damaged, and was given back: the checksum does not match") || out != "a\xff\n" || !strings.Contains(said, "2 messages") {
		t.Errorf("%q, %q, %v", out, said, err)
	}
	if want := []string{"ack r1", "ack r3", "release r2"}; !slices.Equal(service.events, want) {
		t.Errorf("%v", service.events)
	}
}

func TestLate(t *testing.T) {
	service := three(t)
	service.late = true
	_, said, err := try(t, "", service.direct("queue", "get", "orders")...)
	if err == nil || !strings.Contains(err.Error(), "1 messages that were written were not acknowledged") || !strings.Contains(said, "0 messages were acknowledged") {
		t.Errorf("%q, %v", said, err)
	}
}

// TestDirectory: a file for each message, and again after a get whose acknowledgement was lost.
func TestDirectory(t *testing.T) {
	for form, want := range map[string]struct{ name, content string }{
		"raw":  {"orders-000000000002", "b"},
		"json": {"orders-000000000002.json", `"body":"b"`},
	} {
		t.Run(form, func(t *testing.T) {
			directory := t.TempDir()
			again := func(deliveries uint32, change string) error {
				service := three(t)
				service.messages[1].Deliveries = deliveries
				service.messages[1].Message.Payload = []byte("b" + change)
				out, _, err := try(t, "", service.direct("queue", "get", "orders", "--count", "0", "--directory", directory, "-o", form)...)
				if out != "" {
					t.Errorf("wrote %q", out)
				}
				return err
			}
			if err := again(1, ""); err != nil {
				t.Fatal(err)
			}
			if entries, err := os.ReadDir(directory); err != nil || len(entries) != 3 {
				t.Errorf("%v, %v", entries, err)
			}
			if content, err := os.ReadFile(filepath.Join(directory, want.name)); err != nil || !strings.Contains(string(content), want.content) {
				t.Errorf("%s, %v", content, err)
			}
			if err := again(12, ""); err != nil {
				t.Errorf("the same once more: %v", err)
			}
			if err := again(1, "c"); err == nil || !strings.Contains(err.Error(), "name another --directory") {
				t.Errorf("something else: %v", err)
			}
		})
	}
}

// TestNotGivenBack: what the queue does not say it has back is not counted as that; what is expired is with somebody else or there already.
func TestNotGivenBack(t *testing.T) {
	service := three(t)
	service.release = []wirev1.ReceiptResult{
		wirev1.ReceiptResult_RECEIPT_RESULT_DONE, wirev1.ReceiptResult_RECEIPT_RESULT_EXPIRED, wirev1.ReceiptResult_RECEIPT_RESULT_UNKNOWN,
	}
	_, said, err := try(t, "", service.direct("queue", "get", "orders", "--count", "3", "--no-ack")...)
	if err == nil || !strings.Contains(err.Error(), "did not confirm that it has 1 messages back") || !strings.Contains(said, "1 messages were given back") {
		t.Errorf("%q, %v", said, err)
	}
	service = three(t)
	service.release = []wirev1.ReceiptResult{wirev1.ReceiptResult_RECEIPT_RESULT_EXPIRED}
	_, said, err = try(t, "", service.direct("queue", "get", "orders", "--no-ack")...)
	if err != nil || !strings.Contains(said, "0 messages were given back") {
		t.Errorf("%q, %v", said, err)
	}
}
