// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/console/consoletest"
	"github.com/lighterage/lighterage/controllers/explain"
)

var kinds = []Kind{
	{Name: "Transfer", Resource: "transfers"}, {Name: "TransferSet", Resource: "transfersets"},
	{Name: "Delivery", Resource: "deliveries"},
	{Name: "CompressionTrial", Resource: "compressiontrials"}, {Name: "Queue", Resource: "queues"},
	{Name: "HTTPEndpoint", Resource: "httpendpoints"}, {Name: "ObjectStore", Resource: "objectstores"},
	{Name: "Drill", Resource: "drills"},
	{Name: "CompressionPolicy", Resource: "compressionpolicies", Cluster: true},
	{Name: "LocalCompressionPolicy", Resource: "localcompressionpolicies"},
	{Name: "Tariff", Resource: "tariffs", Cluster: true}, {Name: "Statement", Resource: "statements"},
	{Name: "DataQuota", Resource: "dataquotas"}, {Name: "NodeProfile", Resource: "nodeprofiles", Cluster: true},
	{Name: "Peer", Resource: "peers", Cluster: true}, {Name: "PeerGrant", Resource: "peergrants"},
}

// fake is a Cluster of objects.
type fake struct {
	name    string
	objects []explain.Object
	may     bool

	mu    sync.Mutex
	lists int
	acts  []string
	asked []Key
	fails error
	slow  bool
}

func (f *fake) Name() string { return f.name }

func (f *fake) List(
	ctx context.Context, kind Kind, namespace string, limit int64, after string,
) (objects []explain.Object, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.slow {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	if f.fails != nil {
		return nil, "", f.fails
	}
	for _, o := range f.objects {
		if o.GetObjectKind().GroupVersionKind().Kind != kind.Name || namespace != "" && o.GetNamespace() != namespace ||
			o.GetName() <= after {
			continue
		}
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b explain.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	if int64(len(objects)) > limit {
		objects = objects[:limit]
		next = objects[limit-1].GetName()
	}
	return objects, next, nil
}

func (f *fake) Explain(_ context.Context, kind Kind, key Key) (explain.Object, *explain.Report, error) {
	f.asked = append(f.asked, key)
	for _, o := range f.objects {
		if o.GetObjectKind().GroupVersionKind().Kind == kind.Name && o.GetName() == key.Name &&
			o.GetNamespace() == key.Namespace {
			in := explain.Input{}
			in.Transfer, _ = o.(*v1alpha1.Transfer)
			for _, p := range f.objects {
				if profile, ok := p.(*v1alpha1.NodeProfile); ok && in.Transfer != nil && in.Transfer.Status.Run != nil &&
					profile.Name == in.Transfer.Status.Run.Node {
					in.Sender = profile
				}
			}
			report, err := explain.Of(o, in)
			return o, report, err
		}
	}
	return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind.Resource}, key.Name)
}

func (f *fake) May(context.Context, Kind, Key) (bool, error) { return f.may, nil }

func (f *fake) Act(_ context.Context, act string, kind Kind, key Key, uid, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acts = append(f.acts, strings.Join([]string{act, kind.Name, key.Namespace, key.Name, uid, value}, " "))
	return f.fails
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bed is a console of two clusters, with a browser.
type bed struct {
	*Server

	t          *testing.T
	clock      *clock
	east, west *fake
	cookie     *http.Cookie
	header     http.Header
}

const host = "127.0.0.1:4000"

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, clock: &clock{now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}, header: http.Header{}}
	b.east, b.west = &fake{name: "east", may: true}, &fake{name: "west"}
	for _, f := range []*fake{b.east, b.west} {
		var err error
		if f.objects, err = consoletest.Objects(f.name, b.clock.now); err != nil {
			t.Fatal(err)
		}
		for _, o := range f.objects {
			o.SetUID("uid-of-" + "0123")
		}
	}
	b.Server = newServer(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000}, Options{
		Clusters: []Cluster{b.east, b.west}, Kinds: kinds, Version: "v0", Now: b.clock.Now,
	})
	return b
}

// signIn opens a link.
func (b *bed) signIn() *bed {
	b.t.Helper()
	link := b.Link()
	answer := b.ask(http.MethodGet, strings.TrimPrefix(link, "http://"+host), nil)
	cookies := answer.Result().Cookies()
	if answer.Code != http.StatusOK || len(cookies) != 1 {
		b.t.Fatalf("%d %v: %s", answer.Code, cookies, answer.Body)
	}
	b.cookie = cookies[0]
	return b
}

// ask sends a request. Paths that begin without a slash are below the base.
func (b *bed) ask(method, path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = b.base + "/" + path
	}
	request := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(form.Encode()))
	request.Host = host
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "http://"+host)
	}
	if b.cookie != nil {
		request.AddCookie(b.cookie)
	}
	for name, values := range b.header {
		request.Header[name] = values
		if name == "Host" {
			request.Host = values[0]
		}
	}
	answer := httptest.NewRecorder()
	b.handler.ServeHTTP(answer, request)
	return answer
}

func (b *bed) get(path string) string {
	b.t.Helper()
	answer := b.ask(http.MethodGet, path, nil)
	if answer.Code != http.StatusOK {
		b.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}
