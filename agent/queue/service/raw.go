// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// The headers of a message whose payload is the body. Those of the sender's own follow
// ownHeader; Content-Type is one of them. A body that is in the form in which messages are
// stored has Content-Encoding zstd or deflate-raw, and message.EngineHeader,
// message.LengthHeader and message.ChecksumHeader.
const (
	receiptHeader    = "Lighterage-Receipt"
	sequenceHeader   = "Lighterage-Sequence"
	putTimeHeader    = "Lighterage-Put-Time"
	deliveriesHeader = "Lighterage-Deliveries"
	errorHeader      = "Lighterage-Error"
	ownHeader        = "Lighterage-Header-"
	contentType      = "Content-Type"
)

// codingOf returns the codec of a Content-Encoding; none for a plain body.
func codingOf(name string) (codec.ID, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "identity":
		return codec.None, true
	case envelope.Coding(codec.Zstd):
		return codec.Zstd, true
	case envelope.Coding(codec.Deflate):
		return codec.Deflate, true
	default:
		return 0, false
	}
}

// putRaw puts the body as one message.
func (s *Service) putRaw(w http.ResponseWriter, r *http.Request) {
	q, err := messageOf(r.Header)
	if err == nil {
		q.Payload, err = s.body(w, r)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out, err := s.Put(r.Context(), &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{q}})
	if err != nil {
		writeError(w, err)
		return
	}
	result := out.GetResults()[0]
	code := map[messagesv1.PutRefusal]int{
		messagesv1.PutRefusal_PUT_REFUSAL_UNSPECIFIED: http.StatusCreated,
		messagesv1.PutRefusal_PUT_REFUSAL_INVALID:     http.StatusBadRequest,
		messagesv1.PutRefusal_PUT_REFUSAL_FULL:        http.StatusInsufficientStorage,
		messagesv1.PutRefusal_PUT_REFUSAL_UNKNOWN:     http.StatusGatewayTimeout,
	}[result.GetRefused()]
	if code == http.StatusCreated && result.GetDuplicate() {
		code = http.StatusOK
	}
	text, err := protojson.Marshal(result)
	if err != nil {
		writeError(w, status.Errorf(codes.Internal, "write the answer: %v", err))
		return
	}
	write(w, code, text)
}

// messageOf reads all of a message but its payload.
func messageOf(h http.Header) (*messagesv1.QueueMessage, error) {
	q := &messagesv1.QueueMessage{
		Id: h.Get(envelope.IDHeader), Key: h.Get(envelope.KeyHeader), Headers: make(map[string]string),
	}
	for name, values := range h {
		if own, ok := strings.CutPrefix(name, ownHeader); ok {
			q.Headers[own] = strings.Join(values, ", ")
		}
	}
	if kind := h.Get(contentType); kind != "" {
		q.Headers[contentType] = kind
	}
	id, ok := codingOf(h.Get("Content-Encoding"))
	if !ok {
		return nil, invalid("Content-Encoding %.40q: send the body as it is, or compressed as zstd or deflate-raw with the "+
			"headers %s, %s and %s",
			h.Get("Content-Encoding"), message.EngineHeader, message.LengthHeader, message.ChecksumHeader)
	}
	if id == codec.None {
		return q, nil
	}
	length, err := strconv.ParseUint(h.Get(message.LengthHeader), 10, 64)
	if err != nil {
		return nil, invalid(
			"%s %.40q: give the length of the plain payload in bytes", message.LengthHeader, h.Get(message.LengthHeader),
		)
	}
	sum, err := strconv.ParseUint(h.Get(message.ChecksumHeader), 16, 64)
	if err != nil {
		return nil, invalid(
			"%s %.40q: give XXH3-64 of the plain payload in hexadecimal digits", message.ChecksumHeader,
			h.Get(message.ChecksumHeader),
		)
	}
	q.StoredForm = &messagesv1.StoredForm{
		Codec: id.String(), EngineClass: h.Get(message.EngineHeader), Length: length, Checksum: sum,
	}
	return q, nil
}

// getRaw gets one message, with its payload as the body.
func (s *Service) getRaw(w http.ResponseWriter, r *http.Request) {
	request, err := getRequestOf(r)
	if err != nil {
		writeError(w, err)
		return
	}
	accepted := acceptedCodings(r.Header.Values("Accept-Encoding"))
	out, err := s.get(r.Context(), request, func(q *messagesv1.QueueMessage) bool {
		id, err := codec.ParseID(q.GetStoredForm().GetCodec())
		return err == nil && accepted[envelope.Coding(id)]
	})
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Cache-Control", "no-store")
	if len(out.GetMessages()) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m := out.GetMessages()[0]
	describe(w.Header(), m)
	w.Header().Set("Content-Length", strconv.Itoa(len(m.GetMessage().GetPayload())))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(m.GetMessage().GetPayload()) // who has gone does not acknowledge
}

// getRequestOf reads the query of a get.
func getRequestOf(r *http.Request) (*messagesv1.GetRequest, error) {
	request := &messagesv1.GetRequest{MaxMessages: 1}
	for name, values := range r.URL.Query() {
		value := values[0]
		switch name {
		case "wait", "visibility":
			d, err := time.ParseDuration(value)
			if err != nil {
				return nil, invalid("%s=%.40q: write for example 20s", name, value)
			}
			if name == "wait" {
				request.Wait = durationpb.New(d)
			} else {
				request.VisibilityTimeout = durationpb.New(d)
			}
		case "dead":
			dead, err := strconv.ParseBool(value)
			if err != nil {
				return nil, invalid("dead=%.40q: write true or false", value)
			}
			request.DeadLetters = dead
		default:
			return nil, invalid("%.40q is no parameter: use wait, visibility and dead", name)
		}
	}
	return request, nil
}

// acceptedCodings are those that a client takes and names.
func acceptedCodings(values []string) map[string]bool {
	out := make(map[string]bool)
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, parameter, _ := strings.Cut(item, ";")
			weight := 1.0
			if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
				var err error
				if weight, err = strconv.ParseFloat(q, 64); err != nil {
					weight = 0
				}
			}
			out[strings.ToLower(strings.TrimSpace(name))] = weight > 0
		}
	}
	return out
}

// describe writes all of a message but its payload.
func describe(h http.Header, m *messagesv1.ReceivedMessage) {
	q := m.GetMessage()
	for name, value := range q.GetHeaders() {
		if name == contentType {
			h.Set(contentType, value)
		} else {
			h.Set(ownHeader+name, value)
		}
	}
	if h.Get(contentType) == "" {
		h.Set(contentType, "application/octet-stream")
	}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set(envelope.IDHeader, q.GetId())
	set(envelope.KeyHeader, q.GetKey())
	set(receiptHeader, m.GetReceipt())
	set(sequenceHeader, strconv.FormatUint(m.GetSequence(), 10))
	set(deliveriesHeader, strconv.FormatUint(uint64(m.GetDeliveries()), 10))
	set(putTimeHeader, m.GetPutTime().AsTime().Format(time.RFC3339Nano))
	set(errorHeader, m.GetDamage())
	if d := m.GetDeadLetter(); d != nil {
		set(envelope.DeadReasonHeader, d.GetReason())
		set(envelope.DeadDetailHeader, d.GetDetail())
		set(envelope.DeadDeliveriesHeader, strconv.FormatUint(uint64(d.GetDeliveries()), 10))
		set(envelope.DeadSequenceHeader, strconv.FormatUint(d.GetSequence(), 10))
	}
	if f := q.GetStoredForm(); f != nil {
		if id, err := codec.ParseID(f.GetCodec()); err == nil {
			set("Content-Encoding", envelope.Coding(id))
		}
		set(message.EngineHeader, f.GetEngineClass())
		set(message.LengthHeader, strconv.FormatUint(f.GetLength(), 10))
		set(message.ChecksumHeader, fmt.Sprintf("%016x", f.GetChecksum()))
	}
}

// acknowledgeRaw acknowledges one message.
func (s *Service) acknowledgeRaw(w http.ResponseWriter, r *http.Request) {
	switch s.acknowledge(r.Context(), []string{r.PathValue("receipt")})[0] {
	case messagesv1.ReceiptResult_RECEIPT_RESULT_DONE:
		w.WriteHeader(http.StatusNoContent)
	case messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED:
		text := []byte(`{"code":"Expired","message":"the message was acknowledged already, or is somebody else's now"}`)
		write(w, http.StatusGone, text)
	case messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID:
		writeError(w, invalid("%.60q is no receipt", r.PathValue("receipt")))
	default:
		writeError(w, status.Error(codes.Unavailable, dispatch.ErrUnavailable.Error()))
	}
}
