// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestUsage looks at this process, which works meanwhile.
func TestUsage(t *testing.T) {
	self := PID(os.Getpid())
	before, err := self.Usage()
	if err != nil {
		t.Fatal(err)
	}
	busy, _, err := SystemCPU()
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		now, err := self.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if now.CPU > before.CPU+100*time.Millisecond {
			break
		}
	}
	after, err := self.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU <= before.CPU || after.Resident < 1<<20 || after.Peak < after.Resident {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if now, _, err := SystemCPU(); err != nil || now <= busy {
		t.Errorf("the machine was busy for %s and then %s, %v", busy, now, err)
	}
	if _, err := Child("no-such-program"); err == nil {
		t.Error("a child that there is not")
	}
}

func TestParse(t *testing.T) {
	stat := "77 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 100 50 30 20 20 0 1 0 99"
	if cpu, err := parseCPU(stat); err != nil || cpu.Seconds() != 2 {
		t.Errorf("%v, %v", cpu, err)
	}
	for _, bad := range []string{"", "1 (a) S 1 2", "77 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 30 20 20"} {
		if _, err := parseCPU(bad); !errors.Is(err, errForm) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for text, kernel := range map[string]bool{
		"77 (a b) c)) S 1 2 3 4 5 4194304 7 8 9 10 100 50 30 20 20 0": false,
		"2 (ksoftirqd/0) S 1 2 3 4 5 69238848 7 8 9 10 100 50 0 0 20": true,
	} {
		if cpu, thread, err := parseProcess(text); err != nil || cpu.Seconds() != 1.5 || thread != kernel {
			t.Errorf("%q: %v, %v, %v", text, cpu, thread, err)
		}
	}
	for _, bad := range []string{"", "1 (a) S 1 2", "77 (a) S 1 2 3 4 5 x 7 8 9 10 1 50 30 20 20"} {
		if _, _, err := parseProcess(bad); !errors.Is(err, errForm) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	read, written, err := parseIO("rchar: 1\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 4096\n")
	if err != nil || read != 4096 || written != 8192 {
		t.Errorf("%d, %d, %v", read, written, err)
	}
	for _, bad := range []string{"", "write_bytes: many\ncancelled_write_bytes: 1\n", "rchar: 1\n"} {
		if _, _, err := parseIO(bad); !errors.Is(err, errForm) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestProcess: it is known what a group uses and why a program has failed, and nothing of it is left.
func TestProcess(t *testing.T) {
	p, err := Start(exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & sleep 600"))
	if err != nil {
		t.Fatal(err)
	}
	if memory, err := p.Group().Memory(); err != nil || memory <= 0 {
		t.Errorf("%d bytes of memory, %v", memory, err)
	}
	if used, err := p.Group().Usage(); err != nil || used.Resident <= 0 {
		t.Errorf("%+v, %v", used, err)
	}
	p.Stop(0)
	if err := p.Wait(); err == nil {
		t.Error("it was not ended")
	}
	if _, err = StartListening(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", "echo too bad; exit 7"),
		"127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "too bad") {
		t.Errorf("%v", err)
	}
}

// TestWorker: what is said by an order is an answer, or a failure.
func TestWorker(t *testing.T) {
	w, err := StartWorker(exec.CommandContext(t.Context(), "sh", "-c",
		`read order; echo "{\"Echo\":$order}"; read order; echo '{"Failure":"broken"}'`))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Echo int }
	if err := errors.Join(w.Order(7), w.Answer(&answer)); err != nil || answer.Echo != 7 {
		t.Errorf("%+v: %v", answer, err)
	}
	if err := errors.Join(w.Order(8), w.Answer(&answer)); err == nil || err.Error() != "broken" {
		t.Errorf("%v", err)
	}
	if err := w.Answer(&answer); err == nil {
		t.Error("a process that has ended answers")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
