// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// standard stands for standard input.
	standard = "-"
	// maxMessage is the longest message that any Queue takes, in bytes.
	maxMessage = 32 << 20
	// maxPutBatch and maxPutBytes bound a request of several messages. The service takes 256, and a mebibyte above its
	// longest message.
	maxPutBatch = 256
	maxPutBytes = 900 << 10
	// putTimeout bounds a request; the service gives up before.
	putTimeout = 2 * time.Minute
)

// putting is a put: its flags, and how far it is.
type putting struct {
	*service
	plugin  *plugin
	files   []string
	key, id string
	headers []string // as NAME=VALUE
	lines   bool

	headerMap map[string]string
	batch     int // messages in a request, at most
	waiting   []*messagesv1.QueueMessage
	names     []string // of waiting
	bytes     int
	stored    int
}

func newPut(q *queue) *cobra.Command {
	p := &putting{plugin: q.plugin}
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Put messages into a Queue",
		Long: `Store standard input as one message, or each file as one; with --lines, store each line as one. Print the sequence of
each stored message.

Messages with a --key are put one after the other, so that none is stored before an earlier one. No further request is
sent after one that has a message that is not stored.`,
		Example: `  kubectl lighterage queue put orders -n bank -f order.xml --key account-7 --id 4711
  kubectl lighterage queue put orders -n bank --lines < orders.jsonl
  echo hello | kubectl lighterage queue put orders -n bank --header color=red`,
		PreRunE: func(*cobra.Command, []string) error { return p.check() },
		RunE: q.serve(func(ctx context.Context, s *service) error {
			p.service = s
			return p.all(ctx)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(
		&p.files, "filename", "f", []string{standard}, "`file` that is a message, - for standard input; may be repeated",
	)
	flags.StringVar(&p.key, "key", "", "`key` of messages that stay in order")
	flags.StringVar(&p.id, "id", "", "`id` of a single message: a message with the id of a stored one is not stored again")
	flags.StringArrayVar(&p.headers, "header", nil, "header as `NAME=VALUE`; may be repeated")
	flags.BoolVar(&p.lines, "lines", false, "each line is a message")
	cmd.MarkFlagsMutuallyExclusive("id", "lines")
	completeFlag(cmd, "filename", completeFile)
	return cmd
}

// check finds what is wrong with the flags.
func (p *putting) check() error {
	if i := slices.Index(p.files, standard); i >= 0 && slices.Contains(p.files[i+1:], standard) {
		return errors.New("standard input can be read once: give --filename - once")
	}
	if p.id != "" && len(p.files) > 1 {
		return errors.New("--id is of a single message, because a second one with it is not stored: give one --filename")
	}
	p.headerMap = map[string]string{}
	for _, header := range p.headers {
		name, value, found := strings.Cut(header, "=")
		if _, twice := p.headerMap[name]; !found || name == "" || twice {
			return fmt.Errorf("--header must be NAME=VALUE with each name once, not %q", header)
		}
		p.headerMap[name] = value
	}
	return nil
}

// all stores messages in the order in which they are read, and stops at the first that is not stored.
func (p *putting) all(ctx context.Context) error {
	p.batch = maxPutBatch
	if p.key != "" {
		p.batch = 1 // the service stores messages of a request that come after a rejected one
	}
	var err error
	for _, name := range p.files {
		if err = p.file(ctx, name, p.plugin.In); err != nil {
			break
		}
	}
	if err == nil {
		err = p.flush(ctx)
	}
	if err != nil && p.stored > 0 {
		return fmt.Errorf("%w; %d messages were stored before", err, p.stored)
	}
	return err
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
	if p.lines {
		return p.eachLine(ctx, name, in)
	}
	payload, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return p.message(ctx, name, payload)
}

// eachLine puts each line, without its end. An empty one is an empty message.
func (p *putting) eachLine(ctx context.Context, name string, in io.Reader) error {
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
	p.waiting = append(p.waiting, &messagesv1.QueueMessage{Id: p.id, Key: p.key, Headers: p.headerMap, Payload: payload})
	p.names = append(p.names, name)
	p.bytes += len(payload) + p.overhead()
	if len(p.waiting) >= p.batch || p.bytes > maxPutBytes {
		return p.flush(ctx)
	}
	return nil
}

// overhead is what a message has beside its payload, in bytes and with something to spare.
func (p *putting) overhead() int {
	n := 32 + len(p.id) + len(p.key)
	for name, value := range p.headerMap {
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
	answer, err := p.Service().Put(ctx, &messagesv1.PutRequest{Messages: messages})
	if err != nil {
		return p.explain("putting "+names[0], err)
	}
	if len(answer.GetResults()) != len(messages) {
		return fmt.Errorf(
			"putting %s: the service answered of %d messages and was sent %d", names[0], len(answer.GetResults()), len(messages),
		)
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
		if _, err := fmt.Fprintf(p.plugin.Out, "%d%s\n", result.GetSequence(), repeated); err != nil {
			return fmt.Errorf("writing the sequence of %s: %w", names[i], err)
		}
	}
	return refused
}

// refusal says why a message was not stored, if it was not.
func refusal(name string, result *messagesv1.PutResult) error {
	switch result.GetRefused() {
	case messagesv1.PutRefusal_PUT_REFUSAL_UNSPECIFIED:
		return nil
	case messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN:
		return fmt.Errorf("it is unknown whether %s is stored: %s", name, result.GetError())
	default:
		return fmt.Errorf("%s is not stored: %s", name, result.GetError())
	}
}
