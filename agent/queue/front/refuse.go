// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// refusal is an answer of JetStream's API.
type refusal struct {
	Type   string   `json:"type,omitempty"`
	Error  apiError `json:"error"`
	Stream string   `json:"stream,omitempty"`
	Seq    *uint64  `json:"seq,omitempty"`
}

type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

const (
	badRequest = 400
	forbidden  = 403
	// unavailable is said of what may be done later.
	unavailable = 503
	// errCode of refusals by the front. Those of the server are from 10000 on.
	errCode = 9001
)

// answer appends a message to who waits for an answer to the operation. Nothing reaches
// the stream.
func answer(out []byte, op *operation, r refusal) []byte {
	if op.reply == nil {
		return out
	}
	body, err := json.Marshal(r)
	if err != nil {
		return out // strings and numbers always marshal
	}
	out = append(out, "PUB "...)
	out = append(out, op.reply...)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, "\r\n"...)
	out = append(out, body...)
	return append(out, "\r\n"...)
}

// refusePut answers a put as the stream does when it refuses one.
func (f *Front) refusePut(out []byte, op *operation, why string) []byte {
	if op.reply == nil {
		f.counters.refusedPuts.Add(1) // answers are counted when they come back
	}
	return answer(out, op, refusal{Error: apiError{badRequest, errCode, why}, Stream: f.options.Queue, Seq: new(uint64)})
}

// consumer appends a request to make a consumer, which must see the queue's messages
// only: one that asks for all gets those.
func (f *Front) consumer(out []byte, op *operation) []byte {
	body, err := f.filtered(op.payload)
	if err != nil {
		return answer(out, op, refusal{
			Type: "io.nats.jetstream.api.v1.consumer_create_response", Error: apiError{badRequest, errCode, err.Error()},
		})
	}
	body, err = f.configure(op.subject, body)
	if err != nil {
		code := unavailable
		if _, never := errors.AsType[*store.FiltersError](err); never {
			code = badRequest
		}
		return answer(out, op, refusal{
			Type: "io.nats.jetstream.api.v1.consumer_create_response", Error: apiError{code, errCode, err.Error()},
		})
	}
	return request(out, op, body)
}

// configured is a Server that has to know what consumers read before they do; see store.Store.
type configured interface {
	Configure(ctx context.Context, consumer string, filters []string) (fresh bool, err error)
}

// configure tells the server of a request to make a consumer, if it wants to know, and returns the request as it may be
// made.
func (f *Front) configure(subject, body []byte) ([]byte, error) {
	server, ok := f.options.Server.(configured)
	if !ok {
		return body, nil
	}
	var request struct {
		Action string `json:"action"`
		Config struct {
			Name           string   `json:"name"`
			Durable        string   `json:"durable_name"`
			FilterSubject  string   `json:"filter_subject"`
			FilterSubjects []string `json:"filter_subjects"`
		} `json:"config"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	c := request.Config
	filters := c.FilterSubjects
	if c.FilterSubject != "" {
		filters = append(filters, c.FilterSubject)
	}
	// The server refuses a request with two names that differ, and takes any of them.
	_, named, _ := strings.Cut(string(subject), ".CREATE."+f.options.Queue+".")
	named, _, _ = strings.Cut(named, ".")
	fresh, err := server.Configure(f.context, cmp.Or(named, c.Durable, c.Name), filters)
	if err != nil || !fresh || request.Action != "" {
		return body, err
	}
	// By another member one with other filters may be made in the meantime, which would be changed.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	fields["action"] = json.RawMessage(`"create"`)
	return json.Marshal(fields)
}

// request appends an operation with another payload.
func request(out []byte, op *operation, body []byte) []byte {
	name := "PUB "
	if op.header != nil {
		name = "HPUB "
	}
	out = append(out, name...)
	out = append(out, op.subject...)
	out = append(out, ' ')
	if op.reply != nil {
		out = append(out, op.reply...)
		out = append(out, ' ')
	}
	if op.header != nil {
		out = strconv.AppendInt(out, int64(len(op.header)), 10)
		out = append(out, ' ')
	}
	out = strconv.AppendInt(out, int64(len(op.header)+len(body)), 10)
	out = append(out, "\r\n"...)
	out = append(out, op.header...)
	out = append(out, body...)
	return append(out, "\r\n"...)
}

const (
	// maxRequest bounds requests for lists in bytes.
	maxRequest = 64 << 10
	// maxConsumer bounds requests to make consumers in bytes. The server keeps what they say, metadata included,
	// several times.
	maxConsumer = 8 << 10
)

// judged are the fields that decide what a consumer is called, what it sees, where that goes,
// and whether it may be there already.
var judged = []string{
	"config", "action", "name", "durable_name", "filter_subject", "filter_subjects", "deliver_subject", "direct",
	"sourcing",
}

// filtered returns a request to make a consumer with filters for the queue's subjects.
func (f *Front) filtered(body []byte) ([]byte, error) {
	if len(body) > maxConsumer {
		return nil, fmt.Errorf("a request of %d bytes; the limit is %d: shorten metadata, description or filters",
			len(body), maxConsumer)
	}
	var request, config map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if err := json.Unmarshal(request["config"], &config); err != nil || config == nil {
		return nil, fmt.Errorf("the request has no config of a consumer")
	}
	// The server reads names of fields in any case.
	for _, fields := range []map[string]json.RawMessage{request, config} {
		for name := range fields {
			if i := slices.IndexFunc(judged, func(known string) bool { return strings.EqualFold(known, name) }); i >= 0 &&
				judged[i] != name {
				return nil, fmt.Errorf("field %q: write it %s", name, judged[i])
			}
		}
	}
	var called, durable, deliver, one string
	var several []string
	var direct, sourcing bool
	for name, value := range map[string]any{
		"direct": &direct, "sourcing": &sourcing, "name": &called, "durable_name": &durable, "deliver_subject": &deliver,
		"filter_subject": &one, "filter_subjects": &several,
	} {
		if raw, ok := config[name]; ok {
			if err := json.Unmarshal(raw, value); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	if direct || sourcing {
		// The server makes them without what a queue needs of consumers, such as that they begin with the oldest
		// message.
		return nil, errors.New("direct and sourcing are for streams that get messages of others: leave them out")
	}
	if strings.HasPrefix(called, roles.OwnConsumers) || strings.HasPrefix(durable, roles.OwnConsumers) {
		return nil, errors.New(ownConsumers)
	}
	if deliver != "" && !f.access.inbox([]byte(deliver)) {
		return nil, fmt.Errorf("deliver_subject %q: use one of %s", deliver, f.access.inboxes())
	}
	if one != "" {
		several = append(several, one)
	}
	for _, subject := range several {
		if !f.access.ofQueue([]byte(subject)) {
			return nil, fmt.Errorf("filter %q: use subjects of the queue, %s or %s.>", subject, f.options.Queue, f.options.Queue)
		}
	}
	var err error
	if len(several) == 0 {
		delete(config, "filter_subject")
		if config["filter_subjects"], err = json.Marshal([]string{f.options.Queue, f.options.Queue + ".>"}); err != nil {
			return nil, err
		}
	}
	// It is written again in any case: of a field that stands there twice, the server might
	// have read what was not looked at.
	if request["config"], err = json.Marshal(config); err != nil {
		return nil, err
	}
	return json.Marshal(request)
}
