// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startPatience is how long a program may take to accept connections.
const startPatience = time.Minute

// FreeAddress returns one on loopback on which nobody listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// AwaitListener waits until somebody accepts connections at an address, or ended is closed.
func AwaitListener(ctx context.Context, address string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens at %s", address)
		case <-ended:
			return errors.New("it ended")
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Output runs a command and returns what it prints.
func Output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	out, err := command.CombinedOutput()
	text := string(bytes.TrimSpace(out))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, text)
	}
	return text, nil
}

// Command runs one that prints nothing of interest.
func Command(ctx context.Context, name string, args ...string) error {
	_, err := Output(ctx, name, args...)
	return err
}

// Process is a program that runs beside this one, in a group of its own.
type Process struct {
	Command *exec.Cmd
	output  bytes.Buffer
	ended   chan struct{}
	err     error
}

// Start starts a program whose output is kept to be told when it fails.
func Start(command *exec.Cmd) (*Process, error) {
	p := &Process{Command: command, ended: make(chan struct{})}
	command.Stdout, command.Stderr = &p.output, &p.output
	// What it starts itself ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// StartListening starts a program and waits until it accepts connections at an address.
func StartListening(ctx context.Context, command *exec.Cmd, address string) (*Process, error) {
	p, err := Start(command)
	if err != nil {
		return nil, err
	}
	if err := AwaitListener(ctx, address, p.ended); err != nil {
		p.Stop(0)
		return nil, p.said(err)
	}
	return p, nil
}

// Group is that of the program and of what it has started.
func (p *Process) Group() Group { return Group(p.Command.Process.Pid) }

// PID of the program.
func (p *Process) PID() PID { return PID(p.Command.Process.Pid) }

// Ended is closed when it has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until it has ended by itself.
func (p *Process) Wait() error {
	<-p.ended
	return p.said(p.err)
}

// said adds the end of what a program, which has ended, said to an error.
func (p *Process) said(err error) error {
	if err == nil {
		return nil
	}
	text := bytes.TrimSpace(p.output.Bytes())
	return fmt.Errorf("%s: %w: %s", p.Command, err, text[max(0, len(text)-2000):])
}

// Stop ends it and what it has started, by force what has not ended by itself when patience is at its end.
func (p *Process) Stop(patience time.Duration) {
	group := p.Command.Process.Pid
	_ = syscall.Kill(-group, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	<-p.ended
}

// Worker is a process that carries out orders, one after the other. Each order and each answer is a line of JSON.
type Worker struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// failure is a line that says why there is no answer.
type failure struct {
	Failure string `json:",omitempty"`
}

// StartWorker starts a program that calls Work.
func StartWorker(command *exec.Cmd) (*Worker, error) {
	command.Stderr = os.Stderr
	in, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	if err := errors.Join(err1, err2, command.Start()); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	return &Worker{command: command, in: in, out: bufio.NewScanner(out)}, nil
}

// PID of its process.
func (w *Worker) PID() PID { return PID(w.command.Process.Pid) }

// Order tells it to do something.
func (w *Worker) Order(order any) error { return json.NewEncoder(w.in).Encode(order) }

// Answer waits for the next answer.
func (w *Worker) Answer(answer any) error {
	if !w.out.Scan() {
		return errors.Join(fmt.Errorf("%s has ended", w.command), w.out.Err())
	}
	var f failure
	if err := errors.Join(json.Unmarshal(w.out.Bytes(), &f), json.Unmarshal(w.out.Bytes(), answer)); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if f.Failure != "" {
		return errors.New(f.Failure)
	}
	return nil
}

// Close ends it, which has nothing left to do.
func (w *Worker) Close() error {
	_ = w.in.Close()
	return w.command.Wait()
}

// Answer writes one of a worker.
func Answer(answer any) { _ = json.NewEncoder(os.Stdout).Encode(answer) }

// Work carries out orders until there are no more.
func Work[Order any](do func(Order) error) error {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o Order
		if err := json.Unmarshal(orders.Bytes(), &o); err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		if err := do(o); err != nil {
			Answer(failure{err.Error()})
		}
	}
	return orders.Err()
}
