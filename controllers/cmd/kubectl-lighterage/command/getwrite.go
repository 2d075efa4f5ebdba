// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// received is a message as JSON.
type received struct {
	Sequence   uint64            `json:"sequence"`
	ID         string            `json:"id,omitempty"`
	Key        string            `json:"key,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	PutTime    *time.Time        `json:"putTime,omitempty"`
	Deliveries uint32            `json:"deliveries"`
	DeadLetter *deadLetter       `json:"deadLetter,omitempty"`
	// Body is the payload if that is text, else BodyBase64 is.
	Body       *string `json:"body,omitempty"`
	BodyBase64 []byte  `json:"bodyBase64,omitempty"`
}

type deadLetter struct {
	Reason     string `json:"reason"`
	Detail     string `json:"detail,omitempty"`
	Deliveries uint32 `json:"deliveries"`
	Sequence   uint64 `json:"sequence"`
}

func receivedOf(m *messagesv1.ReceivedMessage) received {
	q := m.GetMessage()
	r := received{
		Sequence: m.GetSequence(), ID: q.GetId(), Key: q.GetKey(), Headers: q.GetHeaders(), Deliveries: m.GetDeliveries(),
	}
	if m.GetPutTime().IsValid() {
		r.PutTime = new(m.GetPutTime().AsTime())
	}
	if d := m.GetDeadLetter(); d != nil {
		r.DeadLetter = &deadLetter{
			Reason: d.GetReason(), Detail: d.GetDetail(), Deliveries: d.GetDeliveries(), Sequence: d.GetSequence(),
		}
	}
	if utf8.Valid(q.GetPayload()) {
		r.Body = new(string(q.GetPayload()))
	} else {
		r.BodyBase64 = q.GetPayload()
	}
	return r
}

// writer returns what writes messages of the named Queue as the flags say.
func (g *getting) writer(name string) func(*messagesv1.ReceivedMessage) error {
	same, suffix := bytes.Equal, ""
	if g.output.String() == "json" {
		same, suffix = sameButDeliveries, ".json"
	}
	return func(m *messagesv1.ReceivedMessage) (err error) {
		content := m.GetMessage().GetPayload()
		if g.output.String() == "json" {
			if content, err = line(receivedOf(m)); err != nil {
				return err
			}
		}
		if g.directory != "" {
			return keep(filepath.Join(g.directory, fmt.Sprintf("%s-%012d%s", name, m.GetSequence(), suffix)), content, same)
		}
		if g.lines {
			content = append(content[:len(content):len(content)], '\n')
		}
		if _, err := g.plugin.Out.Write(content); err != nil {
			return fmt.Errorf("writing the message: %w", err)
		}
		return nil
	}
}

// sameButDeliveries reports whether two files hold the same message of different deliveries.
func sameButDeliveries(present, content []byte) bool {
	var a, b received
	if json.Unmarshal(present, &a) != nil || json.Unmarshal(content, &b) != nil {
		return false
	}
	a.Deliveries = b.Deliveries
	again, err := line(a)
	return err == nil && bytes.Equal(again, content)
}

func line(r received) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("writing the message: %w", err)
	}
	return out.Bytes(), nil
}

// keep writes a file that is on the disk when it returns, since what is in it leaves the queue then. A file with the
// same content is from an earlier get, which was not acknowledged.
func keep(path string, content []byte, same func(present, content []byte) bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if present, err := os.ReadFile(path); err == nil && same(present, content) {
			return nil
		}
		return fmt.Errorf("%s exists and has other content; name another --directory", path)
	}
	if err != nil {
		return fmt.Errorf("writing the message: %w", err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(path))
	}
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("writing the message: %w", err)
	}
	return nil
}

// syncDirectory makes the names in it last.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
