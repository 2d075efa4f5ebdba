// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	token      = "let the clerk in"
	maxMessage = 1 << 20

	// Ports of members beside those that they always have.
	servicePort, channelPort = "8445", "8444"
)

// duplicateWindow of queues. In long runs ids become older than that; in others a message may be put for as long as
// there is patience.
func duplicateWindow() time.Duration {
	if os.Getenv(longVariable) != "" {
		return 2 * time.Minute
	}
	return patience + time.Minute
}

// putPatience is how long a message is put: after the window it would be another one.
func putPatience() time.Duration { return min(patience, duplicateWindow()) }

// site is where a queue is.
type site struct {
	queue, namespace string
	// authority of the cluster, and that of the other one; nil: there is none.
	authority, peer *transporttest.Authority
	// certified is the DNS name in the members' certificate, server what clients ask for.
	certified, server string
	// first is the last byte of the first member's address.
	first int
	// configure changes what all members are told.
	configure func(*wirev1.QueueConfig)
}

// home is where queues are that are alone. Clients of MessageService are served there too.
func home(t *testing.T) site {
	const name = queueName + ".bank.svc"
	return site{
		queue: queueName, namespace: homeNamespace, authority: transporttest.NewAuthority(t, "east"), certified: name,
		server: name, first: 1,
	}
}

// queue is one of one or three members.
type queue struct {
	*testing.T
	name, server string
	members      []*member
	roots        *x509.CertPool
	looker       jetstream.JetStream
	silence      time.Duration // after which clients give up a connection
}

// newQueue starts a queue at home, whose members may be changed before, and waits until it serves.
func newQueue(t *testing.T, replicas int, change ...func(m *member, index int)) *queue {
	t.Helper()
	return newQueueAt(t, home(t), replicas, change...)
}

func newQueueAt(t *testing.T, at site, replicas int, change ...func(m *member, index int)) *queue {
	t.Helper()
	q := &queue{T: t, name: at.queue, server: at.server, roots: x509.NewCertPool(), silence: busy.silence}
	q.roots.AppendCertsFromPEM(at.authority.PEM())
	tokens := t.TempDir()
	if err := os.WriteFile(filepath.Join(tokens, "clerk"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	config := &wirev1.QueueConfig{
		Revision: "1", Queue: at.queue, Limits: &wirev1.QueueLimits{MaxMessageSize: maxMessage},
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: []string{"zstd"}, Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES,
		},
		CompressionMinSize: 1000, Dictionaries: true, Authentication: &wirev1.QueueAuthentication{TokensDirectory: tokens},
		DuplicateWindow: durationpb.New(duplicateWindow()), DrainTimeout: durationpb.New(2 * time.Second),
		Redelivery: &wirev1.QueueRedelivery{VisibilityTimeout: durationpb.New(visibility), MaxDeliveries: maxDeliveries},
	}
	if at.configure != nil {
		at.configure(config)
	}
	for i := range replicas {
		peer := at.peer
		if peer == nil {
			peer = at.authority
		}
		files := at.authority.Directory(t, peer, transport.QueuePath(at.namespace, at.queue), at.certified)
		m := newMember(t, fmt.Sprintf("%s-%d", at.queue, i), fmt.Sprintf("10.77.0.%d", at.first+i), files)
		for _, f := range change {
			f(m, i)
		}
		q.members = append(q.members, m)
		config.Members = append(config.Members, &wirev1.QueueMember{Name: m.name})
		if replicas > 1 {
			config.GetMembers()[i].RouteAddress = m.address + ":6222"
		}
	}
	for _, m := range q.members {
		m.configure(config)
		m.start()
	}
	if err := q.awaitReady(); err != nil {
		t.Fatal(err)
	}
	return q
}

// dictionaries is how many members have put into use.
func (q *queue) dictionaries() int {
	q.Helper()
	n := 0
	for _, m := range q.members {
		log, err := os.ReadFile(m.log.Name())
		if err != nil {
			q.Fatal(err)
		}
		n += bytes.Count(log, []byte("dictionaryInUse"))
	}
	return n
}

func (q *queue) awaitReady() error {
	for _, m := range q.members {
		if err := m.awaitReady(); err != nil {
			return err
		}
	}
	return nil
}

// connect returns a client that finds another member whenever it loses one, and notices when one no longer answers.
func (q *queue) connect(name string) (*nats.Conn, jetstream.JetStream) {
	q.Helper()
	var urls []string
	for _, m := range q.members {
		urls = append(urls, "tls://"+m.address+":4222")
	}
	conn, err := nats.Connect(strings.Join(urls, ","), nats.Name(name), nats.Token(token),
		nats.Secure(q.tls()),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(),
		nats.Timeout(q.silence), nats.PingInterval(q.silence/2), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1))
	if err != nil {
		q.Fatal(err)
	}
	q.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		q.Fatal(err)
	}
	return conn, js
}

// admin is a client for looking at the queue.
func (q *queue) admin() jetstream.JetStream {
	q.Helper()
	if q.looker == nil {
		_, q.looker = q.connect("admin")
	}
	return q.looker
}

// leader returns the member that leads the stream, or any when none does.
func (q *queue) leader(ctx context.Context, js jetstream.JetStream) *member {
	if len(q.members) > 1 {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if stream, err := js.Stream(ctx, q.name); err == nil && stream.CachedInfo().Cluster != nil {
			leads := func(m *member) bool { return m.name == stream.CachedInfo().Cluster.Leader }
			if i := slices.IndexFunc(q.members, leads); i >= 0 {
				return q.members[i]
			}
		}
	}
	return q.members[0]
}

// awaitCurrent waits until every member has all that the leader has.
func (q *queue) awaitCurrent(ctx context.Context, js jetstream.JetStream) error {
	if len(q.members) == 1 {
		return nil
	}
	deadline := time.Now().Add(patience)
	for ctx.Err() == nil {
		problem := q.behind(ctx, js)
		switch {
		case problem == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %v: %w", patience, problem)
		}
		wait(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

func (q *queue) behind(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, q.name)
	if err != nil {
		return fmt.Errorf("nobody says whether the members are current: %w", err)
	}
	cluster := stream.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != len(q.members)-1 {
		return fmt.Errorf("members are missing: %+v", cluster)
	}
	for _, peer := range cluster.Replicas {
		if !peer.Current || peer.Offline {
			return fmt.Errorf("%s lags behind: %+v", peer.Name, *peer)
		}
	}
	return nil
}
