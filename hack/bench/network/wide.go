// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// mtu of the interfaces of a Wide, in bytes.
const mtu = 1500

// Path is what packets meet in either direction of a Wide.
type Path struct {
	// Mbits per second, of packets with the headers of IP and TCP.
	Mbits int
	// RTT is the round-trip time without queues: half of it in each direction.
	RTT time.Duration
	// Loss is the share of packets that are lost, each independently of the others.
	Loss float64
}

// Wide is two namespaces joined by a long link: a program hands packets from one to the other, later. The kernel needs
// TUN devices for it, and no netem.
type Wide struct {
	Pair

	lanes [2]*lane
	wait  sync.WaitGroup
}

// lane is one direction.
type lane struct {
	in, out *os.File
	path    Path
	random  *rand.Rand
	// free is when the link has sent what is in its queue.
	free time.Time
	sent chan packet
	// carried, lost and dropped count packets: those that arrived, those that were lost on the way, and those that found
	// the queue full. bytes are those of the packets that arrived.
	carried, lost, dropped, bytes atomic.Int64
}

// packet is on its way.
type packet struct {
	due  time.Time
	data []byte
}

// NewWide makes the namespaces NAME-a and NAME-b as New does, with congestion control CUBIC. The queue before the link
// holds what the link carries in one round-trip time. Losses are the same in every run.
func NewWide(ctx context.Context, name, prefix string, path Path) (_ *Wide, err error) {
	w := &Wide{Pair: Pair{
		sender:   side{space: name + "-a", device: name + "-ta", address: prefix + "1"},
		receiver: side{space: name + "-b", device: name + "-tb", address: ReceiverAddress(prefix)},
	}}
	defer func() { //nolint:contextcheck // also when the context has ended
		if err != nil {
			err = errors.Join(fmt.Errorf("set up a wide network: %w", err), w.Close())
		}
	}()
	var ends [2]*os.File
	defer func() {
		for _, end := range ends {
			if err != nil && end != nil {
				_ = end.Close()
			}
		}
	}()
	for i, s := range []side{w.sender, w.receiver} {
		if ends[i], err = tun(s.device); err != nil {
			return w, err
		}
		for _, args := range []string{
			"netns add " + s.space,
			"link set " + s.device + " netns " + s.space,
			"-n " + s.space + " address add " + s.address + "/30 dev " + s.device,
			"-n " + s.space + " link set " + s.device + " mtu " + fmt.Sprint(mtu) + " txqueuelen 10000 up",
			"-n " + s.space + " link set lo up",
			// The kernel lets no namespace have CUBIC for its default. A connection may choose another after connecting.
			"-n " + s.space + " route replace " + prefix + "0/30 dev " + s.device + " src " + s.address + " congctl cubic",
		} {
			if err := harness.Command(ctx, "ip", strings.Fields(args)...); err != nil {
				return w, err
			}
		}
	}
	for i := range w.lanes {
		l := &lane{
			in: ends[i], out: ends[1-i], path: path, random: rand.New(rand.NewPCG(uint64(i), 1)),
			sent: make(chan packet, 1<<16),
		}
		w.lanes[i] = l
		w.wait.Go(l.take)
		w.wait.Go(l.deliver)
	}
	return w, nil
}

// tun makes a TUN device.
func tun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the TUN device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// take reads packets until the device is closed.
func (l *lane) take() {
	defer close(l.sent)
	buffer := make([]byte, 2*mtu)
	for {
		n, err := l.in.Read(buffer)
		if err != nil {
			return
		}
		due, arrives := l.pass(time.Now(), n)
		if !arrives {
			continue
		}
		select {
		case l.sent <- packet{due: due, data: append([]byte(nil), buffer[:n]...)}:
		default:
			l.dropped.Add(1)
		}
	}
}

// pass says when a packet of n bytes arrives at the other end, if it does.
func (l *lane) pass(now time.Time, n int) (due time.Time, arrives bool) {
	if l.random.Float64() < l.path.Loss {
		l.lost.Add(1)
		return time.Time{}, false
	}
	if l.free.Before(now) {
		l.free = now
	}
	if l.free.Sub(now) > l.path.RTT {
		l.dropped.Add(1)
		return time.Time{}, false
	}
	l.free = l.free.Add(time.Duration(n*8) * time.Microsecond / time.Duration(l.path.Mbits))
	l.carried.Add(1)
	l.bytes.Add(int64(n))
	return l.free.Add(l.path.RTT / 2), true
}

// deliver writes packets when they are due.
func (l *lane) deliver() {
	for p := range l.sent {
		if wait := time.Until(p.due); wait > 0 {
			time.Sleep(wait)
		}
		_, _ = l.out.Write(p.data) // what an interface that goes down does not take is lost, too
	}
}

// Sent is how many bytes have arrived at the receiver's end, with the headers of packets and segments.
func (w *Wide) Sent(context.Context) (int64, error) { return w.lanes[0].bytes.Load(), nil }

// String tells what became of the packets of both directions.
func (w *Wide) String() string {
	var text []string
	for i, name := range []string{"to the receiver", "back"} {
		l := w.lanes[i]
		text = append(text, fmt.Sprintf("%s %d carried, %d lost, %d dropped", name, l.carried.Load(), l.lost.Load(),
			l.dropped.Load()))
	}
	return strings.Join(text, "; ")
}

// Close removes the namespaces. What has sockets in them has ended before.
func (w *Wide) Close() error {
	var errs []error
	for _, l := range w.lanes {
		if l != nil {
			errs = append(errs, l.in.Close())
		}
	}
	w.wait.Wait()
	return errors.Join(append(errs, w.Pair.Close())...)
}
