// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	queueName     = "orders"
	homeNamespace = "bank"
	clientAddress = "10.77.0.254"
	// volumeSize of each member, and what of it messages may take.
	volumeSize, capacity = 256 << 20, 192 << 20
	// backoff before a member that ended is started again, as the kubelet has one.
	backoff = 500 * time.Millisecond
	// A member whose /livez fails livenessFailures times in a row, a livenessPeriod apart, is killed and started again.
	// The kubelet takes longer.
	livenessPeriod, livenessFailures = time.Second, 3
)

// member is a process of the agent with a host name, a network and a volume of its own, which is started again when it
// ends, as a container of a StatefulSet is.
type member struct {
	*testing.T
	name, address, config, volume string
	capacity                      uint64 // of volume
	log                           *os.File
	agent                         string   // the program
	environment                   []string // beside that of the tests

	mu      sync.Mutex
	command *exec.Cmd     // nil while it is kept down
	ended   chan struct{} // closed when command has
	down    bool          // it is to stay down
	deaths  int           // by itself, or by the kubelet's hand
}

// newMember makes all but the process.
func newMember(t *testing.T, name, address, files string) *member {
	t.Helper()
	m := &member{
		T: t, name: name, address: address, config: files, volume: t.TempDir(), capacity: capacity,
		agent: os.Getenv(agentVariable), down: true,
	}
	var err error
	if m.log, err = os.Create(filepath.Join(t.TempDir(), m.name+".log")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", m.volume, "tmpfs", 0, fmt.Sprintf("size=%d", volumeSize)); err != nil {
		t.Fatal(err)
	}
	device := "to-" + m.name
	m.run("ip", "netns", "add", m.name)
	m.run("ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", m.name)
	m.run("ip", "link", "set", device, "master", "members", "up")
	m.run("ip", "-n", m.name, "addr", "add", m.address+"/24", "dev", "eth0")
	m.run("ip", "-n", m.name, "link", "set", "eth0", "up")
	m.run("ip", "-n", m.name, "link", "set", "lo", "up")
	t.Cleanup(func() {
		m.kill()
		m.showLog()
		m.findRaces()
		_ = m.log.Close()
		m.run("ip", "link", "del", device) // Of itself it would go some time after the other end.
		m.run("ip", "netns", "del", m.name)
		if err := syscall.Unmount(m.volume, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *member) run(command ...string) {
	m.Helper()
	if err := run(command...); err != nil {
		m.Fatal(err)
	}
}

// configure writes what the manager would.
func (m *member) configure(common *wirev1.QueueConfig) {
	m.Helper()
	c := proto.CloneOf(common)
	c.ListenAddress, c.ControlAddress, c.HealthAddress = m.address+":4222", m.address+":8443", m.address+":8080"
	if len(c.GetMembers()) > 1 {
		c.RouteAddress = m.address + ":6222"
	}
	c.ServiceAddress = m.address + ":" + servicePort
	if c.GetAcceptance() != nil {
		c.Acceptance.Address = m.address + ":" + channelPort
	}
	c.Storage = &wirev1.QueueStorage{Directory: m.volume, Capacity: m.capacity}
	b, err := protojson.Marshal(c)
	if err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.config, "config.json"), b, 0o600); err != nil {
		m.Fatal(err)
	}
}

// start lets it run from now on.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.down {
		return
	}
	m.down = false
	m.launch()
}

// launch starts a process. What enters the namespaces becomes the agent, so that it has the process id.
func (m *member) launch() {
	command := exec.CommandContext(context.Background(), "nsenter", "--net=/run/netns/"+
		m.name, "unshare", "--uts", "sh", "-c", `hostname "$0" && exec "$@"`,
		m.name, m.agent, "queue", "--config-dir", m.config)
	command.Env = append(os.Environ(), m.environment...)
	command.Stdout, command.Stderr = m.log, m.log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		m.Errorf("start %s: %v", m.name, err)
		return
	}
	ended := make(chan struct{})
	m.command, m.ended = command, ended
	go m.keepAlive(command, ended)
	go func() {
		err := command.Wait()
		close(ended)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.down || m.command != command { // it was ended, and may have been started again since
			return
		}
		m.deaths++
		m.Logf("%s ended: %v", m.name, err)
		time.AfterFunc(backoff, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.down && m.command == command {
				m.launch()
			}
		})
	}()
}

// keepAlive does what the kubelet does.
func (m *member) keepAlive(command *exec.Cmd, ended <-chan struct{}) {
	ticker := time.NewTicker(livenessPeriod)
	defer ticker.Stop()
	for failures := 0; failures < livenessFailures; {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		// That nobody answers may be the fault of this machine.
		if code, text := m.probe("/livez"); code == http.StatusServiceUnavailable {
			failures++
			m.Logf("%s is not alive: %s", m.name, text)
		} else {
			failures = 0
		}
	}
	_ = command.Process.Kill()
}

func (m *member) signal(s syscall.Signal) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.command == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	_ = m.command.Process.Signal(s) // It may have ended.
	return m.ended
}

// kill ends it at once and keeps it down.
func (m *member) kill() { m.end(syscall.SIGKILL) }

// stop ends it as the kubelet does, and keeps it down.
func (m *member) stop() { m.end(syscall.SIGTERM) }

func (m *member) end(s syscall.Signal) {
	m.mu.Lock()
	m.down = true
	m.mu.Unlock()
	select {
	case <-m.signal(s):
	case <-time.After(patience):
		m.Errorf("%s did not end by %v", m.name, s)
		<-m.signal(syscall.SIGKILL)
	}
}

// empty loses what is on the volume of a member that is down.
func (m *member) empty() {
	entries, err := os.ReadDir(m.volume)
	if err != nil {
		m.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(m.volume, entry.Name())); err != nil {
			m.Fatal(err)
		}
	}
}

// ballast is the file that fills a volume.
func (m *member) ballast() string { return filepath.Join(m.volume, "ballast") }

// fill keeps the volume full until the context ends.
func (m *member) fill(ctx context.Context) {
	f, err := os.Create(m.ballast())
	if err != nil {
		m.Error(err)
		return
	}
	defer os.Remove(m.ballast())
	defer f.Close()
	size := int64(0)
	for ctx.Err() == nil {
		var s syscall.Statfs_t
		if err := syscall.Statfs(m.volume, &s); err != nil {
			m.Error(err)
			return
		}
		if free := int64(s.Bavail) * s.Bsize; free > 0 && syscall.Fallocate(int(f.Fd()), 0, size, free) == nil {
			size += free
		}
		wait(ctx, 10*time.Millisecond)
	}
}

// deafTo drops what comes from another member, until it is undone.
func (m *member) deafTo(other *member) (undo func()) { return m.drop("--source", other.address) }

// drop drops what comes in and matches, until it is undone.
func (m *member) drop(match ...string) (undo func()) {
	iptables := func(verb string) {
		m.run(slices.Concat(
			[]string{"ip", "netns", "exec", m.name, "iptables", "--wait", verb, "INPUT"}, match, []string{"--jump", "DROP"},
		)...)
	}
	iptables("--append")
	return func() { iptables("--delete") }
}

// probe asks for the health as the kubelet does.
func (m *member) probe(path string) (code int, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), livenessPeriod)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+":8080"+path, http.NoBody)
	if err != nil {
		m.Error(err)
		return 0, ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	return response.StatusCode, body.String()
}

// awaitReady waits until clients are to be sent to the member.
func (m *member) awaitReady() error {
	deadline := time.Now().Add(patience)
	for {
		code, text := m.probe("/readyz")
		switch {
		case code == http.StatusOK:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s is not ready after %v: %d %s", m.name, patience, code, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// showLog shows the end of what the member said if the test failed.
func (m *member) showLog() {
	if !m.Failed() {
		return
	}
	const most = 16 << 10
	b, err := os.ReadFile(m.log.Name())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.Error(err)
	}
	m.Logf("%s said at last:\n%s", m.name, b[max(0, len(b)-most):])
}

// findRaces fails the test if the race detector found something in the member.
func (m *member) findRaces() {
	b, err := os.ReadFile(m.log.Name())
	if err != nil {
		m.Error(err)
		return
	}
	const mark = "WARNING: DATA RACE"
	if i := bytes.Index(b, []byte(mark)); i >= 0 {
		const most = 8 << 10
		m.Errorf(
			"%s has %d data races, the first of which is\n%s", m.name, bytes.Count(b, []byte(mark)), b[i:min(len(b), i+most)],
		)
	}
}

// wait waits, unless the context ends before.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
