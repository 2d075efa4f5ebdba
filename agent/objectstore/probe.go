// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Promise is something that Transfers need of a store. The values are those of status.promises of an ObjectStore.
type Promise string

// The promises, in the order in which they are probed.
const (
	// ReadAfterWrite: what was written or overwritten is what is read next.
	ReadAfterWrite Promise = "ReadAfterWrite"
	// RangedGet: a part of an object can be read, and is not the whole.
	RangedGet Promise = "RangedGet"
	// List: what was written is listed next, with its size, and nothing else.
	List Promise = "List"
	// Multipart: parts are listed with their ETags and become one object.
	Multipart Promise = "Multipart"
	// ConditionalPut: If-None-Match protects what is there from a put.
	ConditionalPut Promise = "ConditionalPut"
	// ConditionalComplete: If-None-Match protects what is there from the completion of an upload.
	ConditionalComplete Promise = "ConditionalComplete"
	// Abort: an upload that was aborted is not listed any more and takes no parts.
	Abort Promise = "Abort"
	// Delete: what was deleted is neither read nor listed next.
	Delete Promise = "Delete"
)

// Verdict is whether a promise is kept.
type Verdict struct {
	Promise Promise
	// Problem is nil when it is kept.
	Problem error
}

const (
	// ProbeDirectory is where probes write, below the prefix. Each has a directory of its own in it.
	ProbeDirectory = ".lighterage-probe/"
	// abandoned is the age at which what a probe left is another's to remove: no probe takes that long.
	abandoned = time.Hour
	// cleaning bounds how long removing what was written may take.
	cleaning = 30 * time.Second
	// maxAbandoned bounds how much one probe removes of others.
	maxAbandoned = 1000
)

// ownName is that of an object of a probe: what else is in ProbeDirectory is not a probe's to remove.
var ownName = regexp.MustCompile(`^` + regexp.QuoteMeta(ProbeDirectory) + `[a-z2-7]{26}/(a|sub/b|[cdem])$`)

// errWrong says that a server answered, and not with what it should have.
var errWrong = errors.New("the answer is wrong")

// wrong is an error, or that an answer is wrong if there is none.
func wrong(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errWrong, what)
}

// Probe finds out which promises a store keeps, with real requests below ProbeDirectory. The context bounds how long it
// takes; removing what was written may take half a minute more, and is done whatever happened. An error is why nothing
// can be said of the store: it cannot be reached, denies the first write, or stops answering.
func Probe(ctx context.Context, s *Store) (verdicts []Verdict, err error) {
	p := &prober{store: s, dir: ProbeDirectory + strings.ToLower(rand.Text()) + "/"}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
		defer cancel()
		left := p.clean(ctx)
		if err == nil && !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Problem != nil }) {
			err = left // a promise that is not kept may be why
		}
	}()
	first := p.random(1 << 10)
	if err := p.put(ctx, "a", first, false); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		promise Promise
		try     func(context.Context) error
	}{
		{ReadAfterWrite, func(ctx context.Context) error { return p.readAfterWrite(ctx, first) }},
		{RangedGet, p.rangedGet},
		{List, p.list},
		{Multipart, p.multipart},
		{ConditionalPut, p.conditionalPut},
		{ConditionalComplete, p.conditionalComplete},
		{Abort, p.abort},
		{Delete, p.delete},
	} {
		problem := step.try(ctx)
		if fatal(ctx, problem) {
			return nil, problem
		}
		verdicts = append(verdicts, Verdict{step.promise, problem})
	}
	return verdicts, nil
}

// fatal reports whether an error says nothing of the promise that was being probed.
func fatal(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	for _, kind := range []error{ErrUnavailable, ErrTLS, ErrClock, ErrFull, ErrNoBucket, ErrCredentials, ErrRegion} {
		if errors.Is(err, kind) {
			return true
		}
	}
	var answer *Error
	return errors.As(err, &answer) && badKey(answer.Code) || ctx.Err() != nil
}

// prober is one probe.
type prober struct {
	store *Store
	// dir of its own, with a slash at its end.
	dir string
	// written are the names and uploads that may be there.
	written []string
	uploads []Upload
	// current is what object a has.
	current []byte
}

func (p *prober) random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func (p *prober) put(ctx context.Context, name string, content []byte, ifAbsent bool) error {
	p.written = append(p.written, name)
	_, err := p.store.Put(ctx, p.dir+name, bytes.NewReader(content), int64(len(content)), PutOptions{IfAbsent: ifAbsent})
	if err == nil && name == "a" {
		p.current = content
	}
	return err
}

// expect compares a part of an object with what it should be.
func (p *prober) expect(ctx context.Context, name string, offset int64, want []byte) error {
	body, err := p.store.Get(ctx, p.dir+name, "", offset, int64(len(want)))
	if err != nil {
		return err
	}
	got, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return wrong(nil, "reading returned other bytes than were written last")
	}
	return nil
}

func (p *prober) readAfterWrite(ctx context.Context, first []byte) error {
	if err := p.expect(ctx, "a", 0, first); err != nil {
		return err
	}
	second := p.random(2 << 10)
	if err := p.put(ctx, "a", second, false); err != nil {
		return err
	}
	if object, err := p.store.Head(ctx, p.dir+"a"); err != nil || object.Size != int64(len(second)) {
		return wrong(err, "the size is not that of what was written last")
	}
	return p.expect(ctx, "a", 0, second)
}

func (p *prober) rangedGet(ctx context.Context) error {
	return p.expect(ctx, "a", 300, p.current[300:500])
}

// names are those of objects that are listed, with their sizes.
func (p *prober) names(ctx context.Context) (map[string]int64, error) {
	names := make(map[string]int64)
	for object, err := range p.store.List(ctx, p.dir) {
		if err != nil {
			return nil, err
		}
		if names[strings.TrimPrefix(object.Name, p.dir)] = object.Size; len(names) > 8 {
			break
		}
	}
	return names, nil
}

func (p *prober) list(ctx context.Context) error {
	if err := p.put(ctx, "sub/b", p.random(10), false); err != nil {
		return err
	}
	names, err := p.names(ctx)
	if err == nil && (len(names) != 2 || names["a"] != int64(len(p.current)) || names["sub/b"] != 10) {
		err = wrong(nil, "two objects were written, and the list does not have these")
	}
	return err
}

// upload begins one with a part.
func (p *prober) upload(ctx context.Context, name string, content []byte) (Upload, []Part, error) {
	u, err := p.store.Create(ctx, p.dir+name, nil)
	if err != nil {
		return u, nil, err
	}
	p.uploads, p.written = append(p.uploads, u), append(p.written, name)
	part, err := p.store.PutPart(ctx, u, 1, 0, bytes.NewReader(content), int64(len(content)))
	return u, []Part{part}, err
}

func (p *prober) multipart(ctx context.Context) error {
	content := p.random(MinPart + 1<<10)
	u, parts, err := p.upload(ctx, "m", content[:MinPart])
	if err != nil {
		return err
	}
	tail := content[MinPart:]
	part, err := p.store.PutPart(ctx, u, 2, MinPart, bytes.NewReader(tail), int64(len(tail)))
	if err != nil {
		return err
	}
	parts = append(parts, part)
	listed, err := p.store.Parts(ctx, u)
	if err != nil {
		return err
	}
	if len(listed) != 2 || listed[0] != parts[0] || listed[1] != parts[1] {
		return wrong(nil, "two parts were written, and the list does not have these")
	}
	if _, err := p.store.Complete(ctx, u, parts, false); err != nil {
		return err
	}
	return p.expect(ctx, "m", MinPart-100, content[MinPart-100:MinPart+100])
}

// refused checks that a conditional write was, and that what was there is still there.
func (p *prober) refused(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return wrong(nil, "the server ignores If-None-Match and overwrote an object")
	case !errors.Is(err, ErrExists):
		return err
	}
	return p.expect(ctx, "a", 0, p.current)
}

func (p *prober) conditionalPut(ctx context.Context) error {
	if err := p.put(ctx, "c", p.random(10), true); err != nil {
		return err // there is none of that name
	}
	return p.refused(ctx, p.put(ctx, "a", p.random(10), true))
}

func (p *prober) conditionalComplete(ctx context.Context) error {
	fresh, parts, err := p.upload(ctx, "d", p.random(10))
	if err != nil {
		return err
	}
	if _, err := p.store.Complete(ctx, fresh, parts, true); err != nil {
		return err // there is none of that name
	}
	other, parts, err := p.upload(ctx, "a", p.random(10))
	if err != nil {
		return err
	}
	_, err = p.store.Complete(ctx, other, parts, true)
	return p.refused(ctx, err)
}

func (p *prober) abort(ctx context.Context) error {
	u, _, err := p.upload(ctx, "e", p.random(10))
	if err != nil {
		return err
	}
	if found, err := p.listed(ctx, u); err != nil || !found {
		return wrong(err, "an upload under way is not listed")
	}
	if err := p.store.Abort(ctx, u); err != nil {
		return err
	}
	if found, err := p.listed(ctx, u); err != nil || found {
		return wrong(err, "an upload that was aborted is still listed")
	}
	if _, err := p.store.Parts(ctx, u); !errors.Is(err, ErrNoUpload) {
		return wrong(err, "an upload that was aborted still has parts")
	}
	return nil
}

// listed asks for the very name: MinIO takes a prefix of uploads for a key and lists none of a directory, see its issue
// 20989.
func (p *prober) listed(ctx context.Context, wanted Upload) (bool, error) {
	for u, err := range p.store.Uploads(ctx, wanted.Name) {
		if err != nil {
			return false, err
		}
		if u.ID == wanted.ID && u.Name == wanted.Name {
			return true, nil
		}
	}
	return false, nil
}

func (p *prober) delete(ctx context.Context) error {
	for _, name := range []string{"a", "a"} { // deleting what is not there is no error
		if err := p.store.Delete(ctx, p.dir+name); err != nil {
			return err
		}
	}
	if _, err := p.store.Head(ctx, p.dir+"a"); !errors.Is(err, ErrNotFound) {
		return wrong(err, "an object that was deleted is still there")
	}
	names, err := p.names(ctx)
	if _, found := names["a"]; err == nil && found {
		err = wrong(nil, "an object that was deleted is still listed")
	}
	return err
}

// clean removes what this probe wrote, and what others left that were killed. Only of its own the error tells.
func (p *prober) clean(ctx context.Context) error {
	var problems []error
	for _, u := range p.uploads {
		problems = append(problems, p.store.Abort(ctx, u))
	}
	for u, err := range p.store.Uploads(ctx, p.dir) { // one whose creation was not answered
		if err == nil {
			err = p.store.Abort(ctx, u)
		}
		problems = append(problems, err)
	}
	for _, name := range p.written {
		problems = append(problems, p.store.Delete(ctx, p.dir+name))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	p.cleanOthers(ctx)
	return nil
}

// cleanOthers is best effort: the next probe tries again.
func (p *prober) cleanOthers(ctx context.Context) {
	before, n := p.store.options.Now().Add(-abandoned), 0
	for u, err := range p.store.Uploads(ctx, ProbeDirectory) {
		if n++; err != nil || n > maxAbandoned {
			break
		}
		if ownName.MatchString(u.Name) && !u.Started.IsZero() && u.Started.Before(before) {
			_ = p.store.Abort(ctx, u)
		}
	}
	for object, err := range p.store.List(ctx, ProbeDirectory) {
		if n++; err != nil || n > maxAbandoned {
			return
		}
		if ownName.MatchString(object.Name) && !object.Modified.IsZero() && object.Modified.Before(before) {
			_ = p.store.Delete(ctx, object.Name)
		}
	}
}

// Wire is what a report says of verdicts.
func Wire(verdicts []Verdict) []*wirev1.StorePromise {
	var promises []*wirev1.StorePromise
	for _, v := range verdicts {
		promise := &wirev1.StorePromise{Type: string(v.Promise), Kept: v.Problem == nil}
		if v.Problem != nil {
			promise.Message = failure.Shorten(v.Problem.Error(), 200)
		}
		promises = append(promises, promise)
	}
	return promises
}
