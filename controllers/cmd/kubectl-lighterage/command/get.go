// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// maxGetBatch is how many messages a request asks for at most, and maxGetWait how long it waits.
	maxGetBatch = 256
	maxGetWait  = 50 * time.Second
	// firstWait is how long get waits for the first message unless told otherwise, and furtherWait for each further
	// group: a queue that nobody got from for a while needs a moment to find its messages.
	firstWait   = 2 * time.Second
	furtherWait = time.Second
	// emptyPause is the wait after an answer that came early and has nothing.
	emptyPause = 20 * time.Millisecond
	// answerTimeout is how long an answer may take beyond what it was to wait.
	answerTimeout = 2 * time.Minute
	// giveBackTimeout bounds giving messages back, also after an interrupt.
	giveBackTimeout = 15 * time.Second
)

// maxWait and maxVisibility bound the flags.
const (
	maxWait       = 24 * time.Hour
	maxVisibility = 12 * time.Hour
)

// getting is a get: its flags, and how far it is.
type getting struct {
	*service
	plugin           *plugin
	count            int
	wait, visibility time.Duration
	ack, noAck, dead bool
	lines            bool
	directory        string
	output           choice

	write                           func(*messagesv1.ReceivedMessage) error
	written, acknowledged, returned int
	held                            []string // receipts that are neither acknowledged nor given back
}

func newGet(q *queue) *cobra.Command {
	g := &getting{plugin: q.plugin, output: choice{"raw", "json"}}
	cmd := g.output.addTo(&cobra.Command{
		Use:   "get NAME",
		Short: "Get messages from a Queue",
		Long: `Write messages to standard output, one after the other as they are, and acknowledge them once they are written: they
are gone from the Queue then. With --no-ack, give them back instead. That counts as a delivery, and after
spec.redelivery.maxDeliveries deliveries a message becomes a dead letter.

With -o json, each message is a line with an object that has its headers as well. Its payload is in body if it is text,
else in bodyBase64.

The exit code is 3 if no message was received.`,
		Example: `  kubectl lighterage queue get orders -n bank --wait 20s > order.xml
  kubectl lighterage queue get orders -n bank --count 5 --no-ack -o json
  kubectl lighterage queue get orders -n bank --count 0 --dead --directory .`,
		PreRunE: func(*cobra.Command, []string) error { return g.check() },
		RunE: q.serve(func(ctx context.Context, s *service) error {
			g.service, g.write = s, g.writer(q.name)
			return g.run(ctx)
		}),
	})
	flags := cmd.Flags()
	flags.IntVar(&g.count, "count", 1, "`number` of messages at most; 0 for all")
	flags.DurationVar(
		&g.wait, "wait", firstWait,
		"how long to wait for the first message; below 1s, a Queue that was idle for a while may seem empty",
	)
	flags.DurationVar(
		&g.visibility, "visibility", 0,
		"how long no other client receives the messages, from 1s to 12h (default: as the Queue says)",
	)
	flags.BoolVar(&g.ack, "ack", true, "acknowledge messages once they are written")
	flags.BoolVar(&g.noAck, "no-ack", false, "give messages back in place of acknowledging them")
	flags.BoolVar(&g.dead, "dead", false, "get dead letters")
	flags.BoolVar(&g.lines, "lines", false, "write an end of line after each message")
	flags.StringVar(
		&g.directory, "directory", "", "`directory` in which to write each message to a file named by its sequence",
	)
	cmd.MarkFlagsMutuallyExclusive("ack", "no-ack")
	cmd.MarkFlagsMutuallyExclusive("lines", "directory")
	completeFlag(cmd, "directory", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return cmd
}

// check finds what is wrong with the flags.
func (g *getting) check() error {
	g.noAck = g.noAck || !g.ack
	switch {
	case g.count < 0:
		return fmt.Errorf("--count must be 1 or more, or 0 for all, not %d", g.count)
	case g.wait < 0 || g.wait > maxWait:
		return fmt.Errorf("--wait must be between 0s and %v, not %v", maxWait, g.wait)
	case g.visibility != 0 && (g.visibility < time.Second || g.visibility > maxVisibility):
		return fmt.Errorf("--visibility must be between 1s and %v, not %v", maxVisibility, g.visibility)
	case g.noAck && g.count == 0:
		// What is given back would be received again without end.
		return errors.New("--no-ack gives messages back: say with --count how many to get, at least 1")
	case g.lines && g.output.String() == "json":
		return errors.New("--lines is for -o raw: leave it out with -o json, which writes lines anyway")
	}
	return nil
}

// run gets messages, writes them, and acknowledges them or gives them back.
func (g *getting) run(ctx context.Context) error {
	// What is neither acknowledged nor given back would be redelivered only after its visibility timeout.
	err := cmp.Or(g.all(ctx), g.giveBack(ctx))
	switch {
	case g.noAck && (g.returned > 0 || g.written > 0):
		fmt.Fprintf(g.plugin.ErrOut, "%d messages were given back; this counted as a delivery of each\n", g.returned)
	case g.written > 0:
		fmt.Fprintf(g.plugin.ErrOut, "%d messages were acknowledged; they are gone from the Queue\n", g.acknowledged)
	case err == nil:
		return errNoMessage
	}
	return err
}

// all gets until there are as many as are wanted, or no more are available.
func (g *getting) all(ctx context.Context) error {
	var damaged error
	until := time.Now().Add(g.wait)
	for got := 0; g.count == 0 || got < g.count; {
		want := maxGetBatch
		if g.count > 0 {
			want = min(want, g.count-got)
		}
		wait := furtherWait
		if got == 0 {
			wait = min(max(time.Until(until), 0), maxGetWait)
		}
		messages, err := g.some(ctx, want, wait)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			if got == 0 && time.Until(until) > 0 {
				select {
				case <-time.After(emptyPause):
					continue
				case <-ctx.Done():
					return fmt.Errorf("waiting for messages: %w", ctx.Err())
				}
			}
			break
		}
		got += len(messages)
		broken, err := g.take(ctx, messages)
		if err != nil {
			return err
		}
		if broken != nil && damaged == nil {
			damaged = broken
			if g.count == 0 {
				break // it would be received again without end
			}
		}
	}
	return damaged
}

func (g *getting) some(ctx context.Context, want int, wait time.Duration) ([]*messagesv1.ReceivedMessage, error) {
	r := &messagesv1.GetRequest{MaxMessages: uint32(want), Wait: durationpb.New(wait), DeadLetters: g.dead}
	if g.visibility > 0 {
		r.VisibilityTimeout = durationpb.New(g.visibility)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	answer, err := g.Service().Get(ctx, r)
	if err != nil {
		return nil, g.explain("getting messages", err)
	}
	for _, m := range answer.GetMessages() {
		g.held = append(g.held, m.GetReceipt())
	}
	return answer.GetMessages(), nil
}

// take writes messages and acknowledges those that it has written. damaged tells of one that cannot be read.
func (g *getting) take(ctx context.Context, messages []*messagesv1.ReceivedMessage) (damaged, err error) {
	var receipts []string
	for _, m := range messages {
		if m.GetDamage() != "" {
			if damaged == nil {
				damaged = fmt.Errorf(
					"message %d is damaged, and was given back: %s; it becomes a dead letter after spec.redelivery.maxDeliveries "+
						"deliveries",
					m.GetSequence(), m.GetDamage(),
				)
			}
			continue
		}
		if err = g.write(m); err != nil {
			err = fmt.Errorf("message %d is given back: %w", m.GetSequence(), err)
			break
		}
		g.written++
		receipts = append(receipts, m.GetReceipt())
	}
	if g.noAck || len(receipts) == 0 {
		return damaged, err
	}
	// What was written is acknowledged whatever came after it.
	return damaged, errors.Join(err, g.acknowledge(ctx, receipts))
}

func (g *getting) acknowledge(ctx context.Context, receipts []string) error {
	// An interrupt between writing and acknowledging would have them redelivered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	answer, err := g.Service().Acknowledge(ctx, &messagesv1.AcknowledgeRequest{Receipts: receipts})
	if err != nil {
		return fmt.Errorf("%w; written messages may be redelivered", g.explain("acknowledging messages", err))
	}
	late := 0
	for i := range receipts {
		if i >= len(answer.GetResults()) || answer.GetResults()[i] != messagesv1.ReceiptResult_RECEIPT_RESULT_DONE {
			late++
			continue
		}
		g.acknowledged++
		g.held = slices.DeleteFunc(g.held, func(held string) bool { return held == receipts[i] })
	}
	if late > 0 {
		return fmt.Errorf(
			"%d written messages were not acknowledged within their visibility timeout, or that was not confirmed, and may be "+
				"redelivered; set a longer --visibility or a lower --count",
			late,
		)
	}
	return nil
}

// giveBack releases what is held, in as many requests as that takes, and counts what the service says it has back. What
// it says is expired is no longer held either.
func (g *getting) giveBack(ctx context.Context) error {
	if len(g.held) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	unsure := 0
	for len(g.held) > 0 {
		n := min(len(g.held), maxGetBatch)
		answer, err := g.Service().Release(ctx, &messagesv1.ReleaseRequest{Receipts: g.held[:n]})
		if err != nil {
			return fmt.Errorf(
				"%w; %d messages are redelivered only after their visibility timeout", g.explain("giving messages back", err),
				len(g.held),
			)
		}
		for i := range n {
			switch {
			case i < len(answer.GetResults()) && answer.GetResults()[i] == messagesv1.ReceiptResult_RECEIPT_RESULT_DONE:
				g.returned++
			case i < len(answer.GetResults()) && answer.GetResults()[i] == messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED:
			default:
				unsure++
			}
		}
		g.held = g.held[n:]
	}
	if unsure > 0 {
		return fmt.Errorf(
			"the service did not confirm that it has %d messages back: they are redelivered after their visibility timeout at "+
				"the latest",
			unsure,
		)
	}
	return nil
}
