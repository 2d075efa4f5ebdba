// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// tarPipeline sends an archive, compressed by igzip on two threads, through TLS 1.3 between two socats (OpenSSL).
func tarPipeline(name string) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		address, err := harness.FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		if err := agents.ServerFiles(dir); err != nil {
			return nil, err
		}
		// The receiver ends by itself when the sender has ended.
		receiver, err := harness.Start(shell(ctx, fmt.Sprintf("socat -u -b 1048576 "+
			"OPENSSL-LISTEN:%s,bind=127.0.0.1,cert=%s/both.pem,verify=0,openssl-min-proto-version=TLS1.3 - | igzip -d -c | "+
			"tar -C %s -xf -", port, dir, destination)))
		if err != nil {
			return nil, err
		}
		if err := awaitOnce(port); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (moved, error) {
			sender, err := harness.Start(shell(ctx, fmt.Sprintf("tar -C %s -cf - . | igzip -1 -T2 -c | "+
				"socat -u -b 1048576 - OPENSSL:%s,verify=0,openssl-min-proto-version=TLS1.3", source, address)))
			if err != nil {
				return moved{}, err
			}
			if err := sender.Wait(); err != nil {
				return moved{}, fmt.Errorf("send an archive: %w", err)
			}
			return moved{}, receiver.Wait()
		}, nil
	}}
}

// awaitOnce waits without connecting, because the listener serves one connection only.
func awaitOnce(port string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("look for a listener: %w", err)
	}
	want := fmt.Appendf(nil, ":%04X 00000000:0000 0A", number)
	for range 200 {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return fmt.Errorf("look for a listener: %w", err)
		}
		if bytes.Contains(text, want) {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on port %s", port)
}
