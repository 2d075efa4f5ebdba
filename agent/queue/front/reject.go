// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/lighterage/lighterage/agent/queue/audit"
)

// rejection says why an operation is not passed on.
type rejection struct {
	// code and errCode of the answer of JetStream's API, 0: there is no answer, and the default, errCode; why is its
	// description.
	code, errCode int
	why           string
	// complaint is said on the connection, in the words of the server.
	complaint string
	// forbidden says that this client may not do it.
	forbidden bool
}

const (
	badRequest = 400
	forbidden  = 403
	// unavailable is said of what may be done later.
	unavailable = 503
	// errCode of rejections by the front. Those of the server are from 10000 on.
	errCode = 9001
)

// violation rejects what is not for a client, in the words of the server.
func violation(what string, subject []byte) *rejection {
	return &rejection{complaint: "Permissions Violation for " + what + " \"" + string(subject) + "\"", forbidden: true}
}

// because has it answered, too.
func (r *rejection) because(why string) *rejection {
	r.code, r.why = forbidden, why
	return r
}

// reject has an operation answered instead of passed on, so that the client does not wait for the server's answer.
func (c *conn) reject(s *step, r *rejection) error {
	s.replaceWith(c.front.answer(&s.operation, r))
	if r.forbidden {
		c.front.Count(ForbiddenRequests)
		c.front.audit.Reject(audit.Forbidden, c.client.Name, natsProtocol, c.outer.RemoteAddr().String())
	}
	if r.complaint == "" {
		return nil
	}
	c.front.options.Log.Debug(
		"Operation rejected", "client", c.client.Name, "remote", c.outer.RemoteAddr().String(), "reason", r.complaint,
	)
	_, err := (*toClient)(c).Write([]byte("-ERR '" + r.complaint + "'\r\n"))
	return err
}

// answer returns the answer to a rejected operation in the form in which the client waits for one, if it does.
func (f *Front) answer(op *operation, r *rejection) []byte {
	put := op.kind == opPub && f.access.ofQueue(op.subject)
	if put && op.reply == nil {
		f.Count(RefusedPuts) // answers are counted when they come back
	}
	if op.kind != opPub || op.reply == nil || r.code == 0 {
		return nil
	}
	if bytes.HasPrefix(op.subject, []byte(nextPrefix)) {
		status := "NATS/1.0 " + strconv.Itoa(r.code) + " " + r.why + "\r\n\r\n"
		return appendPublish(nil, op.reply, nil, []byte(status), nil)
	}
	var body struct {
		Type  string `json:"type,omitempty"`
		Error struct {
			Code        int    `json:"code"`
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Stream string  `json:"stream,omitempty"`
		Seq    *uint64 `json:"seq,omitempty"`
	}
	body.Error.Code, body.Error.ErrCode, body.Error.Description = r.code, cmp.Or(r.errCode, errCode), r.why
	switch {
	case put:
		body.Stream, body.Seq = f.options.Queue, new(uint64)
	case bytes.HasPrefix(op.subject, []byte(createPrefix)) || bytes.HasPrefix(op.subject, []byte(durablePrefix)):
		body.Type = "io.nats.jetstream.api.v1.consumer_create_response"
	case !bytes.HasPrefix(op.subject, []byte(apiPrefix)):
		return nil
	}
	text, _ := json.Marshal(body) // strings and numbers always marshal
	return appendPublish(nil, op.reply, nil, nil, text)
}

// appendPublish appends an operation that publishes a message, without headers when there is no block.
func appendPublish(out, subject, reply, block, payload []byte) []byte {
	if block != nil {
		out = append(out, 'H')
	}
	out = append(append(append(out, "PUB "...), subject...), ' ')
	if reply != nil {
		out = append(append(out, reply...), ' ')
	}
	if block != nil {
		out = append(strconv.AppendInt(out, int64(len(block)), 10), ' ')
	}
	out = append(strconv.AppendInt(out, int64(len(block)+len(payload)), 10), "\r\n"...)
	return append(append(append(out, block...), payload...), "\r\n"...)
}
