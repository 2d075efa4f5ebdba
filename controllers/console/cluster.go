// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/lighterage/lighterage/controllers/explain"
)

const (
	// pageOfObjects is how many objects a request asks for, mostObjects how many are read of a kind for what is summed up.
	pageOfObjects = 500
	mostObjects   = 5000
	// answerTimeout bounds what a page waits for clusters: after that it shows what it has.
	answerTimeout = 15 * time.Second
	// leastAge is how long what was read serves other pages as well, and restFactor how many times as long as the reading
	// took, so that reading takes a tenth of the time at most.
	leastAge   = 1500 * time.Millisecond
	restFactor = 9
)

// Kind is one of the API.
type Kind struct {
	Name, Resource string
	// Cluster: its objects are in no namespace.
	Cluster bool
}

// Key names an object. Namespace is empty where its kind has none.
type Key struct{ Namespace, Name string }

// Cluster is one that is shown. Its methods may be called at once, and obey the context.
type Cluster interface {
	// Name is that of the context of the kubeconfig.
	Name() string
	// List reads at most limit objects, after those that a former call ended with; next is "" when there are no more.
	List(ctx context.Context, kind Kind, namespace string, limit int64, after string) (
		objects []explain.Object, next string, err error,
	)
	// Explain reads an object and what is about it.
	Explain(ctx context.Context, kind Kind, key Key) (explain.Object, *explain.Report, error)
	// May reports whether the user may patch the object.
	May(ctx context.Context, kind Kind, key Key) (bool, error)
	// Act does one of the acts of package view to the object with this UID. The value names a run, so that what is asked
	// for twice is done once.
	Act(ctx context.Context, act string, kind Kind, key Key, uid, value string) error
}

// reading is what was last read of a kind of a cluster. Several browsers share it.
type reading struct {
	mu      sync.Mutex
	objects []explain.Object
	cut     bool
	err     error
	at      time.Time
	took    time.Duration
}

// read returns the objects of a kind in the namespace of the console, or in all. They must not be changed.
func (s *Server) read(ctx context.Context, cluster int, kind Kind) (objects []explain.Object, cut bool, err error) {
	r := s.readings[cluster][kind.Name]
	r.mu.Lock()
	defer r.mu.Unlock()
	began := s.now()
	if !r.at.IsZero() && began.Sub(r.at) < max(leastAge, restFactor*r.took) {
		return r.objects, r.cut, r.err
	}
	if ctx.Err() != nil { // it waited for one that took too long
		return nil, false, fmt.Errorf("waiting for the cluster: %w", ctx.Err())
	}
	r.objects, r.cut, r.err = nil, false, nil
	for after := ""; ; {
		some, next, err := s.clusters[cluster].List(ctx, kind, s.namespaceOf(kind), pageOfObjects, after)
		if err != nil {
			r.objects, r.err = nil, err
			break
		}
		r.objects = append(r.objects, some...)
		if after = next; after == "" || len(r.objects) >= mostObjects {
			r.cut = after != ""
			break
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the browser went away; that is nothing about the cluster
		r.at = time.Time{}
		return nil, false, r.err
	}
	r.at = s.now()
	r.took = r.at.Sub(began)
	return r.objects, r.cut, r.err
}

// namespaceOf is the namespace of which objects are shown.
func (s *Server) namespaceOf(kind Kind) string {
	if kind.Cluster {
		return ""
	}
	return s.namespace
}

// trouble says for people why something was not read.
func trouble(err error) string {
	switch {
	case err == nil:
		return ""
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "this cluster does not have the kind: the operator is not installed, or is of another version"
	case apierrors.IsForbidden(err):
		return "you may not list them"
	case apierrors.IsUnauthorized(err):
		return "the cluster rejects the credentials of the kubeconfig: log in again, and start the console again"
	case apierrors.IsResourceExpired(err):
		return "this page of the list has expired: begin at the first page"
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return "the cluster does not answer in time"
	}
	return err.Error()
}
