// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
)

// A member of a queue in a process of its own, which this program becomes when it is told to by its environment.
const (
	memberRole      = "LIGHTERAGE_TEST_MEMBER" // sender or receiver
	memberDirectory = "LIGHTERAGE_TEST_DIRECTORY"
	memberNATS      = "LIGHTERAGE_TEST_NATS"
	memberChannel   = "LIGHTERAGE_TEST_CHANNEL"
)

// killedSeeds are of the dictionaries that messages refer to while members are killed.
var killedSeeds = []uint64{1, 2}

func member(role string) error {
	q, err := openQueue("orders", os.Getenv(memberDirectory), os.Getenv(memberNATS), nil)
	if err != nil {
		return err
	}
	if role == "receiver" {
		_, _, _, err := serve(q, os.Getenv(memberChannel), nil, channel.Acceptance{Any: true})
		if err != nil {
			return err
		}
	} else {
		dictionaries, err := newShelf(killedSeeds...)
		if err != nil {
			return err
		}
		o := senderOptions(q, &network{address: os.Getenv(memberChannel)}, codec.Zstd)
		o.Decoding = dictionaries.decoding()
		s, err := channel.NewSender(o)
		if err != nil {
			return err
		}
		go s.Run(context.Background())
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // Until the test ends, if it does not kill this.
	return nil
}

// process is a member that can be killed and started again.
type process struct {
	role, directory, nats, channel string
	command                        *exec.Cmd
	js                             jetstream.JetStream
}

// freeAddress returns one that stays free: connections begin at 127.0.0.1, so none can take its port while a member is
// dead.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(
		os.Environ(), memberRole+"="+p.role, memberDirectory+"="+p.directory, memberNATS+"="+p.nats,
		memberChannel+"="+p.channel,
	)
	p.command.Stderr = os.Stderr
	if _, err := p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait()
}

func newProcess(t *testing.T, role, channel string) *process {
	t.Helper()
	p := &process{role: role, directory: t.TempDir(), nats: freeAddress(t), channel: channel}
	p.start(t)
	conn, err := nats.Connect(
		"nats://"+p.nats, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); p.kill(t) })
	if p.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	return p
}

// body of message i, of which the checker knows all.
func body(i int) []byte {
	plain := fmt.Appendf(nil, "%d %s", i, text(200+i*37%3000))
	sum := fnv.New64a()
	_, _ = sum.Write(plain)
	return fmt.Appendf(plain, " %016x", sum.Sum64())
}

// TestKills kills both ends with SIGKILL at random moments, while messages are put into the one and got from the other,
// of which two thirds refer to one of two dictionaries. Each message that was acknowledged to who put it comes out once,
// whole and in order.
func TestKills(t *testing.T) {
	t.Parallel()
	const count, kills = 250, 5
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LIGHTERAGE_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LIGHTERAGE_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	wire := freeAddress(t)
	west, east := newProcess(t, "receiver", wire), newProcess(t, "sender", wire)
	messages := killedMessages(t, count)

	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // processes start a dozen times
	defer cancel()
	put := make(chan error, 1)
	go func() { put <- putAll(ctx, east.js, messages) }()
	got := make(chan error, 1)
	go func() { got <- getAll(ctx, west.js, count) }()
	for left := kills; left > 0; left-- {
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		victim := []*process{east, west}[random.IntN(2)]
		victim.kill(t)
		victim.start(t)
	}
	if err := <-put; err != nil {
		t.Errorf("putting: %v", err)
	}
	if err := <-got; err != nil {
		t.Errorf("getting: %v", err)
	}
}

// killedMessages are plain, or refer to a dictionary, by turns.
func killedMessages(t *testing.T, count int) []*nats.Msg {
	t.Helper()
	var out []*nats.Msg
	all := trained(t, killedSeeds...)
	for i := range count {
		m := &nats.Msg{Subject: "orders", Data: body(i), Header: nats.Header{}}
		if n := i % (len(all) + 1); n < len(all) {
			referring, err := all[n:].refer(body(i))
			if err != nil {
				t.Fatal(err)
			}
			m = referring[0]
		}
		out = append(out, m)
	}
	return out
}

// putAll puts each message until it is acknowledged, at a pace that leaves some for after each kill. Message ids keep
// the queue from storing one twice.
func putAll(ctx context.Context, js jetstream.JetStream, messages []*nats.Msg) error {
	for i, m := range messages {
		time.Sleep(4 * time.Millisecond)
		for {
			try, cancel := context.WithTimeout(ctx, time.Second)
			_, err := js.PublishMsg(try, m, jetstream.WithMsgID(strconv.Itoa(i)))
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// getAll gets and acknowledges messages, which are removed thereby, and checks them. A message that the queue delivers
// again keeps its sequence there; a second copy has another.
func getAll(ctx context.Context, js jetstream.JetStream, count int) error {
	decoder, err := newDecoding().Decoder()
	if err != nil {
		return err
	}
	next, last := 0, uint64(0)
	for next < count {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d messages came: %w", next, err)
		}
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		consumer, err := js.CreateOrUpdateConsumer(try, "orders", jetstream.ConsumerConfig{
			Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxAckPending: 1,
			FilterSubject: "orders",
		})
		cancel()
		for err == nil {
			var m jetstream.Msg
			if m, err = consumer.Next(jetstream.FetchMaxWait(time.Second)); err != nil {
				break
			}
			meta, bad := m.Metadata()
			if bad != nil {
				return bad
			}
			if meta.Sequence.Stream != last {
				form, bad := formOf(m.Headers())
				if bad != nil {
					return bad
				}
				plain, _, bad := decoder.Decode(nil, form, m.Data(), maxMessage)
				if bad != nil {
					return bad
				}
				if want := body(next); string(plain) != string(want) {
					return fmt.Errorf("%.20q came in place of %.20q", plain, want)
				}
				next, last = next+1, meta.Sequence.Stream
			}
			try, cancel := context.WithTimeout(ctx, time.Second)
			err = m.DoubleAck(try)
			cancel()
			if next == count {
				break
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	// What comes now came twice.
	time.Sleep(200 * time.Millisecond)
	info, err := infoOf(ctx, js)
	if err != nil {
		return err
	}
	if left := info.State.Subjects["orders"]; left > 1 { // the last one, whose acknowledgement may be lost
		return errors.New("messages came twice")
	}
	return nil
}

// infoOf looks at the queue, which may be killed meanwhile, and is asked again then.
func infoOf(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		var info *jetstream.StreamInfo
		stream, err := js.Stream(try, "orders")
		if err == nil {
			info, err = stream.Info(try, jetstream.WithSubjectFilter("orders"))
		}
		cancel()
		if err == nil {
			return info, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look at what is left: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
