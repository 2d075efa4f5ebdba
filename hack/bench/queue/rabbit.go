// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	gozstd "github.com/klauspost/compress/zstd"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// rabbit is RabbitMQ, with a client that compresses what it puts.
type rabbit struct {
	directory string
	epmd      *harness.Process // the names of Erlang's nodes
	server    *harness.Process
	conn      *amqp.Connection
	encoder   *gozstd.Encoder
	decoder   *gozstd.Decoder
}

// rabbitPatience bounds how long RabbitMQ may take to end by itself.
const rabbitPatience = time.Minute

// startRabbit starts one with an empty directory below parent. All of its ports are on
// loopback, and none is one that another might have.
func startRabbit(ctx context.Context, parent string) (*rabbit, error) {
	directory, err := os.MkdirTemp(parent, "rabbit-")
	if err != nil {
		return nil, err
	}
	r := &rabbit{directory: directory}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start RabbitMQ: %w", err), r.stop())
	}
	return r, nil
}

func (r *rabbit) start(ctx context.Context) error {
	program, err := rabbitProgram()
	if err != nil {
		return err
	}
	var addresses, ports [3]string // of epmd, of the server for clients and for other nodes
	for i := range ports {
		if addresses[i], err = harness.FreeAddress(); err != nil {
			return err
		}
		_, ports[i], _ = net.SplitHostPort(addresses[i])
	}
	names, nodes := ports[0], ports[2]
	config := "listeners.tcp.default = " + addresses[1] + "\nlog.console = false\n"
	for file, text := range map[string]string{"rabbitmq.conf": config, "enabled_plugins": "[].\n"} {
		if err := os.WriteFile(filepath.Join(r.directory, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	in := func(name string) string { return filepath.Join(r.directory, name) }
	environment := append(os.Environ(),
		"HOME="+r.directory, "ERL_EPMD_PORT="+names, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=bench@localhost", "RABBITMQ_DIST_PORT="+nodes, "RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE="+in("rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE="+in("enabled_plugins"),
		"RABBITMQ_PID_FILE="+in("pid"),
		"RABBITMQ_MNESIA_BASE="+in("mnesia"), "RABBITMQ_LOG_BASE="+in("log"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	)
	// In the foreground; else Erlang starts one that nobody ends.
	epmd := exec.CommandContext(ctx, "epmd", "-address", "127.0.0.1", "-port", names)
	epmd.Env = environment
	if r.epmd, err = harness.StartListening(ctx, epmd, addresses[0]); err != nil {
		return err
	}
	server := exec.CommandContext(ctx, program)
	server.Env = environment
	if r.server, err = harness.StartListening(ctx, server, addresses[1]); err != nil {
		return err
	}
	if r.encoder, err = gozstd.NewWriter(
		nil, gozstd.WithEncoderLevel(gozstd.SpeedFastest), gozstd.WithEncoderConcurrency(1),
	); err != nil {
		return err
	}
	if r.decoder, err = gozstd.NewReader(nil, gozstd.WithDecoderConcurrency(1)); err != nil {
		return err
	}
	r.conn, err = amqp.Dial("amqp://guest:guest@" + addresses[1])
	return err
}

// rabbitProgram finds the server. What Debian has in the path becomes another user first,
// who cannot write where this one does.
func rabbitProgram() (string, error) {
	found, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	return "", errors.New("it is not installed where Debian's package rabbitmq-server has it")
}

// stop ends it and removes what it kept.
func (r *rabbit) stop() error {
	if r.conn != nil {
		_ = r.conn.Close()
	}
	if r.decoder != nil {
		r.decoder.Close()
	}
	for _, p := range []*harness.Process{r.server, r.epmd} {
		if p != nil {
			p.Stop(rabbitPatience)
		}
	}
	return os.RemoveAll(r.directory)
}

func (r *rabbit) usage() (harness.Usage, error) { return r.server.Group().Usage() }

// stored is not known: its files hold what was got before for some time.
func (r *rabbit) stored() (int64, error) { return 0, nil }

// channel opens a channel with an empty durable queue, or the one that is there.
func (r *rabbit) channel() (*amqp.Channel, error) {
	c, err := r.conn.Channel()
	if err != nil {
		return nil, err
	}
	_, err = c.QueueDeclare(queue, true, false, false, false, nil)
	return c, err
}

const contentEncoding = "zstd"

func (r *rabbit) put(ctx context.Context, messages [][]byte, n int) error {
	c, err := r.channel()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // Everything is confirmed.
	if err := c.Confirm(false); err != nil {
		return err
	}
	var waiting []*amqp.DeferredConfirmation
	confirm := func() error {
		stored, err := waiting[0].WaitContext(ctx)
		waiting = waiting[1:]
		if err == nil && !stored {
			err = errors.New("a message was not stored")
		}
		return err
	}
	for i := range n {
		// The library may keep it until it was written.
		body := r.encoder.EncodeAll(messages[i%len(messages)], nil)
		one, err := c.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentEncoding: contentEncoding, Body: body,
		})
		if err != nil {
			return err
		}
		if waiting = append(waiting, one); len(waiting) == pending {
			if err := confirm(); err != nil {
				return err
			}
		}
	}
	for len(waiting) > 0 {
		if err := confirm(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rabbit) get(ctx context.Context, messages [][]byte, n int) error {
	c, err := r.channel()
	if err != nil {
		return err
	}
	if err := c.Qos(pending, 0, false); err != nil {
		return err
	}
	all, err := c.ConsumeWithContext(ctx, queue, "taker", false, false, false, false, nil)
	if err != nil {
		return err
	}
	var plain []byte
	for i := range n {
		m, ok := <-all
		if !ok {
			return errors.Join(errors.New("messages end before all have come"), ctx.Err())
		}
		if m.ContentEncoding != contentEncoding {
			return fmt.Errorf("message %s is encoded as %q", strconv.Itoa(i), m.ContentEncoding)
		}
		if plain, err = r.decoder.DecodeAll(m.Body, plain[:0]); err != nil {
			return err
		}
		if !bytes.Equal(plain, messages[i%len(messages)]) {
			return fmt.Errorf("message %d is another", i)
		}
		if err := m.Ack(false); err != nil {
			return err
		}
	}
	// What is answered comes after the acknowledgements.
	if left, err := c.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || left.Messages != 0 {
		return errors.Join(fmt.Errorf("%d messages are left", left.Messages), err)
	}
	return c.Close()
}
