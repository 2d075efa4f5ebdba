// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const deviceSize = 24<<20 + 512*3

// deviceContent is random data with ranges of zeros.
func deviceContent() []byte {
	content := make([]byte, deviceSize)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(content[:2<<20])
	r.Read(content[5<<20+100 : 5<<20+4096])
	r.Read(content[9<<20 : 14<<20])
	r.Read(content[deviceSize-512:])
	return content
}

// standIn is a file that stands for a device.
func standIn(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loopDevice attaches a file to a loop device, and skips the test where that cannot be.
func loopDevice(t testing.TB, file string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v: %s", device, err, out)
		}
	})
	return device
}

func toDevice(t testing.TB, path string) receiveOption {
	t.Helper()
	d, err := tree.OpenDeviceDestination(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *receive.Options) { o.Destination, o.Block = receive.Device{DeviceDestination: d}, true }
}

func fromDevice(t testing.TB, path string) sendOption {
	t.Helper()
	s, err := tree.OpenDeviceSource(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func(o *send.Options) { o.Source, o.Block = s, true }
}

// moveDevice sends a device to another one.
func moveDevice(t testing.TB, source, destination string, options ...sendOption) *wirev1.Report {
	t.Helper()
	p := startReceiver(t, t.TempDir(), toDevice(t, destination))
	sent, err := p.send(t.Context(), t, t.TempDir(), append([]sendOption{fromDevice(t, source)}, options...)...)
	if received := p.wait(t); err != nil || received != nil {
		t.Fatalf("sender: %v; receiver: %v", err, received)
	}
	return sent
}

func checkDevice(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the destination's %d bytes are not what they should be", len(got))
	}
}

func TestDeviceIsMovedWithoutItsZeros(t *testing.T) {
	for _, kind := range []struct {
		name string
		of   func(testing.TB, string) string
	}{{"file", func(_ testing.TB, file string) string { return file }}, {"loop", loopDevice}} {
		t.Run(kind.name, func(t *testing.T) {
			content := deviceContent()
			// What the destination holds already must not shine through, and what is beyond the source stays.
			before := bytes.Repeat([]byte{0xaa}, deviceSize+1<<20)
			from, to := kind.of(t, standIn(t, content)), kind.of(t, standIn(t, before))
			want := append(bytes.Clone(content), before[deviceSize:]...)

			p := moveDevice(t, from, to).GetProgress()
			checkDevice(t, to, want)
			if zeros := uint64(deviceSize - 8<<20); p.GetHoleBytes() < zeros {
				t.Errorf("%d bytes were holes; want at least %d", p.GetHoleBytes(), zeros)
			}

			// Of the next run only what has changed is sent.
			change := make([]byte, 64<<10)
			f, err := os.OpenFile(from, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(bytes.Repeat([]byte{1}, len(change)), 10<<20); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				t.Fatal(err)
			}
			copy(want[10<<20:], bytes.Repeat([]byte{1}, len(change)))
			report := moveDevice(t, from, to)
			checkDevice(t, to, want)
			if sent := report.GetCompression().GetUncompressedBytes(); sent > 128<<10 {
				t.Errorf("%d bytes were sent of a device of which 64 KiB had changed", sent)
			}
		})
	}
}

func TestDeviceHasReceipt(t *testing.T) {
	content := deviceContent()
	to := standIn(t, make([]byte, deviceSize))
	report := moveDevice(t, standIn(t, content), to, func(o *send.Options) { o.Contents = true })
	if c := report.GetContents(); c.GetBytes() != deviceSize || len(c.GetSha256()) != 32 {
		t.Errorf("the digest of the contents is %v", c)
	}
	checkDevice(t, to, content)
}

// A killed attempt leaves a device that is part old and part new. The next one sends what is not there.
func TestDeviceIsResumed(t *testing.T) {
	content := make([]byte, deviceSize)
	rand.NewChaCha8([32]byte{2}).Read(content)
	from, to := standIn(t, content), standIn(t, make([]byte, deviceSize))

	p := startReceiver(t, t.TempDir(), toDevice(t, to))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent, err := p.send(ctx, t, t.TempDir(), fromDevice(t, from), func(o *send.Options) {
		o.Streams = 1
		dial := o.DialBlocks
		o.DialBlocks = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			return &dyingConn{Conn: c, left: deviceSize / 2}, err
		}
	})
	if err == nil || p.wait(t) == nil {
		t.Fatalf("the attempt did not fail: %v", sent)
	}
	report := moveDevice(t, from, to)
	checkDevice(t, to, content)
	// A block and what is on its way may be lost.
	if again := report.GetCompression().GetUncompressedBytes(); again > deviceSize/2+(4<<20) {
		t.Errorf("%d of %d bytes were sent again after half of them had arrived", again, deviceSize)
	}
}

// dyingConn fails after so many bytes.
type dyingConn struct {
	net.Conn
	left int
}

func (c *dyingConn) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func TestVolumeModesMustAgree(t *testing.T) {
	device := standIn(t, deviceContent())
	for _, c := range []struct {
		name    string
		receive []receiveOption
		send    []sendOption
	}{
		{"Filesystem to Block", []receiveOption{toDevice(t, device)}, nil},
		{"Block to Filesystem", nil, []sendOption{fromDevice(t, device)}},
		{"Block to Filesystem in a form", nil, []sendOption{
			fromDevice(t, device), func(o *send.Options) { o.Form = cargo.Gzip },
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			destination, source := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(source, tree.DeviceName), make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startReceiver(t, destination, c.receive...)
			_, err := p.send(t.Context(), t, source, c.send...)
			wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH)
			checkDevice(t, device, deviceContent())
			if left, err := os.ReadDir(destination); c.receive == nil && (err != nil || len(left) > 0) {
				t.Errorf("the destination has %v, %v", left, err)
			}
		})
	}
}

func TestLargerDeviceIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	before := bytes.Repeat([]byte{3}, 8<<20)
	to := standIn(t, before)
	p := startReceiver(t, t.TempDir(), toDevice(t, to))
	_, err := p.send(t.Context(), t, t.TempDir(), fromDevice(t, standIn(t, deviceContent())))
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL)
	checkDevice(t, to, before)
}

// withdrawnDevice is gone when something behind its beginning is read.
type withdrawnDevice struct{ send.Source }

func (withdrawnDevice) Again(*tree.Entry) (*tree.Entry, error) { return nil, fs.ErrNotExist }

func (d withdrawnDevice) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	if offset > 6<<20 {
		return tree.ErrChanged
	}
	return d.Source.ReadAt(e, p, offset)
}

func TestDeviceThatIsWithdrawnIsNotComplete(t *testing.T) {
	s, err := tree.OpenDeviceSource(standIn(t, deviceContent()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p := startReceiver(t, t.TempDir(), toDevice(t, standIn(t, bytes.Repeat([]byte{7}, deviceSize))))
	_, err = p.send(t.Context(), t, t.TempDir(), func(o *send.Options) {
		o.Source, o.Block, o.ChangedPauses = withdrawnDevice{s}, true, []time.Duration{0, 0}
	})
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
}

// An image that is replaced, or removed, while it is restored ends the attempt. The next one makes the device that of
// the image which is there then, and leaves nothing of the first one.
func TestImageThatChangesWhileItIsRestored(t *testing.T) {
	first := bytes.Repeat([]byte{7}, deviceSize)
	second := deviceContent()
	clear(second[:1<<20])
	for _, removed := range []bool{true, false} {
		server := objectstoretest.New(t, "")
		store := objectstoretest.Open(t, server.Options("disk"))
		key := "disk/" + tree.ImageName
		server.Add(key, first, time.Unix(1, 0))
		reads := 0
		server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, key) {
				reads++
			}
			if reads == 5 {
				reads++
				server.Unlocked(func() {
					if server.Remove(key); !removed {
						server.Add(key, second, time.Unix(2, 0))
					}
				})
			}
			return false
		})
		to := standIn(t, make([]byte, deviceSize))
		restore := func() (*pair, error) {
			p := startReceiver(t, t.TempDir(), toDevice(t, to))
			_, err := p.send(t.Context(), t, t.TempDir(), func(o *send.Options) {
				o.Source, o.Block = bucket.NewImageSource(bucket.NewSource(t.Context(), store, nil)), true
				o.ChangedPauses = []time.Duration{0, 0}
			})
			return p, err
		}
		p, err := restore()
		if received := p.wait(t); received == nil || !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) {
			t.Errorf("removed %v: sender: %v; receiver: %v", removed, err, received)
		}
		server.Intercept(nil)
		server.Add(key, second, time.Unix(2, 0))
		p, err = restore()
		if received := p.wait(t); err != nil || received != nil {
			t.Fatalf("removed %v: sender: %v; receiver: %v", removed, err, received)
		}
		checkDevice(t, to, second)
	}
}

// Images of the same size and second are told apart in a claim with files.
func TestImagesOfTheSameSecondAreRestoredAsFiles(t *testing.T) {
	server := objectstoretest.New(t, "")
	store := objectstoretest.Open(t, server.Options("disk"))
	destination := t.TempDir()
	for _, version := range []string{"a", "b"} {
		content := bytes.Repeat([]byte(version), 4096)
		from, err := tree.OpenDeviceSource(standIn(t, content))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = from.Close() })
		from.Image(version, time.Unix(1700000000, 0))
		err = bucket.Write(t.Context(), bucket.WriteOptions{
			Origin: from, Store: store, Transfer: "bank/disk (1)", RunID: version, Attempt: 1, Image: true, Streams: 1,
			Report: send.NewReport(),
		})
		if err != nil {
			t.Fatal(err)
		}
		p := startReceiver(t, destination)
		_, err = p.send(t.Context(), t, t.TempDir(), func(o *send.Options) {
			o.Source = bucket.NewSource(t.Context(), store, nil)
		})
		if received := p.wait(t); err != nil || received != nil {
			t.Fatalf("sender: %v; receiver: %v", err, received)
		}
		checkDevice(t, filepath.Join(destination, tree.ImageName), content)
	}
}
