// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// requestSubject is where the member that leads is asked.
func requestSubject(queue, name string) string { return "$LIGHTERAGE.SERVICE." + queue + "." + name }

const (
	getName    = "get"
	changeName = "change"

	failureHeader = "Lighterage-Failure"
	failedBusy    = "busy"
	failedTaken   = "taken"
	failedOther   = "ended"

	// remoteWait is how long one request to another member waits for messages. It bounds how
	// long that gives messages to a member that has gone.
	remoteWait = 5 * time.Second
	// remoteMargin is how much longer the answer may take.
	remoteMargin = 5 * time.Second
	// lateAnswer is how long an answer is looked for that comes after that, so that the
	// messages in it are given back.
	lateAnswer = time.Minute

	// leadingGroup is what listens to requests of other members.
	leadingGroup = "leading"
)

// Get takes up to so many messages, as they are stored, and waits for the first. It
// returns none when none came. Errors are ErrTaken, ErrBusy, ErrUnavailable or that of the
// context.
func (h *Hub) Get(
	ctx context.Context, count int, visibility, wait time.Duration, dead bool,
) ([]*messagesv1.ReceivedMessage, error) {
	p := messages
	if dead {
		p = deadLetters
	}
	until := time.Now().Add(wait)
	giveUp := time.Now().Add(max(wait, h.options.Patience))
	for {
		out, err := h.get(ctx, p, count, visibility, max(time.Until(until), 0))
		switch {
		case err == nil && (len(out) > 0 || !time.Now().Before(until)):
			return out, nil
		case err == nil:
			continue
		}
		if err := h.again(ctx, err, giveUp); err != nil {
			return nil, err
		}
	}
}

// again waits for another try. It returns why there is none.
func (h *Hub) again(ctx context.Context, err error, giveUp time.Time) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrTaken) || errors.Is(err, ErrBusy):
		return err
	case !time.Now().Before(giveUp):
		return fmt.Errorf("%w (%w)", ErrUnavailable, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(retryInterval):
		return nil
	}
}

func (h *Hub) get(
	ctx context.Context, p pile, count int, visibility, wait time.Duration,
) ([]*messagesv1.ReceivedMessage, error) {
	d, err := h.dispatcher(p) //nolint:contextcheck // A dispatcher lasts longer than who asks first.
	switch {
	case err != nil:
		return nil, err
	case d != nil:
		return d.get(ctx, count, visibility, wait)
	}
	wait = min(wait, remoteWait)
	request := &messagesv1.GetRequest{
		MaxMessages: uint32(count), Wait: durationpb.New(wait), VisibilityTimeout: durationpb.New(visibility),
		DeadLetters: p == deadLetters,
	}
	return h.getRemote(ctx, request, wait+remoteMargin)
}

// getRemote asks the member that leads. What comes too late, or when the client has gone, is
// given back.
func (h *Hub) getRemote(
	ctx context.Context, request *messagesv1.GetRequest, patience time.Duration,
) ([]*messagesv1.ReceivedMessage, error) {
	type answer struct {
		response *messagesv1.GetResponse
		err      error
	}
	answered := make(chan answer) // without space: what is not taken is given back
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	go func() {
		asking, stop := context.WithTimeout(context.WithoutCancel(ctx), patience+lateAnswer)
		defer stop()
		a := answer{response: &messagesv1.GetResponse{}}
		a.err = h.ask(asking, getName, request, a.response)
		select {
		case answered <- a:
		case <-waiting.Done():
			h.giveBack(receiptsOf(a.response.GetMessages())) //nolint:contextcheck // Who asked has gone.
		}
	}()
	select {
	case a := <-answered:
		if ctx.Err() != nil { // both came
			h.giveBack(receiptsOf(a.response.GetMessages())) //nolint:contextcheck // Who asked has gone.
			return nil, ctx.Err()
		}
		return a.response.GetMessages(), a.err
	case <-waiting.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: the member that leads does not answer", errEnded)
	}
}

// ask asks the member that leads.
func (h *Hub) ask(ctx context.Context, name string, request, response proto.Message) error {
	data, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	m, err := h.options.Conn.RequestWithContext(ctx, requestSubject(h.options.Queue, name), data)
	if err != nil {
		return fmt.Errorf("ask the member that leads: %w", err)
	}
	switch m.Header.Get(failureHeader) {
	case "":
	case failedBusy:
		return ErrBusy
	case failedTaken:
		return ErrTaken
	default:
		return fmt.Errorf("the member that leads: %w: %s", errEnded, m.Data)
	}
	if err := proto.Unmarshal(m.Data, response); err != nil {
		return fmt.Errorf("read what the member that leads says: %w", err)
	}
	return nil
}

// asked answers another member.
func (h *Hub) asked(ctx context.Context, m *nats.Msg) {
	select {
	case h.remote <- struct{}{}:
	default:
		h.fail(m, ErrBusy)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leading == nil {
		<-h.remote
		h.fail(m, errEnded)
		return
	}
	h.served.Go(func() {
		defer func() { <-h.remote }()
		response, err := h.serve(ctx, m)
		if err != nil {
			h.fail(m, err)
			return
		}
		data, err := proto.Marshal(response)
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			h.options.Log.Error("Another member cannot be answered", "error", err.Error())
		}
	})
}

func (h *Hub) serve(ctx context.Context, m *nats.Msg) (proto.Message, error) {
	switch m.Subject {
	case requestSubject(h.options.Queue, getName):
		r := &messagesv1.GetRequest{}
		if err := proto.Unmarshal(m.Data, r); err != nil {
			return nil, err
		}
		p := messages
		if r.GetDeadLetters() {
			p = deadLetters
		}
		d, err := h.dispatcher(p) //nolint:contextcheck // A dispatcher lasts longer than who asks first.
		if d == nil {
			return nil, cmp.Or(err, errEnded)
		}
		out, err := d.get(
			ctx, int(min(r.GetMaxMessages(), MaxBatch)), r.GetVisibilityTimeout().AsDuration(),
			min(r.GetWait().AsDuration(), remoteWait),
		)
		return &messagesv1.GetResponse{Messages: out}, err
	case requestSubject(h.options.Queue, changeName):
		r := &wirev1.QueueChange{}
		if err := proto.Unmarshal(m.Data, r); err != nil {
			return nil, err
		}
		if r.GetVerb() > uint32(unget) {
			return nil, fmt.Errorf("another member asks for change %d, which this version does not know", r.GetVerb())
		}
		c := &change{verb: verb(r.GetVerb()), after: r.GetAfter().AsDuration(), detail: r.GetDetail()}
		for _, text := range r.GetReceipts() {
			parsed, ok := parseReceipt(text)
			if !ok || len(c.receipts) > 0 && parsed.pile != c.receipts[0].pile {
				return nil, errors.New("another member sent a receipt that is none")
			}
			c.receipts = append(c.receipts, parsed)
		}
		if len(c.receipts) == 0 {
			return &messagesv1.ReleaseResponse{}, nil
		}
		d, err := h.dispatcher(c.receipts[0].pile) //nolint:contextcheck // A dispatcher lasts longer than who asks first.
		if d == nil {
			return nil, cmp.Or(err, errEnded)
		}
		results, err := d.do(ctx, c)
		return &messagesv1.ReleaseResponse{Results: results}, err
	default:
		return nil, fmt.Errorf("another member asks for %q, which this version does not know", m.Subject)
	}
}

func (h *Hub) fail(m *nats.Msg, err error) {
	answer := nats.NewMsg(m.Reply)
	name := failedOther
	switch {
	case errors.Is(err, ErrBusy):
		name = failedBusy
	case errors.Is(err, ErrTaken):
		name = failedTaken
	}
	answer.Header.Set(failureHeader, name)
	answer.Data = []byte(err.Error())
	if err := m.RespondMsg(answer); err != nil {
		h.options.Log.Error("Another member cannot be answered", "error", err.Error())
	}
}

// Acknowledge removes messages that were got. There is a result for each receipt; when
// nobody leads in time, or the context ends, those that are not known are UNKNOWN.
func (h *Hub) Acknowledge(ctx context.Context, receipts []string) []messagesv1.ReceiptResult {
	return h.change(ctx, change{verb: acknowledge}, receipts)
}

// Release gives messages back, to be got again after a delay. Results are as those of
// Acknowledge.
func (h *Hub) Release(ctx context.Context, receipts []string, delay time.Duration) []messagesv1.ReceiptResult {
	return h.change(ctx, change{verb: release, after: delay}, receipts)
}

// Extend sets their visibility time-out again.
func (h *Hub) Extend(ctx context.Context, receipts []string, visibility time.Duration) []messagesv1.ReceiptResult {
	return h.change(ctx, change{verb: extend, after: visibility}, receipts)
}

// Reject moves messages to the dead letters; those that are there already are released.
func (h *Hub) Reject(ctx context.Context, receipts []string, detail string) []messagesv1.ReceiptResult {
	return h.change(ctx, change{verb: reject, detail: detail}, receipts)
}

func (h *Hub) change(ctx context.Context, c change, texts []string) []messagesv1.ReceiptResult {
	results := make([]messagesv1.ReceiptResult, len(texts))
	places := make(map[pile][]int)
	for i, text := range texts {
		r, ok := parseReceipt(text)
		if !ok {
			results[i] = invalid
			continue
		}
		results[i] = unknown
		places[r.pile] = append(places[r.pile], i)
	}
	giveUp := time.Now().Add(h.options.Patience)
	for p, where := range places {
		for len(where) > 0 {
			got, err := h.changeOnce(ctx, p, c, texts, where)
			var left []int
			for i, at := range where {
				if err == nil && i < len(got) && got[i] != unknown {
					results[at] = got[i]
				} else {
					left = append(left, at)
				}
			}
			where = left
			if err == nil {
				err = errEnded
			}
			if len(where) > 0 && h.again(ctx, err, giveUp) != nil {
				break
			}
		}
	}
	return results
}

func (h *Hub) changeOnce(
	ctx context.Context, p pile, c change, texts []string, where []int,
) ([]messagesv1.ReceiptResult, error) {
	c.receipts, c.results = nil, nil
	d, err := h.dispatcher(p) //nolint:contextcheck // A dispatcher lasts longer than who asks first.
	if err != nil {
		return nil, err
	}
	if d != nil {
		for _, at := range where {
			r, _ := parseReceipt(texts[at]) // it was parsed before
			c.receipts = append(c.receipts, r)
		}
		return d.do(ctx, &c)
	}
	request := &wirev1.QueueChange{Verb: uint32(c.verb), After: durationpb.New(c.after), Detail: c.detail}
	for _, at := range where {
		request.Receipts = append(request.Receipts, texts[at])
	}
	response := &messagesv1.ReleaseResponse{}
	asking, stop := context.WithTimeout(ctx, 2*answerTimeout)
	defer stop()
	err = h.ask(asking, changeName, request, response)
	return response.GetResults(), err
}
