// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
)

func queueGrant(namespace, peer, from, queue string) *v1alpha1.PeerGrant {
	return gatewaytest.GrantOf(namespace, peer, from, v1alpha1.GrantedQueue, queue)
}

func queueOf(namespace, name string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func orders() *wirev1.OpenQueueRequest {
	return &wirev1.OpenQueueRequest{ProtocolVersion: wirev1.ProtocolVersion, Namespace: "vault", Name: "orders"}
}

func TestOpenQueueRefuses(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf(
		"vault", "east", "bank", "orders",
	), queueGrant("vault", "east", "bank", "other"), queueGrant("vault", "north", "bank", "orders"),
		queueOf("vault", "orders"))
	queue := issue(t, east, pki.QueueIdentity("east", "bank", "out"), time.Now())
	for name, c := range map[string]struct {
		identity pki.Identity
		change   func(*wirev1.OpenQueueRequest)
		reason   wirev1.FailureReason
		words    string
	}{
		"not granted": {
			reason: wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			words:  "{from: [{peer: east, namespaces: [bank]}], to: [{kind: Queue, name: orders}]}",
		},
		"not there": {
			change: func(r *wirev1.OpenQueueRequest) { r.Name = "other" },
			reason: wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND, words: "Queue other in namespace vault",
		},
		"neither there nor granted": {
			change: func(r *wirev1.OpenQueueRequest) { r.Name = "secret" },
			reason: wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, words: "name: secret",
		},
		"a Transfer": {
			identity: sender("east"), reason: wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, words: "only a Queue",
		},
		"another version": {change: func(r *wirev1.OpenQueueRequest) { r.ProtocolVersion++ },
			reason: wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE, words: "upgrade"},
		"no namespace": {
			change: func(r *wirev1.OpenQueueRequest) { r.Namespace = "a.b" },
			reason: wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, words: "namespace",
		},
		"no name": {
			change: func(r *wirev1.OpenQueueRequest) { r.Name = "" }, reason: wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			words: "name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			certificate, request := queue, orders()
			if c.identity.Path != "" {
				certificate = issue(t, east, c.identity, time.Now())
			}
			if c.change != nil {
				c.change(request)
			}
			_, err := w.dial(certificate).OpenQueue(context.Background(), request)
			if message := refusedWith(t, err, c.reason); !strings.Contains(message, c.words) {
				t.Errorf("%q is not in the message: %s", c.words, message)
			}
		})
	}
	if _, err := w.dial(queue).Hello(
		context.Background(), &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion},
	); err != nil {
		t.Errorf("a Queue may not say hello: %v", err)
	}
}

// A gateway whose Secret has no key yet makes no names, and takes none for one of its own.
func TestQueueWithoutAChannelKey(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) {
		o.ChannelKey = nil
	}, peerOf("east", east), queueGrant("vault", "east", "bank", "orders"), queueOf("vault", "orders"))
	_, err := w.dial(
		issue(t, east, pki.QueueIdentity("east", "bank", "out"), time.Now()),
	).OpenQueue(context.Background(), orders())
	if status.Code(err) != codes.Unavailable {
		t.Errorf("OpenQueue: %v", err)
	}
	if _, err := w.connect(pki.ChannelServerName(nil, "east", "bank", "vault", "orders")); err == nil {
		t.Error("a connection was passed through")
	}
}

// The whole way: a queue is told its name, what it sends is passed through, and ends with the grant.
func TestDataOfAQueue(t *testing.T) {
	east := newCA(t, "east")
	granted := queueGrant("vault", "east", "bank", "orders")
	var name, address string
	log, registry := &trail{}, prometheus.NewRegistry()
	w := newWest(t, func(o *gateway.Options) {
		o.Log, o.Registerer = log.logger(t), registry
		o.QueueAddress = func(namespace, queue string) string {
			if namespace != "vault" || queue != "orders" {
				t.Errorf("the address of %s/%s was asked for", namespace, queue)
			}
			return address
		}
	}, peerOf("east", east), granted, queueOf("vault", "orders"))
	opened, err := w.dial(
		issue(t, east, pki.QueueIdentity("east", "bank", "out"), time.Now()),
	).OpenQueue(context.Background(), orders())
	if err != nil {
		t.Fatal(err)
	}
	if name = opened.GetServerName(); opened.GetKnownAs() != "east" ||
		name != pki.ChannelServerName(gatewaytest.ChannelKey, "east", "bank", "vault", "orders") {
		t.Errorf("answer %v", opened)
	}
	address = w.receiver(func() string { return "*." + pki.ChannelDomain("vault", "orders") })
	conn, err := w.connect(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("message")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("message"))); err != nil {
		t.Fatal(err)
	}
	for what, other := range map[string]string{
		"another caller": pki.ChannelServerName(gatewaytest.ChannelKey, "east", "other", "vault", "orders"),
		"another queue":  pki.ChannelServerName(gatewaytest.ChannelKey, "east", "bank", "vault", "secret"),
		"another key":    pki.ChannelServerName(make([]byte, 32), "east", "bank", "vault", "orders"),
		"no caller":      "x." + pki.ChannelDomain("vault", "orders"),
	} {
		if _, err := w.connect(other); err == nil {
			t.Errorf("%s is passed through", what)
		}
	}
	second, err := w.connect(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Write([]byte("message")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(second, make([]byte, len("message"))); err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
	used := func(n int, result string) {
		t.Helper()
		eventually(t, func() bool {
			return counted(t, registry, "lighterage_grant_uses_total", "Queue", "vault", "east", result) == 1 &&
				len(log.saying("Grant used")) == n
		})
		line := log.saying("Grant used")[n-1]
		if line["peer"] != "east" || line["namespace"] != "bank" || line["toNamespace"] != "vault" ||
			line["kind"] != "Queue" || line["name"] != "orders" ||
			line["result"] != result || line["bytes"].(float64) < 7 || line["returnedBytes"].(float64) < 7 ||
			line["seconds"].(float64) < 0 {
			t.Errorf("line %v", line)
		}
	}
	used(1, audit.ResultClosed)
	w.gateway.EndRevoked("vault")
	if _, err := conn.Write([]byte("message")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("message"))); err != nil {
		t.Fatalf("what is granted was ended: %v", err)
	}
	if err := w.api.Delete(context.Background(), granted); err != nil {
		t.Fatal(err)
	}
	w.gateway.EndRevoked("vault")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection was not closed when the grant went")
	}
	used(2, v1alpha1.ReasonNotGranted)
	if _, err := w.connect(name); err == nil {
		t.Error("a new connection is passed through without a grant")
	}
}
