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
	"time"

	"github.com/lighterage/lighterage/agent/meter"
)

const (
	// Bursts of a GiB are sent, so that each lasts many clock ticks; the median of them counts.
	bursts    = 5
	burstSize = 1 << 30
	// background is how long the rest of the machine is watched before a burst.
	background = 500 * time.Millisecond
	// tick is the unit of /proc/stat, the same on every Linux that Go runs on.
	tick = 10 * time.Millisecond
)

// NetworkCost is what moving a GiB through the network stack costs the system on nobody's account, measured several
// times.
type NetworkCost struct {
	// Median counts; Least and Most are how far the runs lay apart. None is negative.
	Median, Least, Most time.Duration
	Runs                int
}

// NetworkCPU returns the CPU time that sending and receiving a GiB over loopback TCP costs the system on nobody's
// account: what all processors were busy, less what this process was charged, less what the rest of the machine used
// just before. It is as coarse as the kernel's clock tick.
func NetworkCPU(ctx context.Context) (NetworkCost, error) {
	return networkCPU(ctx, bursts, burstSize)
}

func networkCPU(ctx context.Context, bursts, size int) (NetworkCost, error) {
	var costs []time.Duration
	for range bursts {
		if err := ctx.Err(); err != nil {
			return NetworkCost{}, err
		}
		cost, err := burst(ctx, size)
		if err != nil {
			return NetworkCost{}, fmt.Errorf("measure the cost of the network: %w", err)
		}
		costs = append(costs, cost)
	}
	return summary(costs, size), nil
}

// summary of at least one cost of a burst of that size.
func summary(costs []time.Duration, size int) NetworkCost {
	slices.Sort(costs)
	perGiB := func(cost time.Duration) time.Duration { return max(0, cost) * time.Duration(1<<30/size) }
	return NetworkCost{
		Median: perGiB(costs[len(costs)/2]), Least: perGiB(costs[0]), Most: perGiB(costs[len(costs)-1]), Runs: len(costs),
	}
}

// usage is CPU time since the start, of the machine and of this process.
type usage struct {
	at       time.Time
	busy     time.Duration
	ownSpent time.Duration
}

// others is what was used between two readings by anything but this process.
func (u usage) others(before usage) time.Duration {
	return (u.busy - before.busy) - (u.ownSpent - before.ownSpent)
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
	busy, err := parseBusy(line)
	if err != nil {
		return usage{}, err
	}
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return usage{}, err
	}
	return usage{at: time.Now(), busy: busy, ownSpent: user + system}, nil
}

// parseBusy reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. The guests that
// follow are in user already, and what the hypervisor stole was spent by nobody here.
func parseBusy(line string) (time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, errors.New("read /proc/stat: its first line is not that of all processors")
	}
	var ticks uint64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

func burst(ctx context.Context, size int) (time.Duration, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	before, err := readUsage()
	if err != nil {
		return 0, err
	}
	time.Sleep(background)
	start, err := readUsage()
	if err != nil {
		return 0, err
	}

	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- sendBurst(ctx, listener.Addr().String(), size) }()
	conn, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	buf := make([]byte, 256<<10)
	for {
		if _, err := conn.Read(buf); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, err
		}
	}
	if err := <-sent; err != nil {
		return 0, err
	}

	end, err := readUsage()
	if err != nil {
		return 0, err
	}
	elapsed, watched := end.at.Sub(start.at), start.at.Sub(before.at)
	usual := time.Duration(float64(start.others(before)) * float64(elapsed) / float64(watched))
	return end.others(start) - max(0, usual), nil
}

func sendBurst(ctx context.Context, address string, size int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf := make([]byte, 256<<10)
	for range size / len(buf) {
		if _, err := conn.Write(buf); err != nil {
			return err
		}
	}
	return nil
}
