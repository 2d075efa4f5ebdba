// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// TestPublish: a client reaches the queue, its stream and consumers of its own, and nothing else, whatever the server
// would allow.
func TestPublish(t *testing.T) {
	const random = "_INBOX.abcdefghijklmnopqrstuv"
	for subject, want := range map[string]string{ // in a server of the queue's own, and in a shared one
		"$JS.API.INFO": "yes yes", "$JS.API.STREAM.NAMES": "yes yes", "$JS.API.STREAM.LIST": "yes yes",
		"$JS.API.STREAM.INFO.orders":    "yes yes",
		"$JS.API.STREAM.MSG.GET.orders": "yes yes", "$JS.API.DIRECT.GET.orders": "yes yes",
		"$JS.API.DIRECT.GET.orders.orders.new": "yes yes",
		"$JS.API.CONSUMER.NAMES.orders":        "yes yes", "$JS.API.CONSUMER.LIST.orders": "yes yes",
		"$JS.API.CONSUMER.CREATE.orders":       "yes yes",
		"$JS.API.CONSUMER.CREATE.orders.clerk": "yes yes", "$JS.API.CONSUMER.CREATE.orders.clerk.orders.>": "yes yes",
		"$JS.API.CONSUMER.DURABLE.CREATE.orders.clerk":    "yes yes",
		"$JS.API.CONSUMER.INFO.orders.clerk":              "yes yes",
		"$JS.API.CONSUMER.INFO.orders.lighterage-channel": "yes yes", "$JS.API.CONSUMER.DELETE.orders.clerk": "yes yes",
		"$JS.API.CONSUMER.MSG.NEXT.orders.clerk": "yes yes", "$JS.API.CONSUMER.PAUSE.orders.clerk": "yes yes",
		"$JS.API.CONSUMER.UNPIN.orders.clerk": "yes yes", "$JS.FC.orders.clerk.x": "yes yes",
		"$JS.ACK.orders.clerk.1.2.3.4.5":              "yes yes",
		"$JS.ACK._.hash.orders.clerk.1.2.3.4.5":       "yes yes",
		"$JS.ACK._.hash.orders.clerk.1.2.3.4.5.token": "yes yes",
		"orders": "yes yes", "orders.new": "yes yes",
		random: "no no", random + ".x": "no no", "_INBOX.abcdef.x": "no no",
		"other": "no no", "orders2": "no no", "": "no no", "$JS.ACK": "no no", "$JS.ACK.": "no no", "$JS.API.": "no no",
		"$SYS.REQ.SERVER.PING": "no no",
		"_DELIVER.orders.x":    "no no", "$LIGHTERAGE.CHANNEL.orders.1": "no no", "$LIGHTERAGE.LEASES.orders.lead": "no no",
		"$KV.bucket.key":               "no no",
		"$JS.API.STREAM.DELETE.orders": "no no", "$JS.API.STREAM.UPDATE.orders": "no no",
		"$JS.API.STREAM.CREATE.mine": "no no", "$JS.API.STREAM.PURGE.orders": "no no",
		"$JS.API.STREAM.MSG.DELETE.orders": "no no", "$JS.API.STREAM.SNAPSHOT.orders": "no no",
		"$JS.API.STREAM.RESTORE.orders": "no no", "$JS.API.META.LEADER.STEPDOWN": "no no",
		"$JS.API.STREAM.INFO.other": "no no", "$JS.API.STREAM.INFO.orders_leases": "no no",
		"$JS.API.STREAM.INFO.orders.x": "no no", "$JS.API.STREAM.MSG.GET.other": "no no",
		"$JS.API.DIRECT.GET.other": "no no", "$JS.API.DIRECT.GET.orders_ids": "no no",
		"$JS.API.DIRECT.GET.orders.other": "no no", "$JS.API.DIRECT.GET.orders.$LIGHTERAGE.DEAD.orders": "no no",
		"$JS.API.CONSUMER.NAMES.other": "no no", "$JS.API.CONSUMER.CREATE.other.clerk": "no no",
		"$JS.API.CONSUMER.CREATE.orders.clerk.>":     "no no",
		"$JS.API.CONSUMER.CREATE.orders.clerk.other": "no no", "$JS.API.CONSUMER.CREATE.orders.": "no no",
		"$JS.API.CONSUMER.CREATE.orders.lighterage-x":         "no no",
		"$JS.API.CONSUMER.DURABLE.CREATE.orders.lighterage-x": "no no",
		"$JS.API.CONSUMER.DURABLE.CREATE.other.orders.x":      "no no",
		"$JS.API.CONSUMER.MSG.NEXT.other.clerk":               "no no",
		"$JS.API.CONSUMER.MSG.NEXT.orders.lighterage-channel": "no no",
		"$JS.API.CONSUMER.DELETE.orders.lighterage-channel":   "no no",
		"$JS.API.CONSUMER.DELETE.other.orders.clerk":          "no no",
		"$JS.API.CONSUMER.LEADER.STEPDOWN.orders.clerk":       "no no", "$JS.API.CONSUMER.INFO.other.clerk": "no no",
		"$JS.API.CONSUMER.RESET.orders.clerk": "no no",
		"$JS.ACK.other.clerk.1.2.3.4.5":       "no no", "$JS.ACK.orders.lighterage-channel.1.2.3.4.5": "no no",
		"$JS.ACK._.hash.other.clerk.1.2.3.4.5":         "no no",
		"$JS.ACK._.hash.orders.lighterage-x.1.2.3.4.5": "no no", "$JS.ACK.orders.clerk.other.clerk.1.2.3.4.5": "no no",
		"$JS.ACK.orders.clerk": "no no",
		"_INBOX.short":         "no no", "_INBOX.*": "no no", "_INBOX.>": "no no", "_INBOX.": "no no",
		"$JS.FC.other.x": "no no", "$JS.hub.API.STREAM.DELETE.orders": "no no",
	} {
		judged := judge(func(a *access) bool { return roles.All.Allow(a.publish([]byte(subject))) })
		if judged != want {
			t.Errorf("%s: %s; want %s", subject, judged, want)
		}
	}
}

// judge says what a queue's own server and a shared one are asked for.
func judge(may func(*access) bool) string {
	var words []string
	for _, shared := range []bool{false, true} {
		word := "no"
		if may(&access{queue: "orders", shared: shared}) {
			word = "yes"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestSubscribe(t *testing.T) {
	const random = "_INBOX.abcdefghijklmnopqrstuv"
	for pattern, want := range map[string]string{
		"orders": "yes yes", "orders.>": "yes yes", "orders.*.new": "yes yes", random: "yes yes", random + ".*": "yes yes",
		random + ".>":       "yes yes",
		"_DELIVER.orders.x": "yes yes", "_DELIVER.orders.>": "yes yes", "$JS.EVENT.ADVISORY.CONSUMER.*.orders.>": "yes yes",
		"$JS.EVENT.ADVISORY.*.CREATED.orders": "yes yes",
		"_INBOX.abcdef.*":                     "yes yes", "_DELIVER.>": "yes no", "_DELIVER.*": "yes no",
		"_DELIVER.orders": "yes no", "_DELIVER.other.x": "yes no", "_DELIVER.orders2.x": "yes no",
		"$JS.EVENT.ADVISORY.>":                  "yes no",
		"$JS.EVENT.ADVISORY.CONSUMER.CREATED.>": "yes no", "$JS.EVENT.ADVISORY.API": "yes no",
		"$JS.EVENT.ADVISORY.CONSUMER.CREATED.other.orders": "yes no",
		">": "no no", "*": "no no", "*.>": "no no", "$JS.API.>": "no no", "$JS.>": "no no", "$SYS.>": "no no",
		"$LIGHTERAGE.>": "no no", "other": "no no", "orders2": "no no",
		"_INBOX": "no no", "_INBOX*.x": "no no", "_INBOX.>": "no no", "_INBOX.*": "no no", "_INBOX.*.x": "no no",
		"_INBOX.short": "no no", "_INBOX.abcdefghijklmnop*": "no no",
	} {
		if judged := judge(func(a *access) bool { return roles.All.Allow(a.subscribe([]byte(pattern))) }); judged != want {
			t.Errorf("%s: %s; want %s", pattern, judged, want)
		}
	}
}

// TestReply: the server answers to inboxes only.
func TestReply(t *testing.T) {
	for reply, want := range map[string]string{
		"_INBOX.abcdefghijklmnopqrstuv.x": "yes yes", "_INBOX.x": "no no", "orders": "no no",
		"$JS.API.STREAM.PURGE.orders": "no no", "$LIGHTERAGE.CHANNEL.orders.1": "no no", "other": "no no",
	} {
		if judged := judge(func(a *access) bool { return a.reply([]byte(reply), roles.All) }); judged != want {
			t.Errorf("%s: %s; want %s", reply, judged, want)
		}
	}
	if judged := judge(func(a *access) bool { return a.reply(nil, roles.All) }); judged != "yes yes" {
		t.Errorf("none: %s", judged)
	}
}

// TestList: who lists streams of a shared server sees the queue's.
func TestList(t *testing.T) {
	f := &Front{options: Options{Queue: "orders"}, access: access{queue: "orders", shared: true}}
	for body, want := range map[string]string{
		"": `{"subject":"orders.>"}`, "{}": `{"subject":"orders.>"}`, `{"offset":7}`: `{"offset":7,"subject":"orders.>"}`,
		`{"subject":"other"}`:      `{"subject":"orders.>"}`,
		`{"subject":"orders.new"}`: `{"subject":"orders.new"}`, `{"Subject":"other"}`: `{"subject":"orders.>"}`,
		`{"subject":"orders","SUBJECT":">"}`: `{"subject":"orders`,
		`{"subject":7}`:                      `{"subject":"orders.>"}`,
	} {
		out := string(
			f.list(nil, &operation{kind: opPub, subject: []byte(listSubject), reply: []byte("_INBOX.x"), payload: []byte(body)}),
		)
		out = strings.ReplaceAll(out, `\u003e`, ">") // which is the same in JSON
		if !strings.HasPrefix(out, "PUB "+listSubject+" _INBOX.x ") || !strings.Contains(out, want) ||
			strings.Contains(out, "other") || strings.Count(strings.ToLower(out), `"subject"`) != 1 {
			t.Errorf("%s: %q", body, out)
		}
	}
	for _, body := range []string{"[]", "x", `{"a":"` + strings.Repeat("x", maxRequest) + `"}`} {
		if out := string(
			f.list(nil, &operation{kind: opPub, subject: []byte(listSubject), reply: []byte("_INBOX.x"), payload: []byte(body)}),
		); !strings.HasPrefix(out, "PUB _INBOX.x ") {
			t.Errorf("%.20s: %q", body, out)
		}
	}
}

// FuzzAccess: whatever a subject is, a shared server is asked for no more than the queue's own.
func FuzzAccess(f *testing.F) {
	for _, subject := range []string{
		"$JS.ACK.orders.clerk.1.2.3.4.5", "$JS.API.CONSUMER.CREATE.orders.x.orders", "_INBOX.abcdefghijklmnopqrstuv.>",
		"_DELIVER.orders.x", "$JS.EVENT.ADVISORY.X.Y.orders",
	} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		b := []byte(subject)
		for _, may := range []func(*access) bool{
			func(a *access) bool { return roles.All.Allow(a.publish(b)) },
			func(a *access) bool { return roles.All.Allow(a.subscribe(b)) },
			func(a *access) bool { return a.reply(b, roles.All) },
		} {
			if judge(may) == "no yes" {
				t.Fatalf("%q is allowed in a shared server only", subject)
			}
		}
		a := &access{queue: "orders", shared: true}
		tokens := strings.Split(subject, ".")
		if roles.All.Allow(a.publish(b)) && tokens[0] == "$JS" && !slices.Contains(tokens, "orders") &&
			!slices.Contains([]string{"$JS.API.INFO", namesSubject, listSubject}, subject) {
			t.Fatalf("%q is allowed, and not about the queue", subject)
		}
	})
}

// FuzzRoles: whatever a client asks for, with one operation it may do nothing that it may not do with both, nothing
// needs both, and of what can be said about the queue's messages publishing alone needs Put.
func FuzzRoles(f *testing.F) {
	for _, subject := range []string{
		"orders.new", "$JS.ACK.orders.clerk.1.2.3.4.5", "$JS.API.CONSUMER.MSG.NEXT.orders.x",
		"_INBOX.abcdefghijklmnopqrstuv.>", "_DELIVER.orders.x", "$JS.EVENT.ADVISORY.X.Y.orders",
	} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		b := []byte(subject)
		for _, shared := range []bool{false, true} {
			a := &access{queue: "orders", shared: shared}
			for _, request := range []roles.Request{a.publish(b), a.subscribe(b)} {
				if roles.All.Allow(request) != (roles.Put.Allow(request) || roles.Get.Allow(request)) {
					t.Fatalf("%q: request %d", subject, request)
				}
			}
			if put := roles.Put.Allow(a.publish(b)); put != a.ofQueue(b) {
				t.Fatalf("%q: a client with Put may publish: %v", subject, put)
			}
			if roles.Put.Allow(a.subscribe(b)) && !strings.HasPrefix(subject, inboxPrefix) {
				t.Fatalf("%q: a client with Put may listen to it", subject)
			}
			if a.reply(b, roles.Put) && !strings.HasPrefix(subject, inboxPrefix) {
				t.Fatalf("%q: a client with Put is answered there", subject)
			}
		}
	})
}
