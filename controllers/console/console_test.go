// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/console/consoletest"
	"github.com/lighterage/lighterage/controllers/console/view"
	"github.com/lighterage/lighterage/controllers/explain"
)

func TestListenIsForLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "::", "192.0.2.1"} {
		if _, err := Listen(t.Context(), net.ParseIP(address), 0, Options{}); err == nil {
			t.Errorf("it listens on %s", address)
		}
	}
	s, err := Listen(t.Context(), net.IPv4(127, 0, 0, 1), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	answer, err := http.Get(s.Link())
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", answer, err)
	}
	_ = answer.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if _, err := http.Get(s.Link()); err == nil {
		t.Error("it still answers")
	}
}

// TestGuards: what is not the user's browser gets nothing, and whoever is none of the console's pages does nothing.
func TestGuards(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*bed)
		path    string
		want    int
	}{
		"signed in":               {func(*bed) {}, "", http.StatusOK},
		"localhost":               {func(b *bed) { b.header.Set("Host", "LOCALHOST:4000") }, "", http.StatusOK},
		"another name":            {func(b *bed) { b.header.Set("Host", "evil.example:4000") }, "", http.StatusMisdirectedRequest},
		"another port":            {func(b *bed) { b.header.Set("Host", "127.0.0.1:80") }, "", http.StatusMisdirectedRequest},
		"file under another name": {func(b *bed) { b.header.Set("Host", "evil.example") }, "console.js", http.StatusMisdirectedRequest},
		"no cookie":               {func(b *bed) { b.cookie = nil }, "", http.StatusUnauthorized},
		"another cookie":          {func(b *bed) { b.cookie.Value += "x" }, "", http.StatusUnauthorized},
		"session has ended":       {func(b *bed) { b.clock.add(sessionLife) }, "", http.StatusUnauthorized},
		"session goes on":         {func(b *bed) { b.clock.add(sessionLife - time.Second) }, "", http.StatusOK},
		"another page":            {func(b *bed) { b.header.Set("Sec-Fetch-Site", "cross-site") }, "", http.StatusForbidden},
		"another port's page":     {func(b *bed) { b.header.Set("Sec-Fetch-Site", "same-site") }, "runs", http.StatusForbidden},
		"own page":                {func(b *bed) { b.header.Set("Sec-Fetch-Site", "same-origin") }, "runs", http.StatusOK},
		"no such page":            {func(*bed) {}, "nothing", http.StatusNotFound},
		"root":                    {func(*bed) {}, "/", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t).signIn()
			test.prepare(b)
			answer := b.ask(http.MethodGet, test.path, nil)
			if answer.Code != test.want {
				t.Errorf("%d: %s", answer.Code, answer.Body)
			}
			if test.want != http.StatusOK && strings.Contains(answer.Body.String(), "ledger") {
				t.Error("it shows an object")
			}
			if csp := answer.Header().Get("Content-Security-Policy"); csp != policy || strings.Contains(csp, "unsafe") {
				t.Errorf("policy %q", csp)
			}
			if answer.Header().Get("Cache-Control") != "no-store" {
				t.Error("browsers may keep it")
			}
		})
	}
}

func TestLinks(t *testing.T) {
	b := newBed(t)
	path := func() string { return strings.TrimPrefix(b.Link(), "http://"+host) }
	first, second := path(), path()
	b.signIn()
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != b.base || c.Domain != "" ||
		!strings.Contains(c.Name, "4000") {
		t.Errorf("%+v", c)
	}
	b.get("")
	mine := b.cookie
	b.cookie = nil
	// A link in another page may be opened, as one may be clicked in a terminal that is a page.
	b.header.Set("Sec-Fetch-Site", "cross-site")
	answer := b.ask(http.MethodGet, first, nil)
	if answer.Code != http.StatusOK || answer.Header().Get("Location") != "" {
		t.Fatalf("%d %v", answer.Code, answer.Header())
	}
	b.header.Del("Sec-Fetch-Site")
	theirs := answer.Result().Cookies()[0]
	if answer := b.ask(http.MethodGet, first, nil); answer.Code != http.StatusForbidden ||
		len(answer.Result().Cookies()) != 0 {
		t.Errorf("a link that was opened: %d", answer.Code)
	}
	b.clock.add(linkLife)
	if answer := b.ask(http.MethodGet, second, nil); answer.Code != http.StatusForbidden {
		t.Errorf("a link that has expired: %d", answer.Code)
	}
	for _, bad := range []string{"open", "open?token=", "open?token=x"} {
		if answer := b.ask(http.MethodGet, bad, nil); answer.Code != http.StatusForbidden {
			t.Errorf("%s: %d", bad, answer.Code)
		}
	}
	// Two browsers have sessions of their own, and the forms of one are of no use to the other.
	b.cookie = theirs
	form := formOf(t, b.get(""))
	b.cookie = mine
	if own := formOf(t, b.get("")); own == form {
		t.Error("two sessions have one secret")
	}
	if answer := b.ask(http.MethodPost, "leave", url.Values{formField: {form}}); answer.Code != http.StatusForbidden {
		t.Errorf("a form of another session: %d", answer.Code)
	}
	if answer := b.ask(http.MethodPost, "leave", url.Values{formField: {formOf(t, b.get(""))}}); answer.Code != 200 {
		t.Errorf("signing out: %d", answer.Code)
	}
	if answer := b.ask(http.MethodGet, "", nil); answer.Code != http.StatusUnauthorized {
		t.Errorf("signed out: %d", answer.Code)
	}
	b.cookie = theirs
	b.get("")
}

func TestBoundsOfSessions(t *testing.T) {
	c := &clock{now: time.Unix(1, 0)}
	s := newSessions(c.Now)
	var links, ids []string
	for range 3 * mostLinks {
		c.add(time.Millisecond)
		links = append(links, s.link())
	}
	if _, ok := s.exchange(links[0]); ok || len(s.links) != mostLinks {
		t.Errorf("%d links", len(s.links))
	}
	for range 2 * mostSessions {
		c.add(time.Millisecond)
		id, ok := s.exchange(s.link())
		if !ok {
			t.Fatal("the newest link is no longer known")
		}
		ids = append(ids, id)
	}
	_, first := s.find(ids[0])
	_, last := s.find(ids[len(ids)-1])
	if first || !last || len(s.open) != mostSessions {
		t.Errorf("%v %v %d", first, last, len(s.open))
	}
	if (session{}).carries("") {
		t.Error("a session without secret accepts forms without one")
	}
}

var formPattern = regexp.MustCompile(`name="form" value="([A-Z0-9]+)"`)

func formOf(t *testing.T, page string) string {
	t.Helper()
	found := formPattern.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no form in\n%s", page)
	}
	return found[1]
}

// TestActs: an act takes the page that asks, its form, and the right.
func TestActs(t *testing.T) {
	const run = "act/run/0/transfers/bank/ledger"
	field := regexp.MustCompile(`name="(uid|value)" value="([^"]*)"`)
	for name, test := range map[string]struct {
		prepare func(*bed, url.Values)
		want    int
	}{
		"all is well":    {func(*bed, url.Values) {}, http.StatusSeeOther},
		"no secret":      {func(_ *bed, f url.Values) { f.Del(formField) }, http.StatusForbidden},
		"another secret": {func(_ *bed, f url.Values) { f.Set(formField, "x") }, http.StatusForbidden},
		"another origin": {
			func(b *bed, _ url.Values) { b.header.Set("Origin", "http://evil.example") }, http.StatusForbidden,
		},
		"no origin":      {func(b *bed, _ url.Values) { b.header["Origin"] = nil }, http.StatusForbidden},
		"hidden origin":  {func(b *bed, _ url.Values) { b.header.Set("Origin", "null") }, http.StatusForbidden},
		"another page":   {func(b *bed, _ url.Values) { b.header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"no session":     {func(b *bed, _ url.Values) { b.cookie = nil }, http.StatusUnauthorized},
		"no right":       {func(b *bed, _ url.Values) { b.east.may = false }, http.StatusForbidden},
		"another object": {func(_ *bed, f url.Values) { f.Set("uid", "x") }, http.StatusConflict},
		"too late":       {func(b *bed, _ url.Values) { b.clock.add(askLife + time.Second) }, http.StatusConflict},
		"no time":        {func(_ *bed, f url.Values) { f.Set("value", "x\x00") }, http.StatusConflict},
		"too long":       {func(_ *bed, f url.Values) { f.Set("x", strings.Repeat("x", mostForm)) }, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t).signIn()
			page := b.get("confirm/run/0/transfers/bank/ledger")
			form := url.Values{formField: {formOf(t, page)}}
			for _, found := range field.FindAllStringSubmatch(page, -1) {
				form.Set(found[1], found[2])
			}
			test.prepare(b, form)
			answer := b.ask(http.MethodPost, run, form)
			if answer.Code != test.want {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			done := []string(nil)
			if test.want == http.StatusSeeOther {
				done = []string{"run Transfer bank ledger uid-of-0123 2026-11-25T12:00:00.000Z"}
				if !strings.HasPrefix(answer.Header().Get("Location"), b.base+"/object/0/transfers/bank/ledger") {
					t.Errorf("it leads to %s", answer.Header().Get("Location"))
				}
			}
			if !slices.Equal(b.east.acts, done) {
				t.Errorf("%q", b.east.acts)
			}
		})
	}
}

// TestOffers: what cannot be done, or may not be, is not offered, and is not done by its address either.
func TestOffers(t *testing.T) {
	b := newBed(t).signIn()
	for path, want := range map[string][]string{
		"0/transfers/bank/ledger":         {"run", "pause", "suspend"},
		"0/transfers/staff/home":          {"resume", "run"},
		"0/compressiontrials/bank/ledger": {"run"},
		"0/queues/bank/orders":            nil,
		"1/transfers/bank/returns":        nil, // no right there
	} {
		page := b.get("object/" + path)
		for _, act := range []string{"run", "suspend", "pause", "resume"} {
			offered := strings.Contains(page, "/confirm/"+act+"/"+path+`"`)
			if offered != slices.Contains(want, act) {
				t.Errorf("%s: %s is offered: %t", path, act, offered)
			}
			answer := b.ask(http.MethodGet, "confirm/"+act+"/"+path, nil)
			if (answer.Code == http.StatusOK) != offered {
				t.Errorf("%s: %s: %d", path, act, answer.Code)
			}
		}
	}
	// GET changes nothing.
	if answer := b.ask(http.MethodGet, "act/run/0/transfers/bank/ledger", nil); answer.Code == http.StatusOK ||
		len(b.east.acts)+len(b.west.acts) > 0 {
		t.Errorf("%d %v", answer.Code, b.east.acts)
	}
}

// TestPages: each object has a page that names it, its state and its conditions, whatever its strings are.
func TestPages(t *testing.T) {
	b := newBed(t).signIn()
	pages := []string{"", "runs"}
	for _, k := range kinds {
		pages = append(pages, "list/"+k.Resource)
		for i, f := range []*fake{b.east, b.west} {
			for _, o := range f.objects {
				if o.GetObjectKind().GroupVersionKind().Kind == k.Name {
					pages = append(pages, "object"+pathOf(linkTo(i, k.Resource, o)))
				}
			}
		}
	}
	allowed := regexp.MustCompile(`^<(script src="/[a-z0-9]+/console.js" defer|/script)>$`)
	for _, path := range pages {
		page := b.get(path)
		for _, tag := range regexp.MustCompile(`(?i)<[/]?(script|img|style|iframe)[^>]*>`).FindAllString(page, -1) {
			if !allowed.MatchString(tag) {
				t.Errorf("%s: %s", path, tag)
			}
		}
		for _, bad := range []string{"ZgotmplZ", "<no value>", " style=", " onclick=", "http://", "NaN", "%!"} {
			if i := strings.Index(strings.ReplaceAll(page, "https://", ""), bad); i >= 0 {
				t.Errorf("%s: %q in ...%s", path, bad, page[max(i-60, 0):min(i+80, len(page))])
			}
		}
	}
	hostile := b.get("object/0/transfers/staff/hostile")
	if !strings.Contains(hostile, "&lt;script src=//evil.example&gt;") || strings.Contains(hostile, "\x1b") {
		t.Error("the message is not shown as it is")
	}
	page := b.get("object/0/transfers/bank/ledger")
	for _, want := range []string{"60 %", "412.0 MB/s", "HardwareUsed", "ConnectionLost", "zlib-ng", "Alternatives by cost", "0.6596"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

func TestUnreadableClusters(t *testing.T) {
	b := newBed(t).signIn()
	b.west.fails = errors.New("connection " + consoletest.Hostile)
	page := b.get("")
	if !strings.Contains(page, "connection &lt;/td&gt;") || !strings.Contains(page, "bank/ledger") {
		t.Error("it is not said which cluster was not read, or the other one is not shown")
	}
	b.clock.add(time.Minute)
	b.west.fails = apierrors.NewForbidden(schema.GroupResource{Resource: "transfers"}, "", nil)
	if page := b.get("runs"); !strings.Contains(page, "cluster west: you may not list them") {
		t.Error("it is not said that runs are missing")
	}
	if page := b.get("list/peers"); !strings.Contains(page, "you may not list them") {
		t.Error("it is not said that Peers are missing")
	}
	for path, want := range map[string]int{
		"object/0/transfers/bank/none":         http.StatusNotFound,
		"object/7/transfers/bank/ledger":       http.StatusNotFound,
		"object/-1/transfers/bank/ledger":      http.StatusNotFound,
		"object/0/secrets/bank/ledger":         http.StatusNotFound,
		"object/0/transfers/bank/..%2Fsecrets": http.StatusNotFound,
		"object/0/transfers/BANK/ledger":       http.StatusNotFound,
		"list/secrets":                         http.StatusNotFound,
		"list/transfers?namespace=%2E%2E":      http.StatusBadRequest,
		"confirm/erase/0/transfers/bank/home":  http.StatusNotFound,
		"confirm/erase/0/transfers/staff/home": http.StatusConflict,
	} {
		if answer := b.ask(http.MethodGet, path, nil); answer.Code != want {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
	for _, key := range append(b.east.asked, b.west.asked...) {
		if strings.ContainsAny(key.Namespace+key.Name, "/.ABC") {
			t.Errorf("a cluster is asked for %q, which is no name", key)
		}
	}
}

// TestSlowCluster: a cluster that does not answer delays a page as long as a page may take, and is named. A browser
// that goes away leaves nothing for others.
func TestSlowCluster(t *testing.T) {
	for _, away := range []bool{false, true} {
		b := newBed(t)
		b.west.slow = true
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		want := "the cluster does not answer in time"
		if away {
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			want = ""
		}
		first := b.lookAt(ctx, kinds)
		cancel()
		if !away && first[1].side.Trouble != want || len(first[0].side.Runs) == 0 {
			t.Errorf("%+v", first)
		}
		b.west.slow = false
		if next := b.lookAt(t.Context(), kinds); next[1].status.Kinds[0].Note != strings.TrimSpace(map[bool]string{
			false: "cannot be read: " + want,
		}[away]) {
			t.Errorf("away %t: %+v", away, next[1].status.Kinds[0])
		}
	}
}

// TestSharedReading: several browsers, and pages that are looked at often, cost a cluster one reading in a while.
func TestSharedReading(t *testing.T) {
	b := newBed(t).signIn()
	b.get("")
	first := b.east.lists
	b.get("")
	b.get("runs")
	if b.east.lists != first || first != len(kinds) {
		t.Errorf("%d, then %d lists", first, b.east.lists)
	}
	b.clock.add(leastAge)
	b.get("runs")
	if b.east.lists != first+3 {
		t.Errorf("%d, then %d lists", first, b.east.lists)
	}
}

func TestNamespace(t *testing.T) {
	b := newBed(t)
	b.Server.namespace = "bank"
	b.signIn()
	for _, path := range []string{"", "runs", "list/transfers", "list/transfers?namespace=staff"} {
		if page := b.get(path); strings.Contains(page, "staff/") || !strings.Contains(page, "bank/ledger") {
			t.Errorf("%s shows another namespace", path)
		}
	}
	if answer := b.ask(http.MethodGet, "object/0/transfers/staff/home", nil); answer.Code != http.StatusNotFound {
		t.Errorf("%d", answer.Code)
	}
}

// TestPagesOfLists: long lists come in pages of the API server.
func TestPagesOfLists(t *testing.T) {
	b := newBed(t).signIn()
	for i := range listPage + 5 {
		t := &v1alpha1.Transfer{}
		t.Kind, t.Namespace, t.Name = "Transfer", "many", "t"+string(rune('a'+i/26))+string(rune('a'+i%26))
		t.APIVersion = v1alpha1.GroupVersion.String()
		b.east.objects = append(b.east.objects, t)
	}
	first := b.get("list/transfers?namespace=many&cluster=0")
	next := regexp.MustCompile(`href="(/[^"]*after=[^"]*)"`).FindStringSubmatch(first)
	if next == nil || strings.Count(first, ">many/t") != listPage {
		t.Fatalf("%d objects, then %v", strings.Count(first, ">many/t"), next)
	}
	second := b.get(strings.ReplaceAll(next[1], "&amp;", "&"))
	if strings.Count(second, ">many/t") != 5 || strings.Contains(second, "after=") {
		t.Errorf("%d objects on the second page", strings.Count(second, ">many/t"))
	}
}

func linkTo(cluster int, resource string, o explain.Object) *view.Link {
	return &view.Link{Cluster: cluster, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}
