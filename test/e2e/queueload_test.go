// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// clientCertificate is one with which a client says who it is.
func (a *authority) clientCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	a.serial++
	key := newKey(t)
	certificate := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2000 + a.serial), Subject: pkix.Name{CommonName: "clerk " + rand.Text()},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(12 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, key)
	return &tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

// memberDialer connects to members that are ready, one after the other: through the Service a client comes to any of
// them.
type memberDialer struct {
	cluster *cluster
	queue   *v1alpha1.Queue
	next    atomic.Int64
}

// forwarded is a connection through a forwarded port of its own.
type forwarded struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (f *forwarded) Close() error {
	defer f.end()
	return f.Conn.Close()
}

// Dial implements nats.CustomDialer. The address is nobody's.
func (d *memberDialer) Dial(string, string) (net.Conn, error) {
	var pods corev1.PodList
	if err := d.cluster.List(
		context.Background(), &pods, client.InNamespace(d.queue.Namespace),
		client.MatchingLabels{v1alpha1.QueueLabel: string(d.queue.UID)},
	); err != nil {
		return nil, err
	}
	var ready []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready = append(ready, pod.Name)
			}
		}
	}
	if len(ready) == 0 {
		return nil, errors.New("no member is ready")
	}
	return d.cluster.forwardTo(d.queue.Namespace, ready[int(d.next.Add(1))%len(ready)], 4222)
}

// forwardTo connects to a port of a pod.
func (c *cluster) forwardTo(namespace, pod string, port int) (net.Conn, error) {
	command := c.command("-n", namespace, "port-forward", "pod/"+pod, fmt.Sprintf(":%d", port))
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(func() { endProcess(command) })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	address, _, found := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " -> ")
	if err != nil || !found {
		end()
		return nil, fmt.Errorf("forward a port to %s: %q, %w", pod, line, err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		end()
		return nil, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = conn.Close() // It has ended.
		end()
	}()
	return &forwarded{conn, end}, nil
}

func endProcess(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

// client connects to a member with a certificate, or none, and to another one whenever that is lost, unless options say
// something else.
func (d *memberDialer) client(
	roots *x509.CertPool, certificate *tls.Certificate, options ...nats.Option,
) (*nats.Conn, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: d.queue.Name + "." + d.queue.Namespace + ".svc",
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return nats.Connect("tls://127.0.0.1:4222", append([]nats.Option{
		nats.SetCustomDialer(d), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(), nats.Secure(config),
		nats.Timeout(patience),
		nats.PermissionErrOnSubscribe(true), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		// What was put into a connection that was lost is put again, and must not come by itself when all is over.
		nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(), nats.PingInterval(answerTime), nats.MaxPingsOutstanding(2),
	}, options...)...)
}

// connected is connect for those who are admitted; it takes as often as it takes.
func connected(t *testing.T, connect func() (*nats.Conn, error)) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	var conn *nats.Conn
	eventually(t, 6*time.Minute, "a client to be admitted", func() (ok bool, problem string) {
		var err error
		conn, err = connect()
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(answerTime))
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

const (
	// ackWait after which what a client got and did not acknowledge is given out again.
	ackWait = 15 * time.Second
	// putPause is between two puts of a key: the machine has other things to do.
	putPause = 100 * time.Millisecond
	// answerTime is how long a client waits before it does a thing once more.
	answerTime = 10 * time.Second
	// deepest is how many messages may wait before clients pause putting, so that all are got in the end on a machine
	// that is slow, too.
	deepest = 100

	loadConsumer = "clerk"
	keyHeader    = "Test-Key"
	numberHeader = "Test-Number"
)

// queueLoad puts messages of some keys into a Queue and gets them, whatever happens to its members.
type queueLoad struct {
	t       *testing.T
	queue   string              // its name: others update the object meanwhile
	looker  jetstream.JetStream // tells what is in the queue
	history queuefaults.History
	stop    context.CancelFunc // ends putting
	putting sync.WaitGroup
	end     context.CancelFunc // ends getting
	over    context.Context    //nolint:containedctx // that of getting
	getting sync.WaitGroup
}

// beginLoad starts a client for each key that puts, and one that gets.
func beginLoad(
	t *testing.T, queue *v1alpha1.Queue, looker jetstream.JetStream, connect func() (*nats.Conn, error), keys ...string,
) *queueLoad {
	t.Helper()
	putting, stop := context.WithCancel(context.Background())
	getting, end := context.WithCancel(context.Background())
	l := &queueLoad{t: t, queue: queue.Name, looker: looker, stop: stop, end: end, over: getting}
	t.Cleanup(func() { stop(); end(); l.putting.Wait(); l.getting.Wait() })
	for _, key := range keys {
		_, js := connected(t, connect)
		l.putting.Go(func() { l.put(putting, js, key) })
	}
	_, js := connected(t, connect)
	l.getting.Go(func() { l.get(getting, js) })
	return l
}

// put puts the messages of a key one after the other: the next when this one is acknowledged.
func (l *queueLoad) put(ctx context.Context, js jetstream.JetStream, key string) {
	messages := orders(4)
	for number := uint64(1); ctx.Err() == nil; number++ {
		m := nats.NewMsg(l.queue + "." + key)
		m.Data = messages[number%4]
		m.Header.Set(nats.MsgIdHdr, key+"-"+strconv.FormatUint(number, 10))
		m.Header.Set(keyHeader, key)
		m.Header.Set(numberHeader, strconv.FormatUint(number, 10))
		if !l.putUntilAcknowledged(js, m, number) {
			return
		}
		for ok := true; ok; ok = ctx.Err() == nil && l.waiting() > deepest {
			select {
			case <-ctx.Done():
			case <-time.After(putPause):
			}
		}
	}
}

// waiting is about how many messages nobody has got yet.
func (l *queueLoad) waiting() int {
	return l.history.Count(queuefaults.PutAcknowledged) - l.history.Count(queuefaults.Got)
}

// putUntilAcknowledged goes on when putting is to stop: what is not acknowledged could come at any time.
func (l *queueLoad) putUntilAcknowledged(js jetstream.JetStream, m *nats.Msg, number uint64) bool {
	put := queuefaults.Event{
		Kind: queuefaults.Put, ID: m.Header.Get(nats.MsgIdHdr), Key: m.Header.Get(keyHeader), Number: number,
		Digest: sha256.Sum256(m.Data),
	}
	for deadline := time.Now().Add(6 * time.Minute); ; time.Sleep(putPause) {
		l.history.Add(put)
		asked, cancel := context.WithTimeout(context.Background(), answerTime)
		ack, err := js.PublishMsg(asked, m)
		cancel()
		if err == nil {
			l.history.Add(queuefaults.Event{Kind: queuefaults.PutAcknowledged, ID: put.ID, Sequence: ack.Sequence})
			return true
		}
		if l.over.Err() != nil { // the test failed
			return false
		}
		if time.Now().After(deadline) {
			l.t.Errorf("message %s is not acknowledged: %v", put.ID, err)
			return false
		}
	}
}

// get gets and acknowledges what there is, one message at a time, so that the order is that of the keys.
func (l *queueLoad) get(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		if err := l.getSome(ctx, js); err != nil && ctx.Err() == nil {
			time.Sleep(putPause)
		}
	}
}

func (l *queueLoad) getSome(ctx context.Context, js jetstream.JetStream) error {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	consumer, err := js.CreateOrUpdateConsumer(asking, l.queue, jetstream.ConsumerConfig{
		Durable: loadConsumer, FilterSubject: l.queue + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: 1,
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		asked := time.Now()
		m, err := consumer.Next(jetstream.FetchMaxWait(answerTime / 2))
		if errors.Is(err, nats.ErrTimeout) {
			continue
		}
		if err != nil {
			return err
		}
		place, err := m.Metadata()
		if err != nil {
			return err
		}
		id := m.Headers().Get(nats.MsgIdHdr)
		number, _ := strconv.ParseUint(m.Headers().Get(numberHeader), 10, 64)
		l.history.Add(queuefaults.Event{
			Kind: queuefaults.Got, ID: id, Key: m.Headers().Get(keyHeader), Number: number, Digest: sha256.Sum256(m.Data()),
			Sequence: place.Sequence.Stream, Consumer: loadConsumer, Asked: asked,
		})
		l.history.Add(queuefaults.Event{Kind: queuefaults.GetAcknowledging, ID: id, Consumer: loadConsumer})
		confirmed, cancel := context.WithTimeout(context.Background(), answerTime)
		err = m.DoubleAck(confirmed)
		cancel()
		if err != nil {
			return err // It comes again.
		}
		l.history.Add(queuefaults.Event{Kind: queuefaults.GetAcknowledged, ID: id, Consumer: loadConsumer})
	}
	return nil
}

// goesOn waits until more is put and got than was.
func (l *queueLoad) goesOn(after string) {
	l.t.Helper()
	put, got := l.history.Count(queuefaults.PutAcknowledged), l.history.Count(queuefaults.GetAcknowledged)
	began := time.Now()
	eventually(l.t, 6*time.Minute, "messages to be put and got "+after, func() (bool, string) {
		p, g := l.history.Count(queuefaults.PutAcknowledged), l.history.Count(queuefaults.GetAcknowledged)
		return p >= put+10 && g >= got+10, fmt.Sprintf("%d were put and %d got since", p-put, g-got)
	})
	l.t.Logf("%s: 10 messages were put and got within %v", after, time.Since(began).Round(time.Millisecond))
}

// finish ends putting, waits until all was got, and judges what the clients saw.
func (l *queueLoad) finish() {
	l.t.Helper()
	l.stop()
	l.putting.Wait()
	eventually(l.t, 6*time.Minute, "every message to be got and acknowledged", func() (bool, string) {
		asked, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		stream, err := l.looker.Stream(asked, l.queue)
		if err != nil {
			return false, err.Error()
		}
		left := stream.CachedInfo().State.Msgs
		return left == 0, fmt.Sprintf("%d are left", left)
	})
	l.end()
	l.getting.Wait()
	count := l.history.Count
	l.t.Logf(
		"%d puts, %d acknowledged; %d gets, %d acknowledged", count(queuefaults.Put), count(queuefaults.PutAcknowledged),
		count(queuefaults.Got), count(queuefaults.GetAcknowledged),
	)
	for _, violation := range queuefaults.Check(
		l.history.Events(), queuefaults.Rules{Window: time.Minute, InTurn: []string{loadConsumer}},
	) {
		l.t.Error(violation)
	}
}
