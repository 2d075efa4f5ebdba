// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/store"
)

const (
	// maxRequest bounds requests for lists in bytes.
	maxRequest = 64 << 10
	// maxConsumer bounds requests to make consumers in bytes. The server keeps what they say, metadata included,
	// several times.
	maxConsumer = 8 << 10
)

// consumer appends a request to make a consumer, which must see the queue's messages
// only: one that asks for all gets those.
func (f *Front) consumer(out []byte, op *operation) []byte {
	r, err := f.confine(op.payload)
	code := badRequest
	if err == nil {
		err = f.configure(op.subject, r)
		if _, never := errors.AsType[*store.FiltersError](err); !never {
			code = unavailable
		}
	}
	if err != nil {
		return append(out, f.answer(op, &rejection{code: code, why: err.Error()})...)
	}
	body, _ := json.Marshal(r.fields) // what was JSON always marshals
	return appendPublish(out, op.subject, op.reply, op.header, body)
}

// consumerRequest is what a client asks for.
type consumerRequest struct {
	fields map[string]json.RawMessage
	config struct {
		Name           string   `json:"name"`
		Durable        string   `json:"durable_name"`
		Deliver        string   `json:"deliver_subject"`
		FilterSubject  string   `json:"filter_subject"`
		FilterSubjects []string `json:"filter_subjects"`
		Direct         bool     `json:"direct"`
		Sourcing       bool     `json:"sourcing"`
	}
	action  string
	filters []string
}

// configure tells the server of a request to make a consumer.
func (f *Front) configure(subject []byte, r *consumerRequest) error {
	// The server rejects a request with two names that differ, and takes any of them.
	_, named, _ := strings.Cut(string(subject), ".CREATE."+f.options.Queue+".")
	named, _, _ = strings.Cut(named, ".")
	fresh, err := f.options.Server.Configure(f.context, cmp.Or(named, r.config.Durable, r.config.Name), r.filters)
	if fresh && r.action == "" {
		// By another member one with other filters may be made in the meantime, which would be changed.
		r.fields["action"] = json.RawMessage(`"create"`)
	}
	return err
}

// judged are the fields that decide what a consumer is called, what it sees, where that goes,
// and whether it may be there already.
var judged = []string{
	"config", "action", "name", "durable_name", "filter_subject", "filter_subjects", "deliver_subject", "direct",
	"sourcing",
}

// confine reads a request to make a consumer, and gives it filters for the queue's subjects.
func (f *Front) confine(body []byte) (*consumerRequest, error) {
	if len(body) > maxConsumer {
		return nil, longConsumer(len(body))
	}
	r, config := &consumerRequest{}, map[string]json.RawMessage(nil)
	if err := json.Unmarshal(body, &r.fields); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if err := json.Unmarshal(r.fields["config"], &config); err != nil || config == nil {
		return nil, errors.New("the request has no config of a consumer")
	}
	// The server reads names of fields in any case.
	for _, fields := range []map[string]json.RawMessage{r.fields, config} {
		for name := range fields {
			if i := slices.IndexFunc(judged, func(known string) bool { return strings.EqualFold(known, name) }); i >= 0 &&
				judged[i] != name {
				return nil, fmt.Errorf("field %q: write it %s", name, judged[i])
			}
		}
	}
	// It is written again in any case: of a field that stands there twice, the server might
	// have read what was not looked at.
	if err := r.set(config); err != nil {
		return nil, err
	}
	if action, ok := r.fields["action"]; ok {
		if err := json.Unmarshal(action, &r.action); err != nil {
			return nil, fmt.Errorf("read action: %w", err)
		}
	}
	c := &r.config
	if err := json.Unmarshal(r.fields["config"], c); err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	if c.Direct || c.Sourcing {
		// The server makes them without what a queue needs of consumers, such as that they begin with the oldest
		// message.
		return nil, errors.New("direct and sourcing are for streams that get messages of others: leave them out")
	}
	if strings.HasPrefix(c.Name, roles.OwnConsumers) || strings.HasPrefix(c.Durable, roles.OwnConsumers) {
		return nil, errors.New(ownConsumers)
	}
	if c.Deliver != "" && !f.access.inbox([]byte(c.Deliver)) {
		return nil, fmt.Errorf("deliver_subject %q: use one of %s", c.Deliver, f.access.inboxes())
	}
	if r.filters = c.FilterSubjects; c.FilterSubject != "" {
		r.filters = append(r.filters, c.FilterSubject)
	}
	for _, subject := range r.filters {
		if !f.access.ofQueue([]byte(subject)) {
			return nil, fmt.Errorf("filter %q: use subjects of the queue, %s or %s.>", subject, f.options.Queue, f.options.Queue)
		}
	}
	if len(r.filters) == 0 {
		r.filters = store.Subjects(f.options.Queue)
		delete(config, "filter_subject")
		config["filter_subjects"], _ = json.Marshal(r.filters) // strings always marshal
		if err := r.set(config); err != nil {
			return nil, err
		}
	}
	// It may be longer as it is written here.
	if text, _ := json.Marshal(r.fields); len(text) > maxConsumer {
		return nil, longConsumer(len(text))
	}
	return r, nil
}

func longConsumer(length int) error {
	return fmt.Errorf("a request of %d bytes; the limit is %d: shorten metadata, description or filters",
		length, maxConsumer)
}

// set replaces the config that is passed on.
func (r *consumerRequest) set(config map[string]json.RawMessage) error {
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	r.fields["config"] = text
	return nil
}

// list appends a request for the streams that there are, which is answered with the queue's alone.
func (f *Front) list(out []byte, op *operation) []byte {
	wanted := make(map[string]json.RawMessage)
	if len(op.payload) > 0 && (len(op.payload) > maxRequest || json.Unmarshal(op.payload, &wanted) != nil) {
		return append(out, f.answer(op, &rejection{code: badRequest, why: "the request is no JSON object"})...)
	}
	subject := f.options.Queue + ".>"
	for name, value := range wanted {
		if !strings.EqualFold(name, "subject") {
			continue
		}
		var asked string
		if json.Unmarshal(value, &asked) == nil && f.access.ofQueue([]byte(asked)) {
			subject = asked
		}
		delete(wanted, name)
	}
	wanted["subject"], _ = json.Marshal(subject) // a string always marshals
	body, err := json.Marshal(wanted)
	if err != nil {
		return append(out, f.answer(op, &rejection{code: badRequest, why: err.Error()})...)
	}
	return appendPublish(out, op.subject, op.reply, op.header, body)
}
