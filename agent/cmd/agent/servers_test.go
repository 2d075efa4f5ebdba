// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestServers moves trees through real servers, with agents and servers that are killed.
func TestServers(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			proxy := objectstoretest.NewProxy(t, start(t))
			t.Run("RoundTrip", func(t *testing.T) {
				roundTrip(t, proxy, wirev1.Form_FORM_UNSPECIFIED)
				roundTrip(t, proxy, wirev1.Form_FORM_ARCHIVE)
				roundTrip(t, proxy, wirev1.Form_FORM_GZIP)
			})
			t.Run("KilledSender", func(t *testing.T) { killedSender(t, proxy) })
			t.Run("KilledRestore", func(t *testing.T) { killedRestore(t, proxy) })
			if proxy.Directory != "" { // What the other one has is in memory.
				t.Run("KilledServer", func(t *testing.T) { killedServer(t, proxy) })
			}
		})
	}
}

// journey is a claim, a prefix of a bucket, and another claim.
type journey struct {
	*localRun
	to, from *wirev1.LocalConfig
}

func newJourney(t *testing.T, proxy *objectstoretest.Proxy, prefix string) *journey {
	t.Helper()
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	load(t, filepath.Join(r.source, "data"))
	end := &wirev1.StoreEnd{
		Store: &wirev1.ObjectStoreConfig{
			Endpoint: proxy.Endpoint, CaBundle: proxy.CA, Bucket: objectstoretest.Bucket, Prefix: prefix,
			CredentialsDirectory: proxy.Credentials,
		},
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true},
	}
	send, receive := r.config.GetSend(), r.config.GetReceive()
	from := &wirev1.SendConfig{
		RunId: send.GetRunId(), Attempt: 1, Verify: true, ControlAddress: send.GetControlAddress(),
		Compression: send.GetCompression(), CheckpointInterval: 1 << 20,
	}
	return &journey{
		localRun: r,
		to: &wirev1.LocalConfig{
			Send: send, Receive: &wirev1.ReceiveConfig{
				RunId: send.GetRunId(), Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
			},
			DestinationStore: end, Transfer: "bank/ledger (" + prefix + ")",
		},
		from: &wirev1.LocalConfig{Send: from, Receive: receive, SourceStore: end},
	}
}

// load makes a tree with all that a round trip has to keep.
func load(t *testing.T, root string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	for i := range 300 {
		path := filepath.Join(root, fmt.Sprintf("many/%d/%d.log", i%7, i))
		b := bytes.Repeat([]byte(fmt.Sprintf("line %d\n", i)), i*11)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, fs.FileMode(0o600+i%64)); err != nil {
			t.Fatal(err)
		}
	}
	large := make([]byte, 24<<20)
	_, _ = random.Read(large)
	for name, b := range map[string][]byte{"large.db": large, "ü b/%2F+&=": []byte("name"), "empty": nil} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o640); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(1_600_000_000, int64(len(name))*1_000_003)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	_ = unix.Setxattr(filepath.Join(root, "large.db"), "user.colour", []byte("blue"), 0) // where there are such
	if err := os.Mkdir(filepath.Join(root, "hollow"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../large.db", filepath.Join(root, "many/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "large.db"), filepath.Join(root, "name-of-large")); err != nil {
		t.Fatal(err)
	}
}

// must runs an agent to its end, as attempt n.
func (j *journey) must(t *testing.T, c *wirev1.LocalConfig, n uint32) *wirev1.Report {
	t.Helper()
	c.Send.Attempt, c.Receive.Attempt = n, n
	j.config = c
	code, report, log := j.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	return report
}

// arrived reports what differs between the claims. With part, files may be missing at the destination, and directories
// may have other attributes.
func (j *journey) arrived(t *testing.T, part bool) {
	t.Helper()
	want, got := describe(t, filepath.Join(j.source, "data")), describe(t, filepath.Join(j.destination, "copy"))
	for path, w := range want {
		g, ok := got[path]
		if part { // Links are made at the end.
			w, g = links.ReplaceAllString(w, ""), links.ReplaceAllString(g, "")
		}
		directory := strings.HasPrefix(w, "d")
		switch {
		case !ok && part:
		case part && directory:
		case g != w:
			t.Errorf("%s arrived as %q, want %q", path, g, w)
		}
		delete(got, path)
	}
	for path := range got {
		if !part || !strings.HasPrefix(path, ".lighterage") {
			t.Errorf("%s is at the destination and not at the source", path)
		}
	}
}

var links = regexp.MustCompile(` \d+ links`)

// describe says of each path of a tree what a round trip keeps.
func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		text := fmt.Sprintf("%v %d", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			colour := make([]byte, 16)
			n, _ := unix.Getxattr(path, "user.colour", colour)
			var stat unix.Stat_t
			if err := unix.Stat(path, &stat); err != nil {
				return err
			}
			text += fmt.Sprintf(" %d links, %d bytes %x, %q", stat.Nlink, len(b), hashOf(b), colour[:max(n, 0)])
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text = "link to " + target
		}
		all[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// kill starts an agent as attempt 1 and kills it when it is in the middle of a request; false: it ended before that.
func (j *journey) kill(
	t *testing.T, proxy *objectstoretest.Proxy, c *wirev1.LocalConfig, kind objectstoretest.Kind, after int64,
) bool {
	t.Helper()
	reached := make(chan struct{})
	proxy.Inject(kind.After(after, objectstoretest.Stall(reached)))
	defer proxy.Inject(nil)
	c.Send.Attempt, c.Receive.Attempt = 1, 1
	configure(t, j.directory, c)
	child := exec.CommandContext(t.Context(), os.Args[0], "local", "--config-dir", j.directory, "--termination-log",
		filepath.Join(t.TempDir(), "log"))
	child.Env = append(os.Environ(), childEnv+"=1")
	var log lines
	child.Stdout, child.Stderr = &log, &log
	if err := objectstoretest.StartWithTest(child); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = child.Wait()
		close(ended)
	}()
	select {
	case <-reached:
	case <-ended:
		if !child.ProcessState.Success() {
			t.Fatalf("the agent failed:\n%s", log.String())
		}
		return false
	}
	_ = child.Process.Kill()
	<-ended
	return true
}

// roundTrip moves a claim into a bucket and out of it, and compares the claims.
func roundTrip(t *testing.T, proxy *objectstoretest.Proxy, form wirev1.Form) {
	j := newJourney(t, proxy, "round/trip/"+form.String())
	j.to.Send.Form = form
	j.must(t, j.to, 1)
	j.must(t, j.from, 1)
	j.arrived(t, false)
	if again := j.must(t, j.to, 2).GetProgress(); again.GetUnchangedFiles() != again.GetFiles() {
		t.Errorf("a second run: %v", again)
	}
	if again := j.must(t, j.from, 2).GetProgress(); again.GetUnchangedFiles() != again.GetFiles() {
		t.Errorf("a second restore: %v", again)
	}
}

func killedSender(t *testing.T, proxy *objectstoretest.Proxy) {
	j := newJourney(t, proxy, "killed/sender")
	for _, after := range []int64{0, 100, 250} {
		if !j.kill(t, proxy, j.to, objectstoretest.Wholes, after) {
			break
		}
	}
	j.kill(t, proxy, j.to, objectstoretest.Parts, 1)
	j.must(t, j.to, 2)
	j.must(t, j.from, 1)
	j.arrived(t, false)
}

func killedRestore(t *testing.T, proxy *objectstoretest.Proxy) {
	j := newJourney(t, proxy, "killed/restore")
	j.must(t, j.to, 1)
	killed := 0
	for _, after := range []int64{0, 30, 150, 290} {
		if j.kill(t, proxy, j.from, objectstoretest.Gets, after) {
			killed++
		}
		j.arrived(t, true)
	}
	if killed < 2 {
		t.Errorf("the agent was killed %d times", killed)
	}
	report := j.must(t, j.from, 2)
	t.Logf("after kills: %v", report.GetProgress())
	j.arrived(t, false)
}

// killedServer kills the server in mid-restore. It is back before the attempt gives up.
func killedServer(t *testing.T, proxy *objectstoretest.Proxy) {
	j := newJourney(t, proxy, "killed/server")
	j.must(t, j.to, 1)
	for _, back := range []bool{true, false} {
		proxy.Inject(objectstoretest.Gets.After(40, objectstoretest.Once(func() {
			proxy.Kill()
			if back {
				if err := proxy.Restart(); err != nil {
					t.Error(err)
				}
			}
		})))
		j.from.Send.Attempt, j.from.Receive.Attempt = 1, 1
		j.config = j.from
		code, report, log := j.run(t.Context(), t)
		proxy.Inject(nil)
		j.arrived(t, !back)
		switch {
		case back && code != exitOK:
			t.Errorf("the server was back: the agent exits with %d:\n%s", code, log)
		case !back && report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE:
			t.Errorf("without a server: %v", report.GetFailure())
		}
		if back {
			if err := os.RemoveAll(filepath.Join(j.destination, "copy")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := proxy.Restart(); err != nil {
		t.Fatal(err)
	}
	j.must(t, j.from, 2)
	j.arrived(t, false)
}
