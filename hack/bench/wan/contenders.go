// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wan

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"strings"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/movers"
	"github.com/lighterage/lighterage/hack/bench/network"
	"github.com/lighterage/lighterage/hack/bench/transfer"
)

// Names of contenders.
const (
	ours       = "lighterage"
	oursHigh   = "lighterage, level High"
	viaStunnel = "rsync through stunnel"
	viaSSH     = "rsync over ssh"
	viaSFTP    = "rclone over SFTP"
	viaTLS     = "tar through TLS"
)

// port is where all of them listen in the receiver's namespace. inner is where what is behind a tunnel does.
const port, inner = "8443", "8873"

// way is where a contender moves a tree once.
type way struct {
	link                     *network.Pair
	dir, source, destination string
	// served are programs that end with the context, before the link does.
	served *[]*harness.Process
}

// contender is one way to move a tree.
type contender struct {
	name string
	// setUp starts what receives, and returns what moves the tree.
	setUp func(ctx context.Context, o *options, w way) (move func(context.Context) error, err error)
}

// contenders are those with these names, but for those that need sshd where there is none.
func contenders(names ...string) []contender {
	all := []contender{
		{ours, setUpOurs(wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST)},
		{oursHigh, setUpOurs(wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH)},
		{viaStunnel, setUpRsync}, {viaTLS, setUpTar},
	}
	if movers.HasSSHD() {
		all = append(all, contender{viaSFTP, setUpRclone}, contender{viaSSH, setUpSSH})
	}
	return slices.DeleteFunc(all, func(one contender) bool { return !slices.Contains(names, one.name) })
}

// serve starts a program of the receiver that listens at a port of its address.
func (w way) serve(ctx context.Context, port string, command ...string) error {
	return w.listen(ctx, w.link.Address()+":"+port, command...)
}

func (w way) listen(ctx context.Context, address string, command ...string) error {
	p, err := w.link.StartListening(ctx, network.Command(ctx, w.link.Receiver(), command[0], command[1:]...), address)
	if err == nil {
		*w.served = append(*w.served, p)
	}
	return err
}

// send runs a program of the sender.
func (w way) send(ctx context.Context, command ...string) error {
	out, err := network.Command(ctx, w.link.Sender(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", command, err, out)
	}
	return nil
}

// setUpOurs has what a Transfer without settings but that level has: mode Auto, which goes up to it, and the
// destination is verified.
func setUpOurs(
	level wirev1.CompressionLevel,
) func(ctx context.Context, o *options, w way) (func(context.Context) error, error) {
	return func(ctx context.Context, o *options, w way) (func(context.Context) error, error) {
		settings := &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: level,
			Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED, Codecs: []string{"deflate", "zstd"},
		}
		pair, err := transfer.NewPairOver(ctx, o.name, w.link, w.dir, o.agent, w.source, w.destination, settings)
		*w.served = append(*w.served, pair.Processes()...)
		return func(ctx context.Context) error {
			_, _, err := pair.Move(ctx, func(harness.PID) {})
			return err
		}, err
	}
}

// setUpRsync is an rsync daemon behind a stunnel, and another stunnel before the client, with VolSync's options.
func setUpRsync(ctx context.Context, _ *options, w way) (func(context.Context) error, error) {
	daemon, err := movers.RsyncDaemon(w.dir, w.destination)
	if err != nil {
		return nil, err
	}
	const atHome = "127.0.0.1:" + inner
	client, server, err := movers.Tunnel(w.dir, atHome, w.link.Address()+":"+port, atHome)
	if err != nil {
		return nil, err
	}
	if err := w.listen(ctx, atHome, "rsync", "--daemon", "--no-detach", "--address=127.0.0.1",
		"--port="+inner, "--config="+daemon); err != nil {
		return nil, err
	}
	if err := w.serve(ctx, port, "stunnel", server); err != nil {
		return nil, err
	}
	tunnel, err := harness.Start(network.Command(ctx, w.link.Sender(), "stunnel", client))
	if err != nil {
		return nil, err
	}
	*w.served = append(*w.served, tunnel)
	return func(ctx context.Context) error {
		return w.send(ctx, "bash", "-c", fmt.Sprintf(
			`until ss -Hltn | grep -q 127.0.0.1:%[1]s; do sleep 0.02; done
			exec rsync %[3]s %[2]s/ rsync://127.0.0.1:%[1]s/data/`, inner, w.source, strings.Join(movers.Rsync(), " ")))
	}, nil
}

// sshd starts OpenSSH's server, for a user with a key.
func (w way) sshd(ctx context.Context) (key, who string, err error) {
	config, key, err := movers.SSH(ctx, w.dir, w.link.Address()+":"+port)
	if err != nil {
		return "", "", err
	}
	current, err := user.Current()
	if err != nil {
		return "", "", fmt.Errorf("find the user for SSH: %w", err)
	}
	return key, current.Username, w.serve(ctx, port, movers.SSHD, "-D", "-e", "-f", config)
}

// setUpSSH has OpenSSH's server start the other rsync, with the options that are used through stunnel.
func setUpSSH(ctx context.Context, _ *options, w way) (func(context.Context) error, error) {
	key, who, err := w.sshd(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return w.send(ctx, slices.Concat([]string{"rsync"}, movers.Rsync(), []string{
			"-e", movers.Shell(port, key), w.source + "/", who + "@" + w.link.Address() + ":" + w.destination + "/",
		})...)
	}, nil
}

// setUpRclone moves 16 files at once to OpenSSH's server.
func setUpRclone(ctx context.Context, o *options, w way) (func(context.Context) error, error) {
	key, who, err := w.sshd(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return w.send(ctx, o.rclone, "copy", w.source, ":sftp:"+w.destination, "--sftp-host", w.link.Address(),
			"--sftp-port", port, "--sftp-user", who, "--sftp-key-file", key, "--config", "/dev/null",
			"--transfers", "16", "--checkers", "16")
	}, nil
}

// setUpTar sends an archive through TLS 1.3 between two socats.
func setUpTar(ctx context.Context, _ *options, w way) (func(context.Context) error, error) {
	if err := agents.ServerFiles(w.dir); err != nil {
		return nil, err
	}
	address := w.link.Address() + ":" + port
	receiver, err := w.link.StartListening(ctx, network.Command(ctx, w.link.Receiver(), "bash", "-o", "pipefail", "-c",
		fmt.Sprintf("socat -u -b 1048576 OPENSSL-LISTEN:%s,bind=%s,cert=%s/both.pem,verify=0,"+
			"openssl-min-proto-version=TLS1.3 - | tar -C %s -xf -", port, w.link.Address(), w.dir, w.destination)), address)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := w.send(ctx, "bash", "-o", "pipefail", "-c", fmt.Sprintf("tar -C %s -cf - . | socat -u -b 1048576 - "+
			"OPENSSL:%s,verify=0,openssl-min-proto-version=TLS1.3", w.source, address)); err != nil {
			return err
		}
		return receiver.Wait()
	}, nil
}
