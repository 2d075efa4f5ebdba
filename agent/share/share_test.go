// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/share"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// clock is one that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// node is one with a broker behind TLS.
type node struct {
	clock     *clock
	broker    *share.Broker
	authority *transporttest.Authority
	address   string
}

func newNode(t *testing.T, o share.BrokerOptions) *node {
	t.Helper()
	n := &node{clock: &clock{now: time.Unix(1e9, 0)}, authority: transporttest.NewAuthority(t, "east")}
	o.Now, o.Log = n.clock.Now, slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if n.broker, err = share.NewBroker(o); err != nil {
		t.Fatal(err)
	}
	directory := n.authority.Directory(t, n.authority, "/node-agent", transport.NodeServerName)
	server := transport.NewShareServer(transport.NewFiles(directory))
	wirev1.RegisterAcceleratorSharesServer(server, n.broker)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	go func() { _ = server.Serve(transport.Listen(listener, nil, 64)) }()
	t.Cleanup(server.Stop)
	return n
}

// agent is one with an accelerator that takes a given time for each call, by the clock of its node.
type agent struct {
	node    *node
	client  wirev1.AcceleratorSharesClient
	account *share.Account
	call    time.Duration
	spent   time.Duration
	engine  codec.Engine
	// compress has a block compressed by the agent's kind of work.
	compress func() meter.Outcome
	done     map[policy.Reason]int
}

func (n *node) agent(t *testing.T, authority *transporttest.Authority, path string, call time.Duration) *agent {
	t.Helper()
	a := &agent{node: n, call: call, done: map[policy.Reason]int{}}
	a.account = share.NewAccount(func() time.Duration { return a.spent }, n.clock.Now)
	a.account.Sleep(n.clock.move)
	a.engine = share.Engine(accelerator{goflate.New(), a}, a.account)
	directory := authority.Directory(t, authority, path, "")
	dialer := &transport.Dialer{Address: n.address, Files: transport.NewFiles(directory)}
	conn, err := dialer.DialOwn(transport.NodeServerName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a.client = wirev1.NewAcceleratorSharesClient(conn)
	return a
}

func (a *agent) draw(t *testing.T) {
	t.Helper()
	if err := share.Draw(context.Background(), a.account, a.client); err != nil {
		t.Fatal(err)
	}
}

// accelerator is an engine of class Hardware whose calls take the agent's time.
type accelerator struct {
	codec.Engine
	agent *agent
}

func (accelerator) Name() string       { return "accelerator" }
func (accelerator) Class() codec.Class { return codec.Hardware }

func (a accelerator) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := a.Engine.NewEncoder(level)
	return slow{e, a.agent}, err
}

type slow struct {
	codec.Encoder
	agent *agent
}

func (s slow) Encode(dst, src []byte) (int, error) {
	s.agent.spent += s.agent.call
	return s.Encoder.Encode(dst, src)
}

func (slow) UsedHardware() bool { return true }

var plain = func() []byte {
	b := make([]byte, 4096)
	for i := range b {
		b[i] = byte(i * i % 17)
	}
	return b
}()

func settings() policy.Settings { return policy.Settings{Mode: policy.Always, Level: codec.Fast} }

// sends has an agent compress blocks of a Transfer.
func (a *agent) sends(t *testing.T) *agent {
	t.Helper()
	encoder, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: codec.NewRegistry(a.engine, goflate.New()), Codec: codec.Deflate, Policy: settings(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = encoder.Close() })
	a.compress = func() meter.Outcome {
		_, o, err := encoder.Append(nil, plain, false)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	return a
}

// keeps has an agent compress messages of a Queue.
func (a *agent) keeps(t *testing.T) *agent {
	t.Helper()
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: settings(), Codecs: []codec.ID{codec.Deflate}, MinSize: 1,
		Engines: codec.NewRegistry(a.engine, goflate.New()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	encoder, err := encoding.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoder.Release)
	a.compress = func() meter.Outcome {
		_, _, o, err := encoder.Encode(nil, plain)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	return a
}

// run has agents compress as much as they can for a time, and draw once a second. It returns for which part of that
// each was in calls of the accelerator, the first second left out, which a share needs to get around.
func run(t *testing.T, n *node, seconds int, agents ...*agent) []float64 {
	t.Helper()
	const step = 10 * time.Millisecond
	begun := make([]time.Duration, len(agents))
	for second := range seconds {
		for i, a := range agents {
			a.draw(t)
			if second == 1 {
				begun[i] = a.spent
			}
		}
		for range int(time.Second / step) {
			for _, a := range agents {
				o := a.compress()
				a.done[o.Reason]++
				if (o.Path == meter.Hardware) != (o.Reason == policy.HardwareUsed) {
					t.Fatalf("%+v", o)
				}
			}
			n.clock.move(step)
		}
	}
	parts := make([]float64, len(agents))
	for i, a := range agents {
		parts[i] = (a.spent - begun[i]).Seconds() / float64(seconds-1)
	}
	return parts
}

func near(got, want float64) bool { return math.Abs(got-want) <= 0.1*want }

// TestShares: agents over TLS get of an accelerator, whose calls take a given time, what their namespaces' weights say,
// and leave alone what is reserved. Calls of several lengths change nothing about that.
func TestShares(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{ReservedPercent: 10})
	n.broker.SetWeights(map[string]uint32{"bank": 300, "shop": 200})
	bank := n.agent(t, n.authority, "/ns/bank/transfer/ledger", 10*time.Millisecond).sends(t)
	shop := n.agent(t, n.authority, "/ns/shop/queue/orders", 25*time.Millisecond).keeps(t)
	web := n.agent(t, n.authority, "/ns/web/httpendpoint/front", 5*time.Millisecond).sends(t)

	two := run(t, n, 12, bank, shop)
	if !near(two[0], 0.54) || !near(two[1], 0.36) || two[0]+two[1] > 0.91 {
		t.Errorf("two agents have %v of the accelerator", two)
	}
	three := run(t, n, 12, bank, shop, web)
	if !near(three[0], 0.45) || !near(three[1], 0.30) || !near(three[2], 0.15) {
		t.Errorf("three agents have %v of the accelerator", three)
	}
	for _, a := range []*agent{bank, shop, web} {
		if a.done[policy.AcceleratorShare] == 0 || a.done[policy.HardwareUsed] == 0 || len(a.done) != 2 {
			t.Errorf("reasons %v", a.done)
		}
	}

	// The others have gone: after their leases, what was theirs is the last one's, as far as it wants it.
	n.clock.move(share.Lease + time.Second)
	alone := run(t, n, 6, bank)
	if !near(alone[0], 0.9) {
		t.Errorf("the last agent has %v of the accelerator", alone)
	}
	sharing := n.broker.Sharing()
	if sharing.GetAgents() != 1 || len(sharing.GetKinds()) != 3 {
		t.Errorf("sharing %v", sharing)
	}
	for _, kind := range sharing.GetKinds() {
		if got, want := float64(kind.GetUsedNanos()), float64(kind.GetGrantedNanos()); !near(got, want) {
			t.Errorf("%s used %v of %v", kind.GetKind(), got, want)
		}
		if kind.GetRefusedShare() == 0 || kind.GetRefusedBusy() > 0 {
			t.Errorf("refusals of %v", kind)
		}
	}
}

// TestRedistribution: what one namespace has no use for, others use.
func TestRedistribution(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	hungry := n.agent(t, n.authority, "/ns/bank/transfer/ledger", 10*time.Millisecond).sends(t)
	modest := n.agent(t, n.authority, "/ns/shop/transfer/ledger", time.Millisecond).sends(t) // 100 calls a second
	got := run(t, n, 40, hungry, modest)
	if !near(got[1], 0.1) || !near(got[0], 0.865) || got[0]+got[1] > 1.01 {
		t.Errorf("agents have %v of the accelerator", got)
	}
}

// TestReplicas: many agents of a namespace have together what one has.
func TestReplicas(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{ReservedPercent: 20})
	agents := []*agent{n.agent(t, n.authority, "/ns/bank/transfer/ledger", 10*time.Millisecond).sends(t)}
	for _, name := range []string{"a", "b", "c"} {
		agents = append(agents, n.agent(t, n.authority, "/ns/shop/delivery/"+name, 10*time.Millisecond).sends(t))
	}
	got := run(t, n, 12, agents...)
	if !near(got[0], 0.4) || !near(got[1]+got[2]+got[3], 0.4) {
		t.Errorf("agents have %v of the accelerator", got)
	}
}

// TestContention: while probes take long there is less to share, with a reason of its own, and then all again.
func TestContention(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	a := n.agent(t, n.authority, "/ns/bank/transfer/ledger", 10*time.Millisecond).sends(t)
	n.broker.Probed(100 * time.Microsecond)
	for range 8 {
		n.broker.Probed(500 * time.Microsecond)
	}
	if got := run(t, n, 6, a); !near(got[0], 1.0/16) || a.done[policy.AcceleratorBusy] == 0 ||
		a.done[policy.AcceleratorShare] > 0 {
		t.Errorf("%v of the accelerator, reasons %v", got, a.done)
	}
	if s := n.broker.Sharing(); !s.GetContended() || s.GetKinds()[0].GetRefusedBusy() == 0 ||
		s.GetKinds()[0].GetRefusedShare() > 0 {
		t.Errorf("what is heard of the contention is %v", s)
	}
	for range 8 {
		n.broker.Probed(200 * time.Microsecond)
	}
	if got := run(t, n, 6, a); !near(got[0], 1) || n.broker.Sharing().GetContended() {
		t.Errorf("%v of the accelerator after contention", got)
	}
}

// TestWithoutLease: who is granted nothing any more, or never was, uses the accelerator as before there were shares.
func TestWithoutLease(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	account := share.NewAccount(func() time.Duration { return 0 }, n.clock.Now)
	if reason := account.Enter(false); reason != "" {
		t.Errorf("before the first lease: %s", reason)
	}
	account.Grant(0, false)
	if reason := account.Enter(false); reason != policy.AcceleratorShare {
		t.Errorf("without a share: %q", reason)
	}
	n.clock.move(share.Lease)
	if reason := account.Enter(false); reason != "" {
		t.Errorf("after the lease: %s", reason)
	}
}

// TestPatience: who may not use software waits for the accelerator, and not for ever.
func TestPatience(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Unix(1e9, 0)}
	spent := time.Duration(0)
	account := share.NewAccount(func() time.Duration { return spent }, c.Now)
	account.Sleep(c.move)
	account.Grant(1e9/10, false)
	spent = 20 * time.Millisecond // 200 ms of its share, of which it had 50
	begun := c.Now()
	if reason := account.Enter(true); reason != "" {
		t.Error(reason)
	}
	if waited := c.Now().Sub(begun); waited < 150*time.Millisecond || waited > 160*time.Millisecond {
		t.Errorf("waited for %v", waited)
	}
	spent += time.Second // ten of its seconds
	begun = c.Now()
	if reason := account.Enter(true); reason != "" || c.Now().Sub(begun) > 1100*time.Millisecond {
		t.Errorf("%q after %v", reason, c.Now().Sub(begun))
	}
}

// TestWhoMayDraw: agents of this cluster that share accelerators, and nobody else.
func TestWhoMayDraw(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	other := transporttest.NewAuthority(t, "west")
	for path, c := range map[string]struct {
		authority *transporttest.Authority
		may       bool
	}{
		"/ns/bank/transfer/ledger": {n.authority, true}, "/ns/bank/delivery/ledger": {n.authority, true},
		"/ns/bank/queue/orders": {n.authority, true}, "/ns/bank/httpendpoint/front": {n.authority, true},
		"/ns/bank/trial/t": {n.authority, false}, "/ns/bank/objectstore/s": {n.authority, false},
		"/manager": {n.authority, false}, "/gateway": {n.authority, false}, "/ns/bank/transfer": {n.authority, false},
		"/ns/bank/transfer/ledger2": {other, false},
	} {
		a := n.agent(t, c.authority, path, time.Millisecond)
		if err := share.Draw(context.Background(), a.account, a.client); (err == nil) != c.may ||
			err != nil && status.Code(err) != codes.Unavailable { // and no timeout
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestImpatient: who draws again at once is told the same again, and moves nobody else's share.
func TestImpatient(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	a := n.agent(t, n.authority, "/ns/bank/transfer/ledger", time.Millisecond)
	first, err := a.client.Draw(context.Background(), &wirev1.DrawRequest{})
	if err != nil {
		t.Fatal(err)
	}
	held := time.Duration(0)
	n.broker.Pause(func(_ context.Context, d time.Duration) { held += d })
	for range 3 {
		again, err := a.client.Draw(context.Background(), &wirev1.DrawRequest{UsedNanos: 1 << 40})
		if err != nil || again.GetNanosPerSecond() != first.GetNanosPerSecond() {
			t.Fatalf("%v, %v", again, err)
		}
	}
	if held != 600*time.Millisecond {
		t.Errorf("answers were held back for %v", held)
	}
	if kinds := n.broker.Sharing().GetKinds(); len(kinds) != 0 {
		t.Errorf("counted %v", kinds)
	}
}

// TestOptions: what has no meaning is refused.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []share.BrokerOptions{{Units: 1 << 20}, {ReservedPercent: 91}} {
		if _, err := share.NewBroker(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestTooMany: an agent beyond the bounds has no share, and not all of the accelerator.
func TestTooMany(t *testing.T) {
	t.Parallel()
	n := newNode(t, share.BrokerOptions{})
	n.broker.Pause(func(context.Context, time.Duration) {})
	n.broker.Fill(t, "bank")
	a := n.agent(t, n.authority, "/ns/bank/transfer/ledger", time.Millisecond)
	if err := share.Draw(context.Background(), a.account, a.client); status.Code(err) != codes.ResourceExhausted {
		t.Fatal(err)
	}
	if reason := a.account.Enter(false); reason != policy.AcceleratorShare {
		t.Errorf("an agent too many is refused for %q", reason)
	}
	n.clock.move(share.Lease + time.Second) // the others have gone
	a.draw(t)
	if reason := a.account.Enter(false); reason != "" {
		t.Errorf("after the others have gone: %s", reason)
	}
}

// TestDictionariesOfAGatedEngine: what asks for a share has dictionaries where the engine has them.
func TestDictionariesOfAGatedEngine(t *testing.T) {
	account := share.NewAccount(func() time.Duration { return 0 }, nil)
	for engine, want := range map[codec.Engine]bool{goflate.New(): true, identity.New(): false} {
		if got, ok := codec.WithDictionaries(share.Engine(engine, account)); ok != want || ok && got != engine {
			t.Errorf("%s: %v, %v", engine.Name(), got, ok)
		}
	}
}
