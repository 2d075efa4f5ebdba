// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
)

// generatorVariable tells the test binary that it is to be a generator. Strangers run in a process of their own, so
// that what they cost is not taken for the gateway's.
const generatorVariable = "LIGHTERAGE_STRANGERS"

// flood is what a generator does.
type flood struct {
	Address    string
	ServerName string
	// Sources are the addresses that connections come from, in turn.
	Sources []string
	// First is how many connections fall silent after their ClientHello, before the rest begins.
	First int
	// Handshakes, Silent and Slow are connections per second: with a finished handshake and a certificate of an unknown
	// CA, without a word after the ClientHello, and in the middle of a ClientHello that comes byte by byte.
	Handshakes, Silent, Slow int
	Duration                 time.Duration
}

// flooded is what a generator did.
type flooded struct {
	Handshakes, Refused int64
	CPU                 time.Duration `json:"-"`
}

// afterAll is what the tests of this package share and is stopped when all of them have ended.
var afterAll []func() error

func TestMain(m *testing.M) {
	if description := os.Getenv(generatorVariable); description != "" {
		os.Exit(generate(description))
	}
	code := m.Run()
	for _, stop := range afterAll {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop what the tests shared:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// start runs the flood. It returns when the first connections are there; the function that it returns waits for the
// end.
func (f flood) start(t *testing.T) func() flooded {
	t.Helper()
	description, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), generatorVariable+"="+string(description))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("the generator did not begin: %v", err)
	}
	return func() flooded {
		var result flooded
		if err := json.NewDecoder(lines).Decode(&result); err != nil {
			t.Errorf("reading what the generator did: %v", err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the generator ended with %v", err)
		}
		result.CPU = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		return result
	}
}

// generator is the state of a flood.
type generator struct {
	flood
	config *tls.Config
	hello  []byte
	next   atomic.Int64
	done   flooded
}

// generate returns the exit code of the generator.
func generate(description string) int {
	g := &generator{}
	if err := json.Unmarshal([]byte(description), &g.flood); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := g.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var first sync.WaitGroup
	first.Add(g.First)
	for range g.First {
		go g.silent(first.Done)
	}
	first.Wait()
	fmt.Println("begun")
	end := time.After(g.Duration)
	var rounds sync.WaitGroup
	stop := make(chan struct{})
	for rate, do := range map[*int]func(){
		&g.Handshakes: g.handshake, &g.Silent: func() { g.silent(func() {}) }, &g.Slow: g.slow,
	} {
		if *rate == 0 {
			continue
		}
		rounds.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			// Ticks that a busy machine swallows are made up for.
			for began, made := time.Now(), 0; ; {
				select {
				case <-tick.C:
					for due := int(time.Since(began).Seconds() * float64(*rate)); made < due; made++ {
						go do()
					}
				case <-stop:
					return
				}
			}
		})
	}
	<-end
	close(stop)
	rounds.Wait()
	result := flooded{Handshakes: atomic.LoadInt64(&g.done.Handshakes), Refused: atomic.LoadInt64(&g.done.Refused)}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

// prepare makes the strangers' certificate. Its CA has the name of the honest peer's, as CAs of clusters with the same
// name have.
func (g *generator) prepare() error {
	ca, _, err := pki.NewCA("east", time.Now())
	if err != nil {
		return err
	}
	pair, err := ca.Issue(
		pki.Template{Identity: pki.TransferIdentity("east", "bank", "ledger"), Lifetime: time.Hour}, time.Now(),
	)
	if err != nil {
		return err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return err
	}
	g.config = &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: g.ServerName, NextProtos: []string{"h2"}, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		defer near.Close()
		_ = tls.Client(near, g.config).Handshake()
	}()
	buffer := make([]byte, 16<<10)
	n, err := far.Read(buffer)
	g.hello = buffer[:n]
	return err
}

func (g *generator) dial() (net.Conn, bool) {
	source := g.Sources[int(g.next.Add(1))%len(g.Sources)]
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 5 * time.Second}
	conn, err := dialer.Dial("tcp", g.Address)
	if err != nil {
		atomic.AddInt64(&g.done.Refused, 1)
		return nil, false
	}
	return conn, true
}

// handshake holds the connection until the other side closes it.
func (g *generator) handshake() {
	conn, ok := g.dial()
	if !ok {
		return
	}
	defer conn.Close()
	secured := tls.Client(conn, g.config)
	// The first byte that comes is of HTTP/2: the handshake is over for the server, too.
	if _, err := secured.Read(make([]byte, 1)); err != nil {
		atomic.AddInt64(&g.done.Refused, 1)
		return
	}
	atomic.AddInt64(&g.done.Handshakes, 1)
	_, _ = io.Copy(io.Discard, secured)
}

// silent calls said when it has said all that it says.
func (g *generator) silent(said func()) {
	conn, ok := g.dial()
	if !ok {
		said()
		return
	}
	defer conn.Close()
	_, err := conn.Write(g.hello)
	said()
	if err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

func (g *generator) slow() {
	conn, ok := g.dial()
	if !ok {
		return
	}
	defer conn.Close()
	for _, b := range g.hello {
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// strangers returns addresses of the loopback network.
func strangers(n int) []string {
	sources := make([]string, n)
	for i := range sources {
		sources[i] = fmt.Sprintf("127.0.0.%d", i+2)
	}
	return sources
}
