// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// standard stands for standard input.
	standard = "-"
	// maxMessage is the longest message that any Queue takes, in bytes.
	maxMessage = 32 << 20
	// maxPutBatch and maxPutBytes bound a request of several messages. The service takes 256, and a mebibyte above its longest message.
	maxPutBatch = 256
	maxPutBytes = 900 << 10
	// putTimeout bounds a request; the service gives up before.
	putTimeout = 2 * time.Minute
)

// put stores messages in the order in which they are read, and stops at the first that is not stored.
func put(ctx context.Context, s *service, q queueSettings, program streams) error {
	p := &putting{service: s, settings: q, out: program.out, batch: maxPutBatch}
	if q.key != "" {
		// One that is refused does not keep those after it in the same request from being stored.
		p.batch = 1
	}
	for _, name := range q.files {
		if err := p.file(ctx, name, program.in); err != nil {
			return p.incomplete(err)
		}
	}
	return p.incomplete(p.flush(ctx))
}

// putting is a put that has begun.
type putting struct {
	service  *service
	settings queueSettings
	out      io.Writer
	batch    int

	waiting []*wirev1.QueueMessage
	names   []string // of waiting
	bytes   int
	stored  int
}

// incomplete adds to an error what was done before it.
func (p *putting) incomplete(err error) error {
	if err == nil || p.stored == 0 {
		return err
	}
	return fmt.Errorf("%w; %d messages were stored before", err, p.stored)
}

func (p *putting) file(ctx context.Context, name string, in io.Reader) error {
	if name == standard {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("reading messages: %w", err)
		}
		defer file.Close()
		in = file
	}
	if p.settings.lines {
		return p.lines(ctx, name, in)
	}
	payload, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return p.message(ctx, name, payload)
}

// lines puts each line, without its end. An empty one is an empty message.
func (p *putting) lines(ctx context.Context, name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage+2)
	lines.Split(bufio.ScanLines)
	n := 0
	for lines.Scan() {
		n++
		if err := p.message(ctx, fmt.Sprintf("line %d of %s", n, name), bytes.Clone(lines.Bytes())); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return tooLong(fmt.Sprintf("line %d of %s", n+1, name))
	case err != nil:
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

func tooLong(name string) error {
	return fmt.Errorf("%s is longer than %d MiB, which is the longest message that any Queue takes", name, maxMessage>>20)
}

func (p *putting) message(ctx context.Context, name string, payload []byte) error {
	if len(payload) > maxMessage {
		return tooLong(name)
	}
	if p.bytes+len(payload) > maxPutBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.waiting = append(p.waiting, &wirev1.QueueMessage{Id: p.settings.id, Key: p.settings.key, Headers: p.settings.headers, Payload: payload})
	p.names = append(p.names, name)
	p.bytes += len(payload) + p.overhead()
	if len(p.waiting) >= p.batch || p.bytes > maxPutBytes {
		return p.flush(ctx)
	}
	return nil
}

// overhead is what a message has beside its payload, in bytes and with something to spare.
func (p *putting) overhead() int {
	n := 32 + len(p.settings.id) + len(p.settings.key)
	for name, value := range p.settings.headers {
		n += 16 + len(name) + len(value)
	}
	return n
}

// flush puts what waits, and prints the sequences.
func (p *putting) flush(ctx context.Context) error {
	if len(p.waiting) == 0 {
		return nil
	}
	messages, names := p.waiting, p.names
	p.waiting, p.names, p.bytes = nil, nil, 0
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	answer, err := p.service.Put(ctx, &wirev1.PutRequest{Messages: messages})
	if err != nil {
		return p.service.explain("putting "+names[0], err)
	}
	if len(answer.GetResults()) != len(messages) {
		return fmt.Errorf("putting %s: the service answered of %d messages and was sent %d", names[0], len(answer.GetResults()), len(messages))
	}
	var refused error
	for i, result := range answer.GetResults() {
		if why := refusal(names[i], result); why != nil {
			if refused == nil {
				refused = why
			}
			continue
		}
		p.stored++
		repeated := ""
		if result.GetDuplicate() {
			repeated = " (stored before)"
		}
		if _, err := fmt.Fprintf(p.out, "%d%s\n", result.GetSequence(), repeated); err != nil {
			return fmt.Errorf("writing the sequence of %s: %w", names[i], err)
		}
	}
	return refused
}

// refusal says why a message was not stored, if it was not.
func refusal(name string, result *wirev1.PutResult) error {
	switch result.GetRefused() {
	case wirev1.PutRefusal_PUT_REFUSAL_UNSPECIFIED:
		return nil
	case wirev1.PutRefusal_PUT_REFUSAL_UNKNOWN:
		return fmt.Errorf("it is not known whether %s is stored: %s", name, result.GetError())
	default:
		return fmt.Errorf("%s is not stored: %s", name, result.GetError())
	}
}
