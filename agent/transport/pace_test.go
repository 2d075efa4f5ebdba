// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: several connections together write what the pace allows, to the byte and the nanosecond of a clock of their
// own.
func TestPace(t *testing.T) {
	for _, bytesPerSecond := range []int64{MinPace, 10_000_019, 40 << 20} {
		synctest.Test(t, func(t *testing.T) {
			pace, err := NewPace(uint64(bytesPerSecond))
			if err != nil {
				t.Fatal(err)
			}
			const connections, seconds = 3, 10
			start := time.Now()
			var wg sync.WaitGroup
			var counter Counter
			for i := range connections {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }()
				wg.Go(func() {
					defer here.Close()
					conn := pacedConn{counter.Count(here), pace}
					for left := seconds * bytesPerSecond / connections; left > 0; {
						n, err := conn.Write(make([]byte, min(left, int64(5000+i*100_000))))
						if err != nil {
							t.Error(err)
							return
						}
						left -= int64(n)
					}
				})
			}
			wg.Wait()
			got := float64(counter.Bytes()) / time.Since(start).Seconds()
			if math.Abs(got/float64(bytesPerSecond)-1) > 0.01 {
				t.Errorf("%d bytes in %v are %.0f per second, not %d", counter.Bytes(), time.Since(start), got, bytesPerSecond)
			}
		})
	}
}

// TestPaceBurst: also in no tick more is written than the pace allows and one burst.
func TestPaceBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytesPerSecond = 10 << 20
		pace, err := NewPace(uint64(bytesPerSecond))
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		defer there.Close()
		go func() {
			defer here.Close()
			_, _ = pacedConn{here, pace}.Write(make([]byte, bytesPerSecond))
		}()
		start, sum := time.Now(), 0.0
		buffer := make([]byte, 1<<20)
		for {
			n, err := there.Read(buffer)
			if err != nil {
				break
			}
			sum += float64(n)
			if most := bytesPerSecond * (time.Since(start) + paceTick).Seconds(); sum > most+1 {
				t.Fatalf("%.0f bytes after %v; the most is %.0f", sum, time.Since(start), most)
			}
		}
		if sum != bytesPerSecond {
			t.Errorf("%.0f bytes arrived", sum)
		}
	})
}

func TestNewPace(t *testing.T) {
	for _, n := range []uint64{1, MinPace - 1, MaxPace + 1, math.MaxUint64} {
		if _, err := NewPace(n); err == nil {
			t.Errorf("a pace of %d", n)
		}
	}
	for _, n := range []uint64{0, MinPace, MaxPace} {
		if pace, err := NewPace(n); err != nil || pace.BytesPerSecond() != float64(n) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestPaceChanges: connections that write are held to a pace that is set meanwhile, also to a smaller one with a smaller
// burst, and to none.
func TestPaceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace, err := NewPace(0)
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		defer here.Close()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		conn := heldConn{pacedConn{here, pace}}
		write := func(n int) time.Duration {
			t.Helper()
			start := time.Now()
			if written, err := conn.Write(make([]byte, n)); err != nil || written != n {
				t.Fatalf("%d: %v", written, err)
			}
			return time.Since(start)
		}
		if took := write(100 << 20); took != 0 {
			t.Errorf("without a pace it takes %v", took)
		}
		for _, next := range []uint64{64 << 20, MinPace, 8 << 20} {
			if err := pace.Set(next); err != nil {
				t.Fatal(err)
			}
			if took := write(int(next) * 4); (took - 4*time.Second).Abs() > 2*paceTick {
				t.Errorf("four seconds of %d bytes per second take %v", next, took)
			}
		}
		// In the middle of a write.
		if err := pace.Set(MinPace); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() { _ = pace.Set(0) })
		if took := write(100 << 20); (took - 2*time.Second).Abs() > 2*paceTick {
			t.Errorf("it goes on for %v after the pace is gone", took-2*time.Second)
		}
		if err := pace.Set(1); err == nil || pace.BytesPerSecond() != 0 {
			t.Errorf("%v %v", err, pace.BytesPerSecond())
		}
	})
}
