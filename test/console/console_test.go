// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build browser

package console_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// view is a page, and the name of its picture in docs; "" for none.
type view struct{ path, picture string }

var views = []view{
	{"", "overview"},
	{"runs", "runs"},
	{"object/0/transfers/bank/ledger", "transfer"},
	{"object/0/transfers/staff/hostile", ""},
	{"object/0/queues/bank/orders", ""},
	{"object/0/httpendpoints/bank/api-front", ""},
	{"object/0/nodeprofiles/-/z15-a", "node"},
	{"object/0/statements/bank/2026-11", "statement"},
	{"object/0/compressiontrials/bank/ledger", ""},
	{"object/0/dataquotas/bank/team", ""},
	{"object/0/peers/-/vault-dr", ""},
	{"object/0/compressionpolicies/-/z-first", ""},
	{"object/1/deliveries/bank/ledger-7f3c-2-0a1b2c3d", ""},
	{"list/transfers", ""},
	{"list/queues", "queues"},
	{"list/nodeprofiles", ""},
	{"confirm/run/0/transfers/bank/ledger", "confirm"},
	{"nothing", ""},
}

// TestConsole looks at the pages as people do: in light and dark, on a desk and on a phone.
func TestConsole(t *testing.T) {
	b := newBed(t)
	s := b.serve("--also", "west")
	ctx := browser(t)
	link := <-s.links
	base := home(link)
	do(ctx, t, chromedp.Navigate(link), visible("#main .map.wide"))
	if title := value[string](ctx, t, `document.title`); title != "Overview - Lighterage" {
		t.Fatalf("the link leads to %q", title)
	}
	t.Run("views", func(t *testing.T) {
		axe := axeSource(t)
		for _, v := range views {
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int64{1280, 360} {
					name := fmt.Sprintf("%s, %s, %d", v.path, scheme, width)
					look(ctx, t, name, base+v.path, axe, scheme, width)
					wanted := scheme == "light" && width == 1280 || v.picture == "overview" || v.picture == "transfer" && width == 360
					if v.picture != "" && wanted {
						picture(ctx, t, fmt.Sprintf("%s-%s-%d.png", v.picture, scheme, width))
					}
				}
			}
		}
	})
	t.Run("keyboard", func(t *testing.T) { keyboard(ctx, t, base) })
	t.Run("updates", func(t *testing.T) { updates(ctx, t, b, base) })
	t.Run("acts", func(t *testing.T) { acts(ctx, t, b, base) })
	t.Run("foreign pages", func(t *testing.T) { foreign(ctx, t, b, base) })
	t.Run("second browser", func(t *testing.T) {
		second := browser(t)
		do(second, t, chromedp.Navigate(link), visible("h1"))
		if text := value[string](second, t, heading); text != "Link is not valid" {
			t.Errorf("the same link again: %q", text)
		}
		if _, err := s.enter.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		do(second, t, chromedp.Navigate(<-s.links), visible("#main .map.wide"))
		do(ctx, t, chromedp.Navigate(base+"runs"), visible("#main table"))
	})
	t.Run("end", func(t *testing.T) {
		do(ctx, t, chromedp.Navigate(base+"runs"), visible("#main table"))
		if err := s.end(); err != nil {
			t.Errorf("Ctrl-C: %v", err)
		}
		do(ctx, t, visible("#trouble"))
	})
}

// patience is for a busy machine.
const patience = time.Minute

// do does steps in a browser.
func do(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// value is that of a script on the page.
func value[T any](ctx context.Context, t *testing.T, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v: %s", err, script[:min(len(script), 200)])
	}
	return v
}

// until waits until a script is true.
func until(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	for end := time.Now().Add(patience); !value[bool](ctx, t, script); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not become true: %s\n%s", script, value[string](ctx, t, `document.body.innerText`))
		}
	}
}

// visible waits for an element.
func visible(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(selector))
}

// look checks a page: no violation of accessibility, and no scrolling sideways.
func look(ctx context.Context, t *testing.T, name, address, axe, scheme string, width int64) {
	t.Helper()
	height := int64(800)
	if width < 500 {
		height = 740
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	do(ctx, t, chromedp.Navigate(address), visible("h1"))
	wide, inner := value[int64](ctx, t, `document.documentElement.scrollWidth`), value[int64](ctx, t, `innerWidth`)
	if wide > inner || inner != width {
		t.Errorf("%s: %d pixels wide in a window of %d", name, wide, inner)
	}
	value[string](ctx, t, axe+"; axe.version")
	found := value[[]string](ctx, t, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(
		v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html.slice(0, 200)).slice(0, 3).join(" | ")))`)
	for _, violation := range found {
		t.Errorf("%s: %s", name, violation)
	}
}

// picture writes what is seen to docs, if that is asked for.
func picture(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	directory := os.Getenv("LIGHTERAGE_SCREENSHOTS")
	if directory == "" {
		return
	}
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, name), image, 0o644); err != nil {
		t.Fatal(err)
	}
}

// heading is the script for that of the page.
const heading = `document.querySelector("h1").textContent`

// keyboard: the first key leads to the content, and what has the focus is seen.
func keyboard(ctx context.Context, t *testing.T, base string) {
	do(ctx, t, chromedp.Navigate(base), visible("h1"), chromedp.KeyEvent("\t"))
	first := value[string](ctx, t, `document.activeElement.textContent`)
	outline := value[string](ctx, t, `getComputedStyle(document.activeElement).outlineStyle`)
	if first != "Skip to the content" || outline == "none" {
		t.Errorf("%q, outline %s", first, outline)
	}
	do(ctx, t, chromedp.KeyEvent("\r"))
	until(ctx, t, `document.activeElement.id === "main"`)
}

// updates: a page follows the cluster without losing the focus, says what has changed, and can be held.
func updates(ctx context.Context, t *testing.T, b *bed, base string) {
	east := b.clusters["east"].Client
	key := client.ObjectKey{Namespace: "bank", Name: "reports"}
	percent := func(n int32, phase v1alpha1.TransferPhase) {
		var transfer v1alpha1.Transfer
		if err := east.Get(t.Context(), key, &transfer); err != nil {
			t.Fatal(err)
		}
		transfer.Status.Progress.Percent, transfer.Status.Phase = n, phase
		if err := east.Status().Update(t.Context(), &transfer); err != nil {
			t.Fatal(err)
		}
	}
	const progress = `document.querySelector(".progress p").textContent`
	do(ctx, t, chromedp.Navigate(base+"object/0/transfers/bank/reports"), visible(".progress"),
		chromedp.Focus(chromedp.CSS("main .acts a")))
	percent(41, v1alpha1.TransferTransferring)
	until(ctx, t, progress+`.startsWith("41 %")`)
	if focus := value[string](ctx, t, `document.activeElement.textContent`); focus != "Run now" {
		t.Errorf("the focus is at %q", focus)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS("#pause")))
	time.Sleep(500 * time.Millisecond) // a look may be under way
	percent(77, v1alpha1.TransferTransferring)
	time.Sleep(5 * time.Second)
	if shown := value[string](ctx, t, progress); !strings.HasPrefix(shown, "41 %") {
		t.Errorf("updates are held, and it shows %s", shown)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS("#pause")))
	until(ctx, t, progress+`.startsWith("77 %")`)
}

// acts: the button leads to a question, and its form does what it says.
func acts(ctx context.Context, t *testing.T, b *bed, base string) {
	east := b.clusters["east"].Client
	get := func(name string) *v1alpha1.Transfer {
		var transfer v1alpha1.Transfer
		if err := east.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: name}, &transfer); err != nil {
			t.Fatal(err)
		}
		return &transfer
	}
	click := func(first string) (said string) {
		do(ctx, t, chromedp.Click(chromedp.Search(`//a[text()="`+first+`"]`)), visible("button.strong"),
			chromedp.Click(chromedp.CSS("button.strong")), visible(".acted"))
		return value[string](ctx, t, `document.querySelector(".acted").textContent`)
	}
	do(ctx, t, chromedp.Navigate(base+"object/0/transfers/bank/ledger"))
	said := click("Run now")
	if asked := get("ledger").Annotations[v1alpha1.RunAnnotation]; asked == "" || !strings.Contains(said, "Another run") {
		t.Errorf("annotation %q, %q", asked, said)
	}
	click("Suspend")
	if !get("ledger").Spec.Suspend {
		t.Error("it is not suspended")
	}
	click("Resume")
	if get("ledger").Spec.Suspend {
		t.Error("it is suspended")
	}
	// There is no right in west, so there are no buttons.
	do(ctx, t, chromedp.Navigate(base+"object/1/transfers/bank/returns"), visible("h1"))
	if value[int](ctx, t, `document.querySelectorAll("main .acts").length`) != 0 {
		t.Error("buttons without a right")
	}
}

// foreign: pages of others, on another port of loopback, can neither act nor read nor frame.
func foreign(ctx context.Context, t *testing.T, b *bed, base string) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.Contains(r.Header.Get("Cookie"), "lighterage") {
			t.Error("another port gets the cookie")
		}
		_, _ = fmt.Fprintf(w, `<h1>evil</h1><iframe src="%sruns"></iframe><script>var got = "none";
			fetch("%sruns", {credentials: "include", mode: "no-cors"}).then(a => a.text()).then(t => { got = t; });</script>
			<form id=f method=post action="%sact/suspend/0/transfers/bank/ledger"><input name=form value=x></form>
			<a id=a href="%sruns">runs</a>`, base, base, base, base)
	}))
	defer evil.Close()
	for _, address := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		do(ctx, t, chromedp.Navigate(address), visible("h1"))
		time.Sleep(time.Second)
		got, framed := value[string](ctx, t, `got`), value[string](ctx, t, `(() => {
			try { return document.querySelector("iframe").contentDocument.body.textContent } catch (e) { return "" } })()`)
		if strings.Contains(got+framed, "ledger") {
			t.Errorf("%s reads a page: %s%s", address, got, framed)
		}
		rejected := chromedp.WaitVisible(chromedp.Search(`//h1[text()="Request from another page"]`))
		do(ctx, t, chromedp.Submit(chromedp.CSS("#f")), rejected)
		do(ctx, t, chromedp.Navigate(address), chromedp.Click(chromedp.CSS("#a")), rejected)
	}
	var transfer v1alpha1.Transfer
	key := client.ObjectKey{Namespace: "bank", Name: "ledger"}
	if err := b.clusters["east"].Client.Get(t.Context(), key, &transfer); err != nil || transfer.Spec.Suspend {
		t.Errorf("%v: suspended %t", err, transfer.Spec.Suspend)
	}
	// A name of somebody else that resolves to loopback.
	port := base[strings.LastIndex(base, ":")+1:]
	port, path, _ := strings.Cut(port, "/")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = net.JoinHostPort("rebound.example", port)
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != http.StatusMisdirectedRequest {
		t.Fatalf("%v %v", answer, err)
	}
	_ = answer.Body.Close()
}
