// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// pair is a sender and a receiver.
type pair struct {
	work             string
	cores            int
	sender, receiver *child
	runs             int
}

// child is a process in a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startPair(ctx context.Context, link *network.Pair, work string, cores int) (*pair, error) {
	p := &pair{work: work, cores: cores}
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	// One core each, or two for both.
	senderCPUs, receiverCPUs := "0", "1"
	if cores > 1 {
		senderCPUs, receiverCPUs = "0,1", "0,1"
	}
	if p.receiver, err = p.start(
		ctx, ca, "receive", link.Receiver(), receiverCPUs, pki.DeliveryIdentity("bench", namespace, "copy"), serverName,
	); err != nil {
		return nil, err
	}
	if p.sender, err = p.start(
		ctx, ca, "send", link.Sender(), senderCPUs, pki.TransferIdentity("bench", namespace, name),
		"sender.lighterage.internal",
	); err != nil {
		return nil, errors.Join(err, p.receiver.close())
	}
	return p, nil
}

func (p *pair) start(
	ctx context.Context, ca *pki.CA, role, space, cpus string, identity pki.Identity, dns string,
) (*child, error) {
	dir := filepath.Join(p.work, role)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory to %s: %w", role, err)
	}
	issued, err := ca.Issue(
		pki.Template{Identity: identity, DNSNames: []string{dns}, Lifetime: 12 * time.Hour}, time.Now(),
	)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate to %s: %w", role, err)
	}
	for file, content := range map[string][]byte{
		"tls.crt": issued.CertificatePEM, "tls.key": issued.KeyPEM, "cluster-ca.crt": ca.CertificatePEM,
		"peer-ca.crt": ca.CertificatePEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return nil, fmt.Errorf("write the files to %s: %w", role, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := network.Command(ctx, space, "taskset", "-c", cpus, self, "-role", role, "-dir", dir)
	// What a run frees the next one shall find again: a virtual machine's host makes new memory dear.
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", p.cores), "GODEBUG=madvdontneed=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start to %s: %w", role, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start to %s: %w", role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start to %s: %w", role, err)
	}
	return &child{cmd: cmd, in: in, out: bufio.NewScanner(out)}, nil
}

func (c *child) order(o order) error { return json.NewEncoder(c.in).Encode(o) }

func (c *child) answer() (answer, error) {
	var a answer
	if !c.out.Scan() {
		return a, errors.Join(errors.New("a role has ended"), c.out.Err())
	}
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("read an answer: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (c *child) close() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

func (p *pair) close() error { return errors.Join(p.sender.close(), p.receiver.close()) }

// move sends a directory once.
func (p *pair) move(o order) (outcome, error) {
	p.runs++
	o.Run = fmt.Sprintf("run%d", p.runs)
	if err := p.receiver.order(o); err != nil {
		return outcome{}, err
	}
	ready, err := p.receiver.answer()
	if err != nil {
		return outcome{}, fmt.Errorf("receive: %w", err)
	}
	o.Address = ready.Address
	if err := p.sender.order(o); err != nil {
		return outcome{}, err
	}
	sent, err := p.sender.answer()
	if err != nil {
		return outcome{}, fmt.Errorf("send: %w", err)
	}
	received, err := p.receiver.answer()
	if err != nil {
		return outcome{}, fmt.Errorf("receive: %w", err)
	}
	return outcome{
		elapsed: sent.Elapsed.Seconds(), cpu: (sent.CPU + received.CPU).Seconds(), bytes: float64(sent.Bytes),
		choice: sent.Choice,
	}, nil
}
