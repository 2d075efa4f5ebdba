// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transport"
)

const (
	// rounds of runs, one for each length of records and each way to acknowledge.
	rounds = 5
	// lasting is how long records are sent in a run, so that it lasts many clock ticks.
	lasting = 300 * time.Millisecond
	// background is how long the rest of the machine is watched before a run, and firstLook before the first.
	background = 200 * time.Millisecond
	firstLook  = time.Second
	// maxBackground is the share of the processors' time beyond which what others use drowns what is measured.
	maxBackground = 0.1
	// tick is the unit of /proc/stat, the same on every Linux that Go runs on.
	tick = 10 * time.Millisecond
	// bulk is the length of records of the runs that the cost of a GiB is taken from.
	bulk = 256 << 10
)

// recordLengths of the runs: from segments that hold little to such that hold as much as there may be.
var recordLengths = []int{80, 1448, 27998, bulk}

// NetworkCost is what the network stack costs the system on nobody's account, measured several times. None of it is
// negative.
type NetworkCost struct {
	// Median counts for a GiB in bulk; Least and Most are how far the runs lay apart.
	Median, Least, Most time.Duration
	Runs                int
	// Acknowledgement and Segment are the seconds for each segment that arrives without data and with it, Byte for each
	// byte of data in it.
	Acknowledgement, Segment, Byte float64
	// Background is the share of the processors' time that others used between runs.
	Background float64
}

// ErrBusy is why nothing is measured while others use much of the node.
var ErrBusy = errors.New("others use too much of the node's processors to measure what the network costs")

// NetworkCPU measures over loopback TCP what the network costs the system on nobody's account: what all processors were
// busy, less what this process was charged, less what the rest of the machine used just before. A run is as coarse as
// the kernel's clock tick. On a node that is busy it fails with ErrBusy, and the cost has the Background alone.
func NetworkCPU(ctx context.Context) (NetworkCost, error) {
	return calibration{rounds, lasting, background, firstLook, maxBackground}.run(ctx)
}

type calibration struct {
	rounds                         int
	lasting, background, firstLook time.Duration
	maxBackground                  float64
}

func (c calibration) run(ctx context.Context) (NetworkCost, error) {
	if before, after, err := watch(ctx, c.firstLook); err != nil {
		return NetworkCost{}, fmt.Errorf("measure the cost of the network: %w", err)
	} else if share := after.othersShare(before); share > c.maxBackground {
		return NetworkCost{Background: share}, ErrBusy
	}
	var all []observation
	var gibs []time.Duration
	var shares []float64
	for range c.rounds {
		for _, length := range recordLengths {
			for _, quick := range []bool{false, true} {
				o, share, err := c.measure(ctx, length, quick)
				if err != nil {
					return NetworkCost{}, fmt.Errorf("measure the cost of the network: %w", err)
				}
				all, shares = append(all, o), append(shares, share)
				if length == bulk && !quick && o.x[2] > 0 {
					gibs = append(gibs, time.Duration(o.y/o.x[2]*(1<<30)*float64(time.Second)))
				}
			}
		}
	}
	slices.Sort(shares)
	// In the median: what begins meanwhile and ends soon spoils few runs.
	if share := shares[len(shares)/2]; share > c.maxBackground {
		return NetworkCost{Background: share}, ErrBusy
	}
	cost := summary(gibs)
	cost.Background = shares[len(shares)/2]
	found := fit(all)
	cost.Acknowledgement, cost.Segment, cost.Byte = found[0], found[1], found[2]
	return cost, nil
}

// summary of the costs of a GiB.
func summary(costs []time.Duration) NetworkCost {
	if len(costs) == 0 {
		return NetworkCost{}
	}
	slices.Sort(costs)
	return NetworkCost{
		Median: max(0, costs[len(costs)/2]), Least: max(0, costs[0]), Most: max(0, costs[len(costs)-1]), Runs: len(costs),
	}
}

// watch reads what is used before and after a time in which this process does nothing.
func watch(ctx context.Context, d time.Duration) (before, after usage, err error) {
	if before, err = readUsage(); err != nil {
		return before, after, err
	}
	select {
	case <-ctx.Done():
		return before, after, ctx.Err()
	case <-time.After(d):
	}
	after, err = readUsage()
	return before, after, err
}

// usage is CPU time since the start, of the machine and of this process.
type usage struct {
	at       time.Time
	busy     time.Duration
	all      time.Duration // idle time included
	ownSpent time.Duration
}

// others is what was used between two readings by anything but this process.
func (u usage) others(before usage) time.Duration {
	return (u.busy - before.busy) - (u.ownSpent - before.ownSpent)
}

// othersShare is that of the processors' time.
func (u usage) othersShare(before usage) float64 {
	if u.all <= before.all {
		return 0
	}
	return max(0, float64(u.others(before))/float64(u.all-before.all))
}

func readUsage() (usage, error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return usage{}, err
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 4096).ReadString('\n')
	if err != nil {
		return usage{}, fmt.Errorf("read /proc/stat: %w", err)
	}
	busy, all, err := parseBusy(line)
	if err != nil {
		return usage{}, err
	}
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return usage{}, err
	}
	return usage{at: time.Now(), busy: busy, all: all, ownSpent: user + system}, nil
}

// parseBusy reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. The guests that
// follow are in user already, and what the hypervisor stole was spent by nobody here. It returns the time in which the
// processors were busy, and all of it.
func parseBusy(line string) (busy, all time.Duration, err error) {
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, 0, errors.New("read /proc/stat: its first line is not that of all processors")
	}
	var ticks [8]uint64
	for i := 1; i < min(len(fields), 9); i++ {
		if ticks[i-1], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("read /proc/stat: %w", err)
		}
	}
	used := ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
	return time.Duration(used) * tick, time.Duration(used+ticks[3]+ticks[4]+ticks[7]) * tick, nil
}

// measure is one run with records of a length. quick: each segment is acknowledged at once, which sets apart what
// acknowledgements cost. It also returns the share of the processors' time that others used just before.
func (c calibration) measure(ctx context.Context, length int, quick bool) (observation, float64, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return observation{}, 0, err
	}
	defer listener.Close()
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return observation{}, 0, err
	}
	pusher, err := (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return observation{}, 0, err
	}
	defer pusher.Close()
	puller, err := listener.Accept()
	if err != nil {
		return observation{}, 0, err
	}
	defer puller.Close()

	before, start, err := watch(ctx, c.background)
	if err != nil {
		return observation{}, 0, err
	}
	var pushed, pulled transport.Counter
	sending := transport.Meter(pusher, &pushed, nil)
	receiving := transport.Meter(puller, &pulled, nil)
	sent := make(chan error, 1)
	go func() { sent <- push(sending, length, c.lasting) }()
	if err := pull(receiving, puller.(*net.TCPConn), quick); err != nil {
		return observation{}, 0, err
	}
	if err := <-sent; err != nil {
		return observation{}, 0, err
	}
	end, err := readUsage()
	if err != nil {
		return observation{}, 0, err
	}
	elapsed, watched := end.at.Sub(start.at), start.at.Sub(before.at)
	usual := time.Duration(float64(start.others(before)) * float64(elapsed) / float64(watched))
	arrived := pulled.Traffic()
	return observation{
		x: [regressors]float64{
			float64(pushed.Traffic().Acknowledgements), float64(arrived.Segments), float64(arrived.Bytes),
		},
		y: (end.others(start) - max(0, usual)).Seconds(),
	}, start.othersShare(before), nil
}

// push sends records for a time and closes the connection.
func push(conn net.Conn, length int, lasting time.Duration) error {
	buf := make([]byte, length)
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		if _, err := conn.Write(buf); err != nil {
			_ = conn.Close()
			return err
		}
	}
	return conn.Close()
}

// pull receives until the other end closes. raw is the connection below conn.
func pull(conn net.Conn, raw *net.TCPConn, quick bool) error {
	socket, err := raw.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, bulk)
	for {
		if quick { // the kernel forgets it
			if err := setQuick(socket); err != nil {
				return err
			}
		}
		if _, err := conn.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func setQuick(socket syscall.RawConn) error {
	var failed error
	if err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	}); err != nil {
		return err
	}
	return failed
}
