// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxGetBatch is how many messages a request asks for at most, and maxGetWait how long it waits.
	maxGetBatch = 256
	maxGetWait  = 50 * time.Second
	// firstWait is how long get waits for the first message unless told otherwise, and furtherWait for each further group: a queue that
	// nobody got from for a while needs a moment to find its messages.
	firstWait   = 2 * time.Second
	furtherWait = time.Second
	// emptyPause is the wait after an answer that came early and has nothing.
	emptyPause = 20 * time.Millisecond
	// answerTimeout is how long an answer may take beyond what it was to wait.
	answerTimeout = 2 * time.Minute
	// giveBackTimeout bounds giving messages back, also after an interrupt.
	giveBackTimeout = 15 * time.Second
)

// get gets messages, writes them and acknowledges them or gives them back.
func get(ctx context.Context, s *service, q queueSettings, form string, program streams) error {
	g := &getting{service: s, settings: q, write: newWriter(q, form, program.out)}
	err := g.all(ctx)
	// What was got and not acknowledged comes back at once, and not only when nobody else gets it any more.
	back := g.giveBack(ctx)
	if err == nil {
		err = back
	}
	switch {
	case q.noAck && (g.returned > 0 || g.written > 0):
		_, _ = fmt.Fprintf(program.say, "%d messages were given back; this counted as a delivery of each\n", g.returned)
	case g.written > 0:
		_, _ = fmt.Fprintf(program.say, "%d messages were acknowledged; they are gone from the queue\n", g.acknowledged)
	case err == nil:
		return errNoMessage
	}
	return err
}

// getting is a get that has begun.
type getting struct {
	service  *service
	settings queueSettings
	write    func(*wirev1.ReceivedMessage) error

	written, acknowledged, returned int
	held                            []string // receipts that are neither acknowledged nor given back
}

// all gets until there are as many as are wanted, or none is there any more.
func (g *getting) all(ctx context.Context) error {
	var damaged error
	until := time.Now().Add(g.settings.wait)
	for got := 0; g.settings.count == 0 || got < g.settings.count; {
		want := maxGetBatch
		if g.settings.count > 0 {
			want = min(want, g.settings.count-got)
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
				if err := pause(ctx, emptyPause); err != nil {
					return fmt.Errorf("waiting for messages: %w", err)
				}
				continue
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
			if g.settings.count == 0 {
				break // it would be got again without end
			}
		}
	}
	return damaged
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *getting) some(ctx context.Context, want int, wait time.Duration) ([]*wirev1.ReceivedMessage, error) {
	r := &wirev1.GetRequest{MaxMessages: uint32(want), Wait: durationpb.New(wait), DeadLetters: g.settings.dead}
	if g.settings.visibility > 0 {
		r.VisibilityTimeout = durationpb.New(g.settings.visibility)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	answer, err := g.service.Get(ctx, r)
	if err != nil {
		return nil, g.service.explain("getting messages", err)
	}
	for _, m := range answer.GetMessages() {
		g.held = append(g.held, m.GetReceipt())
	}
	return answer.GetMessages(), nil
}

// take writes messages and acknowledges those that it has written. damaged tells of one that cannot be read.
func (g *getting) take(ctx context.Context, messages []*wirev1.ReceivedMessage) (damaged, err error) {
	var receipts []string
	for _, m := range messages {
		if m.GetDamage() != "" {
			if damaged == nil {
				damaged = fmt.Errorf("message %d is damaged, and was given back: %s; it becomes a dead letter after as many deliveries as spec.redelivery.maxDeliveries says", m.GetSequence(), m.GetDamage())
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
	if g.settings.noAck || len(receipts) == 0 {
		return damaged, err
	}
	// What was written is acknowledged whatever came after it.
	if late := g.acknowledge(ctx, receipts); err == nil {
		err = late
	} else if late != nil {
		err = errors.Join(err, late)
	}
	return damaged, err
}

func (g *getting) acknowledge(ctx context.Context, receipts []string) error {
	// An interrupt between writing and acknowledging would have somebody get them again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	answer, err := g.service.Acknowledge(ctx, &wirev1.AcknowledgeRequest{Receipts: receipts})
	if err != nil {
		return fmt.Errorf("%w; messages that were written may be got again", g.service.explain("acknowledging messages", err))
	}
	late := 0
	for i := range receipts {
		if i >= len(answer.GetResults()) || answer.GetResults()[i] != wirev1.ReceiptResult_RECEIPT_RESULT_DONE {
			late++
			continue
		}
		g.acknowledged++
		g.forget(receipts[i])
	}
	if late > 0 {
		return fmt.Errorf("%d messages that were written were not acknowledged and may be got again, for that came after their visibility time-out or was not confirmed; give more time with --visibility, or get fewer at once with --count", late)
	}
	return nil
}

func (g *getting) forget(receipt string) {
	for i, held := range g.held {
		if held == receipt {
			g.held = append(g.held[:i], g.held[i+1:]...)
			return
		}
	}
}

// giveBack releases what is held, in as many requests as that takes, and counts what the queue says it has back. What it says is expired is
// with the client no more either.
func (g *getting) giveBack(ctx context.Context) error {
	if len(g.held) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	unsure := 0
	for len(g.held) > 0 {
		n := min(len(g.held), maxGetBatch)
		answer, err := g.service.Release(ctx, &wirev1.ReleaseRequest{Receipts: g.held[:n]})
		if err != nil {
			return fmt.Errorf("%w; %d messages can be got again only after their visibility time-out", g.service.explain("giving messages back", err), len(g.held))
		}
		for i := range n {
			switch {
			case i < len(answer.GetResults()) && answer.GetResults()[i] == wirev1.ReceiptResult_RECEIPT_RESULT_DONE:
				g.returned++
			case i < len(answer.GetResults()) && answer.GetResults()[i] == wirev1.ReceiptResult_RECEIPT_RESULT_EXPIRED:
			default:
				unsure++
			}
		}
		g.held = g.held[n:]
	}
	if unsure > 0 {
		return fmt.Errorf("the queue did not confirm that it has %d messages back: they can be got again after their visibility time-out at the latest", unsure)
	}
	return nil
}
