// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lighterage/lighterage/test/render"
)

// auditPolicy has the API server log the requests of manager and gateway, with the bodies of those that write a status
// of ours.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: ["system:serviceaccount:` + render.Namespace + `:` + Manager + `"]
    verbs: [patch, update]
    resources: [{group: lighterage.dev, resources: ["*/status"]}]
  - level: Metadata
    users:
      - "system:serviceaccount:` + render.Namespace + `:` + Manager + `"
      - "system:serviceaccount:` + render.Namespace + `:` + Gateway + `"
  - level: None
`

// Kind of requests.
type Kind struct {
	// Program is Manager or Gateway.
	Program string
	// Verb as audit logs have it, such as patch.
	Verb string
	// Resource in the plural, with the subresource after a slash.
	Resource string
}

// Writes reports whether such a request is to change what etcd holds. Leases, which a manager writes all the time, do
// not count.
func (k Kind) Writes() bool {
	switch k.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return k.Resource != "leases" && k.Resource != "tokenreviews" && k.Resource != "subjectaccessreviews"
	}
	return false
}

// Object is one that the manager wrote.
type Object struct {
	Resource, Namespace, Name string
}

// Progress is what became of the progress of a run, as it was written.
type Progress struct {
	// Last is when it was written last, Longest the longest time between two writes.
	Last    time.Time
	Longest time.Duration
}

// Record is what has happened since a cluster was started.
type Record struct {
	Requests map[Kind]int64
	// Failed are those of the requests that the API server refused.
	Failed map[Kind]int64
	// Written says how often the manager wrote an object or its subresources, progress, statistics and bookings left
	// out.
	Written map[Object]int64
	// State and Progress are patches of the status of Transfers and Deliveries, with the bytes of their bodies. What
	// changes the phase or a condition is state.
	State, Progress           int64
	StateBytes, ProgressBytes int64
	// LongestProgress is the longest body of those.
	LongestProgress int64
	// Statistics are patches that change no condition: of the status of Queues and HTTPEndpoints, and of what Peers,
	// PeerGrants and CompressionPolicies show of those that use them.
	Statistics int64
	// Bookings are writes of Statements, by the namespace whose figures they book, with the creation of its Statement.
	Bookings map[string]int64
	// Runs have their progress, by Transfer or Delivery.
	Runs map[Object]Progress
}

// Ledger reads the audit log of an API server.
type Ledger struct {
	file *os.File
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	record Record
	err    error
	rest   []byte
}

// ledgerPause is how often the log is read.
const ledgerPause = 50 * time.Millisecond

func openLedger(path string) (*Ledger, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Ledger{file: file, stop: make(chan struct{}), done: make(chan struct{}), record: Record{
		Requests: map[Kind]int64{}, Failed: map[Kind]int64{}, Written: map[Object]int64{}, Runs: map[Object]Progress{},
		Bookings: map[string]int64{},
	}}
	go l.follow()
	return l, nil
}

func (l *Ledger) close() error {
	close(l.stop)
	<-l.done
	return errors.Join(l.err, l.file.Close(), os.Remove(l.file.Name()))
}

func (l *Ledger) follow() {
	defer close(l.done)
	for {
		l.mu.Lock()
		l.read()
		l.mu.Unlock()
		select {
		case <-l.stop:
			return
		case <-time.After(ledgerPause):
		}
	}
}

// read takes what was appended. The lock is held.
func (l *Ledger) read() {
	added, err := io.ReadAll(l.file)
	if err != nil {
		l.err = fmt.Errorf("read the audit log: %w", err)
		return
	}
	lines := append(l.rest, added...)
	for {
		line, rest, whole := bytes.Cut(lines, []byte("\n"))
		if !whole {
			l.rest = bytes.Clone(line)
			return
		}
		if err := l.record.add(line); err != nil {
			l.err = err
		}
		lines = rest
	}
}

// Read returns a copy of what has happened until now.
func (l *Ledger) Read() (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	r := l.record
	r.Requests, r.Failed = maps.Clone(r.Requests), maps.Clone(r.Failed)
	r.Written, r.Runs, r.Bookings = maps.Clone(r.Written), maps.Clone(r.Runs), maps.Clone(r.Bookings)
	return r, l.err
}

// ForgetGaps has the longest times between two writes of progress begin again.
func (l *Ledger) ForgetGaps() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for object, progress := range l.record.Runs {
		progress.Longest = 0
		l.record.Runs[object] = progress
	}
}

// event is what is read of a line of the log.
type event struct {
	Stage, Verb string
	Time        time.Time `json:"stageTimestamp"`
	User        struct{ Username string }
	Object      struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Response    struct{ Code int }                                      `json:"responseStatus"`
	Body        json.RawMessage                                         `json:"requestObject"`
}

func (r *Record) add(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	// A watch counts when it begins, everything else when it ends.
	if (e.Verb == "watch") != (e.Stage == "ResponseStarted") {
		return nil
	}
	kind := Kind{Verb: e.Verb, Resource: e.Object.Resource, Program: strings.TrimPrefix(e.User.Username, userName(""))}
	if e.Object.Subresource != "" {
		kind.Resource += "/" + e.Object.Subresource
	}
	r.Requests[kind]++
	if e.Response.Code >= 400 {
		r.Failed[kind]++
		return nil
	}
	if kind.Program != Manager || !kind.Writes() {
		return nil
	}
	object := Object{e.Object.Resource, e.Object.Namespace, e.Object.Name}
	if object.Resource == "statements" && (kind.Verb == "create" || kind.Verb == "patch") {
		r.Bookings[object.Namespace]++
		return nil
	}
	counts := false
	if len(e.Body) > 0 {
		var err error
		if counts, err = r.addStatus(object, e); err != nil {
			return err
		}
	}
	if !counts {
		r.Written[object]++
	}
	return nil
}

// addStatus notes what a patch of a status is about. It reports whether that is progress or statistics alone.
func (r *Record) addStatus(object Object, e event) (counts bool, err error) {
	var body struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return false, fmt.Errorf("read the patch of %s %s/%s: %w", object.Resource, object.Namespace, object.Name, err)
	}
	has := func(field string) bool { _, found := body.Status[field]; return found }
	state := has("phase") || has("conditions")
	switch object.Resource {
	case "queues", "httpendpoints":
		counts = has("statistics") && !state
		if counts {
			r.Statistics++
		}
	case "peers", "peergrants", "compressionpolicies":
		counts = (has("usedBy") || has("sent") || has("received")) && !state
		if counts {
			r.Statistics++
		}
	case "transfers", "deliveries":
		counts = has("progress") && !state
		size := int64(len(e.Body))
		if counts {
			r.Progress++
			r.ProgressBytes += size
			r.LongestProgress = max(r.LongestProgress, size)
		} else {
			r.State++
			r.StateBytes += size
		}
		if has("progress") {
			r.Runs[object] = r.Runs[object].at(e.Time)
		}
	}
	return counts, nil
}

// at is the progress after a write.
func (p Progress) at(now time.Time) Progress {
	if !p.Last.IsZero() {
		p.Longest = max(p.Longest, now.Sub(p.Last))
	}
	p.Last = now
	return p
}
