// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

var fullResult = &messagesv1.PutResult{Refused: messagesv1.PutRefusal_PUT_REFUSAL_FULL, Error: "full"}

func TestGet(t *testing.T) {
	for name, test := range map[string]struct {
		line   string
		out    string
		count  int // of messages that the error output tells
		events []string
		left   int
	}{
		"one":           {"", "a", 1, []string{"ack r1"}, 2},
		"all":           {"--count 0", "ab\xff\n", 3, []string{"ack r1", "ack r2", "ack r3"}, 0},
		"more than are": {"--count 1000 --ack", "ab\xff\n", 3, []string{"ack r1", "ack r2", "ack r3"}, 0},
		"lines":         {"--count 2 --lines", "a\nb\n", 2, []string{"ack r1", "ack r2"}, 1},
		"a look":        {"--count 2 --no-ack", "ab", 2, []string{"release r1", "release r2"}, 3},
		"without ack":   {"--ack=false", "a", 1, []string{"release r1"}, 3},
		"JSON": {"--count 0 -o json", `{"sequence":1,"id":"7","key":"k","headers":{"color":"<red>"},"putTime":"2026-05-04T03:02:01Z","deliveries":1,"body":"a"}
{"sequence":2,"putTime":"2026-05-04T03:02:01Z","deliveries":1,"deadLetter":{"reason":"Rejected","detail":"no","deliveries":4,"sequence":9},"body":"b"}
{"sequence":3,"putTime":"2026-05-04T03:02:01Z","deliveries":1,"bodyBase64":"/wo="}
`, 3, []string{"ack r1", "ack r2", "ack r3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			service := three(t)
			out, said, err := try(t, "", service.direct(append([]string{"queue", "get", "orders"},
				strings.Fields(test.line)...)...)...)
			if err != nil || out != test.out || countIn(said) != test.count {
				t.Errorf("%q, %q, %v", out, said, err)
			}
			if !slices.Equal(service.events, test.events) || len(service.messages) != test.left {
				t.Errorf("%v, %d left", service.events, len(service.messages))
			}
		})
	}
}

// countIn is the first number of a text, -1 if it does not begin with one.
func countIn(text string) int {
	digits, _, _ := strings.Cut(text, " ")
	count, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return count
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
	service.messages[1].DeadLetter = &messagesv1.DeadLetter{Reason: "Rejected", Detail: "no", Deliveries: 4, Sequence: 9}
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

var errFull = errors.New("full")

// full is an output that takes some bytes.
type full struct{ free int }

func (f *full) Write(p []byte) (int, error) {
	if f.free -= len(p); f.free < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestNotWritten: what could not be written is not acknowledged, and comes back at once.
func TestNotWritten(t *testing.T) {
	service := three(t)
	var said bytes.Buffer
	err := Run(
		t.Context(), service.direct("queue", "get", "orders", "--count", "0"),
		genericiooptions.IOStreams{Out: &full{free: 1}, ErrOut: &said},
	)
	if !errors.Is(err, errFull) || !strings.Contains(err.Error(), "message 2") || countIn(said.String()) != 1 {
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
	if err == nil || !strings.Contains(err.Error(), "message 2") ||
		!strings.Contains(err.Error(), service.messages[0].GetDamage()) || out != "a\xff\n" || countIn(said) != 2 {
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
	if err == nil || countIn(err.Error()) != 1 || !strings.Contains(err.Error(), "--visibility") || countIn(said) != 0 {
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
				out, _, err := try(t, "", service.direct(
					"queue", "get", "orders", "--count", "0", "--directory", directory, "-o", form,
				)...)
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
			if content, err := os.ReadFile(filepath.Join(directory, want.name)); err != nil ||
				!strings.Contains(string(content), want.content) {
				t.Errorf("%s, %v", content, err)
			}
			if err := again(12, ""); err != nil {
				t.Errorf("the same once more: %v", err)
			}
			if err := again(1, "c"); err == nil || !strings.Contains(err.Error(), "--directory") {
				t.Errorf("something else: %v", err)
			}
		})
	}
}

// TestNotGivenBack: what the queue does not say it has back is not counted as that; what is expired is with somebody
// else or there already.
func TestNotGivenBack(t *testing.T) {
	service := three(t)
	service.release = []messagesv1.ReceiptResult{
		messagesv1.ReceiptResult_RECEIPT_RESULT_DONE, messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED,
		messagesv1.ReceiptResult_RECEIPT_RESULT_UNKNOWN,
	}
	_, said, err := try(t, "", service.direct("queue", "get", "orders", "--count", "3", "--no-ack")...)
	if err == nil || !strings.Contains(err.Error(), " 1 messages") || countIn(said) != 1 {
		t.Errorf("%q, %v", said, err)
	}
	service = three(t)
	service.release = []messagesv1.ReceiptResult{messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED}
	_, said, err = try(t, "", service.direct("queue", "get", "orders", "--no-ack")...)
	if err != nil || countIn(said) != 0 {
		t.Errorf("%q, %v", said, err)
	}
}
